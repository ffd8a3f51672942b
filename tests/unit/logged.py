"""Batches to be logged, and how to tell whether two are the same."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from node.storage.disk_log import DiskLog
from node.storage.folder import Folder
from node.storage.stream_log import StreamLog

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def batch(first_tick: int, end_tick: int, rows: int, number: int = 0) -> Batch:
    ts = np.arange(rows, dtype=np.int64) + first_tick
    columns = [pa.array(ts), pa.array([f"value {n}" for n in range(number, number + rows)])]
    return Batch(Span(first_tick, end_tick), pa.RecordBatch.from_arrays(columns, schema=SCHEMA), ts, number)


def batches(count: int, rows: int = 3, first_tick: int = 0) -> list[Batch]:
    return [batch(first_tick + n, first_tick + n + 1, rows, n * rows) for n in range(count)]


def some_batches(rng: random.Random, count: int) -> list[Batch]:
    """Neighbours of any length, some of them empty."""
    made: list[Batch] = []
    tick, number = -5, 0
    for _ in range(count):
        rows = rng.choice((0, 1, 2, 7, 40))
        made.append(batch(tick, tick + rng.choice((1, 1, 5)), rows, number))
        tick, number = made[-1].span.end, number + rows
    return made


def log_all(log: StreamLog, made: Sequence[Batch]) -> None:
    for one in made:
        log.append(one)
    log.commit()


def read_all(log: StreamLog, tick: int) -> list[Batch]:
    """Everything from a tick on, in as many pieces as it takes."""
    found: list[Batch] = []
    while piece := log.read_from(tick):
        found += piece
        tick = piece[-1].span.end
    return found


def same(found: Sequence[Batch], expected: Sequence[Batch]) -> bool:
    return len(found) == len(expected) and all(
        one.span == other.span
        and one.first == other.first
        and one.rows.schema == other.rows.schema
        and one.rows.equals(other.rows)
        and np.array_equal(one.ts, other.ts)
        for one, other in zip(found, expected, strict=True)
    )


def logged_column(folder: Path, column: str) -> list[Any]:
    """A column of all that the log in a folder has, in its order; the folder is not touched."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        log = DiskLog(Folder(Path(copy)))
        extent = log.recover().extent
        found = [] if extent is None else read_all(log, extent.begin)
        return [value for one in found for value in one.rows.column(column).to_pylist()]
