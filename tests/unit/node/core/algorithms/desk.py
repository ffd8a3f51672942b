"""The two halves of one step, a at ash and b at bow, each at a desk that keeps what it is asked until the test acts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from node.core.algorithms import destination_half, source_half
from node.core.algorithms.half import Half, HalfSite, Joinable
from node.core.arrangements.copies.copy import OwnedCopy
from node.core.arrangements.copies.full_copy import FullHolder, FullOwner
from node.core.arrangements.copies.key_copy import KeysHolder, KeysOwner
from node.core.arrangements.copies.mixed_copy import MixedHolder, MixedOwner
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.arrangements.gate import FrontierGate, Gate
from node.core.arrangements.reach import reach_of
from node.core.arrangements.table import RowTable
from node.core.encoding.rows import decode_rows
from node.core.engine import TS, Find, Probe
from node.core.limits import Limits
from node.core.links.messages import AskMatches, Carry, Fetch, Fetched, StepMessage, Sync, TupleAnswer
from node.core.queries.shape import StepShape, shape_of
from node.core.queries.waiting import Stage, Waiting, Walk
from node.core.streams.ticks import Span
from node.core.streams.view import SealedRows
from planner.algorithms.descriptions import Algorithm, CopyKind
from planner.model.copies import copy_of
from planner.model.plans import forced_plan
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.unit.node.core.arrangements.kit import SCHEMA, TAU, EngineWork, Tuple, array, lease, rows_of

STREAMS = {name: StreamInfo(name, site, SCHEMA, "ts", TimeUnit.MS) for name, site in (("l", "ash"), ("r", "bow"))}


@dataclass
class Desk:
    """A query at one site, as its halves see it."""

    work: EngineWork
    gate: Gate = field(default_factory=FrontierGate)
    limits: Limits = field(default_factory=Limits)
    query_id: str = "q1"
    now: int = 0
    sent: deque[tuple[str, Any]] = field(default_factory=deque)
    advanced: list[Walk] = field(default_factory=list)
    owner: ReducedOwner | None = None

    def now_us(self) -> int:
        return self.now

    def ask(self, question: Probe | Find, waiting: Waiting) -> int:
        return self.work.ask(question, waiting)

    def send(self, peer: str, message: StepMessage) -> None:
        self.sent.append((peer, message))

    def fetch(self, step: StepShape, message: Fetch) -> None:
        self.sent.append((step.owner, message))

    def advance(self, walk: Walk) -> None:
        self.advanced.append(walk)

    def carried(self, message: Carry, step: StepShape) -> Walk:
        rows = decode_rows(message.rows, step.carry_schema)
        return Walk(message.query_id, 1, message.head, message.span, message.sealed_at_us, message.step, rows)

    def check_times(self, message: AskMatches) -> None:
        assert message.low_ts <= message.high_ts

    def reduced_owner(self, peer: str, copy: int) -> ReducedOwner | None:
        return self.owner if copy == 1 else None


class Step:
    """Head a looks into b: what ash has of r, what bow has, and the halves of the step."""

    def __init__(self, algorithm: Algorithm, window: str = "RANGE 30 MS", where: str = "", gate: Any = None) -> None:
        text = f"SELECT a.n AS an, b.n AS bn FROM l [{window}] AS a JOIN r [{window}] AS b ON a.key = b.key" + (
            f" WHERE {where}" if where else ""
        )
        query = parse_query(text, STREAMS)
        shape = shape_of(forced_plan(query, "ash", {"a": algorithm, "b": Algorithm.SP_D}))
        (self.step,) = shape.steps["a"]
        self.ash, self.bow = Desk(EngineWork()), Desk(EngineWork())
        if gate is not None:
            self.ash.gate, self.bow.gate = gate(), gate()
        reach = reach_of(query, "b", TAU)
        self.lease = lease("q1", reach, first_tick=0, done=0)
        self.table = RowTable(self.bow.work, "r", "r", SCHEMA, TAU, 0)
        self.table.lease(self.lease)
        self.owner: OwnedCopy | None = None
        self.copy: FullHolder | ReducedHolder | KeysHolder | MixedHolder | None = None
        self.copy_lease = self.lease
        need = shape.need_of(self.step)
        if need is not None:
            self._open(copy_of(query, need.kind, "b", need.keys, "ash"))
        self.source: Half = source_half(HalfSite(self.ash, self._at_ash(), self.copy_lease), self.step)
        self.destination = destination_half(HalfSite(self.bow, self.table, self.lease), self.step)
        self.tuples: list[Tuple] = []

    def _open(self, spec: Any) -> None:
        work = self.ash.work
        match spec.kind:
            case CopyKind.FULL:
                owner = FullOwner("ash", 1, spec, SCHEMA, TAU, 0)
                self.owner, self.copy = owner, FullHolder(work, 1, spec, SCHEMA, TAU, 0)
                owner.add(("q1", 0), spec, self.copy.on_portion)
            case CopyKind.REDUCED:
                self.owner = self.bow.owner = ReducedOwner("ash", 1, spec, TAU, 0)
                self.owner.users["q1"] = 0
                self.copy = ReducedHolder(work, 1, spec, SCHEMA, TAU, 0)
            case CopyKind.KEYS:
                self.owner = KeysOwner("ash", 1, spec, SCHEMA, TAU, 0)
                self.copy = KeysHolder(1, spec, SCHEMA, TAU, 0)
            case CopyKind.MIXED:
                self.owner = MixedOwner("ash", 1, spec, SCHEMA, TAU, 0)
                self.copy = MixedHolder(work, 1, spec, SCHEMA, TAU, 0)
        self.owner.leases.append(self.lease)  # type: ignore[union-attr]
        self.copy_lease = lease("q1", self.lease.reach, first_tick=0, done=0, columns=spec.columns)
        self.copy.lease(self.copy_lease)  # type: ignore[union-attr]

    def _at_ash(self) -> Joinable | KeysHolder | None:
        return self.copy.table if isinstance(self.copy, FullHolder) else self.copy

    # -- what happens -------------------------------------------------------------------------

    def batch(self, ticks: int, *tuples: Tuple, sync: bool = True) -> list[Sync]:
        """The stream has the next batch: bow's table takes it, and ash's copy unless the sync takes its time."""
        first, begin = len(self.tuples), self.table.frontier
        self.tuples += tuples
        times = array([ts for ts, _ in tuples])
        sealed = SealedRows("r", Span(begin, begin + ticks), rows_of(tuples, first), times, first, 0)
        self.table.take(sealed)
        syncs: list[Sync] = []
        if self.owner is not None:
            self.owner.take(sealed, syncs.append)  # type: ignore[attr-defined]
            self._opened(self.destination, self.owner.progress.release())
        self._opened(self.destination, self.table.progress.release())
        if sync:
            self.sync(*syncs)
        return syncs

    def sync(self, *syncs: Sync) -> None:
        for message in syncs:
            assert self.copy is not None
            if isinstance(self.copy, FullHolder):
                assert self.copy.on_batch(message) == []
            self.copy.on_sync(message)
            self._opened(self.source, self.copy.progress.release())

    @staticmethod
    def _opened(half: Half | None, woken: list[Waiting]) -> None:
        for waiting in woken:
            assert half is not None
            half.opened(waiting)

    def walk(self, tick: int, *rows: Tuple) -> Walk:
        """Rows of head a at (offset in its tick, key), given to the half at ash."""
        columns = [[tick * TAU + at for at, _ in rows], [key for _, key in rows], list(range(len(rows)))]
        arrays = [pa.array(column, pa.int64()) for column in columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.step.carry_schema)
        walk = Walk("q1", 1, "a", Span(tick, tick + 1), 7, 0, batch)
        self.source.arrive(walk)
        return walk

    def up(self) -> Any:
        """The next message arrives at bow."""
        peer, message = self.ash.sent.popleft()
        assert peer == "bow"
        if isinstance(message, Fetch):
            assert isinstance(self.owner, MixedOwner)
            sought = self.owner.find(message)
            rows = None
            if sought is not None:
                (rows,) = self.bow.work.engine.run([sought.find_in("r", sought.low)])
            self.bow.sent.append(("ash", self.owner.found(rows)))
        else:
            assert self.destination is not None
            self.destination.on_message("ash", message)
        return message

    def down(self) -> Any:
        """The next message arrives at ash."""
        peer, message = self.bow.sent.popleft()
        assert peer == "ash"
        if isinstance(message, Fetched):
            assert isinstance(self.copy, MixedHolder)
            for waiting in self.copy.on_fetched(message):
                assert waiting.stage is Stage.FETCH
                self.source.fetched(waiting)
        else:
            if isinstance(message, TupleAnswer):
                assert isinstance(self.copy, ReducedHolder)
                self.copy.take(self.copy.decode(message.rows))
            self.source.on_message("bow", message)
        return message

    def answer(self, site: str) -> Waiting:
        """The engine of a site answers its oldest question."""
        desk, half = (self.ash, self.source) if site == "ash" else (self.bow, self.destination)
        op_id, asker, rows = desk.work.answer()
        self.table.unhold(op_id)
        assert isinstance(asker, Waiting)
        assert half is not None
        half.answered(asker, rows)
        return asker

    def settle(self) -> None:
        while self.ash.sent or self.bow.sent or self.ash.work.answers or self.bow.work.answers:
            if self.ash.sent:
                self.up()
            elif self.bow.work.answers:
                self.answer("bow")
            elif self.bow.sent:
                self.down()
            else:
                self.answer("ash")

    # -- what came of it ----------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """Questions to either engine that are not answered."""
        return len(self.ash.work.answers) + len(self.bow.work.answers)

    def ended(self) -> dict[int, list[tuple[int, int]]]:
        """By tick: (row, tuple) of the walks that have done the step, wherever."""
        found = {}
        for walk in [*self.ash.advanced, *self.bow.advanced]:
            rows = walk.rows.to_pylist()
            assert walk.span.first not in found, "a walk goes on once"
            assert walk.step == (1 if rows else walk.step)
            found[walk.span.first] = sorted((row["a.n"], row["b.n"]) for row in rows)
        return found

    def expected(self, walk: Walk, passes: Any = lambda key, row: True) -> list[tuple[int, int]]:
        """What docs/sql.md says a walk sees; at equal times a is before b, so b is not seen."""
        found = []
        for row in walk.rows.to_pylist():
            ts = row[TS]
            before = [n for n, (at, key) in enumerate(self.tuples) if at < ts and passes(key, row)]
            count, length = self.lease.reach.count, self.lease.reach.length
            window = before[-count:] if count is not None else [n for n in before if self.tuples[n][0] >= ts - length]
            found += [(row["a.n"], n) for n in window if self.tuples[n][1] == row["a.key"]]
        return sorted(found)
