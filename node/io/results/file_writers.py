"""Files that a site writes for queries (``query --detach --to``), each as a reader of its own.

Exactly once over crashes: how long the file is and which rows that are is noted together, after the file is synced; at
a start it is cut to that length. A Parquet file cannot be cut, so its rows are taken when it is whole, and a start
begins it anew. A file that cannot be written on is said in ``status``, tried again, and loses no row. So is one that
somebody removed or replaced: what is not in the file of that name is not taken.

Nothing is overwritten or cut that may be somebody else's:
- a file is made where there is none, and that it was is noted before there is a byte in it;
- what is noted of its length is noted with a checksum of the bytes before, and it is cut only if it has these;
- what is cut is not longer than the rows that are here and may be in it, which are written again. An old copy of the
  site's folder, put back, finds a file with rows that it does not have. Rows that come while a file is not written are
  in none, and that is noted: no start takes them for what is behind the noted length;
- a Parquet file gets its name when no other has it; that it is whole is noted before, so a start knows it. Until then
  it has one with the query's ID in it, which is nobody else's.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.journal import Facts
from node.io.results.readers import FILE_READER, Reader, ways_on
from node.io.results.row_files import CHUNK_BYTES_MAX
from node.io.results.row_formats import FILE_FORMATS, GROWING_FORMATS, RowOutput, row_output
from node.io.results.spool import Piece, read_pieces
from node.storage.errors import StorageError
from node.storage.folder import sync_folder
from planner.model.errors import NarrowsError, QueryError

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A file is synced, and its rows are taken, this often.
_TAKE_EVERY_S = 0.5
#: What fails is tried again after so long.
_AGAIN_S = 2.0
#: So much of a file before a length is looked at to know whether it is the one that had that length.
_TAIL_BYTES = 1 << 16
_CLIENT = "this site"


class FileWriters:
    """The files of one site."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, to: str, form: str) -> Facts:
        """What is noted of a file that a query is to write. Raises QueryError if there can be none."""
        path = Path(to)
        form = form or FILE_FORMATS.get(path.suffix, "")
        if form not in FILE_FORMATS.values():
            raise QueryError(f"--to requires a name ending in {', '.join(FILE_FORMATS)}; got {to!r}")
        if not path.is_absolute() or not path.parent.is_dir():
            raise QueryError(f"--to requires a file in a folder of the query's home; got {to!r}")
        if os.path.lexists(path):
            raise QueryError(f"--to requires a file that is not there yet; got {to!r}")
        if owner := self._writer_of(path):
            raise QueryError(f"--to requires a file that no other query writes; {owner} writes {to!r}")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise QueryError(f"--to requires a folder that the site may write to; got {to!r}")
        return {"file": to, "form": form, "length": 0, "whole": False, "made": 0}

    def _writer_of(self, path: Path) -> str:
        """The query that writes to this file, or is to; nothing if none does."""
        for query in self._queries.by_id.values():
            reader = query.readers.get(FILE_READER)
            if reader is not None and reader.writes:
                written = (Path(reader.note["file"]), _written(query.query_id, reader.note))
                if path.resolve() in [each.resolve() for each in written]:
                    return query.query_id
        return ""

    def start(self, query: IssuedQuery) -> None:
        """Write, or write on, the file of a query, if it has one that is not whole."""
        reader = query.readers.get(FILE_READER)
        if reader is not None and reader.writes:
            self._tasks[query.query_id] = asyncio.create_task(self._write(query, reader))

    async def forget(self, query: IssuedQuery) -> None:
        """The query is dropped: its file stays as it is, but for one that is none before it is whole."""
        task = self._tasks.pop(query.query_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if FILE_READER in query.readers:
            await self.discard(query, query.readers[FILE_READER])

    async def discard(self, query: IssuedQuery, reader: Reader) -> None:
        """The file of this reader will not be whole: what there is of it goes, if nobody can read it before it is."""
        await asyncio.to_thread(_discard, query.query_id, reader.note)

    async def stop(self) -> None:
        """Let go of all files."""
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, query: IssuedQuery, reader: Reader) -> None:
        writer = _FileWriter(query, reader, self._queries)
        while query.readers.get(FILE_READER) is reader:
            try:
                await writer.write()
                break
            except (OSError, NarrowsError, pa.ArrowException) as error:
                if reader.trouble != str(error):
                    log.warning(
                        "the file %s of query %s cannot be written: %s", reader.note["file"], query.query_id, error
                    )
                reader.trouble = str(error)
                await writer.keep_reach()
            await asyncio.sleep(_AGAIN_S)
        if query.readers.get(FILE_READER) is not reader:
            await _undisturbed(partial(_discard, query.query_id, reader.note))


