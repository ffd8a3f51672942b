"""What Spark asks of a source, in the order in which it asks. The daemon's service is real; no Spark runs here."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from node.client import AwayTooLongError
from node.core.effects import QueryState
from spark_jobs.sink import readers as sink_readers
from spark_jobs.sink.data_source import NarrowsDataSource
from spark_jobs.sink.options import SinkError
from spark_jobs.sink.readers import RowSource, StreamReader, TableReader
from tests.unit.delivery import NAMES, Site

ALL = ReadAllAvailable()


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, getattr(request, "param", False))
    for first in range(0, 20, 4):
        made.store(first, 4)
    yield made
    made.close()


def source(site: Site, **options: str) -> NarrowsDataSource:
    return NarrowsDataSource(CaseInsensitiveDict({"address": site.address, "query": "cam-1-1"} | options))


@pytest.fixture
def readers() -> Iterator[list[StreamReader]]:
    made: list[StreamReader] = []
    yield made
    for reader in made:
        reader.stop()


def stream(readers: list[StreamReader], site: Site, **options: str) -> StreamReader:
    made = source(site, **options)
    readers.append(made.streamReader(made.schema()))
    return readers[-1]


def table(site: Site, **options: str) -> TableReader:
    made = source(site, **options)
    return made.reader(made.schema())


def rows_of(reader: RowSource, partitions: Any) -> list[int]:
    """As executors read: each partition by a copy of the reader."""
    copies = [(pickle.loads(pickle.dumps(reader)), pickle.loads(pickle.dumps(part))) for part in partitions]
    return [n for copy, part in copies for rows in copy.read(part) for n in rows.column(0).to_pylist()]


def logged(offset: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from Spark's log."""
    back: dict[str, Any] = json.loads(json.dumps(offset))
    return back


def test_batches_follow_each_other_without_gap_and_can_be_read_again(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site, maxRowsPerTrigger="7", partitions="3")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    start, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append((logged(start), logged(end)))
        start = end
    assert [rows_of(reader, reader.partitions(*batch)) for batch in batches] == [
        list(range(7)),
        list(range(7, 14)),
        list(range(14, 20)),
    ]
    again = stream(readers, site)
    assert rows_of(again, again.partitions(*batches[1])) == list(range(7, 14))
    assert reader.partitions(start, start) == []
    assert reader.reportLatestOffset() == start
    assert site.query.spool.first_row == 0, "nothing is taken before Spark commits"


def test_a_commit_takes_what_is_before_it_and_nothing_else(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(6))
    reader.commit(logged(middle))
    assert site.query.spool.first_row == 6
    end = reader.latestOffset(middle, ALL)
    assert rows_of(reader, reader.partitions(middle, end)) == list(range(6, 20))
    with pytest.raises(SinkError, match="the checkpoint requires rows from 0 on; those before 6 were taken"):
        reader.partitions(start, end)
    with pytest.raises(SinkError, match="the checkpoint requires rows from 0 on; those before 6 were taken"):
        reader.latestOffset(start, ALL)


def test_a_checkpoint_beyond_the_rows_is_refused_since_numbers_would_come_again(
    site: Site, readers: list[StreamReader]
) -> None:
    """The site was restored from a backup that was made before the rows that Spark has."""
    reader = stream(readers, site)
    ahead = reader.initialOffset() | {"row": 25}
    said = "the checkpoint requires rows from 25 on; the site has them only before 20: it was restored from a backup"
    with pytest.raises(SinkError, match=said):
        reader.latestOffset(ahead, ALL)
    with pytest.raises(SinkError, match=said):
        reader.partitions(ahead, ahead | {"row": 30})


