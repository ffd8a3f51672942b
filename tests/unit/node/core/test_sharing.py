"""Tables and copies that queries share: kept once, sent once, exact for each query, and gone when the last one is."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pytest

from node.core.arrangements.copies.portions import PASSES, table_schema
from node.core.effects import IgnoreReason, QueryState
from node.core.engine import POSITION, Append, Engine, Find, OpenIndex, OpenTable, Probe
from node.core.events import DropRequested, EngineFailed, QueryIssued
from node.core.links.messages import (
    FIRST_GENERATION,
    Carry,
    CloseCopy,
    Drop,
    DropPortion,
    Failed,
    Fetch,
    Fetched,
    LeaseCopy,
    Level,
    Lost,
    Message,
    OpenCopy,
    Prepare,
    Rows,
    SetPortion,
    Start,
    StepMessage,
    Sync,
    TupleAnswer,
    payload_bytes,
)
from node.core.queries.waiting import Waiting
from node.core.queries.walks import ShipmentTooLargeError, Walks
from node.core.streams.ticks import TICK_MIN, Span
from node.core.work import FetchAnswer
from node.engine.native import NativeEngine
from node.wire import encode_message
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, Call, ColumnRef, Literal
from planner.sql.parser import parse_query
from tests.examples import some_of
from tests.oracle.oracle import OracleStream, Window, expected
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import OUTPUTS, SCHEMA, TAU_MS, TIME_WINDOW, Cluster, query_text

#: At most so much says of the few tuples of a batch here which of two portions they are in.
PASSES_BYTES = 4
#: Algorithms with a copy at the carry's site.
COPYING = [algorithm for algorithm in Algorithm if algorithm.spec.copy is not None]
WITH_COPY = pytest.mark.parametrize("algorithm", COPYING)
EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))
WINDOWS: list[Window] = [TIME_WINDOW, ("rows", 3)]
BOTH = pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])


@dataclass(frozen=True)
class Asked:
    """A query over both streams: names, windows, filters and columns of its own.

    A filter is a lower bound of n, exclusive, or what is left of n modulo 3, of both streams.
    """

    aliases: tuple[str, str] = ("a", "b")
    windows: tuple[Window, Window] = (TIME_WINDOW, TIME_WINDOW)
    above: tuple[int | None, int | None] = (None, None)
    rest: int | None = None
    selected: str = "n"

    @property
    def text(self) -> str:
        (one, other), texts = self.aliases, [_window_text(window) for window in self.windows]
        terms = [f"{alias}.n > {low}" for alias, low in zip(self.aliases, self.above, strict=True) if low is not None]
        terms += [f"{alias}.n % 3 = {self.rest}" for alias in self.aliases if self.rest is not None]
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        streams = f"l [{texts[0]}] AS {one} JOIN r [{texts[1]}] AS {other} ON {one}.key = {other}.key"
        return f"SELECT {one}.{self.selected} AS an, {other}.{self.selected} AS bn FROM {streams}{where}"

    def passes(self, place: int, n: int) -> bool:
        """Whether a tuple of the first or the second stream passes the filter."""
        low = self.above[place]
        return (low is None or n > low) and (self.rest is None or n % 3 == self.rest)

    def rows(self, cluster: Cluster, from_ts: int | None) -> list[tuple[int, int]]:
        """What it must give."""
        streams = []
        for place, (alias, name, window) in enumerate(zip(("a", "b"), ("l", "r"), self.windows, strict=True)):
            rows = pa.Table.from_batches(cluster.rows[name], schema=SCHEMA).to_pylist()
            kept = [row for row in rows if from_ts is None or row["ts"] >= from_ts]
            kept = [row for row in kept if self.passes(place, row["n"])]
            streams.append(OracleStream(alias, pa.Table.from_pylist(kept, schema=SCHEMA), "ts", "ms", window))
        outputs = [(name, alias, self.selected) for name, alias, _ in OUTPUTS]
        table = expected(streams, [(("a", "key"), ("b", "key"))], outputs)
        return sorted((row["an"], row["bn"]) for row in table.to_pylist())


def _window_text(window: Window) -> str:
    kind, size = window
    return f"RANGE {size // 1000} MS" if kind == "range" else f"ROWS {size}"


def issue(cluster: Cluster, sink: str, query_id: str, algorithm: Algorithm, asked: Asked | Window) -> None:
    text = asked.text if isinstance(asked, Asked) else query_text(asked)
    query = parse_query(text, cluster.sites[sink].catalogue)
    cluster.give(sink, QueryIssued(query_id, forced_plan(query, sink, algorithm)))


def from_ts(cluster: Cluster, query_id: str) -> int | None:
    home = next(site.homes[query_id] for site in cluster.sites.values() if query_id in site.homes)
    assert home.first_tick is not None
    return None if home.first_tick == TICK_MIN else home.first_tick * TAU_MS


def check(cluster: Cluster, query_id: str, asked: Asked | Window) -> None:
    if not isinstance(asked, Asked):
        asked = Asked(windows=(asked, asked))
    assert cluster.results(query_id) == asked.rows(cluster, from_ts(cluster, query_id)), query_id


def state_of(cluster: Cluster, query_id: str) -> tuple[QueryState, str]:
    return [(state, reason) for name, state, reason in cluster.states if name == query_id][-1]


def feed(cluster: Cluster, first: int, end: int, seed: int = 1) -> None:
    rng = random.Random(seed)
    for base in range(first, end, 10):
        for stream in ("l", "r"):
            ts = sorted(rng.randrange(base, base + 10) for _ in range(rng.randrange(4)))
            cluster.arrive(stream, *ts, watermark=base + 10, keys=[rng.randrange(4) for _ in ts] or None)
            cluster.settle()


def finish(cluster: Cluster, ts: int) -> None:
    for stream in ("l", "r"):
        cluster.arrive(stream, ts, ts + 1, ended=True)
        cluster.settle()


def wire_bytes(cluster: Cluster, *kinds: type[Message]) -> int:
    return sum(len(encode_message(message).payload) for message in cluster.sent(*kinds))


def copy_bytes(cluster: Cluster) -> int:
    """What was sent for copies, without what frames it."""
    return sum(payload_bytes(message) for message in cluster.sent(Sync, Fetch, Fetched, TupleAnswer))


# -- one table for all ------------------------------------------------------------------------


@pytest.mark.long
@EVERY
@pytest.mark.parametrize("engine", [ReferenceEngine, NativeEngine])
def test_a_hundred_queries_over_a_stream_hold_its_rows_once_with_one_index(
    algorithm: Algorithm, engine: type[Engine]
) -> None:
    cluster = Cluster(engine=engine)
    windows: list[Window] = [("range", 1000 * length) for length in range(10, 110)]
    for number, window in enumerate(windows):
        issue(cluster, "cam", f"q{number}", algorithm, Asked((f"x{number}", "y"), (window, window), (number % 3, None)))
    cluster.settle()
    feed(cluster, 0, 30)
    for site, stream in (("ash", "l"), ("bow", "r")):
        own = [op.table for op in cluster.ops(OpenTable, site) if op.table.startswith(f"{stream}/")]
        looked_at = algorithm is not Algorithm.SP_S
        assert own == [f"{stream}/1"] * looked_at
        assert [op.keys for op in cluster.ops(OpenIndex, site) if op.table == f"{stream}/1"] == [("key",)] * looked_at
        # With the copies, of which there may be a narrow and a wide one, that is all.
        assert len(cluster.ops(OpenTable, site)) <= 3
    assert len(cluster.sites["ash"].runs) == 100
    for number in (0, 57, 99):
        cluster.give("cam", DropRequested(f"q{number}"))
    cluster.settle()
    finish(cluster, 40)
    for number, window in enumerate(windows):
        if number not in (0, 57, 99):
            check(cluster, f"q{number}", Asked(windows=(window, window), above=(number % 3, None)))
    assert cluster.leftovers() == []


def test_a_table_has_an_index_for_each_choice_of_keys_and_closes_it_with_its_last_query() -> None:
    cluster = Cluster(left="ash", right="ash")
    catalogue = cluster.sites["ash"].catalogue
    head = "SELECT a.n AS an, b.n AS bn FROM l [RANGE 30 MS] AS a JOIN r [RANGE 30 MS] AS b"
    for query_id, condition in (("q1", "a.key = b.key"), ("q2", "a.key = b.key AND a.n = b.n"), ("q3", "a.n = b.n")):
        plan = forced_plan(parse_query(f"{head} ON {condition}", catalogue), "ash", Algorithm.SP_D)
        cluster.give("ash", QueryIssued(query_id, plan))
    shown = {table.name: (table.indexes, table.users) for table in cluster.sites["ash"].table_statuses()}
    indexes = (("key",), ("key", "n"), ("n",))
    assert shown == {"l/1": (indexes, ("q1", "q2", "q3")), "r/2": (indexes, ("q1", "q2", "q3"))}
    cluster.give("ash", DropRequested("q2"))
    assert {table.indexes for table in cluster.sites["ash"].table_statuses()} == {(("key",), ("n",))}
    for query_id in ("q1", "q3"):
        cluster.give("ash", DropRequested(query_id))
    assert cluster.leftovers() == []


@EVERY
def test_questions_of_several_queries_in_one_turn_reach_the_engine_together(algorithm: Algorithm) -> None:
    cluster = Cluster(engine=NativeEngine)
    for number in range(5):
        issue(cluster, "cam", f"q{number}", algorithm, Asked((f"x{number}", "y")))
    cluster.settle()
    feed(cluster, 0, 20)
    most = max(
        len([op for op in run if isinstance(op, Probe | Find)]) for runs in cluster.engine_runs.values() for run in runs
    )
    # What waits for a batch is woken with it, in one turn; what another site sends comes message by message.
    waits_here = algorithm in (Algorithm.SP_S, Algorithm.SM_S2)
    assert most >= (5 if waits_here else 1)


# -- one copy for two -------------------------------------------------------------------------


@WITH_COPY
@BOTH
@pytest.mark.parametrize("engine", [ReferenceEngine, NativeEngine])
def test_a_second_query_is_exact_and_opens_no_second_copy(
    algorithm: Algorithm, window: Window, engine: type[Engine]
) -> None:
    cluster = Cluster(window=window, engine=engine)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 100)
    before = {name: list(tables) for name, tables in cluster.open_tables.items()}
    issue(cluster, "ash", "q2", algorithm, window)
    cluster.settle()
    assert len(cluster.sent(OpenCopy)) == 2  # one for each stream
    assert len(cluster.sent(LeaseCopy)) == 2
    assert cluster.open_tables == before
    feed(cluster, 100, 200, seed=2)
    finish(cluster, 200)
    for query_id in ("q1", "q2"):
        check(cluster, query_id, window)
        assert cluster.results(query_id)
    assert cluster.results("q1") != cluster.results("q2")
    assert cluster.leftovers() == []


NARROWER = {
    "other names": Asked(("x", "y")),
    "shorter windows": Asked(windows=(("range", 10_000), ("range", 20_000))),
    "longer windows": Asked(windows=(("range", 70_000), ("range", 50_000))),
    "a filter": Asked(above=(4, 6)),
    "all of these": Asked(("x", "y"), (("range", 10_000), ("range", 50_000)), (3, None)),
}


@WITH_COPY
@pytest.mark.parametrize("asked", list(NARROWER.values()), ids=list(NARROWER))
def test_a_query_with_other_names_windows_or_filters_uses_the_copy_that_is_there(
    algorithm: Algorithm, asked: Asked
) -> None:
    def run(second: bool) -> Cluster:
        cluster = Cluster(engine=NativeEngine)
        issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
        cluster.settle()
        if second:
            issue(cluster, "cam", "q2", algorithm, asked)
            cluster.settle()
        feed(cluster, 0, 150)
        finish(cluster, 150)
        check(cluster, "q1", TIME_WINDOW)
        assert cluster.leftovers() == []
        return cluster

    one, both = run(second=False), run(second=True)
    check(both, "q2", asked)
    assert both.results("q2")
    assert len(both.sent(OpenCopy)) == 2
    alone, shared = (copy_bytes(cluster) for cluster in (one, both))
    if algorithm.spec.copy is CopyKind.FULL:
        # Every tuple and column is there already; of each tuple it is told whether it passes another filter.
        told = 0 if asked.above == (None, None) else PASSES_BYTES
        assert alone <= shared <= alone + told * len([sync for sync in both.sent(Sync) if payload_bytes(sync)])
    else:
        # W' and M may be asked for tuples that the first did not need.
        assert shared <= (1.5 if max(asked.windows) > TIME_WINDOW else 1.1) * alone


def test_a_full_copy_is_sent_once_however_many_queries_use_it() -> None:
    def run(*filters: int | None) -> Cluster:
        cluster = Cluster()
        for number, low in enumerate(filters):
            issue(cluster, "cam", f"q{number}", Algorithm.SP_S, Asked((f"x{number}", "y"), above=(low, None)))
            cluster.settle()
        feed(cluster, 0, 60)
        assert len(cluster.sent(OpenCopy)) == 2
        return cluster

    def sent(cluster: Cluster) -> list[Message]:
        return cluster.sent(SetPortion, Sync)

    assert sent(run(*[None] * 20)) == sent(run(None))
    assert sent(run(*[1] * 20)) == sent(run(1))
    many, two = run(*[None, 1] * 10), run(None, 1)
    assert sent(many) == sent(two)
    assert wire_bytes(many, LeaseCopy) < 40 * 20
    batches = len([sync for sync in two.sent(Sync) if payload_bytes(sync)])
    assert copy_bytes(two) <= copy_bytes(run(None)) + PASSES_BYTES * batches


@pytest.mark.parametrize("algorithm", [Algorithm.SM_S2, Algorithm.SM_D1])
def test_the_second_copy_beside_a_narrow_one_is_wide_and_serves_the_third(algorithm: Algorithm) -> None:
    cluster = Cluster()
    filters = [(10, 10), (5, 5), (7, None), (None, 8)]
    for number, above in enumerate(filters):
        issue(cluster, "cam", f"q{number}", algorithm, Asked(above=above))
        cluster.settle()
    opened = [message.spec.filter for message in cluster.sent(OpenCopy) if isinstance(message, OpenCopy)]
    assert len(opened) == 4  # two of each stream
    assert len([condition for condition in opened if condition is None]) == 2
    assert len(cluster.sent(LeaseCopy)) == 4
    feed(cluster, 0, 100)
    finish(cluster, 100)
    for number, above in enumerate(filters):
        check(cluster, f"q{number}", Asked(above=above))
    assert cluster.leftovers() == []


@WITH_COPY
def test_count_windows_share_only_with_the_same_filter(algorithm: Algorithm) -> None:
    cluster = Cluster()
    rows: Window = ("rows", 3)
    asked = [Asked(windows=(rows, rows)), Asked(windows=(("rows", 7), rows)), Asked(windows=(rows, rows), above=(4, 4))]
    for number, each in enumerate(asked):
        issue(cluster, "cam", f"q{number}", algorithm, each)
        cluster.settle()
    assert len(cluster.sent(OpenCopy)) == 4
    assert len(cluster.sent(LeaseCopy)) == 2  # q1's: how many tuples are in a window is no part of a copy
    feed(cluster, 0, 100)
    finish(cluster, 100)
    for number, each in enumerate(asked):
        check(cluster, f"q{number}", each)
    assert cluster.leftovers() == []


@pytest.mark.parametrize("algorithm", [algorithm for algorithm in Algorithm if algorithm.spec.copy is None])
def test_what_needs_no_copy_opens_none(algorithm: Algorithm) -> None:
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, algorithm, TIME_WINDOW)
        cluster.settle()
    feed(cluster, 0, 30)
    assert cluster.sent(OpenCopy, LeaseCopy, CloseCopy, Sync) == []


@WITH_COPY
@BOTH
def test_a_copy_outlives_the_query_it_was_opened_for_and_ends_with_its_last_user(
    algorithm: Algorithm, window: Window
) -> None:
    cluster = Cluster(window=window)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 60)
    for query_id, first in (("q2", 60), ("q3", 90)):
        issue(cluster, "bow", query_id, algorithm, window)
        cluster.settle()
        feed(cluster, first, first + 30, seed=3)
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert sorted(cluster.sites["ash"].runs) == ["q2", "q3"]
    assert cluster.sent(CloseCopy) == []
    shown = [(status.query_id, status.users) for status in cluster.sites["ash"].arrangements.copy_statuses()]
    assert shown == [("q2", ("q3",))] * 2  # one half each of the two copies
    feed(cluster, 120, 160, seed=4)
    issue(cluster, "cam", "q4", algorithm, window)
    cluster.settle()
    assert len(cluster.sent(OpenCopy)) == 2
    assert len(cluster.sent(LeaseCopy)) == 6
    cluster.give("bow", DropRequested("q2"))
    cluster.settle()
    feed(cluster, 160, 200, seed=5)
    finish(cluster, 200)
    for query_id in ("q3", "q4"):
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        check(cluster, query_id, window)
        assert cluster.results(query_id)
    assert len(cluster.sent(CloseCopy)) == 2
    assert cluster.leftovers() == []


@WITH_COPY
@BOTH
def test_a_query_that_begins_in_the_retained_past_is_exact_beside_one_that_began_before(
    algorithm: Algorithm, window: Window
) -> None:
    cluster = Cluster(retain_ms=(1_000, 1_000), window=window)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 100)
    issue(cluster, "cam", "q2", algorithm, window)
    cluster.settle()
    finish(cluster, 100)
    for query_id in ("q1", "q2"):
        assert cluster.results(query_id) == cluster.oracle() != []
    assert cluster.leftovers() == []


@WITH_COPY
@BOTH
def test_nothing_is_forgotten_that_the_slower_of_two_queries_can_see(algorithm: Algorithm, window: Window) -> None:
    cluster = Cluster(window=window)
    issue(cluster, "cam", "q1", algorithm, window)
    cluster.settle()
    feed(cluster, 0, 50)
    issue(cluster, "bow", "q2", algorithm, window)
    cluster.settle()
    delivered = partial(cluster.settle_but, ("bow", "ash"))  # q2's sink is cut off from ash, and so is r
    for tick in range(50, 150, 10):
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, tick, tick + 3, watermark=tick + 10)
        delivered()
    cluster.settle()
    finish(cluster, 200)
    for query_id in ("q1", "q2"):
        check(cluster, query_id, window)
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


# -- portions of a full copy ------------------------------------------------------------------

#: Tuples and columns that both need, that one of them needs, and that neither does.
KEYS_OF_SOME, NUMBERS_ABOVE = Asked(rest=1, selected="key"), Asked(above=(6, 6))
TWO = {"q1": KEYS_OF_SOME, "q2": NUMBERS_ABOVE}
ENGINES = pytest.mark.parametrize("engine", [ReferenceEngine, NativeEngine])


def two_with_full_copies(engine: type[Engine] = ReferenceEngine) -> Cluster:
    cluster = Cluster(engine=engine)
    for query_id, asked in TWO.items():
        issue(cluster, "cam", query_id, Algorithm.SP_S, asked)
        cluster.settle()
    return cluster


def held_rows(cluster: Cluster, site: str) -> pa.Table:
    """All that a site's engine was ever given of the one full copy that the site holds."""
    batches = [op.rows for op in cluster.ops(Append, site) if op.table.startswith("copy/")]
    rows = [row for batch in batches for row in batch.drop_columns(POSITION).to_pylist()]
    return pa.Table.from_pylist(rows, schema=table_schema(SCHEMA))


