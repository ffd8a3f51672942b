"""Files that a site writes for queries (``query --detach --to``), each as a reader of its own.

Exactly once over crashes: how long the file is and which rows that are is noted together, after the file is synced; at
a start it is cut to that length. A Parquet file cannot be cut, so its rows are taken when it is whole, and a start
begins it anew. A file that cannot be written on is said in ``status``, tried again, and loses no row. So is one that
somebody removed or replaced: what is not in the file of that name is not taken.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa

from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.readers import FILE_READER, Reader
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
_CLIENT = "this site"


class FileWriters:
    """The files of one site."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def check(self, query: IssuedQuery, to: str, form: str) -> None:
        """Have a query that begins write its rows to a file. Raises QueryError if there can be none."""
        path = Path(to)
        form = form or FILE_FORMATS.get(path.suffix, "")
        try:
            if form not in FILE_FORMATS.values():
                raise QueryError(f"--to requires a name ending in {', '.join(FILE_FORMATS)}; got {to!r}")
            if not path.is_absolute() or not path.parent.is_dir():
                raise QueryError(f"--to requires a file in a folder of the query's home; got {to!r}")
            for each in _written_for(path, form):
                if each.exists() or each.is_symlink():
                    raise QueryError(f"--to requires a file that is not there yet; got {str(each)!r}")
            if owner := self._writer_of(path, form):
                raise QueryError(f"--to requires a file that no other query writes; {owner} writes {to!r}")
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise QueryError(f"--to requires a folder that the site may write to; got {to!r}")
        except QueryError:
            del self._queries.by_id[query.query_id]
            raise
        query.readers[FILE_READER].note = {"file": to, "form": form, "length": 0, "whole": False}

    def _writer_of(self, path: Path, form: str) -> str:
        """The query that writes to this file, or to the one that is to become it; nothing if none does."""
        wanted = {each.resolve() for each in _written_for(path, form)}
        for query in self._queries.by_id.values():
            note = query.readers[FILE_READER].note if FILE_READER in query.readers else {}
            if "file" in note and not note["whole"]:
                written = _written_for(Path(note["file"]), note["form"])
                if any(each.resolve() in wanted for each in written):
                    return query.query_id
        return ""

    def start(self, query: IssuedQuery) -> None:
        """Write, or write on, the file of a query, if it has one that is not whole."""
        reader = query.readers.get(FILE_READER)
        if reader is not None and "file" in reader.note and not reader.note["whole"]:
            self._tasks[query.query_id] = asyncio.create_task(self._write(query, reader))

    def forget(self, query: IssuedQuery) -> None:
        """The query is dropped: its file stays as it is."""
        task = self._tasks.pop(query.query_id, None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Let go of all files."""
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, query: IssuedQuery, reader: Reader) -> None:
        while query.readers.get(FILE_READER) is reader:
            try:
                await _FileWriter(query, reader, self._queries).write()
                return
            except (OSError, NarrowsError, pa.ArrowException) as error:
                if reader.trouble != str(error):
                    log.warning(
                        "the file %s of query %s cannot be written: %s", reader.note["file"], query.query_id, error
                    )
                reader.trouble = str(error)
            await asyncio.sleep(_AGAIN_S)


class _FileWriter:
    """One attempt to write a file on until it is whole."""

    def __init__(self, query: IssuedQuery, reader: Reader, queries: Queries) -> None:
        self._query = query
        self._reader = reader
        self._queries = queries
        self._path = Path(reader.note["file"])
        self._grows = reader.note["form"] in GROWING_FORMATS
        self._part = _written_for(self._path, reader.note["form"])[-1]
        self._row = reader.place

    async def write(self) -> None:
        """Raises OSError, NarrowsError or ArrowException if it cannot be."""
        connection = self._reader.attach(_CLIENT, self._row)
        file, output = None, None
        try:
            file, output = await _undisturbed(self._open)
            await self._pump(file, output)
        finally:
            self._reader.detach(connection)
            if file is not None and output is not None:
                output.abandon()
                await asyncio.shield(asyncio.to_thread(_close, file))

    def _open(self) -> tuple[BinaryIO, RowOutput]:
        """The file, cut to what is known of it."""
        length = self._reader.note["length"]
        file: BinaryIO
        if not self._grows or length == 0:
            file = self._part.open("wb")
        else:
            try:
                file = self._part.open("r+b")
            except FileNotFoundError:
                raise self._gone() from None
            size = file.seek(0, os.SEEK_END)
            if size < length:
                file.close()
                raise StorageError(f"{self._part} required the {length} bytes that were written; got {size}")
            file.truncate(length)
            file.seek(length)
        form = self._reader.note["form"]
        return file, row_output(file, form, self._query.about.arrow_schema, begins=length == 0)

    async def _pump(self, file: BinaryIO, output: RowOutput) -> None:
        query, loop = self._query, asyncio.get_running_loop()
        taken_at = loop.time()
        while query.readers.get(FILE_READER) is self._reader:
            changed, ended = query.changed, query.state.ended
            while self._row < query.spool.rows:
                pieces = query.spool.pieces(self._row, query.spool.rows, CHUNK_BYTES_MAX)
                await _undisturbed(partial(_write_pieces, output, pieces))
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

    async def _take(self, file: BinaryIO) -> None:
        if self._grows and self._row > self._reader.place:
            length = await _undisturbed(partial(self._synced, file))
            await self._query.take(self._reader, self._row, {**self._reader.note, "length": length})
            self._queries.retry()

    async def _end(self, file: BinaryIO, output: RowOutput) -> None:
        """All rows are written. What there is of a failed query is no whole Parquet file: its rows stay here."""
        place = self._row
        if not self._grows and self._query.state != "completed":
            await _undisturbed(partial(self._abandon, output))
            place = self._reader.place
            self._reader.trouble = f"the query {self._query.state}: its rows are not in {self._path}, but here"
        else:
            await _undisturbed(partial(self._finish, file, output))
        note = {**self._reader.note, "whole": True}
        # Only then are rows forgotten: who begins the file anew needs them all.
        await self._query.take(self._reader, place, note)

    def _finish(self, file: BinaryIO, output: RowOutput) -> None:
        output.finish()
        self._synced(file)
        if not self._grows:
            self._part.replace(self._path)
            sync_folder(self._path.parent)

    def _synced(self, file: BinaryIO) -> int:
        """Make the file durable, and its name with it; how long it is.

        Raises StorageError if it is not the one of that name any more: nobody would find the rows.
        """
        file.flush()
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
        return length

    def _gone(self) -> StorageError:
        if not self._grows:
            return StorageError(f"{self._part} was removed or replaced; it is written anew")
        text = f"{self._path} was removed or replaced, with the {self._reader.place} rows that were in it"
        query_id = self._query.query_id
        hint = f"narrows follow {query_id} --as NAME takes them, --forget {FILE_READER} gives the file up"
        return StorageError(f"{text}; the others are kept here until it is back ({hint})")

    def _abandon(self, output: RowOutput) -> None:
        output.abandon()
        self._part.unlink(missing_ok=True)


def _written_for(path: Path, form: str) -> tuple[Path, ...]:
    """The file, and the one that is written until it is whole, if that is another."""
    return (path,) if form in GROWING_FORMATS else (path, path.with_name(path.name + ".part"))


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
