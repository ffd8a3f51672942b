"""Files that a site writes: cut to what is noted, never shorter, and no row is lost while one cannot be written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from node.core.effects import QueryState
from node.io.planning.outcome import Planned
from node.io.results import file_writers
from node.io.results.file_writers import FileWriters
from node.io.results.issued_query import IssuedQuery
from node.io.results.journal import Facts
from node.io.results.readers import FILE_READER
from planner.model.errors import QueryError
from tests.unit.delivery import PLAN, Site, wait_until


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(file_writers, "_AGAIN_S", 0.05)
    made = Site(tmp_path / "state", keep=False)
    yield made
    made.close()


def write_to(site: Site, path: Path, length: int, place: int) -> None:
    """As after a start: so much of the file is known, and that it has rows up to there."""

    def begin() -> None:
        reader = site.query.begin_reader(FILE_READER, place)
        reader.note = {"file": str(path), "form": path.suffix[1:], "length": length, "whole": False}
        site._control._files.start(site.query)

    site.do(begin)


def test_what_was_written_and_not_noted_is_cut_off_and_written_again(site: Site, tmp_path: Path) -> None:
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    path.write_text("header\n0\n1\n2\nhalf a r")
    write_to(site, path, len("header\n0\n1\n"), 2)
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: reader.place == 4)
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["header", "0", "1", "2", "3"]
    assert reader.note["length"] == path.stat().st_size
    site.store(4, 1)
    site.end(QueryState.COMPLETED)
    wait_until(lambda: bool(reader.note["whole"]))
    assert [line.split(",")[0] for line in path.read_text().splitlines()[1:]] == ["0", "1", "2", "3", "4"]


def test_a_file_that_is_shorter_than_it_was_is_said_and_its_rows_stay(site: Site, tmp_path: Path) -> None:
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    path.write_text("he")
    write_to(site, path, 7, 0)
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: "required the 7 bytes that were written; got 2" in reader.trouble)
    assert (reader.place, site.query.spool.first_row, path.read_text()) == (0, 0, "he")
    path.write_text("header\n")  # somebody puts it back
    wait_until(lambda: reader.place == 4 and not reader.trouble)


def test_rows_after_those_of_a_file_that_was_removed_are_kept_until_it_is_back(site: Site, tmp_path: Path) -> None:
    site.store(0, 2)
    path = tmp_path / "rows.csv"
    write_to(site, path, 0, 0)
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: reader.place == 2)
    path.rename(tmp_path / "elsewhere.csv")
    site.store(2, 2)
    wait_until(lambda: "was removed or replaced, with the 2 rows that were in it" in reader.trouble)
    path.touch()  # another one of that name will not do
    wait_until(lambda: "bytes that were written; got 0" in reader.trouble)
    assert (reader.place, site.query.spool.rows) == (2, 4)
    (tmp_path / "elsewhere.csv").rename(path)
    wait_until(lambda: reader.place == 4 and not reader.trouble)
    assert [line.split(",")[0] for line in path.read_text().splitlines()[1:]] == ["0", "1", "2", "3"]
    # Somebody who wants the rows otherwise gives the file up, although it is being written.
    site.client.extent(site.query.query_id, reader="me")
    site.client.forget(site.query.query_id, FILE_READER)
    assert FILE_READER not in site.query.readers


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_is_the_same_if_what_is_written_cannot_be_noted_at_once(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A full disk under ``state_dir``: the file is written again from what was noted, with all rows that takes."""
    noted, refused = IssuedQuery.noted, list[Facts]()

    async def note(query: IssuedQuery, facts: Facts) -> None:
        if facts.get("reader") == FILE_READER and len(refused) < 2:
            refused.append(facts)
            raise OSError(errno.ENOSPC, "No space left on device")
        await noted(query, facts)

    site.store(0, 3)
    path = tmp_path / f"rows.{form}"
    monkeypatch.setattr(IssuedQuery, "noted", note)
    write_to(site, path, 0, 0)
    site.end(QueryState.COMPLETED)
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: bool(reader.note["whole"]))
    assert len(refused) == 2
    rows = pq.read_table(path) if form == "parquet" else pa.csv.read_csv(path)
    assert rows.column(0).to_pylist() == [0, 1, 2]


def test_parquet_of_a_query_that_failed_is_no_file_and_its_rows_stay(site: Site, tmp_path: Path) -> None:
    site.store(0, 4)
    write_to(site, tmp_path / "rows.parquet", 0, 0)
    site.end(QueryState.FAILED, "no luck")
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: bool(reader.note["whole"]))
    assert list(tmp_path.glob("rows*")) == []
    assert (reader.place, reader.trouble) == (
        0,
        f"the query failed: its rows are not in {tmp_path}/rows.parquet, but here",
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rows.txt", "a name ending in .parquet, .csv"),
        ("nowhere/rows.csv", "a file in a folder of the query's home"),
        ("there.csv", "a file that is not there yet"),
        ("begun.parquet", "a file that is not there yet; got '.*begun.parquet.part'"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_the_query_begins(
    site: Site, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "there.csv").touch()
    (tmp_path / "begun.parquet.part").touch()
    with pytest.raises(QueryError, match=said):
        FileWriters(site.queries).check(site.query, str(tmp_path / name), "")


def test_two_queries_do_not_write_one_file(site: Site, tmp_path: Path) -> None:
    """Neither has begun it when the second one is asked for; both would write to the same unfinished file."""
    first, second = (site.queries.new(Planned(PLAN), reader=FILE_READER) for _ in range(2))
    writers = FileWriters(site.queries)
    writers.check(first, str(tmp_path / "rows.parquet"), "")
    with pytest.raises(QueryError, match=f"a file that no other query writes; {first.query_id} writes"):
        writers.check(second, str(tmp_path / "." / "rows.parquet"), "")
    assert second.query_id not in site.queries.by_id
    third = site.queries.new(Planned(PLAN), reader=FILE_READER)
    with pytest.raises(QueryError, match="a file that no other query writes"):
        writers.check(third, str(tmp_path / "rows.parquet.part"), "csv")
    fourth = site.queries.new(Planned(PLAN), reader=FILE_READER)
    writers.check(fourth, str(tmp_path / "others.parquet"), "")