def test_a_commit_that_the_site_has_no_room_to_note_comes_with_the_next(
    site: Site, readers: list[StreamReader], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.RESOURCE_EXHAUSTED

        def details(self) -> str:
            return "No space left on device"

        def trailing_metadata(self) -> tuple[Any, ...]:
            return ()

    reader = stream(readers, site)
    end = reader.latestOffset(reader.initialOffset(), ALL)

    def take(*_: object, **__: object) -> None:
        raise reader._daemon.error(Full())

    monkeypatch.setattr(reader._daemon, "take", take)
    reader.commit(end)
    assert "No space left on device; rows before 20 stay there for now" in capsys.readouterr().err


def test_available_now_ends_at_what_there_was_when_it_began(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    site.store(20, 5)
    first = reader.latestOffset(start, ReadMaxRows(12))
    second = reader.latestOffset(first, ReadMaxRows(12))
    assert (first["row"], second["row"]) == (12, 20)
    assert reader.latestOffset(second, ReadMaxRows(12)) == second


def test_a_stream_of_an_ended_query_has_no_more_rows(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site)
    site.end(QueryState.COMPLETED)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end["row"] == 20
    assert reader.latestOffset(end, ALL) == end


@pytest.mark.parametrize("state", [QueryState.FAILED, QueryState.DROPPED])
def test_a_query_that_fails_gives_its_rows_and_then_its_reason(
    site: Site, readers: list[StreamReader], state: QueryState
) -> None:
    reader = stream(readers, site)
    site.end(state, "the disk is full")
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(15))
    end = reader.latestOffset(middle, ALL)
    assert rows_of(reader, reader.partitions(start, end)) == list(range(20))
    with pytest.raises(SinkError, match=f"query cam-1-1 {state.value}: the disk is full"):
        reader.latestOffset(end, ALL)


def test_another_query_is_not_mistaken_for_that_of_the_checkpoint(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    for offset, said in (
        (start | {"run": "before"}, "another one than that of the checkpoint: the site began anew"),
        (start | {"query": "cam-1-2"}, "the checkpoint is one of query cam-1-2; option query is cam-1-1"),
    ):
        with pytest.raises(SinkError, match=said):
            reader.latestOffset(offset, ALL)
        with pytest.raises(SinkError, match=said):
            reader.partitions(offset, end)
    with pytest.raises(SinkError, match="another one than that of run before"):
        reader.commit(end | {"run": "before"})


def test_a_gap_at_the_beginning_is_accepted_only_when_it_is_asked_for(site: Site, readers: list[StreamReader]) -> None:
    site.client.take("cam-1-1", site.query.run, 6)
    with pytest.raises(SinkError, match=r"rows 0 to 5 were taken and are not kept; option partial=true"):
        stream(readers, site).initialOffset()
    with pytest.raises(SinkError, match=r"rows 0 to 5 were taken and are not kept; option partial=true"):
        table(site).partitions()
    assert stream(readers, site, partial="true").initialOffset()["row"] == 6
    rest = table(site, partial="true")
    assert rows_of(rest, rest.partitions()) == list(range(6, 20))


@pytest.mark.parametrize("site", [True], indirect=True, ids=["keep"])
def test_rows_that_are_kept_are_there_for_a_table_and_a_new_stream(site: Site, readers: list[StreamReader]) -> None:
    site.client.take("cam-1-1", site.query.run, 20)
    rows = table(site)
    assert rows_of(rows, rows.partitions()) == list(range(20))
    assert stream(readers, site).initialOffset()["row"] == 0


def test_a_table_of_a_failed_query_is_refused_unless_a_part_will_do(site: Site) -> None:
    site.end(QueryState.FAILED, "the disk is full")
    with pytest.raises(SinkError, match="query cam-1-1 failed: the disk is full"):
        table(site).partitions()
    assert len(rows_of(table(site), table(site, partial="true").partitions())) == 20


def test_partitions_share_the_rows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [part.end - part.first for part in table(site, partitions="3").partitions()] == [6, 7, 7]
    assert len(table(site, partitions="100").partitions()) == 20
    assert len(table(site).partitions()) == 1, "few bytes are one task's work"
    monkeypatch.setattr(sink_readers, "_PARTITION_BYTES", -(-site.query.spool.nbytes // 4))
    parts = table(site).partitions()
    assert len(parts) == 4
    assert rows_of(table(site), parts) == list(range(20))


def test_a_query_without_rows_is_an_empty_table(tmp_path: Path) -> None:
    empty = Site(tmp_path / "empty", keep=False)
    try:
        rows = table(empty)
        assert rows_of(rows, rows.partitions()) == []
    finally:
        empty.close()


def test_only_the_wanted_columns_are_asked_for(site: Site) -> None:
    rows = table(site, columns=NAMES[-1])
    (part,) = rows.partitions()
    assert [batch.schema.names for batch in rows.read(part)] == [[NAMES[-1]]]


def test_a_limit_that_was_not_offered_is_refused(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site)
    assert reader.getDefaultReadLimit() == ALL
    with pytest.raises(SinkError, match="required a limit of rows or none"):
        reader.latestOffset(reader.initialOffset(), ReadMaxBytes(5))


def test_a_stream_lives_through_a_restart_of_the_site(tmp_path: Path, readers: list[StreamReader]) -> None:
    site = Site(tmp_path, keep=False)
    site.store(0, 4)
    port = site.port
    reader = stream(readers, site)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ALL)
    site.close()
    assert reader.latestOffset(middle, ALL) == middle, "Spark is told that there is no news, so it can be stopped"
    parts = reader.partitions(start, middle)
    reader.commit(start)
    again: list[Site] = []
    timer = threading.Timer(0.5, lambda: again.append(Site(tmp_path, keep=False, port=port)))
    timer.start()
    assert rows_of(reader, parts) == [0, 1, 2, 3], "tasks wait for the site"
    timer.join()
    again[0].store(4, 2)
    while (end := reader.latestOffset(middle, ALL)) == middle:
        pass
    assert rows_of(reader, reader.partitions(middle, end)) == [4, 5]
    reader.commit(end)
    assert again[0].query.readers["default"].place == 6
    again[0].close()


def test_a_stream_that_begins_while_the_site_is_away_waits_for_it(tmp_path: Path, readers: list[StreamReader]) -> None:
    """A driver, or its JVM, that died is started again, perhaps in the middle of a batch."""
    site = Site(tmp_path, keep=False)
    site.store(0, 4)
    first = stream(readers, site)
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    again = stream(readers, site)
    now = stream(readers, site)
    site.close()
    with pytest.raises(SinkError, match="a running daemon is required"):
        stream(readers, site)
    back: list[Site] = []
    timer = threading.Timer(0.5, lambda: back.append(Site(tmp_path, keep=False, port=site.port)))
    timer.start()
    assert rows_of(again, again.partitions(start, end)) == [0, 1, 2, 3]
    timer.join()
    back[0].close()
    timer = threading.Timer(0.5, lambda: back.append(Site(tmp_path, keep=False, port=site.port)))
    timer.start()
    now.prepareForTriggerAvailableNow()
    timer.join()
    back[1].close()
    timer = threading.Timer(0.5, lambda: back.append(Site(tmp_path, keep=False, port=site.port)))
    timer.start()
    assert stream(readers, site, wait="1min").initialOffset() == start
    timer.join()
    back[2].close()


def test_a_stream_waits_as_long_as_it_was_told_to(tmp_path: Path, readers: list[StreamReader]) -> None:
    site = Site(tmp_path, keep=False)
    reader = stream(readers, site, wait="1s")
    start = reader.initialOffset()
    site.close()

    def ask_on() -> None:
        while True:
            assert reader.latestOffset(start, ALL) == start

    with pytest.raises(AwayTooLongError, match="longer than 1 s"):
        ask_on()


def test_a_stream_takes_under_the_name_of_its_reader(site: Site, readers: list[StreamReader]) -> None:
    reader = stream(readers, site, reader="spark")
    reader.commit(reader.latestOffset(reader.initialOffset(), ReadMaxRows(5)))
    assert {name: each.place for name, each in site.query.readers.items()} == {"default": 0, "spark": 5}
    site.client.forget("cam-1-1", "default")
    assert site.client.extent("cam-1-1").first == 5, "rows are kept for nobody else"


def test_a_stream_that_is_refused_leaves_no_reader_for_whom_rows_are_kept(
    site: Site, readers: list[StreamReader]
) -> None:
    site.client.take("cam-1-1", site.query.run, 6)
    with pytest.raises(SinkError, match="rows 0 to 5 were taken and are not kept"):
        stream(readers, site, reader="spark").initialOffset()
    assert list(site.query.readers) == ["default"]
    assert stream(readers, site, reader="spark", partial="true").initialOffset()["row"] == 6


def test_a_stream_without_a_reader_begins_where_the_one_without_a_name_is(
    site: Site, readers: list[StreamReader]
) -> None:
    site.client.extent("cam-1-1", reader="slow")
    site.client.take("cam-1-1", site.query.run, 6)
    assert stream(readers, site).initialOffset()["row"] == 6


def test_how_long_to_wait_is_a_duration(site: Site) -> None:
    with pytest.raises(SinkError, match=r"option wait requires a duration above 0 such as 10min; got 'soon'"):
        table(site, wait="soon")
