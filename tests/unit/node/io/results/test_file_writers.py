"""Files that a site writes: cut to what is noted, never shorter, and no row is lost while one cannot be written."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO
from unittest.mock import AsyncMock

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
from node.io.results.readers import FILE_READER, Reader
from node.io.results.row_formats import RowOutput
from node.io.results.spool import Piece
from node.storage.headroom import Headroom
from planner.model.errors import QueryError
from tests.unit.delivery import NAMES, PLAN, Site, rows_of, wait_until


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(file_writers, "_AGAIN_S", 0.05)
    made = Site(tmp_path / "state", keep=False)
    yield made
    made.close()


def write_to(site: Site, path: Path, place: int = 0, **noted: object) -> Reader:
    """As a query with such a file begins, or a start goes on with one of which more is noted."""

    def begin() -> None:
        reader = site.query.begin_reader(FILE_READER, place)
        reader.note = {"file": str(path), "form": path.suffix[1:], "length": 0, "whole": False, "made": 0, **noted}
        site._control._files.start(site.query)

    site.do(begin)
    return site.query.readers[FILE_READER]


def write_two(site: Site, path: Path) -> Reader:
    """Its first two rows are in the file, and taken."""
    site.store(0, 2)
    reader = write_to(site, path)
    wait_until(lambda: reader.place == 2)
    return reader


def tail_of(path: Path, length: int) -> str:
    with path.open("rb") as file:
        return file_writers._tail(file, length)


def refused(site: Site, why: str) -> bool:
    """Waits until it is said why nothing is written on; false if every row is written."""
    reader = site.query.readers[FILE_READER]
    wait_until(lambda: why in reader.trouble or reader.place == site.query.spool.rows)
    return why in reader.trouble


def numbers_in(path: Path) -> list[int]:
    """The first column of a file with a header."""
    return [int(line.split(",")[0]) for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("earlier", [False, True])
def test_what_was_written_and_not_noted_is_cut_off_and_written_again(site: Site, tmp_path: Path, earlier: bool) -> None:
    """``earlier``: a version that noted no checksum."""
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    path.write_text("header\n0\n1\n2\nhalf a r")
    length = len("header\n0\n1\n")
    known = {} if earlier else {"tail": tail_of(path, length)}
    reader = write_to(site, path, 2, length=length, **known)
    wait_until(lambda: reader.place == 4)
    assert numbers_in(path) == [0, 1, 2, 3]
    assert reader.note["length"] == path.stat().st_size
    site.store(4, 1)
    site.end(QueryState.COMPLETED)
    wait_until(lambda: bool(reader.note["whole"]))
    assert numbers_in(path) == [0, 1, 2, 3, 4]


def test_a_file_that_is_shorter_than_it_was_is_said_and_its_rows_stay(site: Site, tmp_path: Path) -> None:
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    path.write_text("he")
    reader = write_to(site, path, length=7)
    wait_until(lambda: "required the 7 bytes that were written; got 2" in reader.trouble)
    assert (reader.place, site.query.spool.first_row, path.read_text()) == (0, 0, "he")
    path.write_text("header\n")  # somebody puts it back
    wait_until(lambda: reader.place == 4 and not reader.trouble)


def test_a_file_on_the_disk_of_the_records_waits_while_only_these_may_use_it(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    reader = write_two(site, path)
    headroom = Headroom(tmp_path, 4096)
    site.queries.room = headroom
    site.store(2, 2)
    wait_until(lambda: "but for records" in reader.trouble)
    assert numbers_in(path) == [0, 1]
    assert headroom.reserve()
    wait_until(lambda: reader.place == 4 and not reader.trouble)
    assert numbers_in(path) == [0, 1, 2, 3]


def test_rows_after_those_of_a_file_that_was_removed_are_kept_until_it_is_back(site: Site, tmp_path: Path) -> None:
    site.store(0, 2)
    path = tmp_path / "rows.csv"
    reader = write_to(site, path)
    wait_until(lambda: reader.place == 2)
    path.rename(tmp_path / "elsewhere.csv")
    site.store(2, 2)
    wait_until(lambda: "was removed or replaced, with the 2 rows that were in it" in reader.trouble)
    path.touch()  # another one of that name will not do
    wait_until(lambda: "bytes that were written; got 0" in reader.trouble)
    assert (reader.place, site.query.spool.rows) == (2, 4)
    (tmp_path / "elsewhere.csv").rename(path)
    wait_until(lambda: reader.place == 4 and not reader.trouble)
    assert numbers_in(path) == [0, 1, 2, 3]
    # Somebody who wants the rows otherwise gives the file up, although it is being written.
    site.client.extent(site.query.query_id, reader="me")
    site.client.forget(site.query.query_id, FILE_READER)
    assert FILE_READER not in site.query.readers


PRECIOUS = "of somebody else\n" * 10_000


@pytest.mark.parametrize("rows", [0, 2])
def test_another_file_that_is_longer_stays_as_it_is_and_no_row_is_lost(site: Site, tmp_path: Path, rows: int) -> None:
    """``rows``: so many were in the file when it was moved away; of none nothing is noted but that it was made."""
    path = tmp_path / "rows.csv"
    reader = write_to(site, path)
    if rows:
        site.store(0, rows)
    wait_until(lambda: reader.place == rows and reader.note["made"] != 0)
    path.rename(tmp_path / "rows.1.csv")
    other = tmp_path / "other"
    other.write_text(PRECIOUS)
    other.rename(path)
    site.store(rows, 2)
    assert refused(site, "got others, which stay as they are" if rows else "and stays as it is: move it away")
    assert (reader.place, path.read_text()) == (rows, PRECIOUS)
    path.rename(tmp_path / "other")
    if rows:
        (tmp_path / "rows.1.csv").rename(path)
    wait_until(lambda: reader.place == rows + 2 and not reader.trouble)
    assert numbers_in(path) == [*range(rows + 2)]


def test_a_file_that_somebody_wrote_over_is_not_written_on(site: Site, tmp_path: Path) -> None:
    """It is the one that is open: only what is in it tells."""
    site.store(0, 2)
    path = tmp_path / "rows.csv"
    reader = write_to(site, path)
    wait_until(lambda: reader.place == 2)
    mine = path.read_bytes()
    path.write_text(PRECIOUS[: len(mine)])
    site.store(2, 1)
    assert refused(site, "got others, which stay as they are")
    assert reader.place == 2
    path.write_bytes(mine)
    wait_until(lambda: reader.place == 3)
    assert numbers_in(path) == [0, 1, 2]


def test_a_file_that_was_made_just_before_a_crash_is_the_querys_own(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.touch()
    site.store(0, 2)
    reader = write_to(site, path)
    wait_until(lambda: reader.place == 2)
    assert numbers_in(path) == [0, 1]


@pytest.mark.parametrize(("lines", "cut"), [(2, True), (3, False)])
def test_no_more_is_cut_than_the_rows_that_an_earlier_life_left(
    site: Site, tmp_path: Path, lines: int, cut: bool
) -> None:
    """An old copy of the site's folder knows less rows than are in the file, and rows that come now are no others."""
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    row = ",".join(str(2 + 1000 * place) for place in range(len(NAMES))) + "\n"
    path.write_text("header\n0\n1\n")
    length = path.stat().st_size
    known = tail_of(path, length)
    with path.open("a") as file:
        file.write(row * lines)
    text = path.read_text()
    reader = write_to(site, path, 2, length=length, tail=known)
    if cut:
        wait_until(lambda: reader.place == 4)
        assert numbers_in(path) == [0, 1, 2, 3]
    else:
        assert refused(site, "is the site's folder an old copy?")
        site.store(4, 100)
        reader.trouble = ""
        assert refused(site, "of rows 2 to 3 that may be in it")
        assert (reader.place, path.read_text()) == (2, text)


