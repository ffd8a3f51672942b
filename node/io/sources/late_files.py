"""The side file: tuples that are in no batch, each with the reason. Nothing is silently lost.

What was written when ``sync`` returns is there after a loss of power, with the name of its file, whatever failed after.

Beside the reason is, if the stream has a log on disk, where the tuple was in its source (``narrows_part``,
``narrows_row``): a daemon that reads a part of the source again knows what it has set aside already.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from node.core.streams.position import Position, Positions
from node.storage.errors import DiskFailedError, StorageError, disk_error
from node.storage.folder import ANY_ROOM, Room, make_folder, sync_folder, write_all

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

REASON = "narrows_reason"
PART, ROW = "narrows_part", "narrows_row"
#: In the schema's metadata: which beginning of its stream the positions in a file belong to.
_BEGUN = b"narrows_begun"


class LateFiles:
    """One Arrow stream file per stream of this site, made when the first such tuple appears.

    The stream format stays readable up to the last complete batch even if the daemon is killed.
    """

    def __init__(self, folder: Path, room: Room = ANY_ROOM) -> None:
        self._folder = folder
        self._room = room
        self._begun: dict[str, str] = {}
        self._files: dict[str, _File] = {}
        #: Where the tuples of a stream are, once there are some.
        self.paths: dict[str, Path] = {}

    def begin(self, stream: str, begun: str) -> None:
        """What tells apart positions from before and after the stream began anew."""
        self._begun[stream] = begun

    def write(self, stream: str, rows: pa.RecordBatch, reason: str, positions: Positions | None = None) -> None:
        """Append rows. Raises NoRoomError if none of them is there, and they may come again; else StorageError."""
        rows = rows.append_column(REASON, pa.repeat(reason, rows.num_rows))
        if positions is not None:
            rows = rows.append_column(PART, pa.array(positions[:, 0])).append_column(ROW, pa.array(positions[:, 1]))
            rows = rows.replace_schema_metadata({_BEGUN: self._begun.get(stream, "")})
        try:
            with self._room.use(self._folder):
                file = self._files.get(stream) or self._begin_file(stream, rows.schema)
                file.write(rows)
        except OSError as error:
            self._give_up(stream)
            raise self._problem(error) from error
        self.paths[stream] = file.path

    def _begin_file(self, stream: str, schema: pa.Schema) -> _File:
        make_folder(self._folder)
        file = self._files[stream] = _File(self._free_path(stream), schema)
        return file

    def _give_up(self, stream: str) -> None:
        """What is there of the last rows is cut off; the next ones go into another file."""
        file = self._files.pop(stream, None)
        if file is None:
            return
        try:
            file.give_up()
        except OSError as error:
            raise DiskFailedError(str(self._problem(error))) from error

    def sync(self) -> None:
        """Make durable what was written; raises DiskFailedError."""
        try:
            for file in self._files.values():
                file.sync()
        except OSError as error:
            raise DiskFailedError(str(self._problem(error))) from error

    def _problem(self, error: OSError) -> StorageError:
        """Going on without them would lose tuples without a trace."""
        return disk_error(f"late_dir {self._folder}", "to keep tuples that are set aside", error)

    def aside_after(self, stream: str, read_to: Position) -> frozenset[Position]:
        """Positions from ``read_to`` on of tuples that are set aside already."""
        found: set[Position] = set()
        for path in reversed(self._paths(stream)):
            positions = list(_positions(path, self._begun.get(stream, "").encode()))
            found.update(position for position in positions if position >= read_to)
            # Files are in the order in which the source was read, but for what was read twice.
            if positions and positions[0] < read_to:
                break
        return frozenset(found)

    def _paths(self, stream: str) -> list[Path]:
        """The files of a stream, oldest first."""
        name = re.compile(re.escape(stream) + r"(?:\.([0-9]+))?\.arrows")
        if not self._folder.is_dir():
            return []
        numbered = [
            (int(match[1] or 0), path) for path in self._folder.iterdir() if (match := name.fullmatch(path.name))
        ]
        return [path for _, path in sorted(numbered)]

    def _free_path(self, stream: str) -> Path:
        """What an earlier life of the daemon wrote is never overwritten."""
        names = chain([f"{stream}.arrows"], (f"{stream}.{number}.arrows" for number in count(1)))
        return next(path for path in map(self._folder.joinpath, names) if not path.exists())

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


class _Sink(io.FileIO):
    """Where Arrow writes, which does not look at how much was taken."""

    def write(self, data: ReadableBuffer) -> int:
        """All of it."""
        whole = memoryview(data).cast("B")
        write_all(self.fileno(), whole)
        return whole.nbytes


class _File:
    """A file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._sink = _Sink(path, "wb")
        self._writer = pa.ipc.new_stream(self._sink, schema)
        #: How much of it is whole; whether that is synced, and the file's name.
        self._whole = 0
        self._synced = True
        self._named = False

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self._whole = self._sink.tell()
        self._synced = False

    def sync(self) -> None:
        if not self._synced:
            os.fsync(self._sink.fileno())
            if not self._named:
                sync_folder(self.path.parent)
                self._named = True
            self._synced = True

    def give_up(self) -> None:
        """Nobody syncs it later, and batches may rely on what is whole of it. Raises OSError if that cannot be had."""
        with suppress(OSError):  # it can be read up to what is not whole
            self._sink.truncate(self._whole)
        try:
            if self._whole:
                self.sync()
            else:
                with suppress(OSError):
                    self.path.unlink()
        finally:
            self._sink.close()

    def close(self) -> None:
        with suppress(OSError):  # the file is readable without the mark of its end
            self._writer.close()
        self._sink.close()


def _positions(path: Path, begun: bytes) -> Iterator[Position]:
    """Of the tuples in a file, as far as it is whole; none of a stream that has begun anew since."""
    with suppress(pa.ArrowException, OSError), pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_stream(source)
        if PART not in reader.schema.names or (reader.schema.metadata or {}).get(_BEGUN) != begun:
            return
        for rows in reader:
            pairs = zip(rows.column(PART).to_pylist(), rows.column(ROW).to_pylist(), strict=True)
            yield from (Position(part, row) for part, row in pairs)
