"""How much a search may look at, so that planning ends in bearable time whatever a client asks for.

What a search takes depends on the join graph, not only on the number of streams: a chain of twelve streams has few sets
that can be joined, twelve streams that are all linked have thousands. Times are those of ``bench/results/planner.md``.
"""

from __future__ import annotations

from planner.cost.estimates import Space
from planner.model.errors import PlanError

#: Sets of streams that can be joined: of ten streams that are all linked there are 1,023, and ``optimal`` takes half a
#: minute for them.
SETS_MAX = 1_100
#: Join sequences, if four algorithms are tried for each step, as pruning leaves about that many: of seven streams that
#: are all linked there are 20 million, and ``exhaustive`` takes some seconds for them.
SEQUENCES_MAX = 1_000_000_000
_ALGORITHMS_TRIED = 4


def check_optimal(space: Space) -> None:
    """Refuse what dynamic programming would take too long for. Raises PlanError."""
    if _orders(space) is None:
        raise PlanError(
            f"search optimal: required at most {SETS_MAX:,} sets of streams that can be joined, as ten streams have "
            f"that are all linked, got more with {len(space.aliases)} streams: ask for the search greedy"
        )


def check_exhaustive(space: Space) -> None:
    """Refuse what trying all sequences would take too long for. Raises PlanError."""
    orders, streams = _orders(space), len(space.aliases)
    if orders is None or orders * _ALGORITHMS_TRIED ** (streams - 1) > SEQUENCES_MAX:
        raise PlanError(
            f"search exhaustive: required at most {SEQUENCES_MAX:,} join sequences, as eight streams have that are all "
            f"linked, got more with {streams} streams: ask for the search optimal or greedy"
        )


def _orders(space: Space) -> int | None:
    """In how many orders the streams can be joined, from any head; None if there are too many sets to count them."""
    layer = {1 << number: 1 for number in range(len(space.aliases))}
    sets = len(layer)
    for _ in range(len(space.aliases) - 1):
        following: dict[int, int] = {}
        for joined, orders in layer.items():
            for number in space.candidates(joined):
                after = joined | 1 << number
                following[after] = following.get(after, 0) + orders
        sets += len(following)
        if sets > SETS_MAX:
            return None
        layer = following
    return sum(layer.values())
