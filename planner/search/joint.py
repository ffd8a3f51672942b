"""Heads share copies, so the best sequences of each head alone are not the best plan.

From several plans to begin with, one head after the other is planned again with the copies of the others for free,
until nothing gets cheaper: then no change of a single head improves the plan. With more than ``_STREAMS_MANY`` streams
every head is planned again only once, and such a change may be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.cost.estimates import CopyKey, Move, Space
from planner.cost.wire_model import WireSpace
from planner.model.plans import route, start_of
from planner.model.query import Plan
from planner.search.sequences import Found, HeadSearch

#: Far more rounds than it takes.
_ROUNDS_MAX = 8
#: With more streams than this a round is expensive.
_STREAMS_MANY = 8


def improved(space: Space, heads: Sequence[Found], search: HeadSearch) -> tuple[Found, ...]:
    """The plan after planning heads again, as long as that makes it cheaper."""
    best, cost = list(heads), total_cost(space, heads)
    for _ in range(_ROUNDS_MAX if len(best) <= _STREAMS_MANY else 1):
        before = cost
        for number in range(len(best)):
            others = [found for place, found in enumerate(best) if place != number]
            free = frozenset[CopyKey]().union(*(found.copies for found in others))
            tried = [*best[:number], search(space, best[number].head, free), *best[number + 1 :]]
            tried_cost = total_cost(space, tried)
            if tried_cost < cost:
                best, cost = tried, tried_cost
        if cost >= before * (1 - 1e-9):
            break
    return tuple(best)


def total_cost(space: Space, heads: Iterable[Found]) -> float:
    """All heads together, each copy paid once."""
    total, paid = 0.0, dict[CopyKey, float]()
    for found in heads:
        moves = (found.opening, *(move for _, move in found.steps))
        for move in moves:
            total += move.cost
            if move.copy is not None:
                paid[move.copy] = move.copy_cost
        total += space.closing(found.head, moves[-1].site)
    return total + sum(paid.values())


def found_of(space: WireSpace, plan: Plan, head: str) -> Found:
    """A head's sequence of a plan, as a search would have found it."""
    number = space.aliases.index(head)
    site, joined = start_of(plan, head), 1 << number
    opening = space.opening(number, site)
    steps: list[tuple[int, Move]] = []
    for hop in route(plan, head):
        following = space.aliases.index(hop.alias)
        moves = space.every_move(number, joined, site, following)
        steps.append((following, next((move for move in moves if move.algorithm is hop.algorithm), moves[0])))
        joined, site = joined | 1 << following, hop.site
    all_moves = (opening, *(move for _, move in steps))
    cost = sum(move.cost + move.copy_cost for move in all_moves) + space.closing(number, site)
    return Found(cost, number, opening, tuple(steps))
