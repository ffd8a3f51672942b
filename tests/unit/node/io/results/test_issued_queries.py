"""Rows of queries at their home: stored, held back, kept over a restart; what is damaged is said."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from node.core.effects import QueryState, StoreRows
from node.core.events import RowsStored, StoreFailed
from node.core.streams.ticks import Span
from node.io.planning.outcome import Planned
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.journal import JOURNAL_NAME, Facts
from node.io.results.readers import FILE_READER
from node.io.threads.file_thread import run_jobs
from node.storage.errors import NoRoomError, StorageError
from node.storage.folder import Folder, FolderFile
from node.storage.headroom import Headroom
from tests.unit.delivery import PLAN, rows_of
from tests.unit.files import AtOnce, OnDemand
from tests.unit.sites import Cluster

ROW = rows_of(0, 1)
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
    spools = [queries.by_id[name].spool for name in (first, second)]
    assert [(spool.rows, len(spool.pieces(0, 30, 1 << 20))) for spool in spools] == [(30, 1)] * 2


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
    (tmp_path / "here").mkdir(exist_ok=True)
    (tmp_path / "here" / bad.query_id).write_text("in the way")
    told: list[RowsStored | StoreFailed] = []
    walks = [StoreRows(query.query_id, "a", Span(1, 2), 0, ROWS) for query in (bad, good)]
    queries.store(walks, lambda: 0, told.extend)
    failed, stored = told
    assert isinstance(failed, StoreFailed)
    assert (failed.query_id, failed.reason) == (bad.query_id, "the result rows cannot be kept at cam: File exists")
    assert stored == RowsStored(good.query_id, "a", Span(1, 2))


def walk(query: IssuedQuery, tick: int, rows: pa.RecordBatch = ROWS) -> StoreRows:
    return StoreRows(query.query_id, "a", Span(tick, tick + 1), 0, rows)


def note(query: IssuedQuery, *noted: Facts) -> None:
    query.note(lambda _: None, *noted)


def take(query: IssuedQuery, reader: str, row: int) -> None:
    query.readers[reader].place = row
    note(query, query.readers[reader].facts())
    query.forget_taken()


def test_beyond_the_quota_a_query_with_more_than_its_share_is_not_stored_on(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), quota_bytes=3 * ROWS.serialize().size)
    slow, quick = (queries.new(Planned(Cluster().plan("cam"))) for _ in range(2))
    slow.begin_reader("laggard", 0)
    told: list[RowsStored | StoreFailed] = []
    for tick in range(6):
        queries.store([walk(slow, tick), walk(quick, tick)], lambda: 0, told.extend)
        take(slow, "default", slow.spool.rows)
        take(quick, "default", quick.spool.rows)
    assert (slow.spool.rows, quick.spool.rows) == (40, 60), "the other one is not stopped by it"
    assert "reader laggard of cam-1-1" in slow.trouble
    assert [each.span.first for each in slow.held] == [4, 5]
    assert [event.span.first for event in told if isinstance(event, RowsStored) and event.query_id == "cam-1-1"] == [
        0,
        1,
        2,
        3,
    ]
    take(slow, "laggard", 40)
    queries.retry()
    assert (slow.spool.rows, slow.trouble, slow.held) == (60, "", [])
    assert told[-2:] == [RowsStored("cam-1-1", "a", Span(tick, tick + 1)) for tick in (4, 5)]


def test_rows_that_were_sent_do_not_wait_although_they_are_not_safe_yet(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), quota_bytes=ROWS.serialize().size)
    query = queries.new(Planned(Cluster().plan("cam")))
    reader = query.readers["default"]
    connection = reader.attach("a file that is whole at the end", 0)
    for tick in range(5):
        queries.store([walk(query, tick)], lambda: 0, lambda _: None)
        reader.sent = query.spool.rows
    assert (query.spool.rows, query.spool.taken) == (50, 0)
    reader.detach(connection)
    queries.store([walk(query, 5)], lambda: 0, lambda _: None)
    assert query.spool.rows == 50


def test_on_a_full_disk_rows_wait_and_the_query_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(Cluster().plan("cam")))
    told: list[RowsStored | StoreFailed] = []
    queries.store([walk(query, 0)], lambda: 0, told.extend)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FolderFile, "append", full)
        queries.store([walk(query, 1)], lambda: 0, told.extend)
        queries.retry()
        assert query.trouble == "the result rows have no room at cam: No space left on device"
        assert len(told) == 1
    queries.retry()
    assert (len(told), query.trouble, query.spool.rows) == (2, "", 20)


def test_while_records_have_the_reserved_room_neither_rows_nor_notes_take_it(tmp_path: Path) -> None:
    headroom = Headroom(tmp_path, 4096)
    assert headroom.reserve()
    queries = Queries("cam", tmp_path / "results", AtOnce(), durable=True, room=headroom)
    query = queries.new(Planned(Cluster().plan("cam")))
    asyncio.run(queries.begin(query))
    told: list[RowsStored | StoreFailed] = []
    queries.store([walk(query, 0)], lambda: 0, told.extend)
    tries: list[int] = []

    def record() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise NoRoomError("full")

    headroom.lend(record)
    files = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    queries.store([walk(query, 1)], lambda: 0, told.extend)
    queries.retry()
    assert query.trouble == "the result rows have no room at cam: No space left on device, but for records"
    with pytest.raises(NoRoomError, match="but for records"):
        asyncio.run(query.noted({"state": "running", "reason": "", "rows": 10}))
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == files
    assert len(told) == 1
    assert headroom.reserve()
    queries.retry()
    assert (len(told), query.trouble, query.spool.rows) == (2, "", 20)


def test_a_restarted_site_has_its_queries_their_rows_and_the_places_of_their_readers(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    done, going, dropped = (queries.new(Planned(PLAN), keep=keep) for keep in (False, True, False))
    for query in (done, going, dropped):
        note(query, *query.facts())
        queries.store([walk(query, tick, ROW) for tick in range(3)], lambda: 0, lambda _: None)
    done.begin_reader("other", 0)
    take(done, "other", 2)
    take(done, "default", 3)
    queries.report(done.query_id, QueryState.COMPLETED, "it is said why")
    queries.report(dropped.query_id, QueryState.DROPPED, "")
    queries.forget(dropped.query_id)
    queries.close()

    again = Queries("cam", tmp_path, AtOnce(), life=2, durable=True)
    again.recover()
    again.take_over()
    assert list(again.by_id) == ["cam-1-1", "cam-1-2"]
    ended, unfinished = again.by_id.values()
    assert (ended.state, ended.reason, ended.about) == (QueryState.COMPLETED, "it is said why", done.about)
    assert {reader.name: reader.place for reader in ended.readers.values()} == {"default": 3, "other": 2}
    assert (ended.run, ended.spool.rows, ended.spool.first_row) == (done.run, 3, 2)
    assert (unfinished.state, unfinished.spool.rows, unfinished.spool.keep) == (QueryState.PREPARING, 3, True)
    assert again.stored_spans("cam-1-2") == [("a", Span(tick, tick + 1)) for tick in range(3)]
    assert again.new(Planned(PLAN)).query_id == "cam-2-1"

    again.store([walk(ended, 9, ROW)], lambda: 0, lambda _: None)
    assert ended.spool.rows == 3, "it has ended"
    again.end_unfinished("the daemon was restarted", ["cam-1-2"], ["cam-1-2"])
    assert unfinished.state is QueryState.RECOVERING
    # One that goes on is stored on; one that does not has failed, and what there is can be read.
    again.report("cam-1-2", QueryState.RUNNING, "")
    again.store([walk(unfinished, 3, ROW)], lambda: 0, lambda _: None)
    assert (unfinished.state, unfinished.spool.rows) == (QueryState.RUNNING, 4)
    again.end_unfinished("the daemon was restarted")
    assert (unfinished.state, unfinished.reason) == (QueryState.FAILED, "the daemon was restarted")
    assert len(unfinished.spool.pieces(0, 4, 1 << 20)) > 0


def test_all_rows_taken_and_forgotten_a_query_still_knows_how_many_there_were(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(PLAN))
    note(query, *query.facts())
    queries.store([walk(query, 0)], lambda: 0, lambda _: None)
    queries.report(query.query_id, QueryState.COMPLETED, "")
    take(query, "default", 10)
    assert [path.name for path in (tmp_path / "cam-1-1").iterdir()] == [JOURNAL_NAME]
    again = Queries("cam", tmp_path, AtOnce(), durable=True)
    again.recover()
    again.take_over()
    (found,) = again.by_id.values()
    assert (found.spool.rows, found.spool.first_row, found.readers["default"].place) == (10, 10, 10)
    assert found.is_settled


def test_damaged_rows_fail_their_query_with_file_and_place_and_stay_where_they_are(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(PLAN))
    note(query, *query.facts())
    for tick in range(3):
        queries.store([walk(query, tick, ROW)], lambda: 0, lambda _: None)
    queries.close()
    (path,) = (tmp_path / "cam-1-1").glob("*.rows")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    again = Queries("cam", tmp_path, AtOnce(), durable=True)
    again.recover()
    again.take_over()
    again.end_unfinished("the daemon was restarted")
    (found,) = again.by_id.values()
    assert found.state is QueryState.FAILED
    assert f"{path} at byte 16 required a whole record; got damaged bytes" in found.reason
    assert not found.is_settled
    assert path.read_bytes() == data


def test_a_damaged_journal_is_refused_and_one_that_was_not_begun_is_none(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(PLAN))
    for _ in range(3):
        note(query, *query.facts())
    queries.close()
    (tmp_path / "cam-1-7").mkdir()
    (tmp_path / "cam-1-7" / f"{JOURNAL_NAME}.new").write_bytes(b"narrows")
    (tmp_path / "log").mkdir()
    again = Queries("cam", tmp_path, AtOnce(), durable=True)
    again.recover()
    again.take_over()
    assert list(again.by_id) == ["cam-1-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cam-1-1", "log"]
    path = tmp_path / "cam-1-1" / JOURNAL_NAME
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    said = rf"{path} at byte 16 required a whole record; got damaged bytes \(.*--accept-data-loss puts the query aside"
    with pytest.raises(StorageError, match=said):
        Queries("cam", tmp_path, AtOnce(), durable=True).recover()


def begun(queries: Queries, *ticks: int) -> IssuedQuery:
    """A query with a row of each tick."""
    query = queries.new(Planned(PLAN))
    note(query, *query.facts())
    for tick in ticks:
        queries.store([walk(query, tick, ROW)], lambda: 0, lambda _: None)
    return query


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def started(folder: Path, *, accept_loss: bool = False) -> Queries:
    made = Queries("cam", folder, AtOnce(), life=2, durable=True, accept_loss=accept_loss)
    made.recover()
    made.take_over()
    return made


def test_where_the_loss_is_accepted_a_damaged_journal_costs_its_query_alone(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    bad, good = begun(queries, 0), begun(queries, 0, 1)
    note(bad, bad.state_facts())
    queries.close()
    path = tmp_path / bad.query_id / JOURNAL_NAME
    flip(path, 20)
    data = path.read_bytes()
    for _ in range(2):
        assert list(started(tmp_path, accept_loss=True).by_id) == [good.query_id]
        assert (tmp_path / f"{bad.query_id}.damaged" / JOURNAL_NAME).read_bytes() == data
    assert list(started(tmp_path).by_id) == [good.query_id], "it need not be said again"


@pytest.mark.parametrize("place", [-1, 20])
def test_a_completed_query_whose_rows_are_damaged_has_failed(tmp_path: Path, place: int) -> None:
    """Whoever follows it would take what is left for all there are. The last record may be the only one."""
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0)
    queries.report(query.query_id, QueryState.COMPLETED, "")
    queries.close()
    (path,) = (tmp_path / query.query_id).glob("*.rows")
    flip(path, place)
    data = path.read_bytes()
    for _ in range(2):
        (found,) = started(tmp_path).by_id.values()
        assert found.state is QueryState.FAILED
        assert f"{path.parent} required rows up to 1; got those up to 0" in found.reason
        assert path.read_bytes() == data


def test_damage_is_said_once_however_often_a_site_starts(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0, 1)
    queries.close()
    (path,) = (tmp_path / query.query_id).glob("*.rows")
    flip(path, 20)
    for _ in range(3):
        again = started(tmp_path)
        again.end_unfinished("the daemon was restarted")
        assert again.by_id[query.query_id].reason == again.by_id[query.query_id].spool.damage != ""
        again.close()


def test_rows_that_a_reader_has_taken_are_no_torn_tail(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0, 1)
    query.begin_reader("slow", 0)
    take(query, "slow", 0)
    take(query, "default", 2)
    queries.close()
    (path,) = (tmp_path / query.query_id).glob("*.rows")
    flip(path, -1)
    data = path.read_bytes()
    again = started(tmp_path)
    assert "required rows up to 2; got those up to 1" in again.by_id[query.query_id].spool.damage
    assert not again.can_go_on(query.query_id)
    assert path.read_bytes() == data


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def broken_disk(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_an_end_that_has_no_room_is_told_when_it_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0)
    with monkeypatch.context() as patched:
        patched.setattr(FolderFile, "append", full)
        queries.report(query.query_id, QueryState.COMPLETED, "")
        queries.retry()
        assert query.state is QueryState.PREPARING
        assert "no room at cam to note that it completed: No space left" in query.trouble
    queries.retry()
    assert (query.state, query.trouble) == (QueryState.COMPLETED, "")
    assert started(tmp_path).by_id[query.query_id].state is QueryState.COMPLETED


def test_what_is_dropped_is_so_for_good_before_rows_go_and_what_says_so_goes_last(tmp_path: Path) -> None:
    work = OnDemand()
    queries = Queries("cam", tmp_path, work, durable=True)
    query = begun(queries, 0)
    work.run()
    queries.forget(query.query_id)
    left = []
    while work.waiting:
        work.step()
        left.append(sorted(path.suffix for path in tmp_path.glob("*/*")))
    assert left == [[".dropped", ".rows"], [".dropped"], []]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [1, 2])
def test_a_start_removes_what_is_left_of_a_query_that_was_dropped(steps: int, tmp_path: Path) -> None:
    work = OnDemand()
    queries = Queries("cam", tmp_path, work, durable=True)
    query = begun(queries, 0)
    work.run()
    queries.forget(query.query_id)
    for _ in range(steps):
        work.step()
    assert started(tmp_path).by_id == {}
    assert list(tmp_path.iterdir()) == []


def test_what_is_noted_in_the_moment_of_a_drop_is_noted_and_a_note_that_one_is_dropped_is_heeded(
    tmp_path: Path,
) -> None:
    work = ToldLater()
    queries = Queries("cam", tmp_path, work, durable=True)
    query, old = begun(queries, 0), begun(queries, 0)
    work.run()
    told: list[Exception | None] = []
    query.note(told.append, query.readers["default"].facts())
    queries.forget(query.query_id)
    query.note(told.append, query.readers["default"].facts())
    note(old, {"dropped": True})
    work.run()
    before, after = told
    assert before is None
    assert "of a query that was dropped" in str(after)
    assert started(tmp_path).by_id == {}
    assert list(tmp_path.iterdir()) == []


def test_a_query_is_dropped_on_a_full_disk_and_one_that_cannot_be_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    dropped, broken = begun(queries, 0), begun(queries, 0)
    with monkeypatch.context() as patch:
        patch.setattr(FolderFile, "append", full)
        queries.forget(dropped.query_id)
    assert [path.name for path in tmp_path.iterdir()] == [broken.query_id]
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "rename", broken_disk)
        queries.forget(broken.query_id)
    assert "its rows stay and the next start has it again: Input/output error" in caplog.text
    queries.close()
    again = started(tmp_path).by_id[broken.query_id]
    assert (again.spool.rows, again.spool.damage) == (broken.spool.rows, "")


def test_a_query_that_has_no_room_is_refused_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(PLAN))
    monkeypatch.setattr(FolderFile, "append", full)
    with pytest.raises(NoRoomError, match=r"site cam cannot keep the query: .* \(error 28, ENOSPC\)"):
        asyncio.run(queries.begin(query))
    assert queries.by_id == {}


# -- readers ------------------------------------------------------------------------------------


def test_who_takes_again_is_answered_when_the_first_is_durable(tmp_path: Path) -> None:
    work = OnDemand()
    queries = Queries("cam", tmp_path, work, durable=True)
    query = begun(queries, 0, 1)
    work.run()

    async def test() -> None:
        reader = query.readers["default"]
        takes = [asyncio.create_task(query.take(reader, 2)) for _ in range(2)]
        readers = [asyncio.create_task(query.reader("other")) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [task.done() for task in (*takes, *readers)] == [False] * 4
        work.step()
        await asyncio.wait(takes)
        await asyncio.sleep(0)
        assert [task.done() for task in readers] == [False] * 2
        work.run()
        assert [(await task).name for task in readers] == ["other"] * 2

    asyncio.run(test())


class ToldLater(OnDemand):
    """File work of which the loop hears when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Callable[[Any], None], object]] = []

    def do(self) -> None:
        """What was asked for is done and durable, and nobody has heard of it."""
        self.told += run_jobs(self.waiting)
        self.waiting.clear()

    def run(self) -> None:
        while self.waiting or self.told:
            told, self.told = self.told, []
            for then, result in told:
                then(result)
            self.do()


