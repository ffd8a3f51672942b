"""What came of batches: who may go on, where walks may start, and who cannot go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.table import RowTable
from node.core.queries.waiting import Waiting
from node.core.streams.view import SealedRows


@dataclass(slots=True)
class Fed:
    """What batches let others do."""

    #: Walks that may go on.
    woken: list[Waiting] = field(default_factory=list)
    #: Tables that took a batch, each with it: walks may start with it.
    batches: list[tuple[RowTable, SealedRows]] = field(default_factory=list)
    #: Heads that were behind, each with its next batch.
    heads: list[tuple[HeadCursor, SealedRows]] = field(default_factory=list)
    #: Queries that cannot go on, and why.
    lost: dict[str, str] = field(default_factory=dict)