def needed_rows(cluster: Cluster, stream: str, queries: Mapping[str, Asked]) -> list[dict[str, int | None]]:
    """What these queries need of a stream's tuples, with a bit for each query in PASSES."""
    found = []
    for row in pa.Table.from_batches(cluster.rows[stream], schema=SCHEMA).to_pylist():
        passed = [asked.passes("lr".index(stream), row["n"]) for asked in queries.values()]
        names = {"key", *(each.selected for each, passes in zip(queries.values(), passed, strict=True) if passes)}
        if any(passed):
            shown = {name: row[name] if name in names else None for name in SCHEMA.names}
            found.append({**shown, PASSES: sum(2 << place for place, passes in enumerate(passed) if passes)})
    return found


def portions_told(cluster: Cluster, site: str, first: int = 0) -> list[tuple[int, tuple[str, ...] | None]]:
    """Each time a site told of a portion of its stream: the number, and the columns; None where it ended."""
    told = cluster.sent(SetPortion, DropPortion, site=site)[first:]
    return [
        (message.portion, message.spec.columns if isinstance(message, SetPortion) else None)
        for message in told
        if isinstance(message, SetPortion | DropPortion)
    ]


@ENGINES
def test_queries_with_other_filters_and_columns_share_one_full_copy_of_what_they_need(engine: type[Engine]) -> None:
    cluster = two_with_full_copies(engine)
    assert len(cluster.sent(OpenCopy)) == len(cluster.sent(LeaseCopy)) == 2
    for site, held in (("ash", "r"), ("bow", "l")):
        assert portions_told(cluster, site) == [(1, ("key",)), (2, ("key", "n"))]
        assert [name for name in cluster.open_tables[site] if name.startswith("copy/")] == [f"copy/{held}/1"]
    feed(cluster, 0, 150)
    finish(cluster, 150)
    for query_id, asked in TWO.items():
        check(cluster, query_id, asked)
        assert cluster.results(query_id)
    for holder, stream in (("ash", "r"), ("bow", "l")):
        rows = held_rows(cluster, holder)
        assert rows.to_pylist() == needed_rows(cluster, stream, TWO)
        # There is something of each kind: what only one needs, only the other, both, and neither.
        assert set(rows.column(PASSES).to_pylist()) == {0b010, 0b100, 0b110}
        assert rows.num_rows < sum(batch.num_rows for batch in cluster.rows[stream])
        assert 0 < rows.column("n").null_count < rows.num_rows
    assert cluster.leftovers() == []


