"""delta: the largest accumulated delay over all join sequences, from the round trips that sites measured.

A message to another site takes half a round trip, and a step waits for as many of them as its algorithm says: the
sync of a copy, questions, answers, the carry. Rows that come last have gone through all steps of their sequence one
after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.queries.shape import shape_of
from planner.model.query import Plan, PolicyName

#: Round trips, by the site at the other end.
Trips = tuple[tuple[str, int], ...]

#: A measured round trip is one sample, and what is sent queues behind other things: allow for twice as much.
_MARGIN = 2
#: What has not changed by this factor is another delay to nobody ...
_FACTOR = 1.25
#: ... nor what has changed by less than this: turns and timers alone make so much.
_CHANGE_US_LEAST = 2_000
#: Clocks tick and turns take time even on links without delay.
_LEAST_US = 100_000


def delta_us(plan: Plan, rtt_us: Mapping[tuple[str, str], int]) -> int:
    """What the sites are told to go by; 0 under policy frontier."""
    if plan.policy.name is PolicyName.FRONTIER:
        return 0
    if plan.policy.delta_us is not None:
        return plan.policy.delta_us
    largest = 0
    shape = shape_of(plan)
    for head, steps in shape.steps.items():
        delays = [_rtt(rtt_us, plan.query.ref(head).stream.site, shape.starts[head])]
        delays += [
            step.hop.algorithm.spec.messages_max * _rtt(rtt_us, step.source, step.owner)
            for step in steps
            if step.remote
        ]
        largest = max(largest, sum(delays) // 2)
    return max(_LEAST_US, _MARGIN * largest)


def has_changed(before_us: int, now_us: int) -> bool:
    """Whether a round trip, or delta, is another one than before."""
    least, most = sorted((before_us, now_us))
    return most - least >= _CHANGE_US_LEAST and most >= _FACTOR * least


def _rtt(rtt_us: Mapping[tuple[str, str], int], one: str, other: str) -> int:
    """The longer of what the two sites measured; 0 when neither did, and within a site."""
    if one == other:
        return 0
    return max(rtt_us.get((one, other), 0), rtt_us.get((other, one), 0))
