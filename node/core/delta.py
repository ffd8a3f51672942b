"""delta: the largest accumulated delay over all join sequences, from the round trips that sites measured.

A message to another site takes half a round trip. What a step waits for: a full, mixed or key copy
for its sync (one message), SP-D and SM-D1 for the carry (one), SM-S1 and a fetch of SM-S2 for question
and answer (two), SM-D2 for question, answer and carry (three). Rows that come last have gone through
all steps of their sequence one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.walk import shape_of
from planner.model import Algorithm, Plan, PolicyName

_MESSAGES = {
    Algorithm.SP_S: 1,
    Algorithm.SP_D: 1,
    Algorithm.SM_S1: 2,
    Algorithm.SM_S2: 3,
    Algorithm.SM_D1: 2,
    Algorithm.SM_D2: 3,
}
#: A measured round trip is one sample, and what is sent queues behind other things: allow for twice as much.
_MARGIN = 2
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
            _MESSAGES[step.hop.algorithm] * _rtt(rtt_us, step.source, step.owner) for step in steps if step.remote
        ]
        largest = max(largest, sum(delays) // 2)
    return max(_LEAST_US, _MARGIN * largest)


def _rtt(rtt_us: Mapping[tuple[str, str], int], one: str, other: str) -> int:
    """The longer of what the two sites measured; 0 when neither did, and within a site."""
    if one == other:
        return 0
    return max(rtt_us.get((one, other), 0), rtt_us.get((other, one), 0))