def test_columns_that_nobody_selects_never_travel() -> None:
    def bytes_a_tuple(*queries: Asked) -> float:
        """Of a batch with many tuples, in which what frames them is little."""
        cluster = Cluster()
        for number, asked in enumerate(queries):
            issue(cluster, "cam", f"q{number}", Algorithm.SP_S, asked)
            cluster.settle()
        rng = random.Random(1)
        ts = [number // 300 for number in range(3000)]
        cluster.arrive("r", *ts, watermark=10, keys=[rng.randrange(2**40) for _ in ts])
        (sync,) = [sync for sync in cluster.sent(Sync, site="bow") if isinstance(sync, Sync) and sync.rows]
        (copy,) = cluster.sites["bow"].arrangements.owned.all
        assert copy.tuples == len([n for n in range(3000) if any(asked.passes(1, n) for asked in queries)])
        return len(sync.rows) / 3000

    key = 40 / 8
    # A tuple's time and its portions take little, because they repeat.
    assert key / 3 < bytes_a_tuple(KEYS_OF_SOME) < key / 3 + 0.5
    both = bytes_a_tuple(KEYS_OF_SOME, Asked(rest=2, selected="key"))
    assert key * 2 / 3 < both < key * 2 / 3 + 0.5
    # Nobody's keys are sent twice, whoever else asks for them.
    assert bytes_a_tuple(KEYS_OF_SOME, Asked(selected="key"), Asked(rest=2)) < key + 1


@ENGINES
@pytest.mark.parametrize("dropped", list(TWO))
def test_when_one_of_two_is_dropped_a_full_copy_has_only_what_the_other_needs(
    engine: type[Engine], dropped: str
) -> None:
    cluster = two_with_full_copies(engine)
    feed(cluster, 0, 60)
    told = {site: len(cluster.sent(SetPortion, DropPortion, site=site)) for site in ("ash", "bow")}
    before = {site: held_rows(cluster, site).num_rows for site in told}
    cluster.give("cam", DropRequested(dropped))
    cluster.settle()
    for site, first in told.items():
        assert portions_told(cluster, site, first) == [(1 if dropped == "q1" else 2, None)]
    assert cluster.sent(CloseCopy) == []
    feed(cluster, 60, 200, seed=2)
    finish(cluster, 200)
    (left,) = TWO.keys() - {dropped}
    check(cluster, left, TWO[left])
    assert cluster.results(left)
    bit = 2 if left == "q1" else 4
    for holder, stream in (("ash", "r"), ("bow", "l")):
        newer = held_rows(cluster, holder).to_pylist()[before[holder] :]
        needed = needed_rows(cluster, stream, {left: TWO[left]})
        assert newer == [{**row, PASSES: bit} for row in needed[len(needed) - len(newer) :]] != []
        assert (len([row for row in newer if row["n"] is not None]) > 0) == (left == "q2")
    assert cluster.leftovers() == []


def test_a_portion_that_two_need_has_the_columns_of_both_and_loses_those_of_the_one_that_ends() -> None:
    cluster = Cluster()
    wanted = {"q1": KEYS_OF_SOME, "q2": Asked(rest=1), "q3": Asked(rest=1, selected="ts")}
    for query_id, asked in wanted.items():
        issue(cluster, "cam", query_id, Algorithm.SP_S, asked)
        cluster.settle()
    for site in ("ash", "bow"):
        assert portions_told(cluster, site) == [(1, ("key",)), (1, ("key", "n")), (1, ("ts", "key", "n"))]
    feed(cluster, 0, 60)
    cluster.give("cam", DropRequested("q3"))
    cluster.settle()
    for site in ("ash", "bow"):
        assert portions_told(cluster, site, 3) == [(1, ("key", "n"))]
    before = held_rows(cluster, "ash").num_rows
    feed(cluster, 60, 120, seed=2)
    finish(cluster, 120)
    times = held_rows(cluster, "ash").column("ts").to_pylist()
    assert None not in times[:before]
    assert set(times[before:]) == {None}
    for query_id in ("q1", "q2"):
        check(cluster, query_id, wanted[query_id])
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


def test_a_bit_that_was_anothers_says_nothing_of_older_tuples() -> None:
    cluster = two_with_full_copies(NativeEngine)
    feed(cluster, 0, 60)
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    later = Asked(windows=(("range", 100_000), ("range", 100_000)), rest=2, selected="key")
    issue(cluster, "cam", "q3", Algorithm.SP_S, later)
    cluster.settle()
    assert portions_told(cluster, "bow", 2) == [(1, None), (1, ("key",))]
    feed(cluster, 60, 160, seed=2)
    finish(cluster, 160)
    for query_id, asked in (("q2", NUMBERS_ABOVE), ("q3", later)):
        check(cluster, query_id, asked)
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


@pytest.mark.parametrize("heard", range(14))
def test_a_query_that_is_issued_while_another_is_prepared_shares_its_full_copy(heard: int) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", Algorithm.SP_S, KEYS_OF_SOME)
    for _ in range(heard):
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
    for stream in ("l", "r"):
        if stream in cluster.reads:
            cluster.arrive(stream, 1, 2, 13, 14, watermark=20)
    issue(cluster, "cam", "q2", Algorithm.SP_S, NUMBERS_ABOVE)
    cluster.settle()
    assert len(cluster.sent(OpenCopy)) == len(cluster.sent(LeaseCopy)) == 2
    for stream in ("l", "r"):
        if not cluster.rows[stream]:
            cluster.arrive(stream, 1, 2, 13, 14, watermark=20)
    feed(cluster, 20, 120)
    finish(cluster, 120)
    for query_id, asked in TWO.items():
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        check(cluster, query_id, asked)
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


def test_a_query_of_which_a_batch_has_nothing_fails_at_its_holder_and_the_other_goes_on() -> None:
    #  cam -- Drop q2 --> bow -- DropPortion, Sync --> ash, which has not heard of the drop
    cluster = two_with_full_copies()
    feed(cluster, 0, 60)
    cluster.give("cam", DropRequested("q2"))
    assert isinstance(cluster.deliver("cam", "bow"), Drop)
    cluster.arrive("r", 61, 62, watermark=70)
    assert [type(message) for message in cluster.mail["bow", "ash"]] == [DropPortion, Sync]
    cluster.deliver("bow", "ash")
    cluster.deliver("bow", "ash")
    assert list(cluster.sites["ash"].runs) == ["q1"]
    assert Lost("q2", FIRST_GENERATION, "site bow no longer sends what it needs") in cluster.mail["ash", "cam"]
    cluster.settle()
    assert state_of(cluster, "q2")[0] is QueryState.DROPPED
    cluster.arrive("l", 63, watermark=70)
    feed(cluster, 70, 120, seed=2)
    finish(cluster, 120)
    check(cluster, "q1", KEYS_OF_SOME)
    assert cluster.blamed == []
    assert cluster.leftovers() == []


def test_a_query_that_failed_at_a_streams_site_fails_with_a_reason_whoever_is_heard_first() -> None:
    cluster = two_with_full_copies()
    feed(cluster, 0, 60)
    cluster.say("ash", "bow", Carry("q2", "a", Span(0, 1), 7, 0, b""))  # no step of q2's, so bow gives it up
    assert "q2" not in cluster.sites["bow"].runs
    cluster.arrive("r", 61, 62, watermark=70)
    cluster.settle_but(("bow", "cam"))
    assert state_of(cluster, "q2") == (QueryState.RECOVERING, "site bow no longer sends what it needs")
    cluster.settle()
    state, reason = state_of(cluster, "q2")
    assert state is QueryState.FAILED
    assert reason.startswith("site ash broke the protocol: ")
    cluster.arrive("l", 63, watermark=70)
    feed(cluster, 70, 120, seed=2)
    finish(cluster, 120)
    check(cluster, "q1", KEYS_OF_SOME)
    assert cluster.leftovers() == []


def test_a_batch_without_the_portion_of_a_query_that_begins_later_fails_nobody() -> None:
    #  q2 is prepared at ash, which holds copies for it, and not yet at bow, whose batches are without it
    cluster = Cluster()
    issue(cluster, "cam", "q1", Algorithm.SP_S, KEYS_OF_SOME)
    cluster.settle()
    feed(cluster, 0, 60)
    issue(cluster, "cam", "q2", Algorithm.SP_S, NUMBERS_ABOVE)
    cluster.settle_but(("cam", "bow"))
    assert not cluster.sites["ash"].runs["q2"].started
    cluster.arrive("r", 61, 72, watermark=80)
    cluster.settle_but(("cam", "bow"))
    assert list(cluster.sites["ash"].runs) == ["q1", "q2"]
    cluster.settle()
    cluster.arrive("l", 63, watermark=80)
    feed(cluster, 80, 160, seed=2)
    finish(cluster, 160)
    for query_id, asked in TWO.items():
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        check(cluster, query_id, asked)
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


# A query that one site has ended alone, and of which its home has not heard yet.

#: All that comes is within the windows.
LONG: tuple[Window, Window] = (("range", 1_000_000), ("range", 1_000_000))
BAD_STEP = "requires a step that is done between us"


def end_at_bow(cluster: Cluster, query_id: str) -> None:
    """Bow gives a query up, because of a message that its plan has no step for."""
    cluster.say("ash", "bow", Carry(query_id, "a", Span(0, 1), 7, 0, b""))
    assert query_id not in cluster.sites["bow"].runs
    assert isinstance(cluster.mail["bow", "cam"][-1], Failed)


def issue_null(cluster: Cluster, query_id: str) -> None:
    """A query that no tuple passes, by a column that is sent to nobody for it."""
    text = "SELECT a.n AS an, b.key AS bn FROM l [RANGE 1 S] AS a JOIN r [RANGE 1 S] AS b ON a.key = b.key"
    query = parse_query(f"{text} WHERE b.n IS NULL", cluster.sites["cam"].catalogue)
    cluster.give("cam", QueryIssued(query_id, forced_plan(query, "cam", Algorithm.SP_S)))


@ENGINES
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_query_whose_owner_ended_it_before_its_holder_heard_of_its_start_is_given_no_row_that_does_not_pass(
    engine: type[Engine], batches: int
) -> None:
    #  cam -- Start q2 --> ash         is held back,
    #  bow -- Failed q2 --> cam        too; bow's batches go on, without the portion of q2
    cluster = Cluster(engine=engine)
    keys = Asked(windows=LONG, selected="key")
    issue(cluster, "cam", "q1", Algorithm.SP_S, keys)
    cluster.settle()
    feed(cluster, 0, 40)
    issue_null(cluster, "q2")
    cluster.settle_but(("cam", "ash"))
    assert isinstance(cluster.deliver("cam", "ash"), Prepare)
    cluster.settle_but(("cam", "ash"))
    assert isinstance(cluster.mail["cam", "ash"][0], Start)
    assert cluster.sites["bow"].runs["q2"].started
    end_at_bow(cluster, "q2")
    held_back = [("cam", "ash"), ("bow", "cam")]
    for number in range(batches):
        end = 60 + 20 * number
        cluster.arrive("r", end - 18, end - 5, watermark=end)
        cluster.settle_but(*held_back)
    cluster.settle_but(("bow", "cam"))  # Start comes
    end = 60 + 20 * batches
    for stream in ("l", "r", "l"):
        cluster.arrive(stream, end - 18, end - 5, watermark=end)
        cluster.settle_but(("bow", "cam"))
        end += 20
    assert cluster.results("q2") == [], "n is never null"
    cluster.settle()
    assert state_of(cluster, "q2")[0] is QueryState.FAILED
    finish(cluster, end)
    assert state_of(cluster, "q1") == (QueryState.COMPLETED, "")
    check(cluster, "q1", keys)
    assert cluster.results("q1")
    assert cluster.results("q2") == []
    assert cluster.leftovers() == []


@ENGINES
@pytest.mark.parametrize("early", [True, False], ids=["before it begins", "when it has begun"])
def test_a_query_that_is_carried_by_what_another_needs_stays_right_when_its_filter_gets_a_new_number(
    engine: type[Engine], early: bool
) -> None:
    #  bow has ended q2, and cam does not know; q1 needs all tuples, with all columns that q2 and its filter read
    cluster = Cluster(engine=engine)
    asked = {
        "q1": Asked(windows=LONG),
        "q2": Asked(windows=LONG, rest=1, selected="key"),
        "q3": Asked(windows=LONG, above=(3, 3)),
        "q4": Asked(windows=LONG, rest=1),
    }
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, Algorithm.SP_S, asked[query_id])
        cluster.settle()
        if query_id == "q1":
            feed(cluster, 0, 40)
    end_at_bow(cluster, "q2")
    cut = ("bow", "cam")
    cluster.settle_but(cut)
    assert portions_told(cluster, "bow")[1:] == [(1, ("key",)), (1, None)]

    def prepare_others() -> None:
        for query_id in ("q3", "q4"):
            issue(cluster, "cam", query_id, Algorithm.SP_S, asked[query_id])
            cluster.settle_but(cut)
        assert portions_told(cluster, "bow", 3) == [(1, ("key", "n")), (2, ("key", "n"))]

    if early:
        prepare_others()
    cluster.arrive("r", *range(41, 55), watermark=60)
    cluster.settle_but(cut)
    if not early:
        prepare_others()
    cluster.arrive("r", *range(61, 75), watermark=80)
    cluster.settle_but(cut)
    cluster.arrive("l", *range(75, 79), watermark=80)  # the rows of walks that begin at ash, where q2 goes on
    cluster.settle_but(cut)
    assert state_of(cluster, "q2") == (QueryState.RUNNING, "")
    check(cluster, "q2", asked["q2"])
    assert len(cluster.results("q2")) > 10
    cluster.settle()
    assert BAD_STEP in state_of(cluster, "q2")[1]
    finish(cluster, 80)
    for query_id in ("q1", "q3", "q4"):
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
        check(cluster, query_id, asked[query_id])
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


