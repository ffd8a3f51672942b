"""What a daemon begins with: the queries of its earlier lives, by their records and their rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.core.effects import QueryState, StoreRows, WriteRecords
from node.core.events import SiteStarted
from node.core.limits import Limits
from node.core.query_records import DoneRecord, HomeRecord, RecordKind
from node.core.records import Delete
from node.core.streams.ticks import Span
from node.daemon import _stack
from node.io.planning.outcome import Planned
from node.io.results.issued_queries import Queries
from node.io.threads.shared_records import SharedRecords
from node.stack import Stack
from node.storage.site_records import SiteRecords
from node.wire.records import record_out
from tests.unit.delivery import rows_of
from tests.unit.files import AtOnce
from tests.unit.sites import Cluster

CONFIG: Any = SimpleNamespace(name="c", tau_ms=100)
LIMITS = Limits()


class Home:
    """Site cam with its folder, life after life."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.life = 0
        self.begin()

    def begin(self) -> Stack:
        """Another life, which writes the records that it asks for."""
        self.life += 1
        self.records = SiteRecords.open(self.folder, "c", "cam", self.life)
        shared = SharedRecords(self.records)
        self.queries = Queries("cam", self.folder / "results", AtOnce(), LIMITS, self.life, durable=True)
        self.queries.recover()
        self.queries.take_over()
        peers = dict.fromkeys(["ash", "bow"], "")
        stack = _stack(CONFIG, "cam", peers, shared.life, [], LIMITS, shared, self.queries)
        for output in stack.handle([SiteStarted()], 0):
            if isinstance(output, WriteRecords):
                self.records.commit(output.changes)
        return stack

    def issue(self, first_tick: int | None = 0) -> str:
        """A query that runs, or has not begun, of which three rows are stored."""
        cluster = Cluster()
        query = self.queries.new(Planned(cluster.plan("cam")))
        query.note(lambda _: None, *query.facts())
        cluster.issue("cam", query_id=query.query_id)
        prepare = cluster.sites["cam"].homes[query.query_id].record().prepare
        state = QueryState.PREPARING if first_tick is None else QueryState.RUNNING
        home = HomeRecord(query.query_id, prepare, state, "", first_tick)
        done = DoneRecord(query.query_id, (("a", 0), ("b", 0)))
        self.records.commit([record_out(home), record_out(done)])
        for tick in range(3):
            walk = StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, rows_of(tick, 1))
            self.queries.store([walk], lambda: 0, lambda _: None)
        return query.query_id

    def end(self) -> None:
        self.queries.close()
        self.records.close()

    @property
    def kept(self) -> set[tuple[RecordKind, str]]:
        """What is said of queries that were issued here."""
        kinds = RecordKind.HOME, RecordKind.DONE
        return {(kind, query_id) for kind in kinds for query_id in self.records.all(kind)}


def both(query_id: str) -> set[tuple[RecordKind, str]]:
    return {(RecordKind.HOME, query_id), (RecordKind.DONE, query_id)}


def test_a_query_goes_on_and_what_is_said_of_one_that_was_dropped_is_forgotten(tmp_path: Path) -> None:
    home = Home(tmp_path)
    dropped, running = home.issue(), home.issue()
    home.queries.forget(dropped)
    home.end()
    stack = home.begin()
    assert home.kept == both(running)
    assert stack.site.homes[running].state is QueryState.RECOVERING
    home.end()


@pytest.mark.parametrize(("first_tick", "state"), [(0, QueryState.RECOVERING), (None, QueryState.PREPARING)])
def test_a_query_that_had_not_begun_is_not_said_to_go_on(
    first_tick: int | None, state: QueryState, tmp_path: Path
) -> None:
    """Who waits for the promise that no crash undoes it would leave."""
    home = Home(tmp_path)
    query_id = home.issue(first_tick)
    home.end()
    stack = home.begin()
    assert stack.site.homes[query_id].state is home.queries.by_id[query_id].state is state
    home.end()


def test_what_is_done_by_a_query_that_is_forgotten_is_forgotten_too(tmp_path: Path) -> None:
    """A crash came between the two."""
    home = Home(tmp_path)
    query_id = home.issue()
    home.queries.forget(query_id)
    home.records.commit([Delete(RecordKind.HOME, query_id)])
    home.end()
    home.begin()
    assert home.kept == set()
    home.end()


def test_a_query_whose_rows_are_damaged_has_failed_for_good(tmp_path: Path) -> None:
    home = Home(tmp_path)
    query_id = home.issue()
    home.end()
    (path,) = (path for path in (tmp_path / "results" / query_id).iterdir() if path.suffix == ".rows")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        found = home.begin().site.homes[query_id]
        assert found.state is QueryState.FAILED
        assert "required a whole record; got damaged bytes" in found.reason
        assert found.reason in home.queries.by_id[query_id].reason
        assert home.kept == both(query_id)
        home.end()