class _FileWriter:
    """Writes a file on until it is whole."""

    def __init__(self, query: IssuedQuery, reader: Reader, queries: Queries) -> None:
        self._query = query
        self._reader = reader
        self._queries = queries
        self._path = Path(reader.note["file"])
        self._grows = reader.note["form"] in GROWING_FORMATS
        self._part = _written(query.query_id, reader.note)
        self._row = reader.place
        #: Rows before this number may be in the file: those that an earlier life left, and those written since.
        self._reach = min(reader.note.get("reach", query.spool.rows), query.spool.rows)
        #: The length that was known, the file's size and the reach when last too much was behind, and what was said:
        #: while they are the same no row is read to find it again.
        self._refused: tuple[tuple[int, int, int] | None, str] = None, ""

    @property
    def _length(self) -> int:
        """How much of the file is known, and stays. A file that does not grow is begun anew."""
        return int(self._reader.note["length"]) if self._grows else 0

    async def write(self) -> None:
        """Raises OSError, NarrowsError or ArrowException if it cannot be; then it may be tried again."""
        self._row = self._reader.place
        connection = self._reader.attach(_CLIENT, self._row)
        file = None
        try:
            if not self._grows and await _undisturbed(self._is_whole):
                await self._note(self._query.spool.rows, whole=True)
                return
            file = await _undisturbed(self._open)
            await self._cut(file)
            output = await self._in_room(partial(self._output, file))
            await self._pump(file, output)
        finally:
            self._reader.detach(connection)
            if file is not None:
                await asyncio.shield(asyncio.to_thread(_close, file))

    async def keep_reach(self) -> None:
        """The file cannot be written: note which rows may be in it, for those that come now are not."""
        if self._grows and self._reader.note.get("reach") != self._reach:
            with suppress(OSError, NarrowsError):  # it is noted when writing has failed again
                await self._note(self._reader.place, reach=self._reach)

    async def _note(self, row: int, **facts: object) -> None:
        """What else is noted is so when the file is written: more rows may be in it with every moment then."""
        known = {name: value for name, value in self._reader.note.items() if name != "reach"}
        await self._query.take(self._reader, row, {**known, **facts})

    def _is_whole(self) -> bool:
        """Whether the whole file has its name already. Raises StorageError if another one has it."""
        if not os.path.lexists(self._path):
            return False
        if not self._path.is_file() or not (self._is_as_noted() or self._has_all_rows()):
            raise self._taken(self._path)
        sync_folder(self._path.parent)
        return True

    def _is_as_noted(self) -> bool:
        length = self._reader.note["length"]
        with self._path.open("rb") as file:
            whole = length and file.seek(0, os.SEEK_END) == length
            return bool(whole and _tail(file, length) == self._reader.note["tail"])

    def _has_all_rows(self) -> bool:
        """Whether it is that of an earlier version of the system, which did not note what it was to rename."""
        if not _is_earlier(self._reader.note) or self._query.state != "completed":
            return False
        with suppress(OSError, pa.ArrowException), pq.ParquetFile(self._path) as file:
            rows, names = file.metadata.num_rows, file.schema_arrow.names
            return bool(rows == self._query.spool.rows and names == self._query.about.arrow_schema.names)
        return False

    def _open(self) -> BinaryIO:
        """The file, if it is the one that was written. Raises StorageError if it is another."""
        try:
            file = self._part.open("r+b")
        except FileNotFoundError:
            if self._length:
                raise self._gone() from None
            return self._part.open("x+b")
        try:
            if self._length:
                self._check(file)
            elif self._grows and not _is_own(os.fstat(file.fileno()), self._reader.note):
                raise self._taken(self._part)
        except BaseException:
            file.close()
            raise
        return file

    def _check(self, file: BinaryIO) -> None:
        """That it begins with what is known of it."""
        length, size = self._length, os.fstat(file.fileno()).st_size
        required = f"{self._part} required the {length} bytes that were written"
        if size < length:
            raise StorageError(f"{required}; got {size} ({ways_on(self._query.query_id)})")
        # One that an earlier version of the system noted is known by its length alone.
        if self._reader.note.get("tail", "") not in ("", _tail(file, length)):
            raise StorageError(f"{required}; got others, which stay as they are ({ways_on(self._query.query_id)})")

    def _check_end(self, file: BinaryIO) -> None:
        """That it ends with what was written to it."""
        file.flush()
        written, size = file.tell(), os.fstat(file.fileno()).st_size
        if size != written:
            required = f"{self._part} required the {written} bytes that were written"
            raise StorageError(f"{required}; got {size} ({ways_on(self._query.query_id)})")

    async def _cut(self, file: BinaryIO) -> None:
        """Cut what a crash left behind what is known; before there is a byte in a file it is noted that it was made."""
        status = os.fstat(file.fileno())
        behind = status.st_size - self._length
        if self._grows and behind > 0:
            found = (self._length, status.st_size, self._reach)
            if self._refused[0] == found:
                raise StorageError(self._refused[1])
            most = await self._bytes_of_rows(behind)
            if behind > most:
                rows = f"rows {self._row} to {self._reach - 1}" if self._row < self._reach else "no row"
                required = f"{self._part} required at most {most} bytes behind the {self._length} that are noted"
                why = "does another program write to it, or is the site's folder an old copy?"
                got = f"{behind}, which stay as they are: {why}"
                hint = ways_on(self._query.query_id)
                self._refused = found, f"{required}, of {rows} that may be in it; got {got} ({hint})"
                raise StorageError(self._refused[1])
        await _undisturbed(partial(file.truncate, self._length))
        note = self._reader.note
        if self._grows and ("reach" in note or (not self._length and note.get("made") != status.st_ino)):
            await self._note(self._reader.place, made=status.st_ino)

    async def _bytes_of_rows(self, enough: int) -> int:
        """How many bytes the rows take that may be in the file and are not noted, counted until they are ``enough``."""
        sink, nbytes, row = io.BytesIO(), 0, self._row
        output = row_output(sink, self._reader.note["form"], self._query.about.arrow_schema, begins=not self._length)
        while nbytes < enough and row < self._reach:
            pieces = self._query.spool.pieces(row, self._reach, CHUNK_BYTES_MAX)
            await _undisturbed(partial(_write_pieces, output, pieces))
            row = pieces[-1].end_row
            nbytes += sink.tell()
            sink.seek(0)
            sink.truncate()
        output.finish()
        return nbytes + sink.tell()

    def _output(self, file: BinaryIO) -> RowOutput:
        file.seek(self._length)
        return row_output(file, self._reader.note["form"], self._query.about.arrow_schema, begins=not self._length)

    async def _pump(self, file: BinaryIO, output: RowOutput) -> None:
        query, loop = self._query, asyncio.get_running_loop()
        taken_at = loop.time()
        while query.readers.get(FILE_READER) is self._reader:
            changed, ended = query.changed, query.state.ended
            while self._row < query.spool.rows:
                pieces = query.spool.pieces(self._row, query.spool.rows, CHUNK_BYTES_MAX)
                await self._in_room(partial(self._write_on, file, output, pieces))
                self._row = self._reader.sent = self._reader.seen = pieces[-1].end_row
                self._queries.retry()
                if loop.time() - taken_at > _TAKE_EVERY_S:
                    await self._take(file)
                    taken_at = loop.time()
            await self._take(file)
            self._reader.trouble = ""
            if ended:
                await self._end(file, output)
                return
            await changed.wait()
            await asyncio.sleep(0.05)  # what comes soon after is written with it

    async def _in_room(self, write: Callable[[], T]) -> T:
        """What a thread writes. Raises OSError if the room there is must not be used for it."""

        def written() -> T:
            with self._queries.room.use(self._path.parent):
                return write()

        return await _undisturbed(written)

    def _write_on(self, file: BinaryIO, output: RowOutput, pieces: list[Piece]) -> None:
        # What somebody else has written behind the rows would be overwritten.
        self._check_end(file)
        self._reach = max(self._reach, pieces[-1].end_row)
        _write_pieces(output, pieces)

    async def _take(self, file: BinaryIO) -> None:
        if self._grows and self._row > self._reader.place:
            await self._note(self._row, **await _undisturbed(partial(self._synced, file)))
            self._reach = self._row
            self._queries.retry()

    async def _end(self, file: BinaryIO, output: RowOutput) -> None:
        """All rows are written. What there is of a failed query is no whole Parquet file: its rows stay here."""
        place = self._row
        if not self._grows and self._query.state != "completed":
            await _undisturbed(partial(_discard, self._query.query_id, self._reader.note))
            place = self._reader.place
            self._reader.trouble = f"the query {self._query.state}: its rows are not in {self._path}, but here"
        else:
            await self._in_room(output.finish)
            known = await _undisturbed(partial(self._synced, file))
            if not self._grows:
                await self._note(self._reader.place, **known)
                await _undisturbed(self._rename)
        # Only then are rows forgotten: who begins the file anew needs them all.
        await self._note(place, whole=True)

    def _rename(self) -> None:
        if os.path.lexists(self._path):
            raise self._taken(self._path)
        self._part.rename(self._path)
        sync_folder(self._path.parent)

    def _synced(self, file: BinaryIO) -> Facts:
        """Make the file durable, and its name with it; what is known of it then.

        Raises StorageError if it is not the one of that name any more, or somebody else has written to it: nobody would
        find the rows.
        """
        self._check_end(file)
        os.fsync(file.fileno())
        length = file.tell()
        if self._reader.note["length"] == 0:
            sync_folder(self._path.parent)
        try:
            there = os.path.samestat(os.fstat(file.fileno()), self._part.stat())
        except FileNotFoundError:
            there = False
        if not there:
            raise self._gone()
        if self._length:
            self._check(file)
        return {"length": length, "tail": _tail(file, length)}

    def _gone(self) -> StorageError:
        if not self._grows:
            return StorageError(f"{self._part} was removed or replaced; it is written anew")
        text = f"{self._path} was removed or replaced, with the {self._reader.place} rows that were in it"
        return StorageError(f"{text}; the others are kept here until it is back ({ways_on(self._query.query_id)})")

    def _taken(self, path: Path) -> StorageError:
        required = f"{path} required a name that no other file has, for the rows of query {self._query.query_id}"
        return StorageError(f"{required}; got one that was not written for it, and stays as it is: move it away")


