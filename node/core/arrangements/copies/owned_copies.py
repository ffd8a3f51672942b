"""The copies that other sites hold of views of this site's streams.

Their holders open, lease and close them. From Prepare on until the holder says which copy a query uses, all that it
may use forget nothing: the query may begin with what is newest now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from node.core.arrangements.copies.copy import OwnedCopy
from node.core.arrangements.copies.full_copy import FullOwner, User
from node.core.arrangements.copies.key_copy import KeysOwner
from node.core.arrangements.copies.mixed_copy import MixedOwner
from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.feeds import LogReaders
from node.core.arrangements.lease import Lease
from node.core.arrangements.table import RowTable
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.kernels.evaluation import EvaluationError, evaluate
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose
from node.core.links.messages import CopyMessage, Level, OpenCopy, payload_bytes
from node.core.links.outbox import Outbox, too_large
from node.core.queries.query_id import query_of
from node.core.queries.shape import CopyNeed
from node.core.queries.waiting import Waiting
from node.core.status import CopyStatus
from node.core.streams.stream import StreamState
from node.core.streams.view import SealedRows
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.key_types import key_family
from planner.model.query import Expr

#: A copy, by its holder and the number that it has there.
Place = tuple[str, int]
Owner = FullOwner | ReducedOwner | KeysOwner | MixedOwner


class Claim:
    """A query that is prepared needs a copy, and its holder has not said yet which one it uses."""

    def __init__(
        self, need: CopyNeed, spec: RunningCopy, lease: Lease, is_own: bool = False, begin: int | None = None
    ) -> None:
        """``spec`` is what the query needs, which the copy may have more than, unless it ``is_own``.

        A query that ran before needs what is from the tick ``begin`` on.
        """
        self.need = need
        self.spec = spec
        self.lease = lease
        self.is_own = is_own
        self.begin = begin

    @property
    def user(self) -> User:
        return self.lease.query_id, self.need.number

    @property
    def stream(self) -> str:
        return self.spec.stream

    def may_be(self, copy: OwnedCopy) -> bool:
        """Whether it may turn out to be this copy."""
        return copy.takes(self.spec)

    def check(self, copy: OwnedCopy) -> None:
        """Raises PeerProtocolError unless the copy that its holder chose has what the query needs."""
        if not self.may_be(copy):
            raise self._refuse("what its plan says", copy)

    def check_lent(self, copy: OwnedCopy) -> None:
        """As ``check``, for a copy that was there. Raises too if the query is to open one: nothing is kept for it."""
        self.check(copy)
        if self.lease not in copy.leases:
            raise self._refuse("a copy of its own", copy)

    def _refuse(self, required: str, copy: OwnedCopy) -> PeerProtocolError:
        query_id, need = self.user
        got = f"{copy.spec.kind} copy {copy.number} of {copy.spec.stream}"
        return PeerProtocolError(f"query {query_id} requires for its need {need} {required}; got {got}")


class OwnedCopies:
    """All of them, by holder and number."""

    def __init__(self, streams: Mapping[str, StreamState], readers: LogReaders, outbox: Outbox, limits: Limits) -> None:
        self._streams = streams
        self._readers = readers
        self._outbox = outbox
        self._limits = limits
        self._copies: dict[Place, Owner] = {}
        self._claims: dict[User, Claim] = {}
        #: Copies that miss something of their views, and why.
        self._broken: dict[Place, str] = {}
        #: Queries that cannot go on because of that, and why.
        self._failed: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def get(self, peer: str, number: int) -> Owner | None:
        return self._copies.get((peer, number))

    @property
    def all(self) -> list[Owner]:
        return list(self._copies.values())

    # -- leases -------------------------------------------------------------------------------

    def claim(
        self, need: CopyNeed, spec: RunningCopy, lease: Lease, is_own: bool = False, begin: int | None = None
    ) -> None:
        """A query is prepared that needs a copy: nothing that it may want is forgotten, or not sent.

        One that will open a copy of its own wants nothing of those that are there.
        """
        claim = Claim(need, spec, lease, is_own, begin)
        self._claims[claim.user] = claim
        for copy in [] if is_own else self._copies.values():
            if claim.may_be(copy):
                self._hold(copy, claim)

    def _hold(self, copy: Owner, claim: Claim) -> None:
        copy.leases.append(claim.lease)
        if isinstance(copy, FullOwner):
            copy.add(claim.user, claim.spec, lambda message: self.post(copy, message))

    def _let_go(self, copy: Owner, users: set[User]) -> None:
        if isinstance(copy, FullOwner):
            copy.remove(users, lambda message: self.post(copy, message))

    def settle_claim(self, query_id: str, need: int, copy: Owner) -> bool:
        """Its holder says which copy a query uses; whether the query is known here."""
        claim = self._claims.get((query_id, need))
        if claim is None:
            return False
        claim.check_lent(copy)
        del self._claims[query_id, need]
        copy.users[query_id] = need
        if claim.begin is not None:
            copy.resumed[query_id] = None
        if (copy.peer, copy.number) in self._broken:
            self._failed[query_id] = self._broken[copy.peer, copy.number]
        for other in self._copies.values():
            if other is not copy and claim.lease in other.leases:
                other.leases.remove(claim.lease)
                self._let_go(other, {claim.user})
        return True

    def release(self, query_id: str) -> None:
        """A query is over. Its copies stay until their holders close them: others may use them already."""
        self._claims = {place: claim for place, claim in self._claims.items() if place[0] != query_id}
        for copy in self._copies.values():
            copy.leases = [lease for lease in copy.leases if lease.query_id != query_id]
            copy.users.pop(query_id, None)
            copy.resumed.pop(query_id, None)
            copy.progress.cancel(query_id)
            if isinstance(copy, FullOwner):
                self._let_go(copy, {user for user in copy.needed if user[0] == query_id})

    @property
    def claims(self) -> list[Claim]:
        return list(self._claims.values())

    def is_claimed(self, query_id: str, need: int) -> bool:
        """Whether a query needs a copy, and its holder has not said yet which one it uses."""
        return (query_id, need) in self._claims

    # -- their life ---------------------------------------------------------------------------

    def open(self, peer: str, message: OpenCopy, is_current: bool = True) -> Owner:
        """A holder wants a copy: it is fed from its tick on, out of the log if that is past.

        Raises PeerProtocolError for a copy of what is not here, or that is not what its query needs.
        """
        place, spec = (peer, message.copy), message.spec
        stream = self._streams.get(spec.stream)
        if place in self._copies or stream is None or spec.holder != peer:
            got = f"{message.copy} of {spec.stream}"
            raise PeerProtocolError(f"a copy requires a new number and a stream of this site; got {got}")
        _check(spec, self._outbox.site, stream.info.schema)
        claim = self._claims.get((message.query_id, message.need)) if is_current else None
        if claim is None:
            # It is over, or goes on with other copies, so its past may be gone. Whoever else uses the copy sees nothing
            # that is not logged.
            message = replace(message, tick=max(message.tick, stream.log_begin))
        elif claim.begin is not None:
            # It may be opened further back for others that are to go on too, of which one may be over by now.
            message = replace(message, tick=max(message.tick, min(stream.log_begin, claim.begin)))
        copy = self._new(peer, message, stream)
        if claim is not None:
            claim.check(copy)
        self._copies[place] = copy
        for each in self._claims.values():
            if each is claim or (not each.is_own and each.may_be(copy)):
                self._hold(copy, each)
        if copy.frontier < stream.fed and not self.is_idle(copy):
            self._readers.begin(spec.stream, copy)
        return copy

    def say_level(self, copy: OwnedCopy) -> None:
        """A copy is as far as its stream, once all that was sent for it is there."""
        self.post(copy, Level(copy.number))

    @staticmethod
    def is_idle(copy: OwnedCopy) -> bool:
        """W' of a time window is sent only what is asked for."""
        return copy.spec.kind is CopyKind.REDUCED and copy.spec.axis is not CopyAxis.ROWS

    @staticmethod
    def _new(peer: str, message: OpenCopy, stream: StreamState) -> Owner:
        number, spec, tick = message.copy, message.spec, message.tick
        schema, tau = stream.info.schema, stream.tau
        match spec.kind:
            case CopyKind.FULL:
                return FullOwner(peer, number, spec, schema, tau, tick)
            case CopyKind.REDUCED:
                return ReducedOwner(peer, number, spec, tau, tick)
            case CopyKind.KEYS:
                return KeysOwner(peer, number, spec, schema, tau, tick)
            case CopyKind.MIXED:
                return MixedOwner(peer, number, spec, schema, tau, tick)

    def close(self, peer: str, number: int) -> Owner | None:
        """Its holder needs it no more; the copy, if it was there. Walks that wait for it are over at their source."""
        copy = self._copies.pop((peer, number), None)
        self._broken.pop((peer, number), None)
        if copy is not None:
            self._readers.forget(copy)
        return copy

    # -- batches ------------------------------------------------------------------------------

    def of(self, stream: str) -> list[Owner]:
        return [copy for copy in self._copies.values() if copy.spec.stream == stream]

    def keep_fetchable(self, table: RowTable) -> None:
        """Have a table keep what may be fetched from it for M: also for one that is still to be opened or filled."""
        floors = []
        for copy in self.of(table.stream):
            if isinstance(copy, MixedOwner):
                found = copy.first_live
                floors.append(table.number_at(copy.progress.sealed_ts) if found is None else found)
        claims = [claim for claim in self._claims.values() if claim.stream == table.stream]
        # Who waits to open a copy of its own, maybe for long, gets its table out of the log when it begins.
        holding = [claim for claim in claims if not (claim.is_own and claim.lease.frozen)]
        if any(claim.need.kind is CopyKind.MIXED for claim in holding):
            floors.append(table.kept_from)
        table.floor = min(floors, default=None)

    def take(self, sealed: SealedRows) -> list[Waiting]:
        """A stream was sealed further: tell those who hold copies of it; who waited for that."""
        woken = []
        for copy in self.of(sealed.stream):
            if sealed.span.first <= copy.frontier < sealed.span.end:
                woken += self.feed(copy, sealed)
        return woken

    def feed(self, copy: Owner, sealed: SealedRows) -> list[Waiting]:
        """The next batch for one copy."""
        part = sealed.after(copy.frontier, copy.progress.tau)
        if isinstance(copy, FullOwner):
            for portion in copy.portions.all.values():
                if reason := self._fault(copy, portion.filter, part):
                    # Others do not need what passes it.
                    users = {user for user, needed in copy.needed.items() if needed.filter == portion.filter}
                    self._failed |= {query_id: reason for query_id, _ in users}
                    self._let_go(copy, users)
        elif reason := self._fault(copy, copy.spec.filter, part):
            self.break_off(copy, reason)
            copy.progress.seal(part.span.first, part.span.end)
            return copy.progress.release()
        try:
            copy.take(part, lambda sync: self.post(copy, sync))
        except QueryFailedError as error:
            # It has too many rows to be sent.
            self.break_off(copy, f"{copy.progress.name}: {error}")
        return copy.progress.release()

    @staticmethod
    def _fault(copy: OwnedCopy, condition: Expr | None, part: SealedRows) -> str:
        """Why a filter cannot be computed, if so: it may be a peer's, and fine but for some data.

        Who looks at the part next finds it computed.
        """
        try:
            part.passing(condition, copy.first_ts)
        except EvaluationError as error:
            return f"the filter of {copy.progress.name} cannot be computed: {error.__cause__!r}"
        return ""

    def settle(self, copy: Owner) -> None:
        """Leases of a copy moved on."""
        if isinstance(copy, KeysOwner | MixedOwner):
            copy.settle(lambda sync: self.post(copy, sync))

    def post(self, copy: OwnedCopy, message: CopyMessage) -> None:
        """Send something for a copy; its bytes are those of the query that has used it for longest."""
        size = payload_bytes(message)
        if size > self._limits.shipment_bytes_max:
            self.break_off(copy, too_large(message, size, self._limits))
        if (copy.peer, copy.number) in self._broken:
            # What comes after a gap must not be taken for the next.
            return
        copy.sent_bytes += size
        query_id, need = next(iter(copy.users.items()), ("", -1))
        self._outbox.send(copy.peer, message, Cause(query_id, Purpose.COPY, "", need))

    def break_off(self, copy: OwnedCopy, reason: str) -> None:
        """A copy misses something: it is sent nothing any more, and those who use it, now or later, end."""
        self._broken.setdefault((copy.peer, copy.number), reason)
        self._failed |= dict.fromkeys(copy.users, reason)

    def take_failed(self) -> dict[str, str]:
        """Queries that cannot go on since a copy that they use misses something, and why."""
        failed, self._failed = self._failed, {}
        return failed

    def statuses(self) -> list[CopyStatus]:
        return [copy.status() for copy in self._copies.values()]

    @property
    def specs(self) -> list[RunningCopy]:
        found: list[RunningCopy] = []
        for copy in self._copies.values():
            found += copy.specs if isinstance(copy, FullOwner) else [copy.spec]
        return found

    def specs_beside(self, query_id: str) -> list[RunningCopy]:
        """What other queries than this one need."""
        found: list[RunningCopy] = []
        for copy in self._copies.values():
            if isinstance(copy, FullOwner):
                others = [each for user, each in copy.needed.items() if query_of(user[0]) != query_id]
                found += [replace(copy.spec, filter=each.filter, columns=each.columns) for each in others]
            elif any(query_of(user) != query_id for user in (*copy.users, *(one.query_id for one in copy.leases))):
                found.append(copy.spec)
        return found


