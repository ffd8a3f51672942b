"""Looking for the cheapest sequence of one head. All searches see the same moves, and differ only in how they look.

Each takes copies that are there anyway, and so cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.cost.estimates import CopyKey, Move, Space
from planner.model.plans import start_at
from planner.model.query import JoinQuery, Sequence, Step

NONE_FREE: frozenset[CopyKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """A head's sequence, and its cost."""

    cost: float
    head: int
    opening: Move
    steps: tuple[tuple[int, Move], ...]

    def sequence(self, query: JoinQuery) -> Sequence:
        """As a plan of the query has it."""
        head = query.aliases[self.head]
        steps = tuple(Step(query.aliases[number], move.algorithm) for number, move in self.steps)
        return Sequence(head, steps, start_at(query, head, self.opening.site))

    @property
    def copies(self) -> frozenset[CopyKey]:
        """The copies that it uses."""
        moves = (self.opening, *(move for _, move in self.steps))
        return frozenset(move.copy for move in moves if move.copy is not None)


HeadSearch = Callable[[Space, int, frozenset[CopyKey]], Found]


def greedy(space: Space, head: int, free: frozenset[CopyKey] = NONE_FREE) -> Found:
    """Algorithm 10: always the cheapest next step. Where walks may start elsewhere, each start is tried."""
    return min((_greedy_from(space, head, opening, free) for opening in space.openings(head)), key=_cost)


def _greedy_from(space: Space, head: int, opening: Move, free: frozenset[CopyKey]) -> Found:
    joined, site, cost = 1 << head, opening.site, opening.with_free(free)
    steps: list[tuple[int, Move]] = []
    while len(steps) < len(space.aliases) - 1:
        choices = [
            (number, move) for number in space.candidates(joined) for move in space.moves(head, joined, site, number)
        ]
        number, move = min(choices, key=lambda choice: choice[1].with_free(free))
        steps.append((number, move))
        cost += move.with_free(free)
        joined, site = joined | 1 << number, move.site
    return Found(cost + space.closing(head, site), head, opening, tuple(steps))


def exhaustive(space: Space, head: int, free: frozenset[CopyKey] = NONE_FREE) -> Found:
    """Every order with every algorithm, except what already costs more than the best that was found."""
    best = greedy(space, head, free)
    everything = (1 << len(space.aliases)) - 1

    def look(joined: int, site: str, cost: float, opening: Move, steps: tuple[tuple[int, Move], ...]) -> None:
        nonlocal best
        if cost >= best.cost:
            return
        if joined == everything:
            total = cost + space.closing(head, site)
            if total < best.cost:
                best = Found(total, head, opening, steps)
            return
        for number in space.candidates(joined):
            for move in space.moves(head, joined, site, number):
                after = cost + move.with_free(free)
                look(joined | 1 << number, move.site, after, opening, (*steps, (number, move)))

    for opening in space.openings(head):
        look(1 << head, opening.site, opening.with_free(free), opening, ())
    return best


@dataclass(slots=True)
class _Reached:
    """The cheapest way to have joined a set with the carry at a site, by its last step."""

    cost: float
    move: Move
    number: int
    before: _Reached | None


def optimal(space: Space, head: int, free: frozenset[CopyKey] = NONE_FREE) -> Found:
    """Dynamic programming over the set of joined streams and the site of the carry: exact, as costs add up.

    Sets are visited by size, so each is complete before anything builds on it. What already costs more than the
    whole greedy plan is not followed.
    """
    bound = greedy(space, head, free).cost * (1 + 1e-12)
    layer: dict[tuple[int, str], _Reached] = {}
    for opening in space.openings(head):
        _offer(layer, (1 << head, opening.site), opening.with_free(free), opening, head, None)
    for _ in range(len(space.aliases) - 1):
        following: dict[tuple[int, str], _Reached] = {}
        for (joined, site), reached in layer.items():
            for number in space.candidates(joined):
                after = joined | 1 << number
                for move in space.moves(head, joined, site, number):
                    cost = reached.cost + move.with_free(free)
                    if cost <= bound:
                        _offer(following, (after, move.site), cost, move, number, reached)
        layer = following
    best = min(layer.values(), key=lambda reached: reached.cost + space.closing(head, reached.move.site))
    return _walked_back(space, head, best)


def _offer(
    layer: dict[tuple[int, str], _Reached],
    place: tuple[int, str],
    cost: float,
    move: Move,
    number: int,
    before: _Reached | None,
) -> None:
    known = layer.get(place)
    if known is None or cost < known.cost:
        layer[place] = _Reached(cost, move, number, before)


def _walked_back(space: Space, head: int, last: _Reached) -> Found:
    cost = last.cost + space.closing(head, last.move.site)
    steps: list[tuple[int, Move]] = []
    at = last
    while at.before is not None:
        steps.append((at.number, at.move))
        at = at.before
    return Found(cost, head, at.move, tuple(reversed(steps)))


def _cost(found: Found) -> float:
    return found.cost