CSV = {"file": "/data/rows.csv", "form": "csv", "length": 0, "whole": False}


def test_an_end_that_is_noted_before_a_take_is_told_does_not_undo_the_take(tmp_path: Path) -> None:
    """The journal of a life before is written anew with the second note. Rows that are taken are forgotten."""
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = queries.new(Planned(PLAN), reader=FILE_READER)
    query.readers[FILE_READER].note = CSV
    asyncio.run(queries.begin(query))
    queries.store([walk(query, 0)], lambda: 0, lambda _: None)
    queries.close()
    work = ToldLater()
    again = Queries("cam", tmp_path, work, life=2, durable=True)
    again.recover()
    again.take_over()
    found = again.by_id[query.query_id]

    async def take_and_end() -> None:
        taking = asyncio.create_task(found.take(found.readers[FILE_READER], 10, {**CSV, "length": 999}))
        begun = asyncio.create_task(found.reader("new"))
        await asyncio.sleep(0)
        work.do()
        again.report(found.query_id, QueryState.COMPLETED, "")
        while not begun.done():
            work.run()
            await asyncio.sleep(0)
        await taking

    asyncio.run(take_and_end())
    assert found.spool.oldest_row == 10, "the rows are forgotten"
    third = started(tmp_path).by_id[query.query_id]
    reader = third.readers[FILE_READER]
    assert (reader.place, reader.note["length"], reader.trouble) == (10, 999, "")
    assert (list(third.readers), third.state) == ([FILE_READER, "new"], QueryState.COMPLETED)