def _check(spec: RunningCopy, site: str, schema: pa.Schema) -> None:
    """Raises PeerProtocolError unless such a copy of a stream with that schema can be kept."""
    missing = [name for name in (*spec.keys, *spec.columns) if name not in schema.names]
    twice = len(set(spec.keys)) < len(spec.keys) or len(set(spec.columns)) < len(spec.columns)
    if missing or twice or not set(spec.keys) <= set(spec.columns) or spec.owner != site:
        got = missing or (*spec.keys, *spec.columns)
        raise PeerProtocolError(f"a copy of {spec.stream} requires its columns, keys among them, each once; got {got}")
    if bool(spec.keys) != spec.kind.spec.keyed:
        required = "keys" if spec.kind.spec.keyed else "no keys"
        raise PeerProtocolError(f"a {spec.kind} copy of {spec.stream} requires {required}; got {spec.keys}")
    odd = [name for name in spec.keys if key_family(schema.field(name).type) is None]
    if odd:
        raise PeerProtocolError(f"a copy of {spec.stream} requires keys that can be compared; got {odd}")
    if spec.filter is not None:
        _check_filter(spec.filter, spec.stream, schema)


def _check_filter(condition: Expr, stream: str, schema: pa.Schema) -> None:
    """A peer's filter is computed here, on each batch: whatever is wrong with it must show before that."""
    fields = [pa.field(f"{stream}.{field.name}", field.type) for field in schema]
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in fields], schema=pa.schema(fields))
    for rows in (nulls.slice(1), nulls):
        try:
            kind = evaluate(condition, rows).type
        except EvaluationError as error:
            got = repr(error.__cause__)
            raise PeerProtocolError(f"a copy of {stream} requires a filter of its columns; got {got}") from error
        if not pa.types.is_boolean(kind):
            raise PeerProtocolError(f"a copy of {stream} requires a filter that is true or false; got {kind}")
