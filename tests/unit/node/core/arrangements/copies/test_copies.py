"""Every kind of copy against its definition, after every message, however long messages take and whoever leases it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.reach import Reach
from node.core.streams.ticks import TICK_END
from planner.algorithms.descriptions import CopyKind
from tests.examples import examples
from tests.unit.node.core.arrangements.kit import TAU, below, odd, reach
from tests.unit.node.core.arrangements.world import Query, World

KINDS = pytest.mark.parametrize("kind", list(CopyKind))
REACHES = [
    reach(25),
    reach(5),
    reach(40, where=odd()),
    reach(count=3),
    reach(count=1),
    reach(count=2, where=odd()),
    reach(30, where=below(3)),
    reach(45, where=below(3)),
]
TUPLES = st.lists(st.tuples(st.integers(0, 2 * TAU - 1), st.sampled_from([0, 1, 2, 3, None])), max_size=6)
NUMBER = st.integers(0, 9)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("prepare"), st.sampled_from(REACHES), st.none()),
        st.tuples(st.just("prepare ash"), st.none(), NUMBER),
        st.tuples(st.just("start bow"), st.integers(0, 3), NUMBER),
        st.tuples(st.just("start ash"), st.integers(0, 3), NUMBER),
        st.tuples(st.just("done"), st.integers(0, 3), NUMBER),
        st.tuples(st.just("done bow"), st.none(), NUMBER),
        st.tuples(st.just("done ash"), st.none(), NUMBER),
        st.tuples(st.just("end bow"), st.none(), NUMBER),
        st.tuples(st.just("end ash"), st.none(), NUMBER),
        st.tuples(st.just("down"), st.integers(1, 3), st.none()),
        st.tuples(st.just("down"), st.integers(1, 3), st.none()),
        st.tuples(st.just("up"), st.integers(1, 3), st.none()),
        st.tuples(st.just("answer"), st.none(), st.none()),
        st.tuples(st.just("read"), st.integers(1, 2), st.none()),
        st.tuples(st.just("want"), st.lists(st.integers(0, 3), min_size=1, max_size=3), NUMBER),
        st.tuples(st.just("hear"), st.none(), st.none()),
    ),
    max_size=50,
)


class Story:
    """Random events made into what can happen."""

    def __init__(self, world: World, kind: CopyKind, past: bool) -> None:
        self.world = world
        self.kind = kind
        self.past = past
        self.count = 0
        self.at_bow: set[str] = set()
        self.at_ash: set[str] = set()
        self.over: set[str] = set()

    def prepare(self, of: Reach) -> Query:
        self.count += 1
        return self.world.prepare(f"q{self.count}", self.kind, of)

    def start(self, query: Query, back: int, site: str) -> None:
        if query.first_tick is None:
            back = back if self.past else 0
            tick = max(self.world.stream.earliest, query.prepared_at - back)
        else:
            tick = query.first_tick
        started = self.at_bow if site == "bow" else self.at_ash
        if query.query_id in started | self.over:
            return
        started.add(query.query_id)
        (self.world.start_at_bow if site == "bow" else self.world.start_at_ash)(query, tick)

    def happen(self, name: str, what: Any, which: Any) -> None:  # noqa: C901 - a flat table reads best
        world = self.world
        alive = [query for query in world.queries.values() if query.query_id not in self.over]
        query = alive[which % len(alive)] if alive and isinstance(which, int) else None
        running = query is not None and query.query_id in self.at_bow & self.at_ash
        match name:
            case "batch":
                base, span = world.stream.fed * TAU, what * TAU
                world.batch(what, *((base + at % span, key) for at, key in which))
            case "prepare" if len(alive) < 4:
                self.prepare(what)
            case "down" | "up":
                for _ in range(min(what, len(world.mail["ash" if name == "down" else "bow"]))):
                    (world.down if name == "down" else world.up)()
            case "answer" if world.works["bow"].answers:
                world.answer()
            case "read" if world.reads:
                world.read(what)
            case "hear":
                world.hear_ask()
        if query is None:
            return
        match name:
            case "prepare ash" if query.query_id not in self.at_ash and not query.candidates:
                world.prepare_at_ash(query)
            case "start bow" | "start ash":
                self.start(query, what, name.split()[1])
            case "done" if running:
                self.done(query, what)
            case "done bow" if running:
                world.done_at_bow(query)
            case "done ash" if running:
                world.done_at_ash(query)
            case "end bow" if running:
                self.end(query)
            case "want" if running:
                self.want(query, what)

    def done(self, query: Query, ticks: int) -> None:
        """Walks that wait for an answer are not done; walks of the future are, if there are none."""
        target = query.done + ticks
        query.done = min([target, *query.asking])

    def want(self, query: Query, keys: list[int]) -> None:
        if self.kind is CopyKind.MIXED:
            assert query.copy is not None
            self.world.want(query, *keys)
        elif self.kind is CopyKind.REDUCED:
            self.world.ask(query, query.done, *keys)

    def end(self, query: Query) -> None:
        self.over.add(query.query_id)
        del self.world.queries[query.query_id]
        self.world.asks = type(self.world.asks)(one for one in self.world.asks if one[0] is not query)
        if int(query.query_id[1:]) % 2:
            self.world.end_at_bow(query)
            self.world.end_at_ash(query)
        else:
            self.world.end_at_ash(query)
            self.world.end_at_bow(query)

    def finish(self) -> None:
        """The stream ends, everything arrives, all is done and all ends: nothing is left."""
        world = self.world
        for query in list(world.queries.values()):
            self.start(query, 0, "bow")
            self.start(query, 0, "ash")
        world.batch(TICK_END)
        world.settle()
        world.check()
        for query in world.queries.values():
            assert not query.asking
            query.done = TICK_END
            world.done_at_bow(query)
        world.settle()
        for query in list(world.queries.values()):
            self.end(query)
        world.settle()
        assert not world.bow.in_use
        assert not world.ash.in_use
        assert not world.lost, "what a query needs was sent until it was over"
        for work in world.works.values():
            assert getattr(work.engine, "tables", []) == []


@KINDS
@given(EVENTS, st.sampled_from(REACHES), st.booleans(), st.booleans())
@examples(200)
def test_a_copy_equals_its_definition_after_every_message(
    kind: CopyKind, events: list[tuple[str, Any, Any]], of: Reach, native: bool, past: bool
) -> None:
    story = Story(World(native, retain_ms=1_000 if past else 0), kind, past)
    first = story.prepare(of)
    story.start(first, 0, "bow")
    story.start(first, 0, "ash")
    for event in events:
        story.happen(*event)
    story.finish()


# -- out of the log ---------------------------------------------------------------------------


def begun_in_the_past(kind: CopyKind) -> tuple[World, Query]:
    """A query over the last four ticks, each with two tuples of key 1; nothing of the log was read yet."""
    world = World(retain_ms=1_000)
    for tick in range(4):
        world.batch(1, (tick * TAU, 1), (tick * TAU + 5, 1))
    query = world.start("q1", kind, reach(100), tick=0)
    while world.mail["bow"]:
        world.up()
    return world, query


@KINDS
def test_a_copy_of_the_past_comes_out_of_the_log_in_pieces_and_then_with_the_stream(kind: CopyKind) -> None:
    world, query = begun_in_the_past(kind)
    reading = 1 if kind is CopyKind.REDUCED else 2  # W' of a time window is sent only what is asked for
    assert len(world.reads) == reading
    world.batch(1, (45, 1))  # behind: this is not for them yet
    while world.reads:
        assert len(world.reads) <= reading, "one piece at a time for each"
        world.read(1)
    world.batch(1, (55, 1))
    world.settle()
    world.check()
    assert query.copy is not None
    assert query.copy.frontier == (0 if kind is CopyKind.REDUCED else 6)
    assert query.table is not None
    assert query.table.frontier == 6


def test_what_is_fetched_of_the_past_is_all_that_the_copy_was_told_of() -> None:
    """The copy may be read faster than the table in which its tuples are looked for."""
    world, query = begun_in_the_past(CopyKind.MIXED)
    world.reads.rotate(-1)  # the copy's first
    world.read(4)
    assert isinstance(query.copy, MixedHolder)
    while query.copy.frontier < 4:
        if world.reads:
            world.read(2)
        while world.mail["ash"]:
            world.down()
        if not query.copy.fetching:
            world.want(query, 1)
        while world.mail["bow"]:
            world.up()
        while world.works["bow"].answers:
            world.answer()
    world.settle()
    world.check()
    assert [n for _, n in world.contents(query.copy)] == list(range(8))


def test_a_copy_of_the_past_waits_until_its_owner_knows_where_the_query_begins() -> None:
    world = World(retain_ms=1_000)
    world.batch(3, (5, 1), (15, 1))
    query = world.prepare("q1", CopyKind.MIXED, reach(100))
    world.start_at_ash(query, 0)
    world.up()
    while world.reads:
        world.read()
    assert not world.mail["ash"], "nobody could find what would be asked for"
    world.start_at_bow(query, 0)
    world.settle()
    assert query.copy is not None
    world.want(query, 1)
    world.settle()
    assert [n for _, n in world.contents(query.copy)] == [0, 1]


def test_what_was_shipped_is_known_to_be_there_when_a_query_of_the_past_comes() -> None:
    """Bow hears that rows are done before ash does, and lets their bits go."""
    world = World(retain_ms=1_000)
    first = world.start("q1", CopyKind.REDUCED, reach(5))
    world.batch(9, (5, 1), (45, 1), (65, 1))
    world.ask(first, 4, 1)
    world.settle()
    first.done = 7
    world.done_at_bow(first)
    world.batch(1)
    second = world.start("q2", CopyKind.REDUCED, reach(5), tick=4)
    world.settle()
    world.ask(second, 4, 1)
    world.settle()
    assert second.copy is not None
    assert [n for _, n in world.contents(second.copy)] == [1]


def test_bits_of_the_past_are_kept_until_it_is_known_where_the_query_begins() -> None:
    """The copy is opened before bow hears of the start, which gives the query a table of the past."""
    world = World(retain_ms=1_000)
    world.batch(5, (5, 1), (45, 1))
    query = world.prepare("q1", CopyKind.REDUCED, reach(30))
    world.start_at_ash(query, 4)
    world.up()
    world.batch(1, (55, 1))
    world.start_at_bow(query, 4)
    world.settle()
    world.ask(query, 4, 1)
    world.settle()
    assert query.copy is not None
    assert [n for _, n in world.contents(query.copy)] == [1]


def test_what_is_fetched_for_a_query_that_is_over_at_the_owner_is_there_for_one_that_is_prepared() -> None:
    """Bow has ended q1, ash has not heard of it and fetches for it; q2 is prepared and sees what was fetched."""
    world = World()
    first = world.start("q1", CopyKind.MIXED, reach(100))
    world.batch(1, (5, 1))
    second = world.prepare("q2", CopyKind.MIXED, reach(100))
    world.prepare_at_ash(second)
    world.end_at_bow(first)
    world.batch(1, (15, 1))
    world.settle()
    world.want(first, 1)
    world.settle()
    world.start_at_bow(second, 1)
    world.start_at_ash(second, 1)
    world.settle()
    assert isinstance(second.copy, MixedHolder)
    assert second.copy is first.copy
    assert 1 in [number for _, number in world.contents(second.copy)], "the second tuple, which q2 sees"
