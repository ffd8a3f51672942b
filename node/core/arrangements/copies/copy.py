"""What the two halves of every copy have in common.

A copy is what one site, the holder, keeps of a view of another site's stream, the owner's. The holder numbers it,
opens it with its first lease and closes it with its last. From the tick for which it was opened on the owner sends
one Sync for every batch of the stream, first those of its log. Both halves know the leases: the holder tells the
owner of each.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals
from node.core.arrangements.progress import Progress
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.rows import ROWS_MAX, check_fits
from node.core.engine import TS
from node.core.errors import PeerProtocolError
from node.core.keys.hashing import I64
from node.core.links.messages import Sync
from node.core.status import CopyRole, CopyStatus
from node.core.streams.ticks import TICK_END, tick_start
from planner.model.copies import CopyAxis, RunningCopy, can_serve
from planner.model.query import Expr

ROWS_AXIS = CopyAxis.ROWS


class Post(Protocol):
    """How a half speaks to the other one."""

    def __call__(self, message: Sync) -> None: ...


def columns_schema(stream: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    """The named columns of a stream."""
    return pa.schema([pa.field(name, stream.field(name).type) for name in names])


def timed_schema(stream: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    """The named columns of a stream behind the event time, or the position, as they travel."""
    return pa.schema([pa.field(TS, pa.int64()), *columns_schema(stream, names)])


def with_times(ts: I64, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows behind their event times, or positions, as they travel."""
    return pa.RecordBatch.from_arrays([pa.array(ts), *rows.columns], names=[TS, *rows.schema.names])


class HeldCopy:
    """The holder's half: what all kinds have."""

    def __init__(self, number: int, spec: RunningCopy, tau: int, tick: int) -> None:
        """It is to have what is from ``tick`` on."""
        self.number = number
        self.spec = spec
        self.opened = tick
        #: In the engine. Tables of the site's own streams have names with one slash.
        self.name = f"copy/{spec.stream}/{number}"
        self.progress = Progress(f"{spec.kind} copy {number} of {spec.stream}", tau, tick)
        self.leases: list[Lease] = []
        #: Full tuples that ever came.
        self.tuples = 0
        #: What is before this position may be gone.
        self.kept_from = 0
        #: It has caught up with its stream, so nobody who looks here waits for more than a batch.
        self.is_level = False

    @property
    def frontier(self) -> int:
        return self.progress.frontier

    def lease(self, lease: Lease) -> None:
        """A query uses it."""
        self.leases.append(lease)

    def release(self, lease: Lease) -> None:
        """A query lets go of it."""
        self.leases.remove(lease)
        self.progress.cancel(lease.query_id)

    def settle(self) -> None:
        """Forget what nobody can ask for any more."""

    def where(self, lease: Lease) -> Expr | None:
        """What a query has to ask of a tuple that it finds here, so that only what passes its filter counts."""
        return lease.reach.where_behind(self.spec.filter)

    def close(self) -> None:
        """Nobody leases it any more."""

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        """What it says about itself."""
        return copy_status(self.spec, self.leases, CopyRole.HOLDER, self.frontier, keys, self.tuples, nbytes)

    def refuse(self, required: str) -> PeerProtocolError:
        """The other half sent what it must not."""
        return PeerProtocolError(f"{self.progress.name} requires {required}; got others")


class OwnedCopy:
    """The owner's half: what all kinds have. It takes every batch of its stream from its tick on."""

    def __init__(self, peer: str, number: int, spec: RunningCopy, tau: int, tick: int) -> None:
        self.peer = peer
        self.number = number
        self.spec = spec
        self.progress = Progress(f"{spec.kind} copy {number} of {spec.stream} at {peer}", tau, tick)
        self.first_ts = tick_start(tick, tau)
        self.leases: list[Lease] = []
        #: The queries that use it, each with the number that this copy has among its needs.
        self.users: dict[str, int] = {}
        #: Those of them that ran before.
        self.resumed: dict[str, None] = {}
        #: Full tuples that were ever sent.
        self.tuples = 0
        #: What was ever sent for it.
        self.sent_bytes = 0

    @property
    def frontier(self) -> int:
        return self.progress.frontier

    def takes(self, spec: RunningCopy) -> bool:
        """Whether a query that needs this can use it."""
        return can_serve(self.spec, spec)

    def status(self, keys: int = 0, nbytes: int = 0) -> CopyStatus:
        """What it says about itself."""
        return copy_status(self.spec, self.leases, CopyRole.OWNER, self.frontier, keys, self.tuples, nbytes)


def copy_status(
    spec: RunningCopy, leases: list[Lease], role: CopyRole, frontier: int, keys: int, tuples: int, nbytes: int
) -> CopyStatus:
    """What a half says about itself, under the name of the query that has used it for longest."""
    users = tuple(dict.fromkeys(lease.query_id for lease in leases))
    alias = leases[0].reach.alias if leases else spec.stream
    peer = spec.holder if role is CopyRole.OWNER else spec.owner
    query_id = users[0] if users else ""
    return CopyStatus(query_id, alias, spec.kind, role, peer, frontier, keys, tuples, nbytes, users[1:], spec.stream)


def needed_number(leases: list[Lease], progress: Progress, ordinals: Ordinals) -> int | None:
    """The number of the first tuple that a lease can still ask for, of a view whose tuples are all known.

    None while nothing may be forgotten: some lease is frozen, or none is known here yet.
    """
    if not leases or any(lease.frozen for lease in leases):
        return None
    found = [ordinals.end]
    for lease in leases:
        passed = lease.passed_ts(progress)
        if passed >= TICK_END:
            continue
        if lease.reach.count is None:
            found.append(ordinals.rank_one(lease.reach.before(passed)))
        else:
            found.append(ordinals.rank_one(passed) - lease.reach.count)
    return max(0, min(found))


def encode_times(times: I64) -> bytes:
    """Event times of the tuples of a count window.

    Raises TooManyRowsError if the other half would not take them.
    """
    check_fits(len(times), 1, times.nbytes)
    return encode_ints(times)


def decode_times(held: HeldCopy, data: bytes, frontier: int) -> I64:
    """Event times of the tuples of a count window up to ``frontier``: ranks rely on their order."""
    times = decode_ints(data, ROWS_MAX)
    if len(times):
        progress = held.progress
        ordered = times[0] >= progress.sealed_ts and (times[1:] >= times[:-1]).all()
        if held.spec.axis is not ROWS_AXIS or not ordered or times[-1] >= tick_start(frontier, progress.tau):
            raise held.refuse("times of a count window, in order")
    return times
