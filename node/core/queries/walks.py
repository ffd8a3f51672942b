"""The walks of one query at one site: given to the half that does their next step, woken, and told to the sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from node.core.algorithms import destination_half, source_half
from node.core.algorithms.half import Half, HalfSite
from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.gate import Gate
from node.core.encoding.payload import take_batch
from node.core.encoding.rows import decode_rows, empty_batch, encode_rows
from node.core.engine import TS, Find, Probe
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.keys.keycodes import usable
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose
from node.core.links.messages import AskMatches, Carry, Fetch, Rows, StepMessage, payload_bytes
from node.core.links.outbox import Outbox, too_large
from node.core.queries.leases import QueryLeases
from node.core.queries.news import Endings
from node.core.queries.run_counts import RunCounts
from node.core.queries.shape import Shape, StepShape
from node.core.queries.waiting import Stage, Waiting, Walk
from node.core.streams.ticks import Span, tick_start
from node.core.work import Work


class ShipmentTooLargeError(QueryFailedError):
    """A batch, or what became of it, is more than a link takes in one message."""


class Walks:
    """What the halves of the algorithms see of it is ``Desk``."""

    def __init__(
        self,
        query_id: str,
        generation: int,
        shape: Shape,
        sink: str,
        tau: int,
        gate: Gate,
        limits: Limits,
        outbox: Outbox,
        work: Work,
        arrangements: Arrangements,
        leases: QueryLeases,
        counts: RunCounts,
        store: Callable[[Walk], None],
    ) -> None:
        """``tau`` is in the query's unit; ``store`` takes the walks that end here, at the sink."""
        self.query_id = query_id
        self.generation = generation
        self.gate = gate
        self.limits = limits
        #: Walks that ended here without rows, elsewhere than at the sink, which is told some time.
        self.endings = Endings()
        self._shape = shape
        self._sink = sink
        self._tau = tau
        self._outbox = outbox
        self._work = work
        self._arrangements = arrangements
        self._counts = counts
        self._store = store
        site = outbox.site
        self._sources: dict[tuple[str, int], Half] = {}
        self._destinations: dict[tuple[str, int], Half] = {}
        for step in shape.all_steps:
            if site not in (step.source, step.owner):
                continue
            here = HalfSite(self, *leases.window_of(step))
            if step.source == site:
                self._sources[step.head, step.number] = source_half(here, step)
            elif (half := destination_half(here, step)) is not None:
                self._destinations[step.head, step.number] = half

    @property
    def waiting(self) -> list[Waiting]:
        """Walks that wait for another site, or for the clock."""
        halves = [*self._sources.values(), *self._destinations.values()]
        return [*self.gate.waiting, *(waiting for half in halves for waiting in half.waiting)]

    # -- a walk goes on -----------------------------------------------------------------------

    def advance(self, walk: Walk) -> None:
        """Give a walk to its next step, or to the sink."""
        steps = self._shape.steps[walk.head]
        self._counts.on_walk(walk)
        if walk.rows.num_rows and walk.step < len(steps):
            walk = _matchable(walk, steps[walk.step].keys_of(walk.rows))
        if walk.rows.num_rows == 0 or walk.step == len(steps):
            self._finish(walk)
        else:
            self._sources[walk.head, walk.step].arrive(walk)

    def _finish(self, walk: Walk) -> None:
        at_sink = self._sink == self._outbox.site
        if not at_sink and not walk.rows.num_rows:
            self.endings.add(walk, self._outbox.now_us)
            return
        rows = self._shape.output(walk.rows) if walk.rows.num_rows else empty_batch(self._shape.output_schema)
        if at_sink:
            self._store(replace(walk, rows=rows))
        else:
            self._send(self._sink, Rows(self.query_id, walk.head, walk.span, walk.sealed_at_us, encode_rows(rows)))

    def tell_endings(self, riding: bool, reading_waits: Callable[[str], bool]) -> None:
        """Tell the sink of walks that ended without rows, if that costs little or somebody waits for it."""
        endings = self.endings
        waits = any(reading_waits(head) for head in endings.heads())
        if riding or waits or endings.due(self.limits, self._outbox.now_us):
            for ending in endings.take():
                self._send(self._sink, Rows(self.query_id, ending.head, ending.span, ending.sealed_at_us, b""))

    def wake(self, waiting: Waiting) -> None:
        """What a walk waited for has happened."""
        half = self._half(waiting)
        if waiting.stage is Stage.FETCH:
            half.fetched(waiting)
        else:
            self.gate.passed(waiting)
            half.opened(waiting)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        """The engine answered."""
        self._half(waiting).answered(waiting, rows)

    def _half(self, waiting: Waiting) -> Half:
        halves = self._sources if waiting.at_source else self._destinations
        return halves[waiting.walk.head, waiting.walk.step]

    def on_clock(self) -> None:
        """Time passed."""
        for waiting in self.gate.due(self._outbox.now_us):
            self._half(waiting).opened(waiting)

    def on_done(self, done: dict[str, int]) -> None:
        """The sink is done with these heads up to these ticks."""
        for (head, _), half in (*self._sources.items(), *self._destinations.items()):
            half.on_done(done[head])

    # -- messages -----------------------------------------------------------------------------

    def on_message(self, peer: str, message: StepMessage) -> None:
        """The other half of a step says something."""
        place = (message.head, message.step)
        asks = isinstance(message, Carry | AskMatches)
        half = (self._destinations if asks else self._sources).get(place)
        if half is None or peer != half.other_site:
            what = f"{type(message).__name__} for {message.head!r} step {message.step} from {peer}"
            raise PeerProtocolError(f"query {self.query_id} requires a step that is done between us; got {what}")
        half.on_message(peer, message)

    def carried(self, message: Carry, step: StepShape) -> Walk:
        """The walk that comes for a step."""
        rows = decode_rows(message.rows, step.carry_schema)
        if rows.num_rows == 0:
            raise PeerProtocolError(f"query {self.query_id} requires a carry with rows; got none from {message.head!r}")
        ts = rows.column(TS)
        if ts.null_count:
            raise PeerProtocolError(f"query {self.query_id} requires an event time in every row; got rows without")
        times = ts.to_numpy()
        self._check_within(int(times.min()), int(times.max()), message.span)
        span, sealed_at_us = message.span, message.sealed_at_us
        return Walk(self.query_id, self.generation, message.head, span, sealed_at_us, message.step, rows)

    def check_times(self, message: AskMatches) -> None:
        if message.low_ts > message.high_ts:
            raise PeerProtocolError(f"query {self.query_id} requires times in order; got {message.span} without")
        self._check_within(message.low_ts, message.high_ts, message.span)

    def _check_within(self, low_ts: int, high_ts: int, span: Span) -> None:
        """Rows of a batch have times in its ticks; windows rely on it."""
        if low_ts < tick_start(span.first, self._tau) or high_ts >= tick_start(span.end, self._tau):
            raise PeerProtocolError(f"query {self.query_id} requires times within {span}; got {low_ts} to {high_ts}")

    # -- the desk -----------------------------------------------------------------------------

    def now_us(self) -> int:
        return self._outbox.now_us

    def ask(self, question: Probe | Find, waiting: Waiting) -> int:
        return self._work.ask(question, waiting)

    def send(self, peer: str, message: StepMessage) -> None:
        self._send(peer, message)

    def fetch(self, step: StepShape, message: Fetch) -> None:
        need = self._shape.need_of(step)
        self._outbox.send(
            step.owner, message, Cause(self.query_id, Purpose.COPY, "", -1 if need is None else need.number)
        )

    def _send(self, peer: str, message: StepMessage | Rows) -> None:
        size = payload_bytes(message)
        if size > self.limits.shipment_bytes_max:
            raise ShipmentTooLargeError(too_large(message, size, self.limits))
        self._outbox.send(peer, message)

    def reduced_owner(self, peer: str, copy: int) -> ReducedOwner | None:
        owner = self._arrangements.owned.get(peer, copy)
        return owner if isinstance(owner, ReducedOwner) else None


def _matchable(walk: Walk, keys: list[pa.Array]) -> Walk:
    """The walk without the rows that have a null in a key: null equals nothing."""
    mask = usable(keys)
    return walk if mask is None else walk.narrowed(take_batch(walk.rows, np.flatnonzero(mask)))