def test_an_old_copy_of_a_sites_folder_does_not_cut_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writers, "_AGAIN_S", 0.05)
    state, path = tmp_path / "state", tmp_path / "rows.csv"
    with closing(Site(state, keep=False)) as site:
        write_two(site, path)
    shutil.copytree(state, tmp_path / "copy")
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        site.store(2, 500)
        wait_until(lambda: site.query.readers[FILE_READER].place == 502)
    whole = path.read_bytes()
    shutil.rmtree(state)
    (tmp_path / "copy").rename(state)
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        site.store(90_000, 600)
        assert refused(site, "is the site's folder an old copy?")
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        assert refused(site, "is the site's folder an old copy?")
    assert path.read_bytes() == whole


def test_rows_that_come_while_a_file_is_refused_are_not_in_it_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else wrote behind its rows while the site was down."""
    monkeypatch.setattr(file_writers, "_AGAIN_S", 0.05)
    state, path = tmp_path / "state", tmp_path / "rows.csv"
    with closing(Site(state, keep=False)) as site:
        write_two(site, path)
    mine = path.read_text()
    path.write_text(mine + PRECIOUS[:50])
    for first in (2, 500):
        with closing(Site(state, keep=False)) as site:
            site.do(site._control.start)
            site.store(first, 400)
            assert refused(site, "does another program write to it")
    assert path.read_text() == mine + PRECIOUS[:50]
    path.write_text(mine)
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        wait_until(lambda: site.query.readers[FILE_READER].place == 802)
        site.store(900, 1)
        wait_until(lambda: site.query.readers[FILE_READER].place == 803)
    assert numbers_in(path) == [0, 1, *range(2, 402), *range(500, 900), 900]


def test_what_another_program_writes_behind_the_rows_is_not_overwritten(site: Site, tmp_path: Path) -> None:
    site.store(0, 2)
    path = tmp_path / "rows.csv"
    reader = write_to(site, path)
    wait_until(lambda: reader.place == 2)
    mine = path.read_text()
    with path.open("a") as file:
        file.write(PRECIOUS[:50])
    site.store(2, 3)
    site.end(QueryState.COMPLETED)
    assert refused(site, f"required the {len(mine)} bytes that were written; got {len(mine) + 50}")
    assert refused(site, "of no row that may be in it; got 50, which stay as they are")
    assert (reader.place, path.read_text()) == (2, mine + PRECIOUS[:50])
    path.write_text(mine)
    wait_until(lambda: bool(reader.note["whole"]))
    assert numbers_in(path) == [0, 1, 2, 3, 4]


def test_what_another_program_writes_while_rows_are_is_not_taken_for_them(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    write, others = file_writers._write_pieces, [PRECIOUS]

    def write_pieces(output: RowOutput, pieces: list[Piece]) -> None:
        write(output, pieces)
        if others:
            with path.open("a") as file:
                file.write(others.pop())

    monkeypatch.setattr(file_writers, "_write_pieces", write_pieces)
    site.store(0, 3)
    reader = write_to(site, path)
    assert refused(site, "which stay as they are")
    assert (reader.place, path.read_text()[-len(PRECIOUS) :]) == (0, PRECIOUS)


def test_rows_are_not_counted_again_for_a_file_that_stays_as_it_is(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, attempts = list[int](), list[int]()
    count, cut = file_writers._FileWriter._bytes_of_rows, file_writers._FileWriter._cut

    async def bytes_of_rows(self: file_writers._FileWriter, enough: int) -> int:
        counted.append(enough)
        return await count(self, enough)

    async def cut_it(self: file_writers._FileWriter, file: BinaryIO) -> None:
        attempts.append(0)
        await cut(self, file)

    monkeypatch.setattr(file_writers._FileWriter, "_bytes_of_rows", bytes_of_rows)
    monkeypatch.setattr(file_writers._FileWriter, "_cut", cut_it)
    site.store(0, 4)
    path = tmp_path / "rows.csv"
    path.write_text(PRECIOUS)
    reader = write_to(site, path, 2, length=17, tail=tail_of(path, 17))
    wait_until(lambda: len(attempts) > 3)
    assert counted == [len(PRECIOUS) - 17]
    assert "of rows 2 to 3 that may be in it" in reader.trouble
    with path.open("a") as file:
        file.write("more")
    wait_until(lambda: len(counted) == 2)


def test_what_a_crash_left_of_a_file_that_had_been_refused_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written when it is well again may be in it, before any of them is taken."""
    monkeypatch.setattr(file_writers, "_AGAIN_S", 0.05)
    state, path = tmp_path / "state", tmp_path / "rows.csv"
    with closing(Site(state, keep=False)) as site:
        reader = write_two(site, path)
        path.rename(tmp_path / "elsewhere.csv")
        site.store(2, 2)
        wait_until(lambda: reader.note.get("reach") == 4)
        monkeypatch.setattr(file_writers._FileWriter, "_take", AsyncMock())
        (tmp_path / "elsewhere.csv").rename(path)
        site.store(4, 100)
        wait_until(lambda: reader.sent == 104)
    monkeypatch.undo()
    path.write_bytes(path.read_bytes()[:-3])
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        assert not refused(site, "stay as they are")
    assert numbers_in(path) == [*range(104)]


