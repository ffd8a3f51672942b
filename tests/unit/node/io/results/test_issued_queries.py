"""Result rows that a follower does not take hold up the query, so that neither memory nor disk grows without end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from node.core.effects import QueryState, StoreRows
from node.core.events import RowsStored, StoreFailed
from node.core.streams.ticks import Span
from node.io.planning.outcome import Planned
from node.io.results import issued_queries as queries_module
from node.io.results.issued_queries import Queries
from tests.unit.files import AtOnce, OnDemand
from tests.unit.sites import Cluster


def test_storing_is_confirmed_only_while_the_follower_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries("cam", tmp_path, AtOnce())
    query = queries.new(Planned(Cluster().plan("cam")))
    rows = pa.RecordBatch.from_pydict({"n": list(range(100))})
    first, second = (StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, rows) for tick in (1, 2))
    one = rows.serialize().size
    monkeypatch.setattr(queries_module, "UNSENT_BYTES_MAX", one)

    told: list[RowsStored | StoreFailed] = []
    queries.store([first], lambda: 0, told.extend)
    assert told == [RowsStored(query.query_id, "a", Span(1, 2))]
    queries.store([second], lambda: 0, told.extend)
    assert len(told) == 1
    assert queries.confirm(query) == []
    query.sent_before(1)  # the follower was sent a chunk
    assert queries.confirm(query) == [RowsStored(query.query_id, "a", Span(2, 3))]
    assert queries.confirm(query) == []
    assert query.spool.rows == 200


ROWS = pa.RecordBatch.from_pydict({"n": list(range(10))})


def test_the_rows_of_a_turn_are_kept_together_and_confirmed_together(tmp_path: Path) -> None:
    work = OnDemand()
    queries = Queries("cam", tmp_path, work)
    first, second = (queries.new(Planned(Cluster().plan("cam"))).query_id for _ in range(2))
    told: list[list[RowsStored | StoreFailed]] = []
    walks = [StoreRows(query, "a", Span(tick, tick + 1), 0, ROWS) for tick in range(3) for query in (first, second)]
    queries.store(walks, lambda: 0, lambda events: told.append(list(events)))
    assert (len(work.waiting), told) == (2, [])
    work.run()
    assert told == [[RowsStored(query, "a", Span(tick, tick + 1)) for tick in range(3)] for query in (first, second)]
    assert [(queries.by_id[name].spool.rows, queries.by_id[name].spool.end) for name in (first, second)] == [
        (30, 1)
    ] * 2


def test_a_query_has_ended_when_the_rows_before_that_are_kept(tmp_path: Path) -> None:
    work = OnDemand()
    queries = Queries("cam", tmp_path, work)
    query = queries.new(Planned(Cluster().plan("cam")))
    told: list[RowsStored | StoreFailed] = []
    queries.store([StoreRows(query.query_id, "a", Span(1, 2), 0, ROWS)], lambda: 0, told.extend)
    queries.report(query.query_id, QueryState.FAILED, "no luck")
    queries.store([StoreRows(query.query_id, "a", Span(2, 3), 0, ROWS)], lambda: 0, told.extend)
    assert query.state is QueryState.PREPARING
    work.run()
    assert (query.state, query.reason, query.spool.rows) == (QueryState.FAILED, "no luck", 10)


def test_rows_that_the_disk_does_not_take_fail_their_query_alone(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path / "here", AtOnce())
    good, bad = (queries.new(Planned(Cluster().plan("cam"))) for _ in range(2))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / bad.query_id).write_text("in the way")
    told: list[RowsStored | StoreFailed] = []
    walks = [StoreRows(query.query_id, "a", Span(1, 2), 0, ROWS) for query in (bad, good)]
    queries.store(walks, lambda: 0, told.extend)
    failed, stored = told
    assert isinstance(failed, StoreFailed)
    assert (failed.query_id, failed.reason) == (bad.query_id, "the result rows cannot be kept at cam: File exists")
    assert stored == RowsStored(good.query_id, "a", Span(1, 2))
