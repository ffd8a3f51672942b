"""The side file: tuples that are in no batch, each with the reason. Nothing is silently lost."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

import pyarrow as pa

REASON = "narrows_reason"


class LateFiles:
    """One Arrow stream file per stream of this site, made when the first such tuple appears.

    The stream format stays readable up to the last complete batch even if the daemon is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
        #: Where the tuples of a stream are, once there are some.
        self.paths: dict[str, Path] = {}

    def write(self, stream: str, rows: pa.RecordBatch, reason: str) -> None:
        """Append rows; raises OSError when they cannot be written."""
        rows = rows.append_column(REASON, pa.repeat(reason, rows.num_rows))
        writer = self._writers.get(stream)
        if writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._free_path(stream)
            sink = pa.OSFile(str(path), "wb")
            self.paths[stream] = path
            writer = self._writers[stream] = pa.ipc.new_stream(sink, rows.schema)
        writer.write_batch(rows)

    def _free_path(self, stream: str) -> Path:
        """What an earlier life of the daemon wrote is never overwritten."""
        names = chain([f"{stream}.arrows"], (f"{stream}.{number}.arrows" for number in count(1)))
        return next(path for path in map(self._folder.joinpath, names) if not path.exists())

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
