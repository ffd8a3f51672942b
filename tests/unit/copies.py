"""An owner half and a holder half wired through their messages alone, and a model that knows the definitions.

The model has the stream as a list and DESIGN sections 2 to 4; it shares nothing with the halves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from node.core.algorithms import sm_s1
from node.core.desk import Shipment, Then
from node.core.engine import TS, Engine, Find, Op, Question
from node.core.gate import FrontierGate, Gate
from node.core.limits import Limits
from node.core.messages import (
    AskMatches,
    Fetch,
    Fetched,
    ReplicaSync,
    Rows,
    Sync,
    TupleAnswer,
)
from node.core.parts import Parts
from node.core.replicas.full import FullHolder
from node.core.replicas.keys import KeysHolder
from node.core.replicas.mixed import MixedHolder, MixedOwner
from node.core.replicas.reduced import ReducedHolder
from node.core.rows import decode_rows
from node.core.ticks import TICK_END, TICK_MIN, Span
from node.core.view import view_schema
from node.core.walk import Walk, shape_of
from node.engine.native import NativeEngine
from planner.model import (
    Algorithm,
    ColumnRef,
    Edge,
    JoinQuery,
    OutputColumn,
    RangeWindow,
    RowsWindow,
    StreamRef,
)
from planner.plans import forced_plan
from tests.oracle.oracle import Window
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import info

TAU = 10
LENGTH = 30
#: What a tuple's key can be in the tests; null equals nothing.
Key = int | str | None
TIME: Window = ("range", LENGTH)
COUNT: Window = ("rows", 3)


class FakeDesk:
    """One site's query: keeps what the halves ask for until the test lets it happen."""

    def __init__(self, native: bool) -> None:
        self.query_id = "q1"
        self.gate: Gate = FrontierGate()
        self.limits = Limits()
        self.engine: Engine = NativeEngine() if native else ReferenceEngine()
        self.mail: deque[Shipment | Rows] = deque()
        self.pending: deque[tuple[Then, pa.RecordBatch]] = deque()
        self.advanced: list[Walk] = []
        self.on_send: Callable[[Shipment | Rows], None] = lambda message: None

    def run(self, op: Op) -> None:
        self.engine.run([op])

    def ask(self, question: Question, then: Then) -> None:
        (answer,) = self.engine.run([question])
        self.pending.append((then, answer))

    def send(self, peer: str, message: Shipment | Rows) -> None:
        self.on_send(message)
        self.mail.append(message)

    def advance(self, walk: Walk) -> None:
        self.advanced.append(walk)

    def answer(self) -> None:
        """The engine answers the oldest question."""
        then, rows = self.pending.popleft()
        then(rows)


# -- the model --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """A tuple of the stream; its payload is its number."""

    number: int
    ts: int
    key: Key


@dataclass(frozen=True)
class Snapshot:
    """The window as it was when a sync was sent; ``lives`` says with which sync each key was last born."""

    frontier: int
    kept_from: int
    sealed: tuple[Item, ...]
    lives: dict[Key, int]


class Model:
    """The stream as a list, and what a window of it must hold."""

    def __init__(self, window: Window) -> None:
        self.kind, self.size = window
        self.items: list[Item] = []
        self.syncs = 0
        self.now = Snapshot(0, TICK_MIN, (), {})

    def position(self, item: Item) -> int:
        return item.ts if self.kind == "range" else item.number

    def forgotten_before(self, known: Sequence[Item], done: int) -> int:
        """The position before which no row from tick ``done`` on sees anything, as far as these tuples tell."""
        if done <= TICK_MIN:
            return TICK_MIN
        if self.kind == "range":
            return TICK_END if done >= TICK_END else done * TAU - self.size
        if done >= TICK_END:
            return len(known)
        return sum(item.ts < done * TAU for item in known) - self.size

    def change(self, frontier: int, done: int) -> None:
        """The window takes what is new, then forgets."""
        self.syncs += 1
        kept_from = max(self.now.kept_from, self.forgotten_before(self.items, done))
        alive = {item.key for item in self.items if self.position(item) >= kept_from and item.key is not None}
        lives: dict[Key, int] = {key: self.now.lives.get(key, self.syncs) for key in alive}
        self.now = Snapshot(frontier, kept_from, tuple(self.items), lives)

    def visible(self, item: Item, head_ts: int, ties: bool) -> bool:
        """DESIGN section 2 for one tuple and one head row."""
        earlier = [other.number for other in self.items if other.ts < head_ts or (ties and other.ts == head_ts)]
        if item.number not in earlier:
            return False
        return item.ts >= head_ts - self.size if self.kind == "range" else item.number in earlier[-self.size :]


