"""Numbers of generations: they rise from life to life of a home, without a write."""

from __future__ import annotations

from node.core.errors import invariant

#: Generations that a home may begin in one life.
_GENERATIONS_MAX = 2**24


class Generations:
    """Those that were begun in one life, of all queries."""

    def __init__(self, life: int) -> None:
        self._life = life
        self._begun = 0

    def next(self) -> int:
        """The number of another one."""
        self._begun += 1
        invariant(self._begun < _GENERATIONS_MAX, "a home requires fewer generations in one life; got more")
        return self._life * _GENERATIONS_MAX + self._begun
