"""Queries come and go; what a daemon keeps of them stops growing. Objects are counted, not bytes."""

from __future__ import annotations

import gc
from collections import Counter
from itertools import cycle
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType

import pyarrow as pa
import pytest

from node.core.effects import MeasureStream, QueryState, StoreRows
from node.core.events import DropRequested, EngineFailed, RowsStored, StatisticsRequested, StoreFailed, StreamMeasured
from node.core.limits import Limits
from node.core.links.causes import Cause, Purpose, Traffic
from node.core.streams.recent_batches import RecentBatches
from node.core.streams.ticks import Span
from node.io.planning.outcome import Planned
from node.io.results.issued_queries import Queries
from node.stack import TimePassed
from planner.model.errors import QueryError
from planner.model.query import Algorithm
from planner.sql.parser import parse_query
from tests.unit.files import AtOnce
from tests.unit.nodes import PEER, Nodes
from tests.unit.sites import QUERY, Cluster

LIMITS = Limits(news_us=0, ended_queries_max=4, untaken_queries_max=6)
ALGORITHMS = list(Algorithm)


def held(*roots: object) -> Counter[str]:
    """How many objects of each type can be reached, through closures too, but not through modules and classes."""
    gc.collect()  # a tuple of plain values is tracked until it was looked at once
    seen: dict[int, object] = {}
    found: Counter[str] = Counter()
    left = list(roots)
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | CodeType | BuiltinFunctionType):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, FunctionType):
            left += [cell.cell_contents for cell in thing.__closure__ or ()]
        elif isinstance(thing, MethodType):
            left.append(thing.__self__)
        else:
            if gc.is_tracked(thing):
                found[type(thing).__name__] += 1
            left += gc.get_referents(thing)
    return found


class Life:
    """Two nodes whose streams go on while queries come and go."""

    def __init__(self) -> None:
        self.nodes = Nodes(LIMITS)
        sites = [stack.site for stack in self.nodes.stacks.values()]
        self._streams = {name: stream for site in sites for name, stream in site.streams.items()}
        for stream in self._streams.values():
            stream.recent = RecentBatches(rows_max=1)
        self.nodes.connect()
        self._round = 0
        self._algorithms = cycle(ALGORITHMS)

    def round(self) -> None:
        """Three queries, two of them alike so that they share copies: dropped, failed at home, failed elsewhere."""
        self._round += 1
        home = ("ash", "bow")[self._round % 2]
        algorithm = next(self._algorithms)
        names = [f"{home}-{self._round}-{number}" for number in range(3)]
        for name in names:
            self.nodes.issue(home, name, algorithm)
            self._ask(home, f"{home}?{name}")
            self.nodes.run()
            self._rows()
        self.nodes.give(home, DropRequested(names[0]))
        self._rows()
        self.nodes.give(home, StoreFailed(names[1], "as the test says"))
        self._rows()
        site = self.nodes.stacks[PEER[home]].site
        for table in [table.name for table in site.arrangements.local.all]:
            self.nodes.give(PEER[home], EngineFailed(0, table, "as the test says"))
        self._rows()
        assert self.nodes.rows, "they did run"
        self.nodes.outputs.clear()
        self.nodes.rows.clear()
        assert not any(stack.site.runs for stack in self.nodes.stacks.values())

    def _rows(self) -> None:
        self.nodes.now_us += 3_000_000
        time = self.nodes.now_us // 100_000
        for name, stream in self._streams.items():
            if stream.reading:
                self.nodes.arrive(name, time, time + 1)
        for site in PEER:
            self.nodes.give(site, TimePassed())
        self.nodes.run()

    def _ask(self, home: str, request: str) -> None:
        query = parse_query(QUERY, self.nodes.stacks[home].site.catalogue)
        self.nodes.give(home, StatisticsRequested(request, query))
        self.nodes.run()
        for site, output in self.nodes.outputs:
            if isinstance(output, MeasureStream) and output.request_id == request:
                self.nodes.give(site, StreamMeasured(request, output.alias, None, "nothing to see"))
        self.nodes.run()

    def held(self) -> Counter[str]:
        return held(*self.nodes.stacks.values(), *self.nodes.engines.values())


def test_what_two_nodes_hold_stops_growing_while_queries_come_and_go() -> None:
    life = Life()
    turns = 2 * len(ALGORITHMS)
    for _ in range(turns):
        life.round()
    before = life.held()
    for _ in range(turns):
        life.round()
    after = life.held()
    assert after - before == Counter(), "no kind of object became more"
    site = life.nodes.stacks["ash"].site
    assert len(site.homes) == LIMITS.ended_queries_max
    assert len({count.query_id for count in site.view_counts()}) == LIMITS.ended_queries_max