@pytest.mark.parametrize("suffix", ["", ".part"])
def test_parquet_takes_no_name_that_another_file_has_got_meanwhile(site: Site, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "rows.parquet"
    reader = write_to(site, path)
    site.store(0, 2)
    wait_until(lambda: reader.sent == 2)
    other = tmp_path / "other"
    other.write_text(PRECIOUS)
    there = other.rename(tmp_path / f"rows.parquet{suffix}")
    site.end(QueryState.COMPLETED)
    assert refused(site, "and stays as it is: move it away") == (not suffix)
    assert there.read_text() == PRECIOUS
    there.rename(other)
    wait_until(lambda: bool(reader.note["whole"]))
    assert pq.read_table(path).column(0).to_pylist() == [0, 1]
    assert sorted(each.name for each in tmp_path.glob("rows*")) == ["rows.parquet"]


def test_parquet_that_was_whole_when_the_daemon_died_is_known(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text(PRECIOUS)
    site.store(0, 2)
    site.end(QueryState.COMPLETED)
    length = path.stat().st_size
    reader = write_to(site, path, length=length, tail=tail_of(path, length), made=7)
    wait_until(lambda: bool(reader.note["whole"]))
    assert (reader.place, path.read_text()) == (2, PRECIOUS)


def test_parquet_is_written_anew_after_a_restart_though_its_file_has_another_number(tmp_path: Path) -> None:
    """Some file systems give a file another one when they are mounted again, as a copy of the folder has."""
    state, path = tmp_path / "state", tmp_path / "rows.parquet"
    part = tmp_path / "rows.parquet.cam-1-1.part"
    with closing(Site(state, keep=False)) as site:
        site.store(0, 2)
        reader = write_to(site, path)
        asyncio.run_coroutine_threadsafe(site.query.noted(reader.facts()), site.loop).result()
        wait_until(lambda: reader.sent == 2)
    part.rename(tmp_path / "before")
    shutil.copy(tmp_path / "before", part)
    with closing(Site(state, keep=False)) as site:
        site.do(site._control.start)
        site.end(QueryState.COMPLETED)
        assert not refused(site, "move it away")
    assert pq.read_table(path).column(0).to_pylist() == [0, 1]
    assert not part.exists()


@pytest.mark.parametrize(("rows", "taken"), [(2, True), (3, False)])
def test_parquet_that_an_earlier_version_had_named_and_not_noted_is_known_by_its_rows(
    site: Site, tmp_path: Path, rows: int, taken: bool
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_batches([rows_of(0, rows)]), path)
    before = path.read_bytes()
    site.store(0, 2)
    site.end(QueryState.COMPLETED)

    def begin() -> None:
        reader = site.query.begin_reader(FILE_READER, 0)
        reader.note = {"file": str(path), "form": "parquet", "length": 0, "whole": False}
        site._control._files.start(site.query)

    site.do(begin)
    assert refused(site, "move it away") == (not taken)
    assert path.read_bytes() == before


@pytest.mark.parametrize("given_up", [False, True])
@pytest.mark.parametrize("way", ["forget", "drop"])
def test_what_there_is_of_a_parquet_file_goes_with_its_reader(
    site: Site, tmp_path: Path, way: str, given_up: bool
) -> None:
    reader = write_to(site, tmp_path / "rows.parquet")
    site.store(0, 2)
    part = tmp_path / "rows.parquet.cam-1-1.part"
    wait_until(lambda: reader.sent == 2)
    assert part.exists()
    if given_up:  # as a start finds it
        asyncio.run_coroutine_threadsafe(site._control._files.stop(), site.loop).result()
        reader.give_up(site.query.query_id, "it was restored")
        site.do(site._control.start)
    if way == "forget":
        site.client.extent(site.query.query_id, reader="me")
        site.client.forget(site.query.query_id, FILE_READER)
    else:
        asyncio.run_coroutine_threadsafe(site._control._files.forget(site.query), site.loop).result()
        site.do(lambda: site.queries.forget(site.query.query_id))
    wait_until(lambda: not part.exists())
    site.do(lambda: site._control._files.begin(str(tmp_path / "rows.parquet"), ""))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_is_the_same_if_what_is_written_cannot_be_noted_at_once(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A full disk under ``state_dir``: the file is written again from what was noted, with all rows that takes."""
    noted, refused = IssuedQuery.noted, list[Facts]()

    async def note(query: IssuedQuery, facts: Facts) -> None:
        if facts.get("reader") == FILE_READER and facts["length"] and len(refused) < 2:
            refused.append(facts)
            raise OSError(errno.ENOSPC, "No space left on device")
        await noted(query, facts)

    site.store(0, 3)
    path = tmp_path / f"rows.{form}"
    monkeypatch.setattr(IssuedQuery, "noted", note)
    reader = write_to(site, path)
    site.end(QueryState.COMPLETED)
    wait_until(lambda: bool(reader.note["whole"]))
    assert len(refused) == 2
    rows = pq.read_table(path) if form == "parquet" else pa.csv.read_csv(path)
    assert rows.column(0).to_pylist() == [0, 1, 2]


def test_parquet_of_a_query_that_failed_is_no_file_and_its_rows_stay(site: Site, tmp_path: Path) -> None:
    site.store(0, 4)
    reader = write_to(site, tmp_path / "rows.parquet")
    site.end(QueryState.FAILED, "no luck")
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
    ],
)
def test_a_file_that_cannot_be_is_refused_before_the_query_begins(
    site: Site, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "there.csv").touch()
    with pytest.raises(QueryError, match=said):
        FileWriters(site.queries).begin(str(tmp_path / name), "")


def test_two_queries_do_not_write_one_file(site: Site, tmp_path: Path) -> None:
    """Neither has begun it when the second one is asked for; both would write to the same unfinished file."""
    writers = FileWriters(site.queries)
    first = site.queries.new(Planned(PLAN), reader=FILE_READER)
    first.readers[FILE_READER].note = writers.begin(str(tmp_path / "rows.parquet"), "")
    known = list(site.queries.by_id)
    for name, form in (("./rows.parquet", ""), (f"rows.parquet.{first.query_id}.part", "csv")):
        with pytest.raises(QueryError, match=f"a file that no other query writes; {first.query_id} writes"):
            writers.begin(f"{tmp_path}/{name}", form)
    assert list(site.queries.by_id) == known
    writers.begin(str(tmp_path / "others.parquet"), "")
    first.readers[FILE_READER].give_up(first.query_id, "it was restored")
    writers.begin(str(tmp_path / "rows.parquet"), "")
