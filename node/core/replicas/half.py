"""What both halves of every replica have in common."""

from __future__ import annotations

from node.core.status import ReplicaRole, ReplicaStatus
from node.core.walk import ReplicaShape

#: No message has more numbers than this: a batch of a tick, or the keys that die in one.
NUMBERS_MAX = 2**28


def half_status(
    query_id: str, shape: ReplicaShape, role: ReplicaRole, frontier: int, keys: int, tuples: int, nbytes: int
) -> ReplicaStatus:
    """What a half says about itself."""
    peer = shape.holder if role is ReplicaRole.OWNER else shape.owner
    # A replica lives and dies with its query: nothing starts one again yet.
    return ReplicaStatus(query_id, shape.alias, shape.kind, role, peer, frontier, keys, tuples, nbytes, restarts=0)
