"""The result rows of a site's queries: the daemon's own spools, on simulated disks.

Handed over, rows are in no file yet. A crash finds them unwritten, or written and not synced; then the disk keeps what
it likes of them, and the spool has to find out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from node.core.effects import StoreRows
from node.core.streams.ticks import Span
from node.io.results.row_files import Recovered
from node.io.results.spool import Spool, read_pieces
from node.io.threads.file_thread import Commit
from tests.sim.disk import SimulatedDisk

_BYTES_MAX = 1 << 40


class _Work:
    """File work that is done when the world says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None], Commit | None]] = []

    def put(self, work: Callable[[], Any], then: Callable[[Any], None], commit: Commit | None = None) -> None:
        self.jobs.append((work, then, commit))


class HomeRows:
    """The rows of one query at its home, in one life of that after the other."""

    def __init__(self, seed: str, schema: pa.Schema) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self._rng = random.Random(f"{seed} unwritten")
        self._schema = schema
        self._begin()

    def _begin(self) -> None:
        self._work = _Work()
        self._handed: list[StoreRows] = []
        self.spool = Spool(lambda: self.disk, self._schema, self._work, keep=True)

    @property
    def pending(self) -> int:
        """How many walks are not durable."""
        return len(self._handed)

    def write(self, walks: Sequence[StoreRows]) -> None:
        """The rows of walks are handed over, to be stored together."""
        self._handed += walks
        self.spool.append(walks, _check)

    def sync(self) -> list[StoreRows]:
        """All that was handed over is written and synced: which walks that were. Raises PowerLostError."""
        jobs, self._work.jobs = self._work.jobs, []
        results = [work() for work, _, _ in jobs]
        for commit in dict.fromkeys(commit for _, _, commit in jobs if commit is not None):
            commit()
        for (_, then, _), result in zip(jobs, results, strict=True):
            then(result)
        handed, self._handed = self._handed, []
        return handed

    def crash(self) -> tuple[list[StoreRows], Recovered]:
        """Power is lost: what was handed over and not durable, and what the next life finds."""
        handed = self._handed
        for work, _, _ in self._work.jobs[: self._rng.randint(0, len(self._work.jobs))]:
            work()
        self.disk.crash()
        self._begin()
        return handed, self.spool.recover(0)

    @property
    def spans(self) -> list[tuple[str, Span]]:
        """The walks whose rows are there."""
        return self.spool.spans

    def rows(self) -> pa.Table:
        """Every row, as who follows the query gets it."""
        pieces = self.spool.pieces(0, self.spool.rows, _BYTES_MAX)
        return pa.Table.from_batches(read_pieces(pieces), schema=self._schema)


def _check(error: Exception | None) -> None:
    if error is not None:
        raise AssertionError(f"a disk that has room requires no error; got {error}") from error
