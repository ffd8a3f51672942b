"""Walks under way, as values: which rows, of which query and generation, at which step, and what they wait for.

Nothing is parked as code. Whoever waits is one of these values, in the place that will wake it: an arrangement that
is to be sealed further, the engine, or the list of questions that another site is to answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from node.core.engine import TS
from node.core.keys.hashing import I64
from node.core.streams.ticks import Span


@dataclass(frozen=True, slots=True)
class Walk:
    """A batch of heads on its way. ``rows`` is the carry: its rows with what was joined to them so far.

    ``step`` is the next to be done.
    """

    query_id: str
    generation: int
    head: str
    span: Span
    sealed_at_us: int
    step: int
    rows: pa.RecordBatch

    @property
    def times(self) -> tuple[int, int]:
        """Event times of the oldest and the newest row, in the query's unit."""
        ts = self.rows.column(TS).to_numpy()
        return int(ts.min()), int(ts.max())

    def joined(self, rows: pa.RecordBatch) -> Walk:
        """The walk after its next step gave ``rows``."""
        return replace(self, step=self.step + 1, rows=rows)

    def narrowed(self, rows: pa.RecordBatch) -> Walk:
        """The walk without the rows that cannot match, before its next step."""
        return replace(self, rows=rows)

    def __str__(self) -> str:
        return f"{self.query_id}/{self.generation} {self.head} {self.span} step {self.step}"


class Stage(StrEnum):
    """What a walk waits for."""

    #: An arrangement is to be sealed beyond the walk's newest row; under policy delta, the clock.
    GATE = "gate"
    #: The engine is to join it.
    ENGINE = "engine"
    #: The engine is to find the tuples with the keys that another site asks about.
    FIND = "find"
    #: Another site is to answer which keys match, or with what.
    ANSWER = "answer"
    #: Tuples of its keys are to be fetched.
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class Asked:
    """Keys that a walk asks another site about; ``key_of`` is the key of each row, as a place among those."""

    keys: int
    key_of: I64


@dataclass(frozen=True, slots=True)
class Sought:
    """Keys that another site asks about: the walk is there, and has no rows here."""

    keys: pa.RecordBatch
    low_ts: int
    high_ts: int
    #: The copy that tuples are for; 0 where only the keys matter.
    copy: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A walk, or another site's question on behalf of one, and what it waits for."""

    walk: Walk
    stage: Stage
    #: The half of its step that it waits in: at the carry's site, or at the stream's.
    at_source: bool
    #: What it waits for, in words.
    cause: str
    since_us: int
    detail: Asked | Sought | None = None

    def __str__(self) -> str:
        return f"{self.walk}, {self.walk.rows.num_rows} rows: {self.stage} {self.cause}"
