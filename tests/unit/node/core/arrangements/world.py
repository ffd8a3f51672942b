"""Stream ``r`` at bow and what ash holds of it: two sites' arrangements wired through their messages alone.

The test says when queries are prepared, started, done and ended, and when messages, answers and pieces of the log
arrive. The stream is known as a list besides, and every copy is compared with its definition (DESIGN section 4).
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.copy import HeldCopy, with_times
from node.core.arrangements.copies.full_copy import FullHolder, FullOwner
from node.core.arrangements.copies.held_copies import Wanted
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.copies.portions import PASSES, Portion, Portions
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.arrangements.lease import Lease
from node.core.arrangements.reach import Reach
from node.core.arrangements.table import RowTable
from node.core.effects import AskReceipt, ReadLog, Send, TrimLog
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.engine import POSITION, Find
from node.core.events import LinkMeasured
from node.core.limits import Limits
from node.core.links.messages import (
    CloseCopy,
    DropPortion,
    Fetch,
    Fetched,
    LeaseCopy,
    Level,
    Message,
    OpenCopy,
    SetPortion,
    Sync,
    TupleAnswer,
)
from node.core.links.outbox import Outbox
from node.core.queries.shape import CopyNeed
from node.core.streams.sealer import Batch
from node.core.streams.stream import LocalStream, StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.core.work import FetchAnswer
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.query import Expr, StreamInfo
from planner.model.time_unit import TimeUnit
from tests.expressions import rows_that_hold
from tests.unit.node.core.arrangements.kit import (
    KEYS,
    SCHEMA,
    STREAM,
    TAU,
    EngineWork,
    Tuple,
    array,
    lease,
    rows_of,
    waiting,
)

INFO = StreamInfo(STREAM, "bow", SCHEMA, "ts", TimeUnit.MS)
COLUMNS = ("key", "n")
#: From this length on, or from so many tuples on, a query needs all columns of a full copy.
LONG = 40


def spec_of(kind: CopyKind, of: Reach) -> RunningCopy:
    """The copy that a query with this reach needs; of W' of a time window nobody's filter decides.

    Queries with longer windows need the times in full copies too, so that not all portions have the same columns.
    """
    asked_only = kind is CopyKind.REDUCED and of.count is None
    columns = KEYS if kind is CopyKind.KEYS else COLUMNS
    if kind is CopyKind.FULL and (of.length or of.count or 0) >= LONG:
        columns = tuple(SCHEMA.names)
    axis = CopyAxis.TIME if of.count is None else CopyAxis.ROWS
    keys = () if kind is CopyKind.FULL else KEYS
    return RunningCopy(kind, STREAM, keys, columns, None if asked_only else of.filter, axis, "bow", "ash")


@dataclass
class Query:
    """A query whose walks look from ash into r."""

    query_id: str
    kind: CopyKind
    reach: Reach
    prepared_at: int
    private: bool = False
    first_tick: int | None = None
    #: What home knows to be done; the sites hear of it some time.
    done: int = TICK_MIN
    table: RowTable | None = None
    table_lease: Lease | None = None
    claim: Lease | None = None
    copy: HeldCopy | None = None
    copy_lease: Lease | None = None
    #: Copies that ash holds for it since Prepare, with their leases, and how far they were sealed then.
    candidates: dict[int, tuple[HeldCopy, Lease, int]] = field(default_factory=dict)
    #: Ticks of walks that wait for an answer: they are not done.
    asking: Counter[int] = field(default_factory=Counter)


class World:
    """Both sites, and everything that is under way between them."""

    def __init__(self, native: bool = False, retain_ms: int = 0, limits: Limits | None = None) -> None:
        self.stream = StreamState(LocalStream(INFO, retain_ms=retain_ms), TAU)
        self.stream.fed = 0
        self.works = {"bow": EngineWork(native), "ash": EngineWork(native)}
        self.outboxes = {name: Outbox(name) for name in self.works}
        self.bow = Arrangements({STREAM: self.stream}, self.works["bow"], self.outboxes["bow"], limits or Limits())
        self.ash = Arrangements({}, self.works["ash"], self.outboxes["ash"], Limits())
        self.tuples: list[Tuple] = []
        self.log: list[Batch] = []
        self.trimmed = TICK_MIN
        #: Copies of which bow said that they have caught up.
        self.levels: list[int] = []
        #: Whom bow asked what has arrived, and what is on its way to ash as far as bow knows.
        self.asked: list[str] = []
        self.backlog = 0
        self.mail: dict[str, deque[Message]] = {"bow": deque(), "ash": deque()}
        self.reads: deque[ReadLog] = deque()
        self.asks: deque[tuple[Query, int, list[int]]] = deque()
        self.queries: dict[str, Query] = {}
        self.sent: Counter[tuple[int, int]] = Counter()
        self.arrived: dict[int, set[int]] = {}
        #: Of full copies: the portions that ash was told of, as far as messages were sent, and where the last one ends.
        self.portions: dict[int, Portions] = {}
        self.sent_to: dict[int, int] = {}
        self.lost: dict[str, str] = {}
        self.woken: list[Any] = []
        self.ignored: list[Any] = []

    # -- at bow -------------------------------------------------------------------------------

    def batch(self, ticks: int, *tuples: Tuple) -> None:
        """The stream has the next batch, sealed and logged."""
        begin, first = self.stream.fed, len(self.tuples)
        end = TICK_END if ticks >= TICK_END else begin + ticks
        ordered = sorted(tuples, key=lambda one: one[0])
        batch = Batch(Span(begin, end), rows_of(ordered, first), array([ts for ts, _ in ordered]), first)
        self.tuples += ordered
        self.log.append(batch)
        self.bow.on_batch(self.stream.rows_of(batch, 0))
        self.turn("bow")

    def read(self, batches: int = 1) -> None:
        """A piece of the log was read."""
        read = self.reads.popleft()
        found = [batch for batch in self.log if batch.span.end > read.tick][:batches]
        self.bow.catch_up.on_read(read.reader, tuple(found), 0, lambda table: False)
        self.turn("bow")

    def answer(self) -> None:
        """The engine at bow answers its oldest question."""
        op_id, asker, rows = self.works["bow"].answer()
        self.bow.unhold(op_id)
        assert isinstance(asker, FetchAnswer)
        self.bow.on_found(asker, rows)
        self.turn("bow")

    def turn(self, site: str) -> None:
        """The end of a site's turn: it forgets, reads on, and what it said is under way."""
        arrangements = {"bow": self.bow, "ash": self.ash}[site]
        arrangements.catch_up.send_on()
        arrangements.settle()
        arrangements.catch_up.read_on(lambda table: False)
        for effect in self.outboxes[site].take_effects():
            if isinstance(effect, Send) and isinstance(effect.message, Level):
                # Nothing here looks whether a copy is level before what was sent ahead of this has arrived.
                self.levels.append(effect.message.copy)
            elif isinstance(effect, Send):
                self.mail[effect.peer].append(effect.message)
                self._note(effect.message)
            elif isinstance(effect, ReadLog):
                assert effect.tick >= self.trimmed, "the log has what someone reads"
                self.reads.append(effect)
            elif isinstance(effect, AskReceipt):
                self.asked.append(effect.peer)
            elif isinstance(effect, TrimLog):
                self.trimmed = effect.tick
            else:
                self.ignored.append(effect)

    def _note(self, message: Message) -> None:
        if isinstance(message, SetPortion):
            portion = Portion(message.spec.filter, message.spec.columns)
            self.portions.setdefault(message.copy, Portions(SCHEMA)).put(message.portion, portion)
        elif isinstance(message, DropPortion):
            self.portions[message.copy].drop(message.portion)
        if not isinstance(message, Sync | Fetched | TupleAnswer):
            return
        copy = self.ash.held.get(message.copy)
        owner = self.bow.owned.get("ash", message.copy)
        if isinstance(owner, FullOwner):
            assert isinstance(message, Sync)
            self._note_full(owner, message)
            return
        if not message.rows:
            return
        columns = (copy or owner).spec.columns  # type: ignore[union-attr]
        schema = pa.schema([pa.field("at", pa.int64()), *(SCHEMA.field(name) for name in columns)])
        for number in decode_rows(message.rows, schema).column("n").to_pylist():
            self.sent[message.copy, number] += 1
            assert self.sent[message.copy, number] == 1, "a tuple is shipped twice"

    def _note_full(self, owner: FullOwner, sync: Sync) -> None:
        """A batch of a full copy has what passes some filter, what each tuple is needed for, and nothing else."""
        portions = self.portions.get(sync.copy, Portions(SCHEMA))
        came, count = portions.decode(sync.rows), len(self.tuples)
        first_ts, end_ts = max(owner.first_ts, self.sent_to.get(sync.copy, TICK_MIN)), sync.frontier * TAU
        self.sent_to[sync.copy] = end_ts
        bits, columns = [0] * count, [set[str]() for _ in range(count)]
        for number, each in portions.all.items():
            for n, passes in enumerate(self.passing(each.filter)):
                if passes:
                    bits[n] |= 1 << number
                    columns[n] |= {*each.columns}
        wanted = [n for n, (ts, _) in enumerate(self.tuples) if first_ts <= ts < end_ts and bits[n]]
        assert came.ts.tolist() == [self.tuples[n][0] for n in wanted]
        whole = rows_of(self.tuples).to_pylist()
        assert came.rows.to_pylist() == [
            {name: value if name in columns[n] else None for name, value in whole[n].items()} | {PASSES: bits[n]}
            for n in wanted
        ]

    # -- messages -----------------------------------------------------------------------------

    def down(self) -> Message:
        """The next message arrives at ash."""
        message = self.mail["ash"].popleft()
        match message:
            case Sync():
                fed = self.ash.on_sync("bow", message)
                self.woken += fed.woken
                self.lost |= fed.lost
            case SetPortion() | DropPortion():
                self.lost |= self.ash.on_portion("bow", message).lost
            case Fetched():
                self.woken += self.ash.on_fetched("bow", message)
            case TupleAnswer():
                self._on_tuples(message)
            case _:
                raise AssertionError(message)
        self.turn("ash")
        if self.asked and not self.mail["ash"]:
            self._hear_receipts()
        self.check()
        return message

    def _hear_receipts(self) -> None:
        """Ash has all that was sent, and says so to whom asked: bow may send more."""
        for _ in range(len(self.asked)):
            self.asked.pop()
            self.bow.catch_up.pace.measured(LinkMeasured("ash", 0))
        self.turn("bow")

    def _on_tuples(self, message: TupleAnswer) -> None:
        query = self.queries.get(message.query_id)
        if query is not None:
            query.asking[message.span.first] -= 1
            query.asking += Counter()
        if self.ash.on_tuples("bow", message):
            schema = pa.schema([pa.field("at", pa.int64()), *(SCHEMA.field(name) for name in COLUMNS)])
            found = decode_rows(message.rows, schema).column("n").to_pylist()
            self.arrived.setdefault(message.copy, set()).update(found)

    def up(self) -> Message:
        """The next message arrives at bow."""
        message = self.mail["bow"].popleft()
        match message:
            case OpenCopy():
                self.bow.on_open("ash", message)
            case LeaseCopy():
                self.bow.on_lease("ash", message)
            case CloseCopy():
                self.bow.on_close("ash", message)
            case Fetch():
                self.bow.on_fetch("ash", message)
            case _:
                raise AssertionError(message)
        self.turn("bow")
        return message

    def settle(self) -> None:
        """Everything that is under way arrives."""
        while self.mail["bow"] or self.mail["ash"] or self.reads or self.works["bow"].answers or self.asks:
            if self.mail["bow"]:
                self.up()
            elif self.works["bow"].answers:
                self.answer()
            elif self.reads:
                self.read(2)
            elif self.mail["ash"]:
                self.down()
            elif not self.hear_ask():
                return

    # -- queries ------------------------------------------------------------------------------

    def prepare(self, query_id: str, kind: CopyKind, of: Reach, private: bool = False) -> Query:
        """Bow holds on to what it has, for a query of which nobody knows yet where it begins."""
        query = Query(query_id, kind, of, self.stream.fed, private)
        query.table_lease = lease(query_id, of, first_tick=None, keys=None if kind is CopyKind.FULL else KEYS)
        query.claim = lease(query_id, of, first_tick=None)
        query.table = self.bow.local.live(STREAM)
        query.table.lease(query.table_lease)
        spec = spec_of(kind, of)
        self.bow.owned.claim(CopyNeed(0, kind, "b", spec.keys, "bow", "ash"), spec, query.claim)
        self.queries[query_id] = query
        self._pin(query)
        self.turn("bow")
        return query

    def _pin(self, query: Query) -> None:
        """Have the log keep what the query needs to begin again, as whoever takes part in it does."""
        assert query.table is not None
        assert query.table_lease is not None
        self.bow.pin(query.query_id, {STREAM: query.table.begin_ts(query.table_lease)})

    def start_at_bow(self, query: Query, tick: int) -> None:
        """Bow hears where a query begins; if that is past, the query gets a table out of the log."""
        query.first_tick = query.done = tick
        assert query.table is not None
        assert query.table_lease is not None
        assert query.claim is not None
        if tick < query.prepared_at:
            past = self.bow.local.past(STREAM, tick)
            made = lease(query.query_id, query.reach, first_tick=None, keys=query.table_lease.keys)
            past.lease(made)
            self.bow.release(STREAM, query.table, query.table_lease)
            query.table, query.table_lease = past, made
        for one in (query.table_lease, query.claim):
            one.first_tick = one.done = one.own_done = tick
        self._pin(query)
        self.turn("bow")

    def prepare_at_ash(self, query: Query) -> None:
        """Ash holds on to the copies that may turn out to be right."""
        spec = spec_of(query.kind, query.reach)
        for copy in self.ash.held.candidates(spec):
            held = lease(query.query_id, query.reach, first_tick=None, columns=spec.columns)
            copy.lease(held)
            query.candidates[copy.number] = (copy, held, copy.frontier)
        self.turn("ash")

    def start_at_ash(self, query: Query, tick: int, starts_walks: bool = False) -> None:
        """Ash hears where a query begins, and leases a copy for it."""
        query.first_tick = query.done = tick
        spec = spec_of(query.kind, query.reach)
        query.copy_lease = lease(query.query_id, query.reach, first_tick=tick, done=tick, columns=spec.columns)
        wanted = Wanted(0, spec, INFO, TAU, tick, query.prepared_at, starts_walks, query.private)
        prepared = {number: frontier for number, (_, _, frontier) in query.candidates.items()}
        query.copy = self.ash.held.find(wanted, query.copy_lease, prepared)
        if query.copy is None:
            query.copy = self.ash.held.open(wanted, query.query_id)
        query.copy.lease(query.copy_lease)
        self._let_go(query)
        self.turn("ash")
        self.check()

    def _let_go(self, query: Query) -> None:
        for copy, held, _ in query.candidates.values():
            self.ash.release(STREAM, copy, held)
        query.candidates = {}

    def start(self, query_id: str, kind: CopyKind, of: Reach, tick: int | None = None) -> Query:
        """A query is prepared and started at once, where the stream is, or at a tick of the past."""
        query = self.prepare(query_id, kind, of)
        tick = query.prepared_at if tick is None else tick
        self.start_at_bow(query, tick)
        self.start_at_ash(query, tick)
        return query

    def done_at_bow(self, query: Query) -> None:
        """Bow hears what the sink is done with."""
        assert query.table is not None
        for one in (query.table_lease, query.claim):
            assert one is not None
            if not one.frozen:
                one.done = one.own_done = max(one.done, query.done)
        self._pin(query)
        self.bow.moved(query.table)
        self.bow.moved_at_owner()
        self.turn("bow")

    def done_at_ash(self, query: Query) -> None:
        if query.copy is not None and query.copy_lease is not None:
            query.copy_lease.done = max(query.copy_lease.done, query.done)
            self.ash.moved(query.copy)
            self.turn("ash")
            self.check()

    def end_at_bow(self, query: Query) -> None:
        assert query.table is not None
        assert query.table_lease is not None
        self.bow.release(STREAM, query.table, query.table_lease)
        self.bow.owned.release(query.query_id)
        self.bow.unpin(query.query_id)
        self.turn("bow")

    def end_at_ash(self, query: Query) -> None:
        if query.copy is not None and query.copy_lease is not None:
            self.ash.release(STREAM, query.copy, query.copy_lease)
        query.copy = None
        self._let_go(query)
        self.turn("ash")
        self.check()

    # -- walks of ash look at what is here ----------------------------------------------------

    def want(self, query: Query, *keys: int) -> None:
        """A walk needs the tuples of these keys of M: they are fetched, unless they are here."""
        assert isinstance(query.copy, MixedHolder)
        slots, full = query.copy.slots_of([pa.array(keys, pa.int64())])
        missing = slots[(slots >= 0) & ~full]
        if len(missing):
            fetch = query.copy.fetch(missing, waiting(query.query_id))
            if fetch is not None:
                self.mail["bow"].append(fetch)

    def ask(self, query: Query, tick: int, *keys: int) -> None:
        """A walk of a tick asks bow for the tuples of these keys, for W'."""
        query.asking[tick] += 1
        self.asks.append((query, tick, list(keys)))

    def hear_ask(self) -> bool:
        """Bow hears the oldest question of a walk, if it may answer it, and does."""
        if not self.asks or self.mail["bow"]:
            return False
        query, tick, keys = self.asks[0]
        table, of, copy = query.table, query.table_lease, query.copy
        if copy is None or query.query_id not in self.queries or of is None or of.frozen:
            self.asks.popleft()
            return True
        owner = self.bow.owned.get("ash", copy.number)
        assert isinstance(owner, ReducedOwner)
        assert table is not None
        if min(table.frontier, owner.frontier if owner.spec.axis is CopyAxis.ROWS else TICK_END) <= tick:
            return False
        self.asks.popleft()
        low, high = table.visible(of, tick * TAU, tick * TAU + TAU - 1, include_ties=True)
        wanted = pa.RecordBatch.from_arrays([pa.array(sorted(set(keys)), pa.int64())], names=["key"])
        find = Find(table.name, KEYS, wanted, max(low, table.kept_from), high, STREAM, of.reach.filter, COLUMNS)
        (rows,) = self.works["bow"].engine.run([find])
        assert isinstance(rows, pa.RecordBatch), rows
        numbers = rows.column(POSITION).to_numpy()
        fresh = np.flatnonzero(owner.unsent(numbers))
        tuples = rows.take(pa.array(fresh))
        positions = owner.positions(numbers[fresh], table)
        data = encode_rows(with_times(positions, tuples.select(list(COLUMNS)))) if len(fresh) else b""
        owner.sent(numbers[fresh])
        message = TupleAnswer(query.query_id, "a", Span(tick, tick + 1), 0, copy.number, data)
        self._note(message)
        self.mail["ash"].append(message)
        return True

    # -- the definitions ----------------------------------------------------------------------

    def passing(self, condition: Expr | None) -> list[bool]:
        rows = rows_of(self.tuples).rename_columns([f"{STREAM}.{name}" for name in SCHEMA.names])
        return [True] * len(self.tuples) if condition is None else rows_that_hold(condition, rows)

    def view(self, copy: HeldCopy) -> list[int]:
        """Numbers of the stream's tuples that the copy's view has, up to its frontier."""
        passing, first_ts = self.passing(copy.spec.filter), copy.opened * TAU
        sealed = copy.progress.sealed_ts if copy.spec.kind is not CopyKind.REDUCED else TICK_END
        if copy.spec.axis is CopyAxis.ROWS:
            sealed = copy.progress.sealed_ts
        return [n for n, (ts, _) in enumerate(self.tuples) if passing[n] and first_ts <= ts < sealed]

    def seen(self, of: Lease, ts: int, ties: bool) -> list[int]:
        """Numbers of the tuples that a row at ``ts`` sees (DESIGN section 2), from where its query begins."""
        passing = self.passing(of.reach.filter)
        before = [
            n
            for n, (at, _) in enumerate(self.tuples)
            if passing[n] and at >= of.first_ts and (at < ts or (ties and at == ts))
        ]
        if of.reach.count is not None:
            return before[-of.reach.count :]
        assert of.reach.length is not None
        return [n for n in before if self.tuples[n][0] >= ts - of.reach.length]

    def check(self) -> None:
        """Every copy equals its definition, and every lease finds in it what its rows can see."""
        for copy in self.ash.held.all:
            view = self.view(copy)
            if isinstance(copy, KeysHolder | MixedHolder):
                self._check_keys(copy, view)
            if isinstance(copy, FullHolder) and copy.spec.axis is CopyAxis.TIME:
                for of in copy.leases:
                    self._check_portion(copy, of)
                continue
            if isinstance(copy, FullHolder):
                self._check_full(copy, view)
            if isinstance(copy, MixedHolder):
                self._check_mixed(copy, view)
            if isinstance(copy, ReducedHolder):
                self._check_reduced(copy, view)
            for of in copy.leases:
                self._check_seen(copy, of, view)

    def _position(self, copy: HeldCopy, view: list[int], number: int) -> int:
        by_number = copy.spec.kind is CopyKind.FULL or copy.spec.axis is CopyAxis.ROWS
        return view.index(number) if by_number else self.tuples[number][0]

    def contents(self, copy: HeldCopy) -> list[tuple[int, int]]:
        """(position, number) of the tuples with keys that the engine at ash has for a copy."""
        keys = sorted({key for _, key in self.tuples if key is not None})
        if not keys:
            return []
        wanted = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], names=["key"])
        find = Find(copy.name, KEYS, wanted, TICK_MIN, TICK_END, STREAM, None, ("n",))
        (found,) = self.works["ash"].engine.run([find])
        assert isinstance(found, pa.RecordBatch), found
        return sorted(zip(found.column(POSITION).to_pylist(), found.column("n").to_pylist(), strict=True))

    def _keyed(self, copy: HeldCopy, view: list[int], kept_from: int) -> list[tuple[int, int]]:
        placed = [(self._position(copy, view, n), n) for n in view if self.tuples[n][1] is not None]
        return sorted((at, n) for at, n in placed if at >= kept_from)

    def _check_full(self, copy: FullHolder, view: list[int]) -> None:
        kept_from = copy.table.kept_from
        held = [(at, n) for at, n in self.contents(copy) if at >= kept_from]
        assert held == self._keyed(copy, view, kept_from)

    def _check_portion(self, copy: FullHolder, of: Lease) -> None:
        """A full copy has, of a query's tuples with keys, those that are not forgotten, and a row sees what it must."""
        if of.frozen:
            return
        table = copy.table
        found = [row for row in self._own(copy, of) if row[POSITION] >= table.kept_from]
        held = {row["n"]: row[POSITION] for row in found if self.tuples[row["n"]][0] >= of.first_ts}
        assert len(held) == sum(self.tuples[row["n"]][0] >= of.first_ts for row in found), "each is there once"
        passing, oldest = self.passing(of.reach.filter), table._ordinals.known_from
        first_ts, end_ts = max(of.first_ts, oldest), copy.progress.sealed_ts
        wanted = {
            n for n, (ts, key) in enumerate(self.tuples) if first_ts <= ts < end_ts and passing[n] and key is not None
        }
        assert wanted <= held.keys(), "all that the query can see is there"
        assert all(passing[n] for n in held), "and nothing is taken for its own that does not pass"
        whole = rows_of(self.tuples).to_pylist()
        for row in found:
            if row["n"] in held:
                assert {name: row[name] for name in of.columns} == {name: whole[row["n"]][name] for name in of.columns}
                assert table.times_of(array([row[POSITION]])).tolist() == [self.tuples[row["n"]][0]]
        query = self.queries.get(of.query_id)
        if query is None or query.done >= TICK_END:
            return
        for ts in range(query.done * TAU, min(copy.progress.sealed_ts, query.done * TAU + 50), 3):
            for ties in (False, True):
                low, high = (int(bound[0]) for bound in table.bounds(of, array([ts]), ties))
                seen = [n for n in self.seen(of, ts, ties) if self.tuples[n][1] is not None]
                assert sorted(n for n, at in held.items() if low <= at < high) == seen
                assert not table.has_forgotten(of, ts, ties)

    def _own(self, copy: FullHolder, of: Lease) -> list[dict[str, Any]]:
        """The tuples with keys that the engine at ash finds in a full copy when a query looks for its own."""
        keys = sorted({key for _, key in self.tuples if key is not None})
        wanted = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], names=["key"])
        condition, columns = copy.table.where(of), tuple(dict.fromkeys(("n", *of.columns)))
        find = Find(copy.name, KEYS, wanted, TICK_MIN, TICK_END, of.reach.alias, condition, columns)
        (found,) = self.works["ash"].engine.run([find])
        assert isinstance(found, pa.RecordBatch), found
        return list(found.to_pylist())

    def _check_keys(self, copy: KeysHolder | MixedHolder, view: list[int]) -> None:
        (keys,) = copy.table.keys(copy.table.live_slots())
        alive = [n for n in view if self._position(copy, view, n) >= copy.kept_from]
        assert sorted(keys.to_pylist()) == sorted({key for n in alive if (key := self.tuples[n][1]) is not None})

    def _check_mixed(self, copy: MixedHolder, view: list[int]) -> None:
        held = [(at, n) for at, n in self.contents(copy) if at >= copy.kept_from]
        window = self._keyed(copy, view, copy.kept_from)
        assert len(held) == len(set(held))
        assert set(held) <= set(window)
        keys = sorted({key for _, n in window if (key := self.tuples[n][1]) is not None})
        slots, full = copy.slots_of([pa.array(keys, pa.int64())])
        assert (slots >= 0).all()
        for key, here in zip(keys, full.tolist(), strict=True):
            if here:
                of_key = [(at, n) for at, n in window if self.tuples[n][1] == key]
                assert [(at, n) for at, n in held if self.tuples[n][1] == key] == of_key

    def _check_reduced(self, copy: ReducedHolder, view: list[int]) -> None:
        arrived = self.arrived.get(copy.number, set())
        kept = [(self._position(copy, view, n), n) for n in arrived]
        held = [(at, n) for at, n in self.contents(copy) if at >= copy.kept_from]
        assert held == sorted((at, n) for at, n in kept if at >= copy.kept_from)

    def _check_seen(self, copy: HeldCopy, of: Lease, view: list[int]) -> None:
        query = self.queries.get(of.query_id)
        if of.frozen or query is None or query.done >= TICK_END:
            return  # no row of it will come yet, or any more, whether the site knows that or not
        oldest = query.done * TAU
        newest = min(copy.progress.sealed_ts, oldest + 50)
        if copy.spec.kind is CopyKind.REDUCED and copy.spec.axis is CopyAxis.TIME:
            newest = oldest + 50
        passing = self.passing(of.reach.filter)
        for ts in range(oldest, newest, 3):
            for ties in (False, True):
                seen = self.seen(of, ts, ties)
                if isinstance(copy, KeysHolder):
                    missing = {self.tuples[n][1] for n in seen} - {None}
                    (keys,) = copy.table.keys(copy.table.live_slots())
                    assert missing <= set(keys.to_pylist()), "V has every key that a row can see"
                    continue
                place = copy.table if isinstance(copy, FullHolder) else copy
                assert isinstance(place, RowTable | ReducedHolder | MixedHolder)
                low, high = (int(bound[0]) for bound in place.bounds(of, array([ts]), ties))
                found = [n for n in view if passing[n] and low <= self._position(copy, view, n) < high]
                assert found == seen
                assert not place.has_forgotten(of, ts, ties)