def test_where_home_holds_the_copy_the_reason_of_a_failure_is_the_owners_own() -> None:
    cluster = Cluster()
    for query_id, asked in TWO.items():
        issue(cluster, "ash", query_id, Algorithm.SP_S, asked)
        cluster.settle()
    feed(cluster, 0, 40)
    cluster.say("ash", "bow", Carry("q2", "a", Span(0, 1), 7, 0, b""))
    assert [type(message) for message in cluster.mail["bow", "ash"]] == [Failed, DropPortion]
    cluster.settle()
    state, reason = state_of(cluster, "q2")
    assert state is QueryState.FAILED
    assert BAD_STEP in reason
    feed(cluster, 40, 80, seed=2)
    finish(cluster, 80)
    check(cluster, "q1", KEYS_OF_SOME)
    assert cluster.leftovers() == []


# A query that begins before its owner was prepared, in the retained past.


def in_the_past(first: Asked, second: Asked, dropped: bool) -> Cluster:
    """The second query begins where the first did, and goes on when that is over."""
    cluster = Cluster(retain_ms=(1_000, 1_000))
    issue(cluster, "cam", "q1", Algorithm.SP_S, first)
    cluster.settle()
    feed(cluster, 0, 100)
    assert len(cluster.sent(OpenCopy)) == 2
    issue(cluster, "cam", "q2", Algorithm.SP_S, second)
    cluster.settle()
    assert from_ts(cluster, "q2") == from_ts(cluster, "q1")
    feed(cluster, 100, 130, seed=2)
    if dropped:
        cluster.give("cam", DropRequested("q1"))
        cluster.settle()
        assert state_of(cluster, "q2") == (QueryState.RUNNING, "")
    feed(cluster, 130, 160, seed=3)
    finish(cluster, 160)
    for query_id, asked in (("q1", first), ("q2", second)):
        if query_id == "q2" or not dropped:
            assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
            check(cluster, query_id, asked)
            assert cluster.results(query_id)
    assert cluster.blamed == []
    assert cluster.leftovers() == []
    return cluster


