"""Rows by number over the control service: a real server on loopback, and the client that everybody uses."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from node.client import Client, DaemonFailedError, DaemonRefusedError, NoRoomError, NotNowError, UnknownQueryError
from node.core.effects import QueryState, StoreRows
from node.core.events import RowsStored
from node.core.streams.ticks import Span
from node.io.reports.status_report import reader_rows
from node.io.results import delivery, row_files
from node.io.results.spool import Piece
from node.rpc import control_pb2 as pb
from node.storage.folder import FolderFile
from tests.unit.delivery import NAMES, SCHEMA, Site, rows_of, wait_until


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, getattr(request, "param", False))
    yield made
    made.close()


keeping = pytest.mark.parametrize("site", [True], indirect=True, ids=["keep"])


def test_the_extent_says_what_there_is_and_its_schema(site: Site) -> None:
    site.store(0, 3)
    site.store(3, 4)
    extent = site.client.extent(site.query.query_id)
    assert (extent.first, extent.end, extent.state, extent.run) == (0, 7, "preparing", site.query.run)
    assert extent.nbytes == site.query.spool.nbytes
    assert pa.ipc.read_schema(pa.py_buffer(extent.schema)) == SCHEMA


def test_any_range_can_be_read_again_and_again_and_nothing_changes(site: Site) -> None:
    for first in range(0, 40, 4):
        site.store(first, 4)
    for first, end in ((0, 40), (3, 5), (17, 17), (39, 40), (0, 40)):
        assert site.read(first, end) == list(range(first, end))
    extent = site.client.extent(site.query.query_id)
    assert (extent.first, extent.end, site.query.followed) == (0, 40, False)


def test_only_the_wanted_columns_leave_the_daemon_in_the_wanted_order(site: Site) -> None:
    site.store(0, 5)
    wanted = [NAMES[-1], NAMES[0]]
    (rows,) = site.client.rows(site.query.query_id, site.query.run, 1, 4, wanted)
    assert rows.schema.names == wanted
    last = 1000 * (len(NAMES) - 1)
    assert rows.to_pydict() == {wanted[0]: [last + 1, last + 2, last + 3], wanted[1]: [1, 2, 3]}
    with pytest.raises(DaemonRefusedError, match=r"requires columns of .*; got nix, nux"):
        site.read(0, 5, "nix", "nux")


def test_small_chunks_travel_together_and_large_ones_apart(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(100):
        site.store(first, 1)
    whole = list(site.client.rows(site.query.query_id, site.query.run, 0, 100, NAMES))
    assert [rows.num_rows for rows in whole] == [100]
    monkeypatch.setattr(delivery, "CHUNK_BYTES_MAX", site.query.spool.nbytes // 10)
    apart = list(site.client.rows(site.query.query_id, site.query.run, 0, 100, NAMES))
    assert [rows.num_rows for rows in apart] == [10] * 10


def test_readers_beside_each_other_and_beside_a_writer_get_what_they_asked_for(site: Site) -> None:
    site.store(0, 500)
    got: dict[int, list[int]] = {}

    def read(reader: int) -> None:
        with Client.at(site.address) as client:
            rows = client.rows(site.query.query_id, site.query.run, reader * 50, 500, NAMES)
            got[reader] = [n for batch in rows for n in batch.column(0).to_pylist()]

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(6)]
    for thread in threads:
        thread.start()
    for first in range(500, 600, 5):
        site.store(first, 5)
    for thread in threads:
        thread.join()
    assert got == {reader: list(range(reader * 50, 500)) for reader in range(6)}


def test_what_is_taken_is_forgotten_and_the_rest_keeps_its_numbers(site: Site) -> None:
    for first in range(0, 12, 4):
        site.store(first, 4)
    site.client.take(site.query.query_id, site.query.run, 6)
    assert site.client.extent(site.query.query_id).first == 6
    assert site.read(6, 12) == list(range(6, 12))
    with pytest.raises(
        DaemonRefusedError, match="rows 5 to 5 were taken by a client and are not kept any more; kept are rows 6"
    ):
        site.read(5, 7)


@keeping
def test_a_query_that_keeps_its_rows_gives_them_after_they_were_taken(site: Site) -> None:
    site.store(0, 4)
    site.client.take(site.query.query_id, site.query.run, 4)
    assert site.client.extent(site.query.query_id).first == 0
    assert site.read(0, 4) == [0, 1, 2, 3]


def test_rows_that_are_not_there_are_refused(site: Site) -> None:
    site.store(0, 4)
    with pytest.raises(DaemonRefusedError, match=r"query cam-1-1: required rows within 0 to 4, got 2 to 5"):
        site.read(2, 5)
    with pytest.raises(DaemonRefusedError, match="has 4 rows; 5 are said to be taken"):
        site.client.take(site.query.query_id, site.query.run, 5)


def test_an_unknown_query_and_another_run_of_it_are_refused(site: Site) -> None:
    site.store(0, 1)
    with pytest.raises(UnknownQueryError, match="unknown query 'cam-1-9' at site cam: required one of cam-1-1"):
        site.client.extent("cam-1-9")
    for ask in (
        lambda: list(site.client.rows("cam-1-1", "before", 0, 1, NAMES)),
        lambda: site.client.take("cam-1-1", "before", 1),
    ):
        with pytest.raises(NotNowError, match=r"another one than that of run before.*began anew"):
            ask()
    assert site.query.spool.first_row == 0


def test_nobody_takes_from_under_a_follower(site: Site) -> None:
    site.store(0, 4)
    site.query.readers["default"].attach("a follower", 0)
    with pytest.raises(NotNowError, match="requires one client at a time that takes its rows; it is being followed"):
        site.client.take(site.query.query_id, site.query.run, 2)
    assert site.read(0, 4) == [0, 1, 2, 3]


@keeping
def test_beside_a_follower_rows_may_be_taken_if_they_are_kept(site: Site) -> None:
    site.store(0, 4)
    site.query.readers["default"].attach("a follower", 0)
    site.client.take(site.query.query_id, site.query.run, 2)
    assert site.query.spool.taken == 2


def test_taking_lets_a_query_go_on_that_was_held_up(site: Site) -> None:
    site.store(0, 4)
    site.queries._quota_bytes = site.query.spool.nbytes
    site.store(4, 4)
    held = StoreRows("cam-1-1", "a", Span(8, 12), 0, rows_of(8, 4))
    site.do(lambda: site.queries.store([held], lambda: 0, site.events.extend))
    site.settle()
    assert site.query.spool.rows == 8
    (status,) = reader_rows(site.query)
    assert (status.name, status.lag_rows) == ("default", 8)
    assert "reader default of cam-1-1" in site.query.trouble
    site.client.take("cam-1-1", site.query.run, 4)
    wait_until(lambda: site.query.spool.rows == 12)
    assert site.events[-1] == RowsStored("cam-1-1", "a", Span(8, 12))
    assert site.read(4, 12) == list(range(4, 12))


def test_readers_have_places_of_their_own_and_rows_stay_until_all_have_them(site: Site) -> None:
    site.store(0, 4)
    follower = site.client.follow("cam-1-1", "other")
    assert next(iter(follower)).first_row == 0
    follower.close()
    run = site.query.run
    site.client.take("cam-1-1", run, 4)
    assert site.client.extent("cam-1-1").first == 0
    site.client.take("cam-1-1", run, 3, reader="other")
    assert site.client.extent("cam-1-1").first == 3
    with pytest.raises(
        DaemonRefusedError, match="unknown reader 'nobody' of query cam-1-1: required one of default, oth"
    ):
        site.client.take("cam-1-1", run, 3, reader="nobody")
    wait_until(lambda: not site.query.followed)
    site.client.forget("cam-1-1", "other")
    assert site.client.extent("cam-1-1").first == 4
    with pytest.raises(DaemonRefusedError, match="requires at least one reader"):
        site.client.forget("cam-1-1", "default")


def test_the_extent_says_how_far_a_reader_is_and_begins_one_only_if_it_is_named(site: Site) -> None:
    site.store(0, 4)
    assert site.client.extent("cam-1-1", reader="other").taken == 0
    site.client.take("cam-1-1", site.query.run, 3)
    assert site.client.extent("cam-1-1").taken == 3
    site.client.take("cam-1-1", site.query.run, 1, reader="other")
    assert site.client.extent("cam-1-1", reader="other").taken == 1
    assert list(site.query.readers) == ["default", "other"]


@keeping
def test_of_a_query_that_keeps_its_rows_whoever_begins_anew_has_all(site: Site) -> None:
    site.store(0, 4)
    site.client.take("cam-1-1", site.query.run, 3)
    assert site.client.extent("cam-1-1").taken == 0


def test_nobody_reads_under_the_name_of_the_sites_own_file(site: Site) -> None:
    site.store(0, 4)
    site.do(lambda: site.query.begin_reader("file", 0))
    for ask in (
        lambda: list(site.client.follow("cam-1-1", "file")),
        lambda: site.client.take("cam-1-1", site.query.run, 2, reader="file"),
        lambda: site.client.extent("cam-1-1", reader="file"),
    ):
        with pytest.raises(DaemonRefusedError, match="another one than that of the site's own file; got 'file'"):
            ask()
    site.client.forget("cam-1-1", "file")
    assert list(site.query.readers) == ["default"]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, NoRoomError), (errno.EIO, DaemonFailedError)], ids=["full", "failed"]
)
def test_what_cannot_be_noted_may_be_later_only_if_the_disk_is_full(
    site: Site, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[DaemonRefusedError]
) -> None:
    site.store(0, 4)
    site.client.extent("cam-1-1", reader="other")

    def fails(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(FolderFile, "append", fails)
    for ask in (
        lambda: site.client.take("cam-1-1", site.query.run, 2),
        lambda: site.client.extent("cam-1-1", reader="another"),
        lambda: site.client.forget("cam-1-1", "other"),
    ):
        with pytest.raises(DaemonRefusedError, match=f"error {number}") as refused:
            ask()
        assert type(refused.value) is kind
    assert list(site.query.readers) == ["default", "other"]


def test_readers_and_rows_are_there_after_a_restart(tmp_path: Path) -> None:
    first = Site(tmp_path, keep=False)
    first.store(0, 4)
    first.store(4, 4)
    run = first.query.run
    follower = first.client.follow("cam-1-1", "other")
    next(iter(follower))
    first.client.take("cam-1-1", run, 3, reader="other", client=follower.client)
    follower.close()
    first.client.take("cam-1-1", run, 6)
    first.close()
    again = Site(tmp_path, keep=False)
    try:
        assert again.query.run == run
        assert {reader.name: reader.place for reader in again.query.readers.values()} == {"default": 6, "other": 3}
        assert again.read(3, 8) == list(range(3, 8))
        assert again.queries.stored_spans("cam-1-1") == [("a", Span(0, 4)), ("a", Span(4, 8))]
        again.queries.done("cam-1-1", {"a": 4})
        assert again.queries.stored_spans("cam-1-1") == [("a", Span(4, 8))]
        again.store(8, 2)
        assert again.read(3, 10) == list(range(3, 10))
    finally:
        again.close()


def test_a_daemon_says_at_once_that_there_are_rows_or_that_the_query_has_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_WAIT_MS_MAX", 4_000_000)
    site.store(0, 1)
    extent = while_waiting(site, lambda: site.store(1, 1))
    assert (extent.end, extent.state) == (2, "preparing")
    ending = while_waiting(site, lambda: site.end(QueryState.FAILED, "no luck"))
    assert (ending.end, ending.state, ending.reason) == (2, "failed", "no luck")


def while_waiting(site: Site, news: Callable[[], None]) -> pb.ExtentReply:
    """What a client is told that waits for rows past those there are, for longer than the test may take."""
    past = site.query.spool.rows
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.client.extent, "cam-1-1", past, 4_000_000)
        time.sleep(0.05)
        news()
        return waiting.result()


def test_without_news_the_daemon_answers_after_the_wait(site: Site) -> None:
    assert site.client.extent("cam-1-1", past=0, wait_ms=20).end == 0


@pytest.mark.parametrize("dropped", [False, True])
def test_rows_that_are_forgotten_while_they_are_read_are_an_error(
    site: Site, monkeypatch: pytest.MonkeyPatch, dropped: bool
) -> None:
    monkeypatch.setattr(row_files, "SEGMENT_BYTES_MAX", 1)
    monkeypatch.setattr(delivery, "CHUNK_BYTES_MAX", 1)
    gone, load = threading.Event(), delivery._load

    def load_late(pieces: Sequence[Piece], columns: Sequence[str]) -> bytes:
        if pieces[0].first_row:
            gone.wait()
        return load(pieces, columns)

    def drop() -> None:
        site.queries.forget("cam-1-1")

    monkeypatch.setattr(delivery, "_load", load_late)
    for first in range(3):
        site.store(first, 1)
    site.do(lambda: site.queries.done("cam-1-1", {"a": 3}))
    rows = site.client.rows("cam-1-1", site.query.run, 0, 3, NAMES)
    assert next(rows).column(0).to_pylist() == [0]
    if dropped:
        site.do(drop)
    else:
        site.client.take("cam-1-1", site.query.run, 2)
    site.settle()
    gone.set()
    said = "it was dropped while" if dropped else "rows 1 to 1 were taken meanwhile"
    with pytest.raises(DaemonRefusedError, match=f"query cam-1-1: {said}"):
        list(rows)