def test_a_file_whose_rows_are_gone_before_it_had_them_is_given_up_and_that_is_told(tmp_path: Path) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0, 1)
    query.begin_reader(FILE_READER, 2).note = CSV
    queries.report(query.query_id, QueryState.COMPLETED, "")
    take(query, "default", 2)
    assert query.spool.oldest_row == 2
    query.readers[FILE_READER].place = 1
    note(query, query.readers[FILE_READER].facts())
    for _ in range(2):
        reader = started(tmp_path).by_id[query.query_id].readers[FILE_READER]
        assert reader.trouble.startswith("/data/rows.csv requires rows from 1 on; kept are those from 2 on")
        assert not reader.writes


class FullNow:
    """Notes have no room, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.times, noted = times, IssuedQuery.noted

        async def note(query: IssuedQuery, facts: Facts) -> None:
            if self.times:
                self.times -= 1
                raise NoRoomError("full")
            await noted(query, facts)

        monkeypatch.setattr(IssuedQuery, "noted", note)


def test_a_place_that_was_not_noted_is_noted_when_it_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0, 1)
    reader = query.readers["default"]
    FullNow(monkeypatch, 2)
    with pytest.raises(NoRoomError):
        asyncio.run(query.take(reader, 2))
    assert query.spool.first_row == reader.place == 2, "rows went first, to make room"
    asyncio.run(query.take(reader, 2))
    assert started(tmp_path).by_id[query.query_id].readers["default"].place == 2


@pytest.mark.parametrize("times", [1, 2])
def test_a_reader_is_forgotten_on_a_full_disk_or_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    queries = Queries("cam", tmp_path, AtOnce(), durable=True)
    query = begun(queries, 0, 1)
    asyncio.run(query.reader("slow"))
    asyncio.run(query.take(query.readers["default"], 2))
    FullNow(monkeypatch, times)
    if times == 2:
        with pytest.raises(NoRoomError):
            asyncio.run(query.forget_reader("slow"))
        assert list(query.readers) == ["default", "slow"]
    asyncio.run(query.forget_reader("slow"))
    assert (list(query.readers), query.spool.first_row) == (["default"], 2)
    assert list(started(tmp_path).by_id[query.query_id].readers) == ["default"]