@pytest.mark.parametrize("dropped", [True, False], ids=["the first is dropped", "both complete"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Asked(windows=LONG), Asked(windows=LONG)),
        (Asked(windows=LONG), Asked(windows=LONG, selected="key")),
        (Asked(windows=LONG, rest=1), Asked(windows=LONG, rest=1, selected="key")),
    ],
    ids=["the same", "fewer columns", "fewer columns behind a filter"],
)
def test_a_query_of_the_past_shares_a_full_copy_that_has_all_it_needs_since_its_first_tick(
    first: Asked, second: Asked, dropped: bool
) -> None:
    cluster = in_the_past(first, second, dropped)
    assert (len(cluster.sent(OpenCopy)), len(cluster.sent(LeaseCopy))) == (2, 2)


@pytest.mark.parametrize("dropped", [True, False], ids=["the first is dropped", "both complete"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Asked(windows=LONG, selected="key"), Asked(windows=LONG)),
        (Asked(windows=LONG, rest=1), Asked(windows=LONG)),
        (Asked(windows=LONG, rest=1), Asked(windows=LONG, above=(2, 2))),
        (Asked(windows=LONG, selected="key"), Asked(windows=LONG, rest=1, selected="key")),
    ],
    ids=["another column", "other tuples", "another filter", "a filter of which the column is missing"],
)
def test_a_query_of_the_past_opens_a_full_copy_of_its_own_if_what_is_there_has_not_all_it_needs(
    first: Asked, second: Asked, dropped: bool
) -> None:
    cluster = in_the_past(first, second, dropped)
    assert (len(cluster.sent(OpenCopy)), len(cluster.sent(LeaseCopy))) == (4, 0)


