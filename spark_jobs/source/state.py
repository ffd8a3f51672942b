"""What is kept on disk of a stream that Spark reads, so that a restart neither loses nor doubles a tuple.

    <state_dir>/<site>/<stream>/
        definition.json       the source that all of this belongs to
        checkpoint/           Spark's: which offsets are in which micro-batch
        batches/7.parquet     micro-batches that are not handed over yet, complete, in order of event time
        handed                the micro-batch that is next, and how many of its rows were handed over
        taken                 the same of what the daemon has read, though it may have to read it again

Spark writes down which offsets make micro-batch n before it runs it, and runs it again with the same ones if it died
before it was done. A file is renamed into ``batches`` when it is complete; the first complete one counts, and one
that is there, or was handed over, is not written again. So every tuple is in exactly one file.

``handed`` moves when the batches with these rows are durable in the stream's log, up to the oldest row that is in none
yet; the log says where to go on, and a file stays until nothing of it is needed. In a run without logs ``handed``
moves before rows leave: what was handed over is not handed over again, by whichever run.

All that holds for the death of processes. Micro-batches are not synced, as Spark's checkpoint is not: when the machine
loses its power, one that is not in the log may be lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.config import BATCH_LIMITS, SparkSource
from node.core.streams.position import Position

_SECRET = re.compile(r"(?i)secret|password|token|jaas|access[.]?key|credential")
_BATCH = re.compile(r"([0-9]+)\.parquet")


#: All micro-batches before that part were handed over, and so many rows of that one.
BEGINNING = Position(0, 0)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The files of one stream."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def batches(self) -> Path:
        return self.path / "batches"

    def batch(self, number: int) -> Path:
        return self.batches / f"{number}.parquet"

    def waiting(self) -> list[int]:
        """Numbers of the micro-batches that are there, ascending."""
        names = (_BATCH.fullmatch(entry.name) for entry in os.scandir(self.batches))
        return sorted(int(name[1]) for name in names if name is not None)

    @property
    def handed(self) -> Position:
        """What was handed over."""
        return self._position("handed")

    def hand(self, position: Position) -> None:
        """From now on, this was handed over."""
        self._write("handed", f"{position.part} {position.row}\n")

    @property
    def taken(self) -> Position:
        """What the daemon has read: only what is behind it is in Spark's way."""
        return max(self.handed, self._position("taken"))

    def take(self, position: Position) -> None:
        """From now on, this was read."""
        self._write("taken", f"{position.part} {position.row}\n")

    def _position(self, name: str) -> Position:
        try:
            part, row = (self.path / name).read_text().split()
        except FileNotFoundError:
            return BEGINNING
        return Position(int(part), int(row))

    @property
    def begun(self) -> bool:
        """Whether Spark has planned a micro-batch: from then on it matters what of."""
        return any((self.checkpoint / "offsets").glob("[0-9]*"))

    def differences(self, source: SparkSource) -> list[str]:
        """What of a source is not as it was when the state was begun; nothing is, if it was not."""
        if not self.begun:
            return []
        before = json.loads((self.path / "definition.json").read_text())
        now = _definition(source)
        return [key for key in {**before, **now} if before.get(key) != now.get(key)]

    def begin(self, source: SparkSource) -> None:
        """Make what is not there yet. What another source left that never had a micro-batch is removed."""
        self.batches.mkdir(parents=True, exist_ok=True)
        if not self.begun:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            self._write("definition.json", json.dumps(_definition(source), indent=1))

    @property
    def lacks_checkpoint(self) -> bool:
        """Whether Spark would begin anew although something was handed over, or waits."""
        started = self.handed != BEGINNING or (self.batches.exists() and bool(self.waiting()))
        return started and not self.begun

    def _write(self, name: str, text: str) -> None:
        written = self.path / f"{name}.{os.getpid()}"
        written.write_text(text)
        written.replace(self.path / name)


def _definition(source: SparkSource) -> dict[str, Any]:
    """What makes a source another one. Values of options as hashes: there may be secrets in them.

    A new password, or another limit of what a micro-batch takes, is still the same source.
    """
    options = {
        f"spark.options.{name.lower()}": hashlib.sha256(value.encode()).hexdigest()
        for name, value in source.options
        if name.lower() not in BATCH_LIMITS and not _SECRET.search(name)
    }
    rest: Mapping[str, Any] = {
        "spark.format": source.format,
        "spark.schema": source.schema,
        "where": source.where,
        "select": list(source.select),
    }
    return {**rest, **options}


class FolderLock:
    """Held by one process at a time, until it ends."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self, patience_s: float = 0.0) -> bool:
        """Whether it could be had within this time."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.05)
            else:
                return True

    def release(self) -> None:
        """Once or more often."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
