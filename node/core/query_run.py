"""What one site does for one query.

Each batch of a local stream (1) goes into the copies of its window, here and,
for SP-S, at other sites, and (2) starts a walk. A walk that reaches a step
whose join is elsewhere (SP-D) moves there; one that has no rows left, or no
steps left, is reported to the sink. Walks never wait for one another: a walk
that is ahead of a window is parked at that window, and the next one goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from node.core.effects import Effect, RunOp, Send
from node.core.engine import TS, Append, CloseWindow, Expire, Op, OpenWindow, Probe
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.limits import Limits
from node.core.messages import Carry, Rows, Sync
from node.core.rows import decode_rows, empty_batch, encode_rows, encoded_size
from node.core.sealer import Batch
from node.core.ticks import TICK_END, TICK_MIN, Span, tick_start
from node.core.view import View, view_schema
from node.core.walk import Shape, StepShape, Walk, shape_of
from node.core.window import WindowState
from planner.model import Plan


class ShipmentTooLargeError(QueryFailedError):
    """A batch, or what became of it, is more than a link takes in one message."""


@dataclass
class Backlog:
    """Batches of one local stream that are sealed and not done: what look-ahead is measured by."""

    batches: deque[tuple[int, int]]
    nbytes: int = 0

    def add(self, end: int, nbytes: int) -> None:
        self.batches.append((end, nbytes))
        self.nbytes += nbytes

    def done(self, frontier: int) -> None:
        while self.batches and self.batches[0][0] <= frontier:
            self.nbytes -= self.batches.popleft()[1]


class QueryRun:
    """A query at a site that takes part in it."""

    def __init__(
        self, query_id: str, plan: Plan, site: str, tau_ms: int, limits: Limits, next_op: Callable[[], int]
    ) -> None:
        self.query_id = query_id
        self.plan = plan
        self.started = False
        self.shape: Shape = shape_of(plan)
        self._site = site
        self._tau_ms = tau_ms
        self._limits = limits
        self._tau = tau_ms * plan.query.unit
        self._next_op = next_op
        self._views: dict[str, View] = {}
        self._early: list[tuple[str, Batch, int]] = []
        self._early_messages: list[Sync | Carry] = []
        self._windows: dict[str, WindowState[Walk]] = {}
        self._probing: dict[int, Walk] = {}
        self._done: dict[str, int] = {}
        self._out: list[Effect] = []
        self._first_tick = TICK_MIN
        #: Walks that ended here, at the sink: nothing to send.
        self.finished: list[Walk] = []
        self.backlogs = {alias: Backlog(deque()) for alias in self.local_aliases}
        #: What shipping every tuple of the local streams to the sink would have cost, in encoded bytes.
        self.ship_all_bytes = dict.fromkeys(self.local_aliases, 0)
        self.rows_in = dict.fromkeys(self.local_aliases, 0)

    @property
    def local_aliases(self) -> tuple[str, ...]:
        return tuple(ref.alias for ref in self.plan.query.streams if ref.stream.site == self._site)

    @property
    def window_states(self) -> tuple[WindowState[Walk], ...]:
        return tuple(self._windows.values())

    def take_effects(self) -> list[Effect]:
        """What has to be done since the last call."""
        out, self._out = self._out, []
        return out

    # -- life ---------------------------------------------------------------------------------

    def start(self, tick: int) -> None:
        """Begin with the tuples from ``tick`` on, those that were sealed since Prepare included."""
        if self.started:
            raise PeerProtocolError(f"query {self.query_id} requires one start; got a second")
        self.started = True
        self._first_tick = tick
        self._done = dict.fromkeys(self.plan.query.aliases, tick)
        for alias in self.local_aliases:
            self._views[alias] = View(self.plan.query, alias, self._tau_ms, tick)
        for step in self._local_steps():
            self._open_window(step, tick)
        early, self._early = self._early, []
        for alias, batch, sealed_at_us in early:
            self.on_batch(alias, batch, sealed_at_us)
        messages, self._early_messages = self._early_messages, []
        for message in messages:
            self.on_shipment(message)

    def _local_steps(self) -> list[StepShape]:
        return [step for steps in self.shape.steps.values() for step in steps if step.hop.site == self._site]

    def _open_window(self, step: StepShape, tick: int) -> None:
        if step.window_name in self._windows:
            return
        query, alias = self.plan.query, step.hop.alias
        window_id = f"{self.query_id}/{step.window_name}"
        length = query.ref(alias).window.length(query.unit)
        self._windows[step.window_name] = WindowState(window_id, alias, self._tau, length, tick)
        self._run(OpenWindow(window_id, view_schema(query, alias), step.window_keys))

    def close(self) -> None:
        """Forget everything the engine holds for the query."""
        for window in self._windows.values():
            self._run(CloseWindow(window.window_id))
        self._windows.clear()
        self._probing.clear()

    # -- batches ------------------------------------------------------------------------------

    def on_batch(self, alias: str, batch: Batch, now_us: int) -> None:
        """A local stream sealed a batch."""
        if not self.started:
            self._early.append((alias, batch, now_us))
            return
        if batch.span.end <= self._first_tick:
            return
        span = Span(max(batch.span.first, self._first_tick), batch.span.end)
        rows = self._views[alias].rows(batch)
        self._count(alias, span, rows)
        self._feed_windows(alias, span, rows)
        for site in self._copy_sites(alias):
            self._send(site, Sync(self.query_id, alias, span, encode_rows(rows)))
        self._advance(Walk(alias, span, now_us, 0, rows))

    def _count(self, alias: str, span: Span, rows: pa.RecordBatch) -> None:
        self.backlogs[alias].add(span.end, rows.nbytes)
        self.rows_in[alias] += rows.num_rows
        if self._site != self.plan.sink:
            self.ship_all_bytes[alias] += encoded_size(rows)

    def _copy_sites(self, alias: str) -> tuple[str, ...]:
        """Other sites that keep a full copy of this stream's window."""
        steps = (step for steps in self.shape.steps.values() for step in steps)
        return tuple(
            sorted({step.hop.site for step in steps if step.hop.alias == alias and step.hop.site != self._site})
        )

    def _feed_windows(self, alias: str, span: Span, rows: pa.RecordBatch) -> None:
        for window in [window for window in self._windows.values() if window.alias == alias]:
            window.sealed(span)
            if rows.num_rows:
                self._run(Append(window.window_id, rows))
            for walk in window.release():
                self._probe(walk)

    # -- walks --------------------------------------------------------------------------------

    def _advance(self, walk: Walk) -> None:
        steps = self.shape.steps[walk.head]
        if walk.rows.num_rows == 0 or walk.step == len(steps):
            self._finish(walk)
            return
        site = steps[walk.step].hop.site
        if site == self._site:
            self._arrive(walk)
        else:
            rows = encode_rows(walk.rows)
            self._send(site, Carry(self.query_id, walk.head, walk.span, walk.step, walk.sealed_at_us, rows))

    def _arrive(self, walk: Walk) -> None:
        window = self._windows[self._step(walk).window_name]
        newest_ts = walk.newest_ts
        if window.covers(newest_ts):
            self._probe(walk)
        else:
            window.park(newest_ts, walk)

    def _step(self, walk: Walk) -> StepShape:
        return self.shape.steps[walk.head][walk.step]

    def _probe(self, walk: Walk) -> None:
        step = self._step(walk)
        window = self._windows[step.window_name]
        probe = Probe(window.window_id, walk.rows, step.carry_keys, window.length, step.include_ties)
        self._probing[self._run(probe)] = walk

    def on_probe_finished(self, op_id: int, rows: pa.RecordBatch) -> None:
        """The engine answered; a probe of a query that was dropped meanwhile is nobody's."""
        walk = self._probing.pop(op_id, None)
        if walk is not None:
            self._advance(walk.joined(rows))

    def _finish(self, walk: Walk) -> None:
        rows = self.shape.output(walk.rows) if walk.rows.num_rows else empty_batch(self.shape.output_schema)
        if self.plan.sink == self._site:
            self.finished.append(replace(walk, rows=rows))
        else:
            message = Rows(self.query_id, walk.head, walk.span, walk.sealed_at_us, encode_rows(rows))
            self._send(self.plan.sink, message)

    # -- messages -----------------------------------------------------------------------------

    def on_shipment(self, message: Sync | Carry) -> None:
        """Tuples from another site. It may have heard of the start before us: then they wait."""
        if not self.started:
            self._early_messages.append(message)
        elif isinstance(message, Sync):
            self._on_sync(message)
        else:
            self._on_carry(message)

    def _on_sync(self, message: Sync) -> None:
        """A batch for a copy of another site's window."""
        if message.alias not in [window.alias for window in self._windows.values()]:
            raise PeerProtocolError(f"query {self.query_id} requires no copy of {message.alias!r} here; got one")
        rows = decode_rows(message.rows, view_schema(self.plan.query, message.alias))
        self._check_times(rows, message.span, ascending=True)
        self._feed_windows(message.alias, message.span, rows)

    def _on_carry(self, message: Carry) -> None:
        """A walk of another site's head comes here for its next step."""
        steps = self.shape.steps.get(message.head, ())
        if not 0 <= message.step < len(steps) or steps[message.step].hop.site != self._site:
            raise PeerProtocolError(
                f"query {self.query_id} requires a step that is done here; got {message.head!r} step {message.step}"
            )
        rows = decode_rows(message.rows, steps[message.step].carry_schema)
        if rows.num_rows == 0:
            raise PeerProtocolError(f"query {self.query_id} requires a carry with rows; got none from {message.head!r}")
        self._check_times(rows, message.span, ascending=False)
        self._arrive(Walk(message.head, message.span, message.sealed_at_us, message.step, rows))

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
        """Batches that wait for the start."""
        return len(self._early)

    def decode_results(self, data: bytes) -> pa.RecordBatch:
        """Result rows of this query from a peer's bytes."""
        return decode_rows(data, self.shape.output_schema)

    def on_done(self, frontiers: tuple[tuple[str, int], ...]) -> None:
        """The sink is done with these heads up to these ticks: forget what nobody can see any more."""
        for head, tick in frontiers:
            if tick < self._done.get(head, TICK_END):
                raise PeerProtocolError(f"query {self.query_id} requires done frontiers that rise; got {head}={tick}")
            self._done[head] = tick
            if head in self.backlogs:
                self.backlogs[head].done(tick)
        for window in self._windows.values():
            others = [tick for head, tick in self._done.items() if head != window.alias]
            before = window.expire_before(min(others, default=TICK_MIN))
            if before is not None:
                self._run(Expire(window.window_id, before))

    @property
    def complete(self) -> bool:
        """Whether the sink is done with every head for good."""
        return self.started and all(tick == TICK_END for tick in self._done.values())

    # -- effects ------------------------------------------------------------------------------

    def _run(self, op: Op) -> int:
        op_id = self._next_op()
        self._out.append(RunOp(op_id, self.query_id, op))
        return op_id

    def _send(self, peer: str, message: Sync | Carry | Rows) -> None:
        if len(message.rows) > self._limits.shipment_bytes_max:
            raise ShipmentTooLargeError(
                f"{type(message).__name__} of ticks {message.span} requires at most {self._limits.shipment_bytes_max} "
                f"bytes; got {len(message.rows)}: a smaller tau or window makes smaller batches"
            )
        self._out.append(Send(peer, message))