def test_a_query_of_the_past_outlives_another_whose_tuples_and_columns_were_all_it_needs() -> None:
    in_the_past(Asked(windows=LONG), Asked(windows=LONG, rest=1), dropped=True)


def _above_two() -> RunningCopy:
    condition = Call(">", (ColumnRef("r", "n"), Literal(2, pa.int64())), pa.bool_())
    return RunningCopy(CopyKind.FULL, "r", (), ("key",), condition, CopyAxis.TIME, "bow", "ash")


PORTION = _above_two()


@pytest.mark.parametrize(
    "wrong",
    [
        DropPortion(1, 9),
        SetPortion(1, 62, PORTION),
        SetPortion(1, 0, PORTION),
        SetPortion(1, 3, replace(PORTION, filter=None)),
        SetPortion(1, 3, replace(PORTION, columns=("gone",))),
        SetPortion(1, 3, replace(PORTION, stream="l")),
        SetPortion(1, 3, replace(PORTION, axis=CopyAxis.ROWS)),
    ],
    ids=["not there", "no such number", "0 with a filter", "no filter", "no column", "another stream", "another axis"],
)
def test_a_wrong_portion_fails_all_who_use_the_copy(wrong: SetPortion | DropPortion) -> None:
    cluster = two_with_full_copies()
    issue(cluster, "cam", "q3", Algorithm.SP_D, TIME_WINDOW)
    cluster.settle()
    cluster.say("bow", "ash", wrong)
    cluster.settle()
    for query_id in TWO:
        state, reason = state_of(cluster, query_id)
        assert state is QueryState.FAILED
        assert "site bow broke the protocol" in reason
    finish(cluster, 40)
    check(cluster, "q3", TIME_WINDOW)
    assert cluster.leftovers() == []


def test_queries_over_time_and_over_counts_do_not_share_a_full_copy() -> None:
    cluster = Cluster()
    asked = {"q1": Asked(), "q2": Asked(windows=(("rows", 3), ("rows", 3)))}
    for query_id, each in asked.items():
        issue(cluster, "cam", query_id, Algorithm.SP_S, each)
        cluster.settle()
    assert len(cluster.sent(OpenCopy)) == 4
    assert cluster.sent(LeaseCopy) == []
    feed(cluster, 0, 60)
    finish(cluster, 60)
    for query_id, each in asked.items():
        check(cluster, query_id, each)
        assert cluster.results(query_id)
    assert cluster.leftovers() == []


# -- races ------------------------------------------------------------------------------------


@WITH_COPY
def test_a_copy_whose_query_was_dropped_before_its_owner_heard_of_it_serves_another(algorithm: Algorithm) -> None:
    #  cam -- Start q1, Drop q1 --> ash         ash has dropped q1 when bow's OpenCopy for it comes;
    #  bow -- OpenCopy q1, LeaseCopy q2 --> ash  q2 leased that copy at bow before bow heard of the drop
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    issue(cluster, "cam", "q2", algorithm, TIME_WINDOW)
    cluster.settle_but(("bow", "ash"))
    # Of the copy of r that ash has: what it is to have, and that it is as far as r.
    said = [OpenCopy, LeaseCopy] + [SetPortion] * (algorithm.spec.copy is CopyKind.FULL) + [Level]
    assert [type(message) for message in cluster.mail["bow", "ash"]] == said
    cluster.give("cam", DropRequested("q1"))
    assert isinstance(cluster.deliver("cam", "ash"), Drop)
    cluster.deliver("bow", "ash", 2)
    cluster.settle()
    feed(cluster, 0, 60)
    finish(cluster, 60)
    assert state_of(cluster, "q2") == (QueryState.COMPLETED, "")
    check(cluster, "q2", TIME_WINDOW)
    assert cluster.results("q2")
    assert cluster.blamed == []
    assert cluster.leftovers() == []


