"""A head that is behind its table: its batches are read from the stream's log until it has caught up.

A query that goes on after a crash looks at tables that may be far ahead of what its walks begin with. That does no
harm to what they see, which is a range; but the batches to begin with have passed, and are in the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.core.arrangements.table import RowTable


@dataclass(eq=False, slots=True)
class HeadCursor:
    """The batches of one head from ``frontier`` on, as far as its table has them."""

    query_id: str
    generation: int
    alias: str
    table: RowTable
    frontier: int

    @property
    def is_behind(self) -> bool:
        return self.frontier < self.table.frontier
