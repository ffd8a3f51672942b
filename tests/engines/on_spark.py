"""The Spark engine for tests: many engines in a row, one Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from node.core.engine import CloseTable, Op, Outcome
from node.core.keys import hashing
from node.core.keys import keycodes as keys
from spark_jobs.engine.spark_engine import SparkEngine
from spark_jobs.process import SparkProcess


class Prompt:
    """An engine whose figures are those of now: what waits for a question is done before one looks at them."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        return self._engine.run(ops)

    def rows(self, table: str) -> int:
        self._engine.flush()
        return self._engine.rows(table)

    def nbytes(self, table: str) -> int:
        self._engine.flush()
        return self._engine.nbytes(table)

    def close(self) -> None:
        self._engine.close()


class SparkEngines:
    """Engines without tables. It is the same one each time: closing all tables must be as good as a new one."""

    def __init__(self, process: SparkProcess, folder: Path, host: str | None = None, partitions: int = 2) -> None:
        self.engine = SparkEngine(process, Path(tempfile.mkdtemp(dir=folder)), host, partitions)

    def __call__(self, finish: keys.Finish = hashing.scramble) -> Prompt:
        assert finish is hashing.scramble, "which hash workers use is not for the test to say"
        self.engine.run([CloseTable(table) for table in sorted(self.engine._tables)])
        return Prompt(self.engine)

    def close(self) -> None:
        self.engine.close()