@WITH_COPY
def test_a_copy_is_held_for_a_query_that_is_prepared_when_its_last_user_goes(algorithm: Algorithm) -> None:
    #  q2 is prepared, and may turn out to use the copies, when q1 is dropped
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 40)
    issue(cluster, "cam", "q2", algorithm, TIME_WINDOW)
    cluster.deliver("cam", "ash")
    cluster.deliver("cam", "bow")
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    assert cluster.sent(CloseCopy) == []
    assert len(cluster.sent(OpenCopy)) == 2
    feed(cluster, 40, 100, seed=2)
    finish(cluster, 100)
    check(cluster, "q2", TIME_WINDOW)
    assert cluster.results("q2")
    assert cluster.blamed == []
    assert cluster.leftovers() == []


@WITH_COPY
def test_a_copy_that_was_held_only_for_a_prepared_query_is_closed_when_that_is_dropped(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 40)
    issue(cluster, "bow", "q2", algorithm, TIME_WINDOW)
    cluster.deliver("bow", "ash")
    cluster.give("cam", DropRequested("q1"))
    cluster.settle_but(("ash", "bow"))
    assert not cluster.sites["bow"].runs["q2"].started
    cluster.give("bow", DropRequested("q2"))
    cluster.settle()
    assert len(cluster.sent(CloseCopy)) == 2
    assert cluster.blamed == []
    assert cluster.leftovers() == []


@WITH_COPY
def test_a_query_that_leases_a_copy_just_before_its_last_user_goes_keeps_it(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 40)
    issue(cluster, "cam", "q2", algorithm, TIME_WINDOW)
    cluster.settle_but(("bow", "ash"))  # bow has leased for q2, and ash has not heard of it
    cluster.give("cam", DropRequested("q1"))
    cluster.settle_but(("bow", "ash"))
    cluster.settle()
    assert cluster.sent(CloseCopy) == []
    feed(cluster, 40, 100, seed=2)
    finish(cluster, 100)
    check(cluster, "q2", TIME_WINDOW)
    assert cluster.results("q2")
    assert cluster.blamed == []
    assert cluster.leftovers() == []


@WITH_COPY
def test_a_sync_that_crosses_the_end_of_its_copy_is_ignored(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, ("rows", 3))
    cluster.settle()
    cluster.arrive("l", 1, 12, watermark=20)
    assert any(isinstance(message, Sync) for message in cluster.mail["ash", "bow"])
    cluster.give("cam", DropRequested("q1"))
    while cluster.mail["cam", "bow"]:
        cluster.deliver("cam", "bow")
    cluster.settle()
    assert IgnoreReason.UNKNOWN_COPY in cluster.ignored
    assert cluster.blamed == []
    assert cluster.leftovers() == []


# -- failures ---------------------------------------------------------------------------------


