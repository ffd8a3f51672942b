"""What one site does for one query: it holds what the query needs, and walks its heads' batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.full_copy import FullTable
from node.core.arrangements.gate import DeltaGate, FrontierGate, Gate
from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.reach import reach_of
from node.core.arrangements.table import RowTable
from node.core.encoding.rows import decode_rows
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.limits import Limits
from node.core.links.messages import FIRST_GENERATION, Resumption, Rows, Start, StepMessage, Ticks, payload_bytes
from node.core.links.outbox import Outbox
from node.core.queries.head_way import HeadWay
from node.core.queries.leases import QueryLeases
from node.core.queries.life import Life, Reaction, RunEvent, RunState
from node.core.queries.query_id import is_successor
from node.core.queries.run_counts import RunCounts
from node.core.queries.shape import Shape, shape_of
from node.core.queries.waiting import Waiting, Walk
from node.core.queries.walks import Walks
from node.core.status import CopyStatus, ProbeCounts
from node.core.streams.backlog import Backlog
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start
from node.core.streams.view import SealedRows, View
from node.core.work import Work
from planner.model.query import Plan, PolicyName

#: What a message that waits for the start takes beside its data, so that empty ones cannot pile up without end.
_EARLY_MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class _Held:
    """A batch of a head of which it is not known by which plan it walks."""

    alias: str
    sealed: SealedRows
    rows: pa.RecordBatch
    #: Whether its stream is one of this site, and whether its walks start here.
    is_local: bool
    is_start: bool


class TooEarlyError(QueryFailedError):
    """More of a query came before its start than can be kept."""


class QueryRun:
    """A query at a site that takes part in it."""

    def __init__(
        self,
        query_id: str,
        plan: Plan,
        tau_ms: int,
        limits: Limits,
        outbox: Outbox,
        work: Work,
        arrangements: Arrangements,
        store: Callable[[Walk], None],
        generation: int = FIRST_GENERATION,
        resumed: Resumption | None = None,
        begins: Mapping[str, int] | None = None,
    ) -> None:
        """``resumed``: it ran before, and goes on from what is done; ``begins``: by local alias, what logs have."""
        self.query_id = query_id
        self.plan = plan
        self.generation = generation
        self.resumed = resumed
        #: It takes the query over from the run before: its heads begin where that one's are cut.
        self.is_successor = is_successor(query_id)
        self._begins = dict(begins or {})
        #: By head, the successor that walks from a tick on, and the tick; of a successor, from which on it does itself.
        self._ends: dict[str, tuple[int, int]] = {}
        self._cuts: dict[str, int] = {}
        #: The generation to which heads went over last, the heads that are held, and what came of them since.
        self._over_for = -1
        self._holding: dict[str, None] = {}
        self._held: list[_Held] = []
        self.shape: Shape = shape_of(plan)
        self.prepared_us = outbox.now_us
        #: When it was started, or more of it was done.
        self.moved_us = outbox.now_us
        self.first_tick = TICK_MIN
        self._tau_ms = tau_ms
        self._limits = limits
        self._outbox = outbox
        self._work = work
        self._arrangements = arrangements
        self._store = store
        self._life = Life(query_id)
        site = outbox.site
        self.local_aliases = tuple(ref.alias for ref in plan.query.streams if ref.stream.site == site)
        self._reaches = {alias: reach_of(plan.query, alias, tau_ms) for alias in plan.query.aliases}
        self._leases = QueryLeases(query_id, self.generation, plan, self.shape, site, self._reaches)
        self._walks: Walks | None = None
        self._views: dict[str, View] = {}
        self._done: dict[str, int] = {}
        self._early_batches: list[tuple[RowTable, SealedRows]] = []
        self._early_messages: list[tuple[str, StepMessage]] = []
        self._early_bytes = 0
        # A stream that feeds a kept join is held back by that. What the join makes may have to wait for more of it, and
        # its walks here wait for what the join makes.
        feeding = {ref.stream.name for inner in plan.inners for ref in inner.query.streams}
        self.backlogs = {
            alias: Backlog(is_open=plan.query.ref(alias).stream.name in feeding) for alias in self.local_aliases
        }
        self.counts = RunCounts(query_id, plan, site, self.local_aliases)
        #: The last figures of copies that their holders closed, by the number of the need.
        self.closed_copies: dict[int, CopyStatus] = {}
        self._heads: dict[str, HeadWay] = {}
        #: Heads whose batches are read from the log until they have caught up with their tables.
        self._cursors: dict[str, HeadCursor] = {}
        if resumed is None:
            self._leases.prepare(arrangements)
        else:
            self._leases.prepare_again(arrangements, resumed, begins or {})

    # -- for reports --------------------------------------------------------------------------

    @property
    def state(self) -> RunState:
        return self._life.state

    @property
    def is_resumed(self) -> bool:
        """Whether it ran before."""
        return self.resumed is not None

    @property
    def started(self) -> bool:
        return self._life.state is RunState.RUNNING

    @property
    def early_batches(self) -> int:
        """Batches that were sealed since Prepare and wait for the start; who ran before has them in the log."""
        return 0 if self.is_resumed else len(self._early_batches)

    def is_behind(self, alias: str) -> bool:
        """Whether the walks of a head begin with batches from the log, its own or those that fill its table."""
        return alias in self._cursors or self.filled_table(alias) is not None

    def filled_table(self, alias: str) -> RowTable | None:
        """The table of a head's stream, while it is being filled from the log."""
        table = self._leases.table_of(alias)
        return table if table is not None and self._arrangements.readers.is_behind(table) else None

    @property
    def done(self) -> dict[str, int]:
        """By head, how far the sink is, as it told."""
        return dict(self._done)

    @property
    def waiting(self) -> list[Waiting]:
        """Walks that wait for another site, or for the clock."""
        return self._walks.waiting if self._walks is not None else []

    @property
    def probe_counts(self) -> ProbeCounts:
        gate: Gate = self._walks.gate if self._walks is not None else FrontierGate()
        return ProbeCounts(self.query_id, gate.delta_us, gate.early, gate.late)

    @property
    def complete(self) -> bool:
        """Whether the sink is done with every head for good."""
        return self.started and all(tick == TICK_END for tick in self._done.values())

    # -- its life -----------------------------------------------------------------------------

    def start(self, message: Start) -> list[tuple[str, StepMessage]]:
        """Begin with the tuples from a tick on, those that were sealed since Prepare included.

        The messages that came early, each with who sent it: now they can be taken.
        """
        self._life.on(RunEvent.START)
        query = self.plan.query
        self.first_tick = message.tick
        self.moved_us = self._outbox.now_us
        self._done = {alias: message.first_walk_of(alias) for alias in query.aliases}
        islands = () if message.resumed is None else message.resumed.islands
        for head, tick in self._done.items():
            stored = tuple(span for other, span in islands if other == head)
            first = TICK_END if self.is_successor else tick
            _, end = self._ends.get(head, (self.generation, TICK_END))
            self._heads[head] = HeadWay(first, stored, self._tau_ms * query.unit, end)
        self._leases.start(self._arrangements, message, self._tau_ms)
        gate: Gate = DeltaGate(message.delta_us) if self.plan.policy.name is PolicyName.DELTA else FrontierGate()
        for alias in query.aliases:
            first_ts = tick_start(message.begin_of(alias), self._reaches[alias].tau)
            self._views[alias] = View(query, self._reaches[alias], first_ts)
        self._walks = Walks(
            self.query_id,
            self.generation,
            self.shape,
            self.plan.sink,
            self._tau_ms * query.unit,
            gate,
            self._limits,
            self._outbox,
            self._work,
            self._arrangements,
            self._leases,
            self.counts,
            self._store,
        )
        # No walk comes from before its first tick.
        self._walks.on_done(self._done)
        self._follow_log()
        early, self._early_batches = self._early_batches, []
        for table, sealed in early:
            self.on_batch(table, sealed)
        messages, self._early_messages = self._early_messages, []
        return messages

    def _follow_log(self) -> None:
        """Heads that begin with what their tables have already taken read that from the log."""
        for alias in self.local_aliases:
            table, first = self._leases.table_of(alias), self._done[alias]
            if table is None or self.shape.starts[alias] != self._outbox.site or not self.is_resumed:
                continue
            if self.is_successor:
                continue
            cursor = HeadCursor(self.query_id, self.generation, alias, table, first)
            if cursor.is_behind:
                self._cursors[alias] = cursor
                self._arrangements.readers.begin(table.stream, cursor)

    @property
    def pins(self) -> dict[str, int]:
        """By local stream: what its log must have for the query to begin again is from this event time on."""
        if self.started:
            return self._leases.pins()
        found: dict[str, int] = {}
        for alias, tick in self._begins.items():
            reach = self._reaches[alias]
            found[reach.stream] = min(found.get(reach.stream, TICK_END), tick_start(tick, reach.tau))
        return found

    # -- going over to a successor ------------------------------------------------------------

    @property
    def is_cut(self) -> bool:
        """Whether this site has said of its heads from where on they are its own."""
        return any(alias in self._cuts for alias in self.local_aliases)

    @property
    def is_level(self) -> bool:
        """Whether all that it looks at has caught up with its streams: heads could walk without waiting for that."""
        return self.started and self._leases.is_level(self._arrangements)

    def begin_head(self, head: str, tick: int) -> None:
        """The walks of a head are its own from a tick on.

        Where they do not start, home may have said already that some of them are done: the cut came another way.
        Raises PeerProtocolError if it cannot have them, or has them already.
        """
        starts_here = self.shape.starts[head] == self._outbox.site
        if not self.started or head in self._cuts or (starts_here and tick < self._done[head]):
            raise PeerProtocolError(
                f"query {self.query_id} requires a cut once, beyond what is done; got {head}={tick}"
            )
        self._cuts[head] = tick
        self._heads[head] = replace(self._heads[head], first=tick)

    def end_head(self, head: str, generation: int, tick: int) -> None:
        """The walks of a head are a successor's from a tick on.

        Raises PeerProtocolError if that has them already. A later one takes them over from that, not from here: its
        site may have heard before this one that what is to do here is done.
        """
        by, _ = self._ends.get(head, (self.generation, tick))
        if by == generation:
            raise PeerProtocolError(f"query {self.query_id} requires one end of each head; got {head}={tick} again")
        if by != self.generation:
            return
        self._ends[head] = generation, tick
        if head in self._heads:
            self._heads[head] = replace(self._heads[head], end=tick)

    def hold_head(self, head: str, generation: int) -> None:
        """What comes of a head from now on waits, until it is known where all go over to a generation.

        That may have been heard before this, from home.
        """
        if self._over_for < generation:
            self._holding[head] = None

    def go_over(self, generation: int, tick: int) -> None:
        """The walks of all heads from a tick on are those of a generation, which may be this one."""
        self._over_for = generation
        self._holding.clear()
        for head in self.plan.query.aliases:
            if generation == self.generation:
                self.begin_head(head, tick)
            else:
                self.end_head(head, generation, tick)
        held, self._held = self._held, []
        for backlog in self.backlogs.values():
            backlog.release()
        for batch in held:
            self._walk(batch)

    def close(self) -> None:
        """Let go of everything."""
        self._life.on(RunEvent.END)
        for cursor in self._cursors.values():
            self._arrangements.readers.forget(cursor)
        self._work.forget(self.query_id)
        self._leases.release(self._arrangements)

    # -- batches ------------------------------------------------------------------------------

    def on_batch(self, table: RowTable, sealed: SealedRows) -> None:
        """A table that this query leases has the next batch."""
        if self._life.on(RunEvent.BATCH) is Reaction.KEEP:
            self._keep_early_batch(table, sealed)
            return
        starting = [alias for alias in self._leases.heads_at(table) if alias not in self._cursors]
        local = [alias for alias in self.local_aliases if self._leases.table_of(alias) is table]
        for alias in dict.fromkeys([*local, *starting]):
            self._on_head_batch(alias, sealed, alias in local and alias not in self._cursors, alias in starting)

    def _keep_early_batch(self, table: RowTable, sealed: SealedRows) -> None:
        if self.is_successor:
            # Its walks begin later.
            return
        if not self.is_resumed:
            self._early_batches.append((table, sealed))
        elif isinstance(table, FullTable):
            # Of local streams the log has them.
            self._early_batches.append((table, sealed))
            if len(self._early_batches) > self._limits.ahead_batches_max:
                self._early_batches.clear()
                self._leases.miss_batches()

    def on_past_batch(self, cursor: HeadCursor, sealed: SealedRows) -> None:
        """The next batch of a head that is behind its table."""
        if self._cursors.get(cursor.alias) is cursor:
            self._on_head_batch(cursor.alias, sealed, is_local=True, is_start=True)
            # One that was given several batches at once is not behind any more, and has the others yet to come.
            if not cursor.is_behind and sealed.span.end == cursor.frontier:
                del self._cursors[cursor.alias]

    def _on_head_batch(self, alias: str, sealed: SealedRows, is_local: bool, is_start: bool) -> None:
        if alias not in self._holding and not self._heads[alias].spans(sealed.span):
            return
        batch = _Held(alias, sealed, self._views[alias].rows(sealed), is_local, is_start)
        if alias not in self._holding:
            self._walk(batch)
            return
        self._held.append(batch)
        if is_local:
            self.backlogs[alias].hold(batch.rows.nbytes)

    def _walk(self, batch: _Held) -> None:
        alias, sealed, way = batch.alias, batch.sealed, self._heads[batch.alias]
        spans = way.spans(sealed.span)
        if spans and batch.is_local:
            self.backlogs[alias].add(sealed.span.end, batch.rows.nbytes)
            self.counts.on_batch(alias, batch.rows)
        for span in spans if batch.is_start else ():
            part = way.part(batch.rows, span)
            self._running().advance(Walk(self.query_id, self.generation, alias, span, sealed.sealed_at_us, 0, part))

    def on_delta(self, delta_us: int) -> None:
        """Walks that come go by another delta; those that wait have their time.

        Raises PeerProtocolError if it does not go by one that is measured.
        """
        if not self.started or not self.plan.policy.is_measured:
            required = "policy delta, without a delta that was given, and a start"
            raise PeerProtocolError(f"query {self.query_id} requires {required}; got delta {delta_us} us")
        gate = self._running().gate
        assert isinstance(gate, DeltaGate)
        gate.delta_us = delta_us
        self._leases.linger(delta_us)

    def is_full(self, feed: RowTable | HeadCursor) -> bool:
        """Whether as much of what a table or a cursor feeds is under way as is allowed."""
        if isinstance(feed, HeadCursor):
            return self.backlogs[feed.alias].full(self._limits)
        local = [alias for alias in self.local_aliases if self._leases.table_of(alias) is feed]
        return any(self.backlogs[alias].full(self._limits) for alias in local)

    # -- walks --------------------------------------------------------------------------------

    def on_message(self, peer: str, message: StepMessage) -> None:
        """The other half of a step says something. Its site may have heard of the start before us: then it waits."""
        if self._life.on(RunEvent.STEP) is Reaction.KEEP:
            self._keep_early(peer, message)
        else:
            self._running().on_message(peer, message)

    def _keep_early(self, peer: str, message: StepMessage) -> None:
        if peer not in self.plan.sites:
            raise PeerProtocolError(f"query {self.query_id} requires walks of its own sites; got one from {peer}")
        self._early_bytes += payload_bytes(message) + _EARLY_MESSAGE_BYTES
        if self._early_bytes > self._limits.message_bytes_max:
            raise TooEarlyError(
                f"query {self.query_id} requires its start before {self._limits.message_bytes_max} bytes of walks; "
                f"got more, the last from {peer}"
            )
        self._early_messages.append((peer, message))

    def wake(self, waiting: Waiting) -> None:
        """What a walk waited for has happened."""
        self._running().wake(waiting)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        """The engine answered."""
        self._running().answered(waiting, rows)

    def on_clock(self) -> None:
        """Time passed."""
        if self._walks is not None:
            self._walks.on_clock()

    @property
    def has_endings(self) -> bool:
        """Whether the sink has to be told of walks that ended without rows."""
        return self._walks is not None and len(self._walks.endings) > 0

    def tell_endings(self, riding: bool) -> None:
        """Tell the sink of walks that ended without rows, if that costs little or somebody waits for it."""
        self._running().tell_endings(
            riding, lambda head: head in self.backlogs and self.backlogs[head].full(self._limits)
        )

    def _running(self) -> Walks:
        assert self._walks is not None
        return self._walks

    # -- done ---------------------------------------------------------------------------------

    def on_taken(self, taken: tuple[tuple[str, int], ...]) -> None:
        """The sink of a join that is kept has the rows of these heads up to these ticks: their sources may go on."""
        for head, tick in taken:
            if head in self.backlogs and self.backlogs[head].done(tick):
                self.moved_us = self._outbox.now_us

    def done_as_told(self, frontiers: Ticks) -> Ticks:
        """What is done of this run's heads by what is said of its query.

        While another plan with other heads runs nothing of a successor is, but all before what is done of all heads.
        """
        if not self.is_successor:
            return frontiers
        told = dict(frontiers)
        if told.keys() != self._done.keys():
            told = dict.fromkeys(self._done, min(told.values()))
        return tuple((head, max(done, told[head])) for head, done in self._done.items())

    def on_done(self, frontiers: Ticks) -> None:
        """The sink is done with these heads up to these ticks: forget what nobody can see any more."""
        self._life.on(RunEvent.DONE)
        for head, tick in frontiers:
            if head not in self._done:
                raise PeerProtocolError(f"query {self.query_id} requires done frontiers of heads; got {head}={tick}")
            if tick < self._done[head]:
                raise PeerProtocolError(f"query {self.query_id} requires done frontiers that rise; got {head}={tick}")
            if tick > self._done[head]:
                self.moved_us = self._outbox.now_us
            self._done[head] = tick
            if head in self.backlogs:
                self.backlogs[head].done(tick)
        self._leases.on_done(self._arrangements, self._done)
        self._running().on_done(self._done)

    def decode_results(self, peer: str, message: Rows) -> pa.RecordBatch:
        """Result rows of this query, from the site where walks of their head end.

        A walk without rows ends anywhere on its way.
        """
        head = message.head
        if head not in self.shape.steps:
            raise PeerProtocolError(f"query {self.query_id} requires rows of its heads; got {head!r} from {peer}")
        allowed = {self.shape.end_of(head)} if message.rows else self.shape.sites_of(head)
        if peer not in allowed:
            required = f"query {self.query_id} requires {'rows' if message.rows else 'ends of walks'} of {head!r}"
            raise PeerProtocolError(f"{required} from {', '.join(sorted(allowed))}; got some from {peer}")
        return decode_rows(message.rows, self.shape.output_schema)
