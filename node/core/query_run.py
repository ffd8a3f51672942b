"""What one site does for one query.

Each batch of a local stream (1) goes into its window and to the copies of it at other sites, and
(2) starts a walk. A walk is given to the half of the algorithm that does its next step; when it
has no rows or no steps left it is reported to the sink. Here the parts are wired and messages find
their part; what an algorithm does is in ``algorithms``, what a copy is in ``replicas``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import numpy as np
import pyarrow as pa

from node.core.algorithms import sm_d2, sm_s1
from node.core.algorithms.probe import LocalProbe
from node.core.backlog import Backlog
from node.core.desk import Shipment, Then
from node.core.effects import Effect, RunOp, Send
from node.core.engine import TS, Op, Question
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.gate import DeltaGate, FrontierGate, Gate
from node.core.held import Endings
from node.core.keycodes import usable
from node.core.limits import Limits
from node.core.messages import (
    AskMatches,
    Carry,
    Fetch,
    Fetched,
    KeyAnswer,
    ReplicaSync,
    Rows,
    Sync,
    TupleAnswer,
    payload_bytes,
)
from node.core.parts import Parts, done_with
from node.core.payload import take_batch
from node.core.replicas.keys import KeysHolder
from node.core.replicas.mixed import MixedHolder, MixedOwner
from node.core.replicas.reduced import ReducedHolder
from node.core.rows import decode_rows, empty_batch, encode_rows
from node.core.run_counts import RunCounts
from node.core.sealer import Batch
from node.core.status import ProbeCounts, ReplicaStatus
from node.core.ticks import TICK_END, TICK_MIN, Span, tick_start
from node.core.view import View, view_schema
from node.core.walk import Shape, Walk, shape_of
from node.core.window import Action, WindowState
from planner.model import Plan, PolicyName


class ShipmentTooLargeError(QueryFailedError):
    """A batch, or what became of it, is more than a link takes in one message."""


class QueryRun:
    """A query at a site that takes part in it. To its parts it is their desk."""

    def __init__(
        self,
        query_id: str,
        plan: Plan,
        site: str,
        tau_ms: int,
        limits: Limits,
        next_op: Callable[[], int],
        now_us: Callable[[], int],
    ) -> None:
        self.query_id = query_id
        self.plan = plan
        self.started = False
        #: The query is over here; what is left of it are replicas that other queries use.
        self.lingering = False
        self._over = False
        #: Replicas whose owner half is that of another query.
        self.attached: list[int] = []
        #: Up to which tick other queries are done that use a replica of this one.
        self.users_done: Callable[[int], int] = lambda _: TICK_END
        #: What waited for another query's copy and can go on.
        self._ready: list[Action] = []
        self.prepared_us = now_us()
        self.shape: Shape = shape_of(plan)
        self.gate: Gate = FrontierGate()
        self._site = site
        self._tau_ms = tau_ms
        self._tau = tau_ms * plan.query.unit
        self.limits = limits
        self._next_op = next_op
        self._now_us = now_us
        self._views: dict[str, View] = {}
        self._parts: Parts | None = None
        self._early: list[tuple[str, Batch, int]] = []
        self._past_batches = 0
        self._early_messages: list[Shipment] = []
        self._asked: dict[int, Then] = {}
        self._done: dict[str, int] = {}
        self._out: list[Effect] = []
        self._first_tick = TICK_MIN
        #: Walks that ended here without rows, elsewhere than at the sink, which is told some time.
        self.endings = Endings()
        #: Walks that ended here, at the sink: nothing to send.
        self.finished: list[Walk] = []
        self.backlogs = {alias: Backlog() for alias in self.local_aliases}
        self.counts = RunCounts(query_id, plan, site, self.local_aliases)

    @property
    def local_aliases(self) -> tuple[str, ...]:
        return tuple(ref.alias for ref in self.plan.query.streams if ref.stream.site == self._site)

    @property
    def window_states(self) -> tuple[WindowState, ...]:
        return tuple(window.state for window in self._parts.windows) if self._parts else ()

    def replica_statuses(self, users_at: Callable[[int], tuple[str, ...]]) -> list[ReplicaStatus]:
        """The halves here that are this query's own; ``users_at`` tells who else uses one."""
        return self._parts.statuses(users_at) if self._parts else []

    def replica_status(self, number: int) -> ReplicaStatus:
        assert self._parts is not None
        return self._parts.half(number).status()

    @property
    def probe_counts(self) -> ProbeCounts:
        return ProbeCounts(self.query_id, self.gate.delta_us, self.gate.early, self.gate.late)

    def take_effects(self) -> list[Effect]:
        """What has to be done since the last call."""
        out, self._out = self._out, []
        return out

    # -- life ---------------------------------------------------------------------------------

    def start(self, tick: int, delta_us: int) -> None:
        """Begin with the tuples from ``tick`` on, those that were sealed since Prepare included."""
        if self._parts is not None:
            raise PeerProtocolError(f"query {self.query_id} requires one start; got a second")
        self.started = True
        query = self.plan.query
        self._first_tick = tick
        self._done = dict.fromkeys(query.aliases, tick)
        if self.plan.policy.name is PolicyName.DELTA:
            self.gate = DeltaGate(delta_us, query.unit, self._now_us)
        for alias in self.local_aliases:
            self._views[alias] = View(query, alias, self._tau_ms, tick)
        self._parts = Parts(self, query, self.shape, self._site, self._tau, tick, self.attached, self.users_done)
        early, self._early = self._early, []
        for alias, batch, sealed_at_us in early:
            self.on_batch(alias, batch, sealed_at_us)
        messages, self._early_messages = self._early_messages, []
        for message in messages:
            self.on_shipment(message)

    def close(self) -> None:
        """Forget everything the engine holds for the query."""
        self._over = True
        self._asked.clear()
        for window in self._parts.windows if self._parts else ():
            window.close()

    # -- replicas shared with other queries ---------------------------------------------------

    def has_half(self, number: int) -> bool:
        """Whether a half of that replica is here, and this query's own."""
        return self._parts is not None and self._parts.has_half(number)

    def has_full_copy(self, alias: str) -> bool:
        """Whether a full copy of that stream is held here, and this query's own."""
        return self._parts is not None and any(half.alias == alias for half in self._parts.full_holders)

    def can_host(self, number: int, tick: int) -> bool:
        """Whether a query that sees what is from ``tick`` on can use a replica whose owner half is here."""
        parts = self._parts
        owned_here = self.shape.replicas[number].owner == self._site
        return parts is not None and owned_here and parts.has_half(number) and parts.can_host(number, tick)

    def borrow(self, number: int, host: QueryRun, host_number: int) -> None:
        """Use another query's copy for that replica."""
        parts, theirs = self._parts, host._parts
        assert parts is not None
        assert theirs is not None
        parts.borrow(number, theirs, host_number, self._later)

    def _later(self, action: Action) -> None:
        """Something can go on, maybe in the middle of another query's work: it is done in this one's own turn."""
        if not self._over and not self.lingering:
            self._ready.append(action)

    @property
    def is_ready(self) -> bool:
        return bool(self._ready)

    def go_on(self) -> None:
        """Do what can go on."""
        while self._ready:
            self._ready.pop(0)()

    def done_with(self, alias: str) -> int:
        """The tick before which no walk of this query is left that could use a copy of that stream."""
        return done_with(alias, self._done) if self.started else TICK_MIN

    def refresh_done(self) -> None:
        """Other queries use our replicas, or are done with more of them."""
        if self._parts is not None:
            ticks = dict.fromkeys(self._done, TICK_END) if self.lingering else self._done
            self._parts.on_done(ticks)

    def linger(self, numbers: list[int]) -> None:
        """The query is over; only these replicas stay, for others."""
        assert self._parts is not None
        self.lingering = True
        self.endings = Endings()
        self.finished.clear()
        self._ready.clear()
        self._parts.keep_only(numbers)
        self.refresh_done()

    # -- batches ------------------------------------------------------------------------------

    def take_past(self, alias: str, batches: list[Batch]) -> None:
        """What a local stream kept of its past, before anything else of it: it waits for the start."""
        self._early += [(alias, batch, self._now_us()) for batch in batches]
        self._past_batches += len(batches)

    def on_batch(self, alias: str, batch: Batch, now_us: int) -> None:
        """A local stream sealed a batch."""
        if self._parts is None:
            self._early.append((alias, batch, now_us))
            return
        if batch.span.end <= self._first_tick:
            return
        span = Span(max(batch.span.first, self._first_tick), batch.span.end)
        rows = self._views[alias].rows(batch)
        if not self.lingering:
            self.backlogs[alias].add(span.end, rows.nbytes)
            self.counts.on_batch(alias, rows)
        for owned in self._parts.owned.values():
            if owned.window.state.alias == alias:
                owned.on_batch(span, rows)
        for number, full_owner in self._parts.full_owners.items():
            if self.shape.replicas[number].alias == alias:
                full_owner.on_batch(span, rows, now_us)
        if self.shape.starts[alias] == self._site and not self.lingering:
            self.advance(Walk(alias, span, now_us, 0, rows))

    def on_clock(self) -> None:
        """Time passed."""
        self.gate.on_clock()

    # -- walks --------------------------------------------------------------------------------

    def advance(self, walk: Walk) -> None:
        """Give a walk to its next step, or to the sink."""
        if self.lingering or self._over:
            return
        parts, steps = self._parts, self.shape.steps[walk.head]
        assert parts is not None
        self.counts.on_walk(walk)
        if walk.rows.num_rows and walk.step < len(steps):
            walk = _matchable(walk, steps[walk.step].keys_of(walk.rows))
        if walk.rows.num_rows == 0 or walk.step == len(steps):
            self._finish(walk)
        else:
            parts.sources[walk.head, walk.step].arrive(walk)

    def _finish(self, walk: Walk) -> None:
        if self.plan.sink != self._site and not walk.rows.num_rows:
            self.endings.add(walk, self._now_us())
            return
        rows = self.shape.output(walk.rows) if walk.rows.num_rows else empty_batch(self.shape.output_schema)
        if self.plan.sink == self._site:
            self.finished.append(replace(walk, rows=rows))
        else:
            self.send(self.plan.sink, Rows(self.query_id, walk.head, walk.span, walk.sealed_at_us, encode_rows(rows)))

    def tell_endings(self, riding: bool) -> None:
        """Tell the sink of walks that ended without rows, if that costs little or somebody waits for it."""
        endings = self.endings
        reading_waits = any(head in self.backlogs and self.backlogs[head].full(self.limits) for head in endings.heads())
        if riding or reading_waits or endings.due(self.limits, self._now_us()):
            for ending in endings.take():
                self.send(self.plan.sink, Rows(self.query_id, ending.head, ending.span, ending.sealed_at_us, b""))

    def on_answer(self, op_id: int, rows: pa.RecordBatch) -> None:
        """The engine answered."""
        then = self._asked.pop(op_id, None)
        if then is not None:
            then(rows)

    # -- messages -----------------------------------------------------------------------------

    def on_shipment(self, message: Shipment) -> None:
        """Something from another site. It may have heard of the start before us: then it waits."""
        if self._parts is None:
            self._early_messages.append(message)
            return
        match message:
            case Sync():
                self._on_sync(self._parts, message)
            case Carry():
                self._on_carry(self._parts, message)
            case AskMatches() | KeyAnswer() | TupleAnswer():
                self._on_step_message(self._parts, message)
            case ReplicaSync() | Fetch() | Fetched():
                self._on_replica_message(self._parts, message)
            case _:
                assert_never(message)

    def _on_sync(self, parts: Parts, message: Sync) -> None:
        """A batch for a copy of another site's window."""
        holder = next((half for half in parts.full_holders if half.alias == message.alias), None)
        if holder is None:
            raise PeerProtocolError(f"query {self.query_id} requires no copy of {message.alias!r} here; got one")
        rows = decode_rows(message.rows, view_schema(self.plan.query, message.alias))
        self._check_times(rows, message.span, ascending=True)
        holder.on_sync(message.span, rows)
        if self.shape.starts[message.alias] == self._site:
            self.advance(Walk(message.alias, message.span, message.sealed_at_us, 0, rows))

    def _on_carry(self, parts: Parts, message: Carry) -> None:
        """A walk of another site's head comes here for its next step."""
        half = parts.destinations.get((message.head, message.step))
        if not isinstance(half, LocalProbe | sm_d2.Destination):
            raise self._misplaced(message)
        rows = decode_rows(message.rows, self.shape.steps[message.head][message.step].carry_schema)
        if rows.num_rows == 0:
            raise PeerProtocolError(f"query {self.query_id} requires a carry with rows; got none from {message.head!r}")
        self._check_times(rows, message.span, ascending=False)
        half.arrive(Walk(message.head, message.span, message.sealed_at_us, message.step, rows))

    def _on_step_message(self, parts: Parts, message: AskMatches | KeyAnswer | TupleAnswer) -> None:
        place = (message.head, message.step)
        source, destination = parts.sources.get(place), parts.destinations.get(place)
        if isinstance(message, AskMatches) and isinstance(destination, sm_s1.Destination | sm_d2.Destination):
            times = pa.array([message.low_ts, message.high_ts])
            self._check_times(pa.record_batch([times], names=[TS]), message.span, ascending=True)
            destination.on_ask(message)
        elif isinstance(message, KeyAnswer) and isinstance(source, sm_d2.Source):
            source.on_matches(message)
        elif isinstance(message, TupleAnswer) and isinstance(source, sm_s1.Source):
            source.on_tuples(message)
        else:
            raise self._misplaced(message)

    def _misplaced(self, message: Carry | AskMatches | KeyAnswer | TupleAnswer) -> PeerProtocolError:
        what = f"{type(message).__name__} for {message.head!r} step {message.step}"
        return PeerProtocolError(f"query {self.query_id} requires a step that is done here; got {what}")

    def _on_replica_message(self, parts: Parts, message: ReplicaSync | Fetch | Fetched) -> None:
        holder, owner = parts.holders.get(message.replica), parts.owners.get(message.replica)
        if isinstance(message, ReplicaSync) and isinstance(holder, ReducedHolder | KeysHolder | MixedHolder):
            holder.on_sync(message)
        elif isinstance(message, Fetch) and isinstance(owner, MixedOwner):
            owner.on_fetch(message)
        elif isinstance(message, Fetched) and isinstance(holder, MixedHolder):
            holder.on_fetched(message)
        else:
            what = f"{type(message).__name__} for replica {message.replica}"
            raise PeerProtocolError(f"query {self.query_id} requires a replica that is here; got {what}")

    def _check_times(self, rows: pa.RecordBatch, span: Span, ascending: bool) -> None:
        """Rows of a batch have times in its ticks; a window relies on it, and on their order."""
        times = rows.column(TS)
        if times.null_count:
            raise PeerProtocolError(f"query {self.query_id} requires an event time in every row; got {span} without")
        ts = times.to_numpy()
        if not len(ts):
            return
        if ts.min() < tick_start(span.first, self._tau) or ts.max() >= tick_start(span.end, self._tau):
            got = f"{ts.min()} to {ts.max()}"
            raise PeerProtocolError(f"query {self.query_id} requires times within {span}; got {got}")
        if ascending and (ts[1:] < ts[:-1]).any():
            raise PeerProtocolError(f"query {self.query_id} requires a batch sorted by time; got {span} unsorted")

    @property
    def early_batches(self) -> int:
        """Batches that were sealed since Prepare and wait for the start."""
        return max(0, len(self._early) - self._past_batches)

    def decode_results(self, data: bytes) -> pa.RecordBatch:
        """Result rows of this query from a peer's bytes."""
        return decode_rows(data, self.shape.output_schema)

    def on_done(self, frontiers: tuple[tuple[str, int], ...]) -> None:
        """The sink is done with these heads up to these ticks: forget what nobody can see any more."""
        if self._parts is not None:
            self._parts.settle_lowest()
        for head, tick in frontiers:
            if tick < self._done.get(head, TICK_END):
                raise PeerProtocolError(f"query {self.query_id} requires done frontiers that rise; got {head}={tick}")
            self._done[head] = tick
            if head in self.backlogs:
                self.backlogs[head].done(tick)
        if self._parts is not None:
            self._parts.on_done(self._done)

    @property
    def complete(self) -> bool:
        """Whether the sink is done with every head for good."""
        return self.started and all(tick == TICK_END for tick in self._done.values())

    # -- the desk -----------------------------------------------------------------------------

    def run(self, op: Op) -> None:
        self._out.append(RunOp(self._next_op(), self.query_id, op))

    def ask(self, question: Question, then: Then) -> None:
        op_id = self._next_op()
        self._asked[op_id] = then
        self._out.append(RunOp(op_id, self.query_id, question))

    def send(self, peer: str, message: Shipment | Rows) -> None:
        if self.lingering and not isinstance(message, Sync | ReplicaSync | Fetch | Fetched):
            return
        size = payload_bytes(message)
        if size > self.limits.shipment_bytes_max:
            raise ShipmentTooLargeError(
                f"{type(message).__name__} requires at most {self.limits.shipment_bytes_max} bytes; got {size}: "
                f"a smaller tau or window makes smaller batches"
            )
        self._out.append(Send(peer, message))


def _matchable(walk: Walk, keys: list[pa.Array]) -> Walk:
    """The walk without the rows that have a null in a key: null equals nothing."""
    mask = usable(keys)
    return walk if mask is None else walk.narrowed(take_batch(walk.rows, np.flatnonzero(mask)))