@WITH_COPY
def test_a_copys_table_that_fails_fails_all_who_use_it_and_nobody_else(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    issue(cluster, "bow", "q2", algorithm, TIME_WINDOW)
    issue(cluster, "bow", "q3", Algorithm.SP_D, ("rows", 2))
    cluster.settle()
    feed(cluster, 0, 30)
    copies = [name for name in cluster.open_tables["ash"] if name.startswith("copy/")]
    if not copies:  # V has no tuples
        return
    cluster.give("ash", EngineFailed(0, copies[0], "disk on fire"))
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert state_of(cluster, query_id) == (QueryState.FAILED, "at ash: the engine failed: disk on fire")
    finish(cluster, 40)
    check(cluster, "q3", ("rows", 2))
    assert cluster.leftovers() == []


@EVERY
def test_a_streams_table_that_fails_fails_all_who_look_at_it_and_nobody_else(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    issue(cluster, "cam", "q2", algorithm, ("rows", 2))
    text = "SELECT a.n AS an, b.n AS bn FROM r [RANGE 30 MS] AS a JOIN r [RANGE 30 MS] AS b ON a.key = b.key"
    plan = forced_plan(parse_query(text, cluster.sites["cam"].catalogue), "cam", Algorithm.SP_D)
    cluster.give("cam", QueryIssued("q3", plan))
    cluster.settle()
    feed(cluster, 0, 30)
    cluster.give("ash", EngineFailed(0, "l/1", "disk on fire"))
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert state_of(cluster, query_id) == (QueryState.FAILED, "at ash: the engine failed: disk on fire")
    cluster.arrive("r", 40, ended=True)
    cluster.settle()
    assert state_of(cluster, "q3") == (QueryState.COMPLETED, "")
    assert cluster.leftovers() == []


@EVERY
def test_a_question_that_fails_fails_its_query_alone(algorithm: Algorithm) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    issue(cluster, "cam", "q2", algorithm, TIME_WINDOW)
    cluster.settle()
    cluster.arrive("l", 1, 2, 30)
    cluster.arrive("r", 3, 31, 95)
    site, op_id, failed = _ask_first(cluster)
    cluster.give(site, EngineFailed(op_id, "", "too many rows"))
    cluster.settle()
    assert state_of(cluster, failed) == (QueryState.FAILED, f"at {site}: the engine failed: too many rows")
    finish(cluster, 100)
    other = "q2" if failed == "q1" else "q1"
    assert state_of(cluster, other) == (QueryState.COMPLETED, "")
    check(cluster, other, TIME_WINDOW)
    assert cluster.leftovers() == []


def _ask_first(cluster: Cluster) -> tuple[str, int, str]:
    """Let things arrive until a walk asks an engine, which keeps silent; where, under which number, of which query."""
    while True:
        for name, site in cluster.sites.items():
            for op_id, asker in site.asking.items():
                if isinstance(asker, Waiting):
                    kept = [answer for answer in cluster.answers[name] if answer.op_id != op_id]
                    cluster.answers[name] = deque(kept)
                    return name, op_id, asker.walk.query_id
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
        else:
            cluster.answer(next(name for name, answers in cluster.answers.items() if answers))


def test_tuples_that_could_not_be_sent_for_one_query_are_not_lost_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Walks._send

    def refuse(walks: Walks, peer: str, message: StepMessage | Rows) -> None:
        if isinstance(message, TupleAnswer) and message.query_id == "q1":
            raise ShipmentTooLargeError("as the test says")
        send(walks, peer, message)

    monkeypatch.setattr(Walks, "_send", refuse)
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, Algorithm.SM_S1, TIME_WINDOW)
        cluster.settle()
    assert len(cluster.sent(OpenCopy)) == len(cluster.sent(LeaseCopy)) == 2
    cluster.arrive("r", 1, 2, 3, 30)
    cluster.arrive("l", 4, 5, 31)
    cluster.settle()
    assert state_of(cluster, "q1")[0] is QueryState.FAILED
    finish(cluster, 40)
    assert state_of(cluster, "q2") == (QueryState.COMPLETED, "")
    check(cluster, "q2", TIME_WINDOW)
    assert cluster.results("q2") != []


def test_a_fetch_that_fails_fails_also_those_who_lease_the_copy_later() -> None:
    """Its answer is missing for good, so all later ones would wait for it, and who waits for them."""
    cluster = Cluster()
    issue(cluster, "cam", "q1", Algorithm.SM_S2, TIME_WINDOW)
    cluster.settle()
    cluster.arrive("r", 1, 2, 30)
    cluster.arrive("l", 4, 31)
    cluster.settle_mail()
    bow = cluster.sites["bow"]
    (fetch,) = [op_id for op_id, asker in bow.asking.items() if isinstance(asker, FetchAnswer)]
    issue(cluster, "cam", "q2", Algorithm.SM_S2, TIME_WINDOW)
    while pair := next((pair for pair, mail in cluster.mail.items() if mail and pair != ("ash", "bow")), None):
        cluster.deliver(*pair)
    assert [type(message) for message in cluster.mail["ash", "bow"]] == [LeaseCopy]
    cluster.answers["bow"] = deque(answer for answer in cluster.answers["bow"] if answer.op_id != fetch)
    cluster.give("bow", EngineFailed(fetch, "", "disk on fire"))
    cluster.settle()
    for query_id in ("q1", "q2"):
        assert state_of(cluster, query_id) == (QueryState.FAILED, "at bow: the engine failed: disk on fire")
    assert cluster.leftovers() == []


@WITH_COPY
def test_a_wrong_sync_fails_all_who_use_the_copy(algorithm: Algorithm) -> None:
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        issue(cluster, "cam", query_id, algorithm, TIME_WINDOW)
        cluster.settle()
    issue(cluster, "cam", "q3", Algorithm.SP_D, TIME_WINDOW)
    cluster.settle()
    cluster.say("bow", "ash", Sync(1, 5, 0, 0, b"x", b"x", b"", b"x"))
    cluster.settle()
    assert {state_of(cluster, query_id)[0] for query_id in ("q1", "q2")} == {QueryState.FAILED}
    finish(cluster, 40)
    check(cluster, "q3", TIME_WINDOW)
    assert cluster.leftovers() == []


@WITH_COPY
@pytest.mark.parametrize("lost", ["ash", "bow", "cam"])
def test_queries_that_shared_go_on_when_a_site_loses_its_state(algorithm: Algorithm, lost: str) -> None:
    cluster = Cluster()
    issue(cluster, "cam", "q1", algorithm, TIME_WINDOW)
    cluster.settle()
    issue(cluster, "ash", "q2", algorithm, TIME_WINDOW)
    cluster.settle()
    feed(cluster, 0, 30)
    cluster.give("ash", DropRequested("q2"))
    issue(cluster, "bow", "q3", algorithm, TIME_WINDOW)
    cluster.settle()
    cluster.restart(lost)
    cluster.settle()
    feed(cluster, 30, 60)
    finish(cluster, 60)
    for query_id in ("q1", "q3"):
        check(cluster, query_id, TIME_WINDOW)
        assert state_of(cluster, query_id) == (QueryState.COMPLETED, "")
    assert cluster.blamed == []
    assert cluster.leftovers() == []


# -- any order --------------------------------------------------------------------------------


class Fate:
    """Random queries come and go over the same two streams; messages, answers and logs speak in any order allowed."""

    def __init__(self, seed: int, engine: type[Engine] = ReferenceEngine) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster(retain_ms=self.rng.choice([(0, 0), (0, 0), (40, 60)]), engine=engine)
        self.cluster.hold_logs = True
        self.asked: dict[str, Asked] = {}
        self.ts = 0
        self.last = {"l": 0, "r": 0}

    def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        pairs = [pair for pair, mail in cluster.mail.items() if mail]
        sites = [site for site, answers in cluster.answers.items() if answers]
        logs = [site for site, news in cluster.log_news.items() if news]
        dice = rng.random()
        if dice < 0.03 and len(self.asked) < 8:
            self._issue()
        elif dice < 0.04 and self.asked:
            self._drop()
        elif dice < 0.15 and cluster.reads:
            stream = rng.choice(sorted(cluster.reads))
            self.ts += rng.randrange(0, 12)
            ts = sorted(rng.randint(max(self.last[stream], self.ts - 9), self.ts) for _ in range(rng.randrange(4)))
            self.last[stream] = max([self.last[stream], *ts])  # nothing is late
            cluster.arrive(stream, *ts, keys=[rng.randrange(3) for _ in ts] or None)
        elif logs and dice < 0.25:
            site = rng.choice(logs)
            cluster.give(site, cluster.log_news[site].popleft())
        elif pairs and (dice < 0.6 or not sites):
            cluster.deliver(*rng.choice(pairs))
        elif sites:
            cluster.answer(rng.choice(sites))

    def _issue(self) -> None:
        rng, query_id = self.rng, f"q{len(self.asked)}"
        windows: list[Window] = [TIME_WINDOW, TIME_WINDOW, ("range", 20_000), ("rows", 3)]
        above = [None, None, None, 5, 20]
        asked = Asked(
            rng.choice([("a", "b"), ("x", "y")]),
            (rng.choice(windows), rng.choice(windows)),
            (rng.choice(above), rng.choice(above)),
            rng.choice([None, None, None, 1]),
            rng.choice(["n", "n", "key"]),
        )
        self.asked[query_id] = asked
        sink = rng.choice(["ash", "bow", "cam"])
        query = parse_query(asked.text, self.cluster.sites[sink].catalogue)
        choice = {alias: rng.choice([*COPYING, *Algorithm]) for alias in asked.aliases}
        self.cluster.give(sink, QueryIssued(query_id, forced_plan(query, sink, choice)))

    def _drop(self) -> None:
        query_id = self.rng.choice(sorted(self.asked))
        home = next(site for site in self.cluster.sites.values() if query_id in site.homes)
        self.cluster.give(home.name, DropRequested(query_id))

    def end(self) -> None:
        cluster = self.cluster
        self._settle()
        for stream in ("l", "r"):
            if stream in cluster.reads:
                cluster.arrive(stream, self.ts + 20, self.ts + 21, ended=True)
                self._settle()

    def _settle(self) -> None:
        self.cluster.settle()
        while any(self.cluster.log_news.values()):
            self.cluster.hear_logs()
            self.cluster.settle()


@pytest.mark.parametrize("seed", range(some_of(40)))
def test_queries_that_come_and_go_are_exact_in_any_order_of_messages(seed: int) -> None:
    fate = Fate(seed, NativeEngine if seed % 2 else ReferenceEngine)
    for _ in range(800):
        fate.step()
    fate.end()
    cluster = fate.cluster
    assert cluster.blamed == []
    for query_id, asked in fate.asked.items():
        state, reason = state_of(cluster, query_id)
        assert state is not QueryState.FAILED, reason
        if state is QueryState.COMPLETED:
            check(cluster, query_id, asked)
    assert cluster.leftovers() == []


@pytest.mark.long
def test_those_fates_share_what_they_are_meant_to_share() -> None:
    leased = fetched = rows = 0
    for seed in range(12):
        fate = Fate(seed)
        for _ in range(800):
            fate.step()
        fate.end()
        leased += len(fate.cluster.sent(LeaseCopy))
        fetched += len(fate.cluster.sent(Fetch))
        rows += sum(len(fate.cluster.results(query_id)) for query_id in fate.asked)
    assert leased > 5
    assert fetched > 5
    assert rows > 100
