"""Joins that are kept: rows are those of the definition, whatever dies, and nothing is left behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from node.core.effects import QueryState, WriteRecords
from node.core.encoding.rows import empty_batch
from node.core.events import BatchLogged
from node.core.queries.home.kept_sink import KeptSink
from node.core.queries.waiting import Walk
from node.core.query_records import HomeRecord
from node.core.streams.derived import DerivedStream
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.io.reports.complete_from import complete_from
from node.wire.records import recovered
from planner.model.beginning import AT_ONCE
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from tests.sim.check import check_world
from tests.sim.crashes import CrashPoint, SiteDiedError
from tests.sim.scenarios.predicates import Col
from tests.sim.scenarios.queries import Kept, QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import Restart, Scenario, StreamData
from tests.sim.world import World

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
INFO = StreamInfo("q1.pairs", "bow", SCHEMA, "ts", TimeUnit.MS)
WAYS = (Way("pairs", (("c", "SM-S1"),)), Way("c", (("pairs", "SP-D"),)))
KEPT = Kept("pairs", ("a", "b"), "bow", (Way("a", (("b", "SM-S1"),)), Way("b", (("a", "SP-D"),))))


def stream(name: str, site: str, rows: int = 40, step: int = 3) -> StreamData:
    """Tuples a few milliseconds apart, with few keys, so that most windows hold some that match."""
    ts, keys = tuple(step * n for n in range(rows)), tuple(n % 3 for n in range(rows))
    return StreamData(name, site, "ms", 0, ts, keys, "int", retain_ms=0)


def query(kept: tuple[Kept, ...] = (KEPT,), ways: tuple[Way, ...] = WAYS) -> QuerySpec:
    """The windows differ: c sees pairs of which it does not see the older part."""
    refs = tuple(Ref(alias, f"s{alias}", ("range", length)) for alias, length in (("a", 20), ("b", 25), ("c", 30)))
    edges = ((("a", "key"), ("b", "key")), (("b", "key"), ("c", "key")))
    outputs = tuple((f"{alias}_n", Col(alias, "n")) for alias in "abc")
    return QuerySpec(refs, edges, outputs, "dew", ways, kept=kept)


def scenario(spec: QuerySpec | None = None, **changed: object) -> Scenario:
    streams = (stream("sa", "ash"), stream("sb", "bow", step=4), stream("sc", "cam", step=2))
    plain = Scenario(2, ("ash", "bow", "cam", "dew"), streams, (spec or query(),), 7, 3, 100, False, False)
    return replace(plain, **changed)  # type: ignore[arg-type]


def play(scenario: Scenario) -> World:
    """Run it: the judges look at every message, the oracle at the rows."""
    world = World(scenario)
    check_world(world)
    return world


def test_a_tree_gives_the_rows_of_the_definition() -> None:
    world = play(scenario())
    assert world._queries[0].state is QueryState.COMPLETED
    assert world._queries[0].rows.num_rows > 100
    assert world.counts["batches of kept joins"] > 5


def test_heads_whose_walks_go_over_several_ticks_do_not_wait_for_each_other() -> None:
    """One batch of each stream may be under way. A tick of b is whole; of a it is in one walk with the next tick, which
    waits for b: its source must not wait until the kept stream, and so b, is done."""
    own = scenario()
    streams = (stream("sa", "ash", step=9), stream("sb", "bow", step=4), stream("sc", "cam", step=2))
    limits = replace(own.limits, ahead_batches_max=1)
    play(replace(own, streams=streams, limits=limits, tau_ms=5, chunk_rows_max=1))


def test_a_query_that_reads_a_kept_join_does_not_look_back_and_its_longest_window_says_when_it_is_complete() -> None:
    """The longest one is inside: of a, which the query itself does not read."""
    refs = tuple(Ref(alias, f"s{alias}", ("range", length)) for alias, length in (("a", 70), ("b", 25), ("c", 30)))
    spec = replace(query(), refs=refs)
    world = play(scenario(queries=(spec, replace(spec, after_reads=20, beginning=AT_ONCE))))
    home = world._nodes["dew"].site.homes["q2"]
    assert home.first_tick is not None
    assert 0 < home.first_tick < TICK_END
    said = complete_from(home, 7)
    assert said.begin_ms == home.first_tick * 7
    assert list(said.lacking) == ["sa", "sb", "sc"]
    assert said.from_ms == said.begin_ms + 70


def test_a_kept_join_begins_with_the_query_that_reads_it() -> None:
    """a and b have all of their past when it is issued, c has none: pairs with parts from before are not for it."""
    own = scenario()
    streams = tuple(replace(data, retain_ms=0 if data.name == "sc" else 10_000) for data in own.streams)
    ways = tuple(Way(head, tuple((other, "SP-D") for other in "abc" if other != head)) for head in "abc")
    world = play(replace(own, streams=streams, queries=(query((), ways), replace(query(), after_reads=45))))
    first, second = world._queries
    assert second.state is QueryState.COMPLETED
    assert first.first_tick is not None
    assert second.first_tick is not None
    assert second.first_tick > first.first_tick
    assert 0 < second.rows.num_rows < first.rows.num_rows


@pytest.mark.parametrize("step", ["durable batch", "after AppendBatch", "engine answered"])
@pytest.mark.parametrize("site", ["ash", "bow"])
def test_a_site_dies_that_keeps_the_join_or_feeds_it(site: str, step: str) -> None:
    """bow keeps it and has one of its streams, ash the other."""
    points = tuple(CrashPoint(site, (step,), occurrence) for occurrence in (1, 3))
    world = play(scenario(crashes=points, sync_us=200))
    assert world.counts["crashes"] > 0
    assert world._queries[0].state is QueryState.COMPLETED


@pytest.mark.parametrize(
    ("site", "step"), [("dew", "durable rows"), ("dew", "after send Start"), ("bow", "before send Prepared")]
)
def test_a_site_dies_and_then_the_one_that_keeps_the_join(site: str, step: str) -> None:
    """dew is home."""
    points = (CrashPoint(site, (step,), 1), CrashPoint("bow", ("after AppendBatch",), 4))
    world = play(scenario(crashes=points, sync_us=200))
    assert world.counts["crashes"] > 0
    assert world._queries[0].state is QueryState.COMPLETED


class SlowRecords(World):
    """Records take long to be durable. A site dies as soon as the log of a kept join was changed before them."""

    deaths = 0

    def _write(self, site: str, effect: WriteRecords) -> None:
        self._records[site].write(effect.changes)
        if self._records[site].pending == 1:
            self._later_do(site, 3 * self._disk_us(), lambda: self._written(site))

    def _die_before_records(self, site: str) -> None:
        self.deaths += 1
        self._records[site]._pending.clear()
        raise SiteDiedError(CrashPoint(site), "before its records are durable")

    def _known(self, site: str, query_id: str) -> HomeRecord | None:
        homes = recovered(self._records[site].durable, {}).homes
        return next((home for home in homes if home.query_id == query_id), None)

    def _note_logged(self, event: BatchLogged) -> None:
        super()._note_logged(event)
        if event.stream in self._derived:
            site = self._derived[event.stream].site
            home = self._known(site, f"{event.stream}@{site}")
            if home is None or home.first_tick is None:
                self._die_before_records(site)

    def remove_log(self, name: str) -> None:
        log = self._derived.get(name)
        super().remove_log(name)
        home = None if log is None else self._known(log.site, name.partition(".")[0])
        if log is not None and home is not None and not home.state.ended:
            self._die_before_records(log.site)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_the_log_of_a_kept_join_waits_for_the_record_of_where_that_began(seed: int) -> None:
    """All its streams are where it is kept, and are read already: nothing but the record keeps it from beginning. It
    would begin again, behind what it has."""
    own = scenario(seed=seed, delay_us_max=50_000, sync_us=200, crashes=(CrashPoint("ash", ("never",)),))
    streams = tuple(replace(data, site="cam" if data.name == "sc" else "bow") for data in own.streams)
    ways = tuple(Way(head, tuple((other, "SP-D") for other in "abc" if other != head)) for head in "abc")
    here = Kept("pairs", ("a", "b"), "bow", (Way("a", (("b", "SP-D"),)), Way("b", (("a", "SP-D"),))))
    world = SlowRecords(
        replace(own, streams=streams, queries=(query((), ways), replace(query((here,)), after_reads=15)))
    )
    check_world(world)
    assert world.deaths == 0
    assert world._queries[1].state is QueryState.COMPLETED


@pytest.mark.parametrize("seed", [2, 7, 9])
def test_the_log_of_a_kept_join_is_there_until_its_query_is_over_for_good(seed: int) -> None:
    """A home that keeps it and dies before it is durable that the query is complete would take it for lost."""
    here = replace(KEPT, site="dew")
    world = SlowRecords(
        scenario(query((here,)), seed=seed, delay_us_max=50_000, sync_us=200, crashes=(CrashPoint("ash", ("never",)),))
    )
    check_world(world)
    assert world.deaths == 0
    assert world._queries[0].state is QueryState.COMPLETED


@pytest.mark.parametrize("site", ["ash", "bow"])
def test_a_disk_that_a_kept_join_needs_is_lost(site: str) -> None:
    """Then nothing can be complete: the query ends and says so, and the join with it."""
    world = play(scenario(restarts=(Restart(450_000, site, fresh=True),), delay_us_max=20_000))
    assert world._queries[0].state is QueryState.FAILED
    assert "data loss" in world._queries[0].reason


def test_a_query_that_is_dropped_leaves_nothing_of_what_was_kept_for_it() -> None:
    world = play(scenario(replace(query(), drop_after_us=300_000), delay_us_max=50_000))
    assert world._queries[0].state is QueryState.DROPPED
    assert not any("." in name for node in world._nodes.values() for name in node.site.streams)
    assert not any(node.site.homes.get("q1.pairs@bow") for node in world._nodes.values())


def test_who_gives_a_part_of_a_kept_join_up_ends_its_query() -> None:
    world = World(scenario(delay_us_max=20_000))
    failing = world._nodes["ash"].site._participant.ends.fail
    world._at(250_000, lambda: failing("q1.pairs@bow", "no engine"))
    world.run()
    assert world._queries[0].state is QueryState.FAILED
    assert "the join kept as q1.pairs failed: no engine" in world._queries[0].reason


# -- the sink ---------------------------------------------------------------------------------


def walk(head: str, first: int, end: int, *times: int) -> Walk:
    rows = pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), pa.array(times, pa.int64())], schema=SCHEMA)
    return Walk("q1.pairs@bow", 0, head, Span(first, end), 0, 1, rows if times else empty_batch(SCHEMA))


def test_a_batch_has_the_ticks_through_which_every_head_was_walked() -> None:
    sink = KeptSink({"a": 0, "b": 0}, DerivedStream(INFO, 10))
    assert sink.take(walk("a", 0, 4, 35, 2))
    assert not sink.take(walk("a", 0, 4, 35, 2)), "once"
    assert sink.walked == 0
    assert sink.take(walk("b", 0, 2, 11, 1))
    batch = sink.batch(0)
    assert (batch.span, batch.ts.tolist(), batch.first) == (Span(TICK_MIN, 2), [1, 2, 11], 0)
    assert sink.take(walk("b", 2, TICK_END))
    assert sink.take(walk("a", 4, TICK_END))
    assert sink.batch(0).ts.tolist() == [35]


def test_done_is_what_the_log_has_also_in_the_middle_of_a_walk() -> None:
    sink = KeptSink({"a": 0, "b": 0}, DerivedStream(INFO, 10))
    for one in (walk("a", 0, 4), walk("b", 0, 2)):
        sink.take(one)
    sink.batch(0)
    assert sink.frontiers == (("a", 0), ("b", 0))
    assert sink.logged(2)
    assert sink.frontiers == (("a", 2), ("b", 2))
    assert sink.islands == (("a", Span(2, 4)),), "in memory, and not walked again while the site lives"
    assert not sink.logged(2)
    assert not sink.complete


def test_sources_are_told_of_what_was_taken_before_it_is_done() -> None:
    sink = KeptSink({"a": 0, "b": 0}, DerivedStream(INFO, 10))
    sink.take(walk("b", 0, 2))
    assert sink.taken == (("a", 0), ("b", 0))
    assert sink.tell_taken()
    assert sink.taken == (("a", 0), ("b", 2))
    assert not sink.tell_taken()
    assert sink.frontiers == (("a", 0), ("b", 0))


def test_numbers_of_tuples_go_on_from_batch_to_batch() -> None:
    derived = DerivedStream(INFO, 10)
    rows = walk("a", 0, 1, 3, 4).rows
    first = derived.append(1, rows, np.array([3, 4]), 0)
    second = derived.append(TICK_END, empty_batch(SCHEMA), np.empty(0, np.int64), 0)
    assert (first.first, second.first, derived.ended) == (0, 2, True)