def _written(query_id: str, note: Facts) -> Path:
    """The file that is written: until it is whole one that does not grow has a name that no other file has."""
    path = Path(note["file"])
    if note["form"] in GROWING_FORMATS:
        return path
    return path.with_name(f"{path.name}.part" if _is_earlier(note) else f"{path.name}.{query_id}.part")


def _is_earlier(note: Facts) -> bool:
    """Whether an earlier version of the system began the file: nothing is known of who made it."""
    return "made" not in note


def _is_own(status: os.stat_result, note: Facts) -> bool:
    """Whether a file of which no byte is noted was made for this query, or has nothing in it."""
    return _is_earlier(note) or status.st_ino == note["made"] or status.st_size == 0


def _tail(file: BinaryIO, length: int) -> str:
    """Tells whether the bytes before a length are those that were there."""
    nbytes = min(length, _TAIL_BYTES)
    return hashlib.blake2b(os.pread(file.fileno(), nbytes, length - nbytes), digest_size=16).hexdigest()


def _discard(query_id: str, note: Facts) -> None:
    """Remove what there is of a file that will not be whole, and that nobody can read before it is."""
    # An older copy of what is noted cannot tell whose a file is that has no query's ID in its name.
    known = not (_is_earlier(note) and "given_up" in note)
    if note["form"] not in GROWING_FORMATS and not note["whole"] and known:
        with suppress(OSError):  # it only takes room
            _written(query_id, note).unlink()


async def _undisturbed(work: Callable[[], T]) -> T:
    """What a thread does. Whoever cancels this waits until it has done it: a file is not closed while it is written."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _write_pieces(output: RowOutput, pieces: list[Piece]) -> None:
    for rows in read_pieces(pieces):
        output.write(rows)


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # all that counts is synced
        file.close()