# -- the two halves ---------------------------------------------------------------------------


class Copy:
    """A window of ``b`` at bow, a copy of it at ash, and what is under way between them."""

    def __init__(
        self,
        algorithm: Algorithm,
        window: Window = TIME,
        native: bool = False,
        text: bool = False,
        ties: bool = False,
        payload: pa.DataType | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.ties = ties
        self.text = text
        kinds = [("ts", pa.int64()), ("key", pa.string() if text else pa.int64()), ("n", payload or pa.int64())]
        of_query = RangeWindow(window[1] * 1000) if window[0] == "range" else RowsWindow(window[1])
        refs = [
            StreamRef(alias, info(name, site, schema=pa.schema(kinds)), of_query)
            for alias, name, site in (("a", "l", "ash"), ("b", "r", "bow"))
        ]
        edge = Edge(ColumnRef("a", "key"), ColumnRef("b", "key"))
        outputs = tuple(OutputColumn(f"{alias}n", ColumnRef(alias, "n")) for alias in "ab")
        # At equal times the stream that stands first in the query is before the other.
        self.query = JoinQuery("", tuple(reversed(refs)) if ties else tuple(refs), (edge,), outputs)
        shape = shape_of(forced_plan(self.query, "ash", {"a": algorithm, "b": Algorithm.SP_D}))
        self.schema = view_schema(self.query, "b")
        self.step = shape.steps["a"][0]
        self.bow, self.ash = FakeDesk(native), FakeDesk(native)
        self.bow_parts = Parts(self.bow, self.query, shape, "bow", TAU, 0)
        self.ash_parts = Parts(self.ash, self.query, shape, "ash", TAU, 0)
        (self.holder,) = self.ash_parts.holders.values()
        self.bow.on_send = self._sent
        self.model = Model(window)
        #: What each message on its way to ash must make of the copy; None: a message that is no sync.
        self.snapshots: deque[Snapshot | None] = deque()
        self.held = self.model.now
        self.shipped: Counter[int] = Counter()
        self.done = self.holder_done = TICK_MIN
        self.holder_kept_from = TICK_MIN
        self.arrived: set[int] = set()
        self.walk_tick = 0
        self.walks: dict[int, Walk] = {}
        self.joined = 0
        #: Fetches under way: the keys that each asks for, with their lives.
        self.fetches: deque[list[tuple[Key, int]]] = deque()
        self.asked: set[tuple[Key, int]] = set()
        self.full: set[tuple[Key, int]] = set()

    # -- at bow ---------------------------------------------------------------------------

    def rows(self, items: Sequence[Item]) -> pa.RecordBatch:
        columns = [[item.ts for item in items], [item.key for item in items], [item.number for item in items]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def batch(self, ticks: int, *tuples: tuple[int, Key]) -> None:
        """The stream seals a batch: event times from the frontier on, and keys."""
        first = self.model.now.frontier
        span = Span(first, TICK_END if ticks >= TICK_END else first + ticks)
        count = len(self.model.items)
        items = [Item(count + place, ts, key) for place, (ts, key) in enumerate(sorted(tuples, key=lambda t: t[0]))]
        self.model.items += items
        self.model.change(span.end, self.done)
        self.give_batch(span, self.rows(items))

    def give_batch(self, span: Span, rows: pa.RecordBatch) -> None:
        for full_owner in self.bow_parts.full_owners.values():
            full_owner.on_batch(span, rows, 0)
        for owned in self.bow_parts.owned.values():
            owned.on_batch(span, rows)

    def finish(self, done: int) -> None:
        """The sink is done with rows before this tick; bow hears of it."""
        self.done = max(self.done, done)
        if self.model.now.frontier == TICK_END:
            before = self.model.now
            self.model.change(TICK_END, self.done)
            if isinstance(self.holder, KeysHolder) and before.lives.keys() == self.model.now.lives.keys():
                self.model.now = before  # nothing dies, so V is not told
        for owned in self.bow_parts.owned.values():
            owned.on_done(self.done)

    def _sent(self, message: Shipment | Rows) -> None:
        is_sync = isinstance(message, ReplicaSync | Sync)
        self.snapshots.append(self.model.now if is_sync else None)
        rows = {ReplicaSync: "full", Fetched: "rows", TupleAnswer: "rows"}.get(type(message))
        if rows is None:
            return
        shipped = decode_rows(getattr(message, rows), self.schema)
        self.shipped.update(shipped.column("b.n").to_pylist())
        assert max(self.shipped.values(), default=0) <= 1, "a tuple is shipped twice"
        assert not shipped.column("b.key").null_count

    # -- on the way -----------------------------------------------------------------------

    def down(self) -> Any:
        """The next message arrives at ash."""
        message, snapshot = self.bow.mail.popleft(), self.snapshots.popleft()
        if snapshot is not None:
            self.held = snapshot
            live = set(snapshot.lives.items())
            self.full &= live
            self.asked &= live
        match message:
            case Sync():
                assert isinstance(self.holder, FullHolder)
                self.holder.on_sync(message.span, decode_rows(message.rows, self.schema))
            case ReplicaSync():
                assert isinstance(self.holder, ReducedHolder | KeysHolder | MixedHolder)
                self.holder.on_sync(message)
            case Fetched():
                # In this place the keys are full before those who wait for them go on.
                self.full |= set(self.fetches.popleft()) & set(self.held.lives.items())
                self.mixed.on_fetched(message)
            case TupleAnswer():
                self.arrived |= set(decode_rows(message.rows, self.schema).column("b.n").to_pylist())
                self.source.on_tuples(message)
        self.check()
        return message

    def up(self) -> Any:
        """The next message arrives at bow."""
        message = self.ash.mail.popleft()
        match message:
            case Fetch():
                owner = self.bow_parts.owners[0]
                assert isinstance(owner, MixedOwner)
                owner.on_fetch(message)
            case AskMatches():
                destination = self.bow_parts.destinations["a", 0]
                assert isinstance(destination, sm_s1.Destination)
                destination.on_ask(message)
        return message

    def settle(self) -> None:
        """Everything that is under way arrives."""
        while self.bow.mail or self.ash.mail or self.bow.pending or self.ash.pending:
            for queue, act in (
                (self.ash.mail, self.up),
                (self.bow.pending, self.bow.answer),
                (self.bow.mail, self.down),
                (self.ash.pending, self.ash.answer),
            ):
                if queue:
                    act()
        self.check()

    # -- at ash ---------------------------------------------------------------------------

    @property
    def mixed(self) -> MixedHolder:
        assert isinstance(self.holder, MixedHolder)
        return self.holder

    @property
    def source(self) -> sm_s1.Source:
        source = self.ash_parts.sources["a", 0]
        assert isinstance(source, sm_s1.Source)
        return source

    def key_columns(self, keys: Sequence[Key]) -> list[pa.Array]:
        return [pa.array(keys, pa.string() if self.text else pa.int64())]

    def want(self, *keys: Key) -> list[bool]:
        """A walk needs the tuples of these keys; the answer gets an entry when they are there."""
        slots, full = self.mixed.slots_of(self.key_columns(keys))
        here = [key is not None and key in self.held.lives for key in keys]
        assert [slot >= 0 for slot in slots.tolist()] == here
        missing = [key for key, live, have in zip(keys, here, full.tolist(), strict=True) if live and not have]
        got: list[bool] = []
        if not missing:
            return got
        wanted = {(key, self.held.lives[key]) for key in missing}
        unasked = wanted - self.asked
        if unasked:
            self.fetches.append(sorted(unasked, key=repr))
            self.asked |= unasked
        sent = len(self.ash.mail)
        self.mixed.fetch(slots[(slots >= 0) & ~full], lambda: got.append(self._is_here(wanted)))
        assert len(self.ash.mail) - sent == (1 if unasked else 0), "a key is asked for once"
        return got

    def _is_here(self, wanted: set[tuple[Key, int]]) -> bool:
        return wanted & set(self.held.lives.items()) <= self.full

    def walk(self, *rows: tuple[int, Key]) -> None:
        """A walk of head a with rows at (offset in its tick, key) begins at ash."""
        tick, self.walk_tick = self.walk_tick, self.walk_tick + 1
        times = [tick * TAU + offset for offset, _ in rows]
        keys = [key for _, key in rows]
        columns = [pa.array(times, pa.int64()), *self.key_columns(keys), pa.array(range(len(rows)), pa.int64())]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.step.carry_schema)
        self.walks[tick] = Walk("a", Span(tick, tick + 1), 0, 0, batch)
        self.source.arrive(self.walks[tick])

    def holder_finish(self) -> None:
        """Ash hears what the sink is done with."""
        self.holder_done = self.done
        if isinstance(self.holder, FullHolder | ReducedHolder):
            # A full copy keeps all that is still to come, for queries that may want to share it.
            full = isinstance(self.holder, FullHolder)
            done = min(self.holder_done, self.held.frontier) if full else self.holder_done
            before = self.model.forgotten_before(self.held.sealed, done)
            self.holder_kept_from = max(self.holder_kept_from, before)
            self.holder.on_done(self.holder_done)

    # -- the definitions ------------------------------------------------------------------

    def contents(self, window_id: str) -> list[tuple[int, Key, int]]:
        """(position, key, number) of all tuples with keys that an engine holds at ash."""
        keys = sorted({item.key for item in self.model.items if item.key is not None}, key=repr)
        if not keys:
            return []
        wanted = pa.RecordBatch.from_arrays(self.key_columns(keys), names=["b.key"])
        (found,) = self.ash.engine.run([Find(window_id, wanted, TICK_MIN, TICK_END)])
        return sorted((row[TS], row["b.key"], row["b.n"]) for row in found.to_pylist())

    def items(self, wanted: Callable[[Item], bool]) -> list[tuple[int, Key, int]]:
        found = [item for item in self.model.items if item.key is not None and wanted(item)]
        return sorted((self.model.position(item), item.key, item.number) for item in found)

    def check(self) -> None:
        """The copy equals its definition."""
        match self.holder:
            case FullHolder():
                self.check_full()
            case ReducedHolder():
                self.check_reduced(self.holder)
            case KeysHolder():
                self.check_keys(self.holder)
            case MixedHolder():
                self.check_keys(self.holder)
                self.check_mixed(self.holder)

    def check_keys(self, holder: KeysHolder | MixedHolder) -> None:
        """V: the distinct keys of the tuples before the frontier and at or after ``kept_from``."""
        state = holder.state if isinstance(holder, KeysHolder) else holder.window.state
        assert (state.frontier, state.kept_from) == (self.held.frontier, self.held.kept_from)
        table = holder.table
        (keys,) = table.keys(table.live_slots())
        assert sorted(keys.to_pylist(), key=repr) == sorted(self.held.lives, key=repr)
        assert len(table) == len(self.held.lives)

    def check_mixed(self, holder: MixedHolder) -> None:
        """M: V, and exactly the full tuples of the keys that are full."""
        keys = list(self.held.lives)
        _, full = holder.slots_of(self.key_columns(keys))
        assert {(key, self.held.lives[key]) for key, yes in zip(keys, full.tolist(), strict=True) if yes} == self.full
        held = [row for row in self.contents(holder.window.window_id) if row[0] >= self.held.kept_from]
        sealed = len(self.held.sealed)
        for key, life in self.held.lives.items():
            of_key = [row for row in held if row[1] == key]
            window = self.items(
                lambda item, key=key: (  # type: ignore[misc]
                    item.key == key and item.number < sealed and self.model.position(item) >= self.held.kept_from
                )
            )
            if (key, life) in self.full:
                assert of_key == window
            elif (key, life) in self.asked:
                assert set(of_key) <= set(window)
                assert len(of_key) == len(set(of_key))
            else:
                assert of_key == []
        assert {row[1] for row in held} <= self.held.lives.keys()

    def check_full(self) -> None:
        """The full copy: all tuples before the frontier that a row can still see."""
        (window,) = [window for window in self.ash_parts.windows if window.state.alias == "b"]
        assert (window.state.frontier, window.state.kept_from) == (self.held.frontier, self.holder_kept_from)
        kept_from = self.holder_kept_from
        alive = [item for item in self.held.sealed if self.model.position(item) >= kept_from]
        numbers = {item.number for item in alive}
        held = [row for row in self.contents(window.window_id) if row[0] >= kept_from]
        assert held == self.items(lambda item: item.number in numbers)
        if isinstance(self.ash.engine, ReferenceEngine):
            nulls = [row for row in self.ash.engine._rows[window.window_id] if row["b.key"] is None]
            assert len(nulls) == sum(item.key is None for item in alive)

    def check_reduced(self, holder: ReducedHolder) -> None:
        """W': exactly the tuples that were shipped and not forgotten; walks join as the definition says."""
        assert holder.window.state.kept_from == self.holder_kept_from
        held = [row for row in self.contents(holder.window.window_id) if row[0] >= self.holder_kept_from]
        kept_from = self.holder_kept_from
        assert held == self.items(lambda item: item.number in self.arrived and self.model.position(item) >= kept_from)
        for walk in self.ash.advanced[self.joined :]:
            self.joined += 1
            begun = self.walks.pop(walk.span.first)
            assert walk.step == 1
            found = Counter((row["a.n"], row["b.n"]) for row in walk.rows.to_pylist())
            assert found == Counter(
                (row["a.n"], item.number)
                for row in begun.rows.to_pylist()
                for item in self.model.items
                if item.key == row["a.key"] and self.model.visible(item, row[TS], self.ties)
            )
