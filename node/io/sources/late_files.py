"""The side file: tuples that are in no batch, each with the reason. Nothing is silently lost.

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

import pyarrow as pa

from node.core.streams.position import Position, Positions

REASON = "narrows_reason"
PART, ROW = "narrows_part", "narrows_row"
#: In the schema's metadata: which beginning of its stream the positions in a file belong to.
_BEGUN = b"narrows_begun"


class LateFiles:
    """One Arrow stream file per stream of this site, made when the first such tuple appears.

    The stream format stays readable up to the last complete batch even if the daemon is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun: dict[str, str] = {}
        self._files: dict[str, _File] = {}
        #: Where the tuples of a stream are, once there are some.
        self.paths: dict[str, Path] = {}

    def begin(self, stream: str, begun: str) -> None:
        """What tells apart positions from before and after the stream began anew."""
        self._begun[stream] = begun

    def write(self, stream: str, rows: pa.RecordBatch, reason: str, positions: Positions | None = None) -> None:
        """Append rows; raises OSError when they cannot be written, and none of them is there."""
        rows = rows.append_column(REASON, pa.repeat(reason, rows.num_rows))
        if positions is not None:
            rows = rows.append_column(PART, pa.array(positions[:, 0])).append_column(ROW, pa.array(positions[:, 1]))
            rows = rows.replace_schema_metadata({_BEGUN: self._begun.get(stream, "")})
        file = self._files.get(stream)
        if file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._free_path(stream)
            file = self._files[stream] = _File(path, rows.schema)
            self.paths[stream] = path
        try:
            file.write(rows)
        except OSError:
            # What is there of it is cut off; the next rows go into another file.
            del self._files[stream]
            file.give_up()
            raise

    def sync(self) -> None:
        """Make durable what was written; raises OSError."""
        for file in self._files.values():
            file.sync()

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


class _File:
    """A file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._sink = io.FileIO(path, "wb")
        self._writer = pa.ipc.new_stream(self._sink, schema)
        #: How much of it is whole, and whether that is synced.
        self._whole = 0
        self._synced = True

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self._whole = self._sink.tell()
        self._synced = False

    def sync(self) -> None:
        if not self._synced:
            os.fsync(self._sink.fileno())
            self._synced = True

    def give_up(self) -> None:
        with suppress(OSError):
            self._sink.truncate(self._whole)
        self._sink.close()
        if not self._whole:
            with suppress(OSError):
                self._path.unlink()

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
