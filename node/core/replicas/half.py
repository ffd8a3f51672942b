"""What both halves of every replica have in common."""

from __future__ import annotations

from node.core.axis import CountAxis
from node.core.errors import PeerProtocolError
from node.core.hashing import I64
from node.core.ints import decode_ints
from node.core.status import ReplicaRole, ReplicaStatus
from node.core.ticks import tick_start
from node.core.walk import ReplicaShape
from node.core.window import WindowState

#: No message has more numbers than this: a batch of a tick, or the keys that die in one.
NUMBERS_MAX = 2**28


def half_status(
    query_id: str, shape: ReplicaShape, role: ReplicaRole, frontier: int, keys: int, tuples: int, nbytes: int
) -> ReplicaStatus:
    """What a half says about itself."""
    peer = shape.holder if role is ReplicaRole.OWNER else shape.owner
    # A replica lives and dies with its query: nothing starts one again yet.
    return ReplicaStatus(query_id, shape.alias, shape.kind, role, peer, frontier, keys, tuples, nbytes, restarts=0)


def decode_times(shape: ReplicaShape, state: WindowState, data: bytes, frontier: int) -> I64:
    """Event times of the tuples of a count window up to ``frontier``: ranks rely on their order."""
    times = decode_ints(data, NUMBERS_MAX)
    if len(times):
        ordered = times[0] >= state.sealed_ts and (times[1:] >= times[:-1]).all()
        if not isinstance(state.axis, CountAxis) or not ordered or times[-1] >= tick_start(frontier, state.tau):
            raise PeerProtocolError(f"replica {shape.name} requires times of a count window, in order; got others")
    return times
