"""Where the rows of a table are: in stores, each of which has all of them, split over the partitions in its own way.

An index needs a store that is split by its keys, so that a question goes to the partitions that may know. A table of
which no index is open keeps one store all the same: what is opened later is filled from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.engine import OpenIndex, OpenTable
from spark_jobs.engine.append_log import StoreLog
from spark_jobs.engine.packing import together, unpack_rows

#: Rows are read from a log so many bytes at a time.
CHUNK_BYTES = 4 << 20
#: No position is before it.
LEAST = -(2**63)

Keys = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Store:
    """The rows of a table, split by some keys; without keys, evenly."""

    uid: str
    keys: Keys
    #: How workers open it.
    opening: tuple[OpenTable, OpenIndex]
    log: StoreLog
    #: The job that opens it.
    opened: int
    #: What is before it is expired, as of the last job.
    before: int = LEAST
    #: Rows and bytes in each partition, as of the last job, and all together.
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    total: tuple[int, int] = (0, 0)

    def note(self, partition: int, size: tuple[int, int]) -> None:
        """Take the size of a partition; others may read the total meanwhile."""
        self.sizes[partition] = size
        self.total = sum(rows for rows, _ in self.sizes.values()), sum(nbytes for _, nbytes in self.sizes.values())

    def chunks(self, through: int) -> Iterator[pa.RecordBatch]:
        """All rows up to a job, as the log has them: also such as are expired already."""
        for part in self.log.partitions:
            batches: list[pa.RecordBatch] = []
            size = 0
            for entry in part.entries(0, through):
                batches.append(unpack_rows(entry))
                size += len(entry)
                if size >= CHUNK_BYTES:
                    yield from together(batches)
                    batches, size = [], 0
            yield from together(batches)


@dataclass(slots=True, eq=False)
class SplitTable:
    """What the daemon knows of a table."""

    schema: pa.Schema
    #: By their keys. At most one of them has no open index, and only if it is the only one.
    stores: dict[Keys, Store] = field(default_factory=dict)
    #: The open indexes, in order.
    indexes: dict[Keys, None] = field(default_factory=dict)
    #: What is before it may be forgotten.
    before: int = LEAST
    #: Why nobody may ask it any more, if so.
    broken: str | None = None

    @property
    def unused(self) -> list[Store]:
        """Stores that nobody needs any more."""
        idle = [store for keys, store in self.stores.items() if keys not in self.indexes]
        return idle if len(self.stores) > 1 else []