def test_a_query_that_goes_on_is_not_forgotten_for_those_that_are_over() -> None:
    cluster = Cluster(LIMITS)
    cluster.issue("cam", Algorithm.SP_D, "lasting")
    cluster.settle()
    for number in range(10):
        cluster.issue("cam", Algorithm.SP_D, f"q{number}")
        cluster.settle()
        cluster.give("cam", DropRequested(f"q{number}"))
        cluster.settle()
    homes = cluster.sites["cam"].homes
    assert list(homes) == ["lasting", "q6", "q7", "q8", "q9"]
    assert homes["lasting"].state is QueryState.RUNNING
    assert [counts.query_id for counts in cluster.sites["ash"].probe_counts()] == ["q6", "q7", "q8", "q9", "lasting"]


def test_traffic_of_what_sent_last_is_kept() -> None:
    traffic = Traffic(2)
    for query in ("lasting", "a", "lasting", "b", "lasting", "c"):
        traffic.count(Cause(query, Purpose.RESULTS), "bow", "rows", 10, 1.0, last=True)
    assert {cause.query_id: sent.nbytes for cause, _, _, sent in traffic.flows()} == {"lasting": 30, "c": 10}


# -- the queries issued at a daemon, and their rows on disk -------------------------------------------------------

ROWS = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


@pytest.fixture
def queries(tmp_path: Path) -> Queries:
    return Queries("cam", tmp_path, AtOnce(), LIMITS)


def ended(queries: Queries, *, taken: bool, keep: bool = False) -> str:
    """The id of a query that had rows and is over."""
    query = queries.new(Planned(Cluster().plan("cam")), keep)
    queries.report(query.query_id, QueryState.RUNNING, "")
    queries.store([StoreRows(query.query_id, "a", Span(1, 2), 0, ROWS)], lambda: 0, lambda _: None)
    queries.report(query.query_id, QueryState.COMPLETED, "")
    if taken:
        query.readers["default"].place = query.spool.rows
        query.forget_taken()
    return query.query_id


def test_ended_queries_whose_rows_are_taken_are_forgotten_but_for_the_last(queries: Queries, tmp_path: Path) -> None:
    sizes = []
    for _ in range(12):
        ended(queries, taken=True)
        sizes.append((len(queries.by_id), len(list(tmp_path.rglob("*")))))
    # The newest has not been settled when others are looked at; of those that are, there is no file but the journal.
    assert sizes[4:] == [(5, 10)] * 8
    assert list(queries.by_id) == [f"cam-1-{number}" for number in range(8, 13)]


def test_rows_that_nobody_took_are_kept_and_so_are_those_to_be_kept(queries: Queries) -> None:
    wanted = [ended(queries, taken=False), ended(queries, taken=True, keep=True)]
    for _ in range(12):
        ended(queries, taken=True)
    assert list(queries.by_id)[:2] == wanted
    assert queries.by_id[wanted[0]].spool.pieces(0, ROWS.num_rows, 1)[0].load()


def test_a_query_that_is_followed_is_not_forgotten_under_its_follower(queries: Queries) -> None:
    followed = ended(queries, taken=True)
    queries.by_id[followed].readers["default"].attach("somebody", 0)
    for _ in range(12):
        ended(queries, taken=True)
    assert followed in queries.by_id


def test_too_many_queries_whose_rows_nobody_takes_are_refused_until_one_is_dropped(queries: Queries) -> None:
    names = [ended(queries, taken=False) for _ in range(6)]
    with pytest.raises(QueryError, match=r"site cam requires fewer than 6 .*; it has 6: narrows drop ID"):
        ended(queries, taken=False)
    queries.forget(names[0])
    assert ended(queries, taken=False) in queries.by_id


def test_an_ended_query_has_no_open_file(queries: Queries) -> None:
    query = queries.by_id[ended(queries, taken=False)]
    assert query.spool._files._file is None
    assert query.spool.pieces(0, ROWS.num_rows, 1)[0].load()
    assert not query.held


def test_queries_that_end_in_one_turn_may_be_more_than_are_remembered() -> None:
    """Seed 244: the first was forgotten before its own site had heard that it is done, and the daemon died of that."""
    cluster = Cluster(Limits(news_us=0, ended_queries_max=1))
    for number in range(3):
        cluster.issue("cam", query_id=f"q{number}")
    cluster.settle()
    cluster.hold_stores = True
    cluster.arrive("l", 1, ended=True)
    cluster.arrive("r", 2, ended=True)
    cluster.settle()
    stored = [RowsStored(one.query_id, one.head, one.span) for one in cluster.storing["cam"]]
    assert len({one.query_id for one in stored}) == 3
    cluster.give("cam", *stored)
    cluster.settle()
    assert [state for _, state, *_ in cluster.states].count(QueryState.COMPLETED) == 3
    assert cluster.leftovers() == []
