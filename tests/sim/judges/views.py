"""What a view of a stream is, from the scenario's data alone: its tuples in order, and what passes a filter."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from node.core.streams.sealer import Batch
from node.core.streams.ticks import TICK_MIN
from planner.model.query import Expr
from tests.expressions import rows_that_hold
from tests.sim.judges.expectation import kept, tick_of
from tests.sim.scenarios.scenario import Scenario

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ViewTuple:
    """A tuple of a view; ``place`` is its number in the stream, a list index is its number in the view."""

    place: int
    ts: int
    tick: int
    values: dict[str, Any]

    def key(self, columns: tuple[str, ...]) -> Row | None:
        """Its key by these columns; None if one is null, which equals nothing."""
        found = tuple(self.values[column] for column in columns)
        return None if None in found else found

    def row(self, columns: tuple[str, ...]) -> Row:
        return tuple(self.values[column] for column in columns)


class View:
    """The tuples of a stream from a tick on that pass a filter, in order of time."""

    def __init__(self, tuples: list[ViewTuple]) -> None:
        self.tuples = tuples
        self.times = [item.ts for item in tuples]
        self._ticks = [item.tick for item in tuples]

    def end(self, frontier: int) -> int:
        """How many of them are before a tick."""
        return bisect_left(self._ticks, frontier)

    def rank(self, ts: int) -> int:
        """How many of them are before an event time."""
        return bisect_left(self.times, ts)

    def between(self, first: int, frontier: int) -> list[ViewTuple]:
        """Those from a number on that are before a tick."""
        return self.tuples[max(0, first) : self.end(frontier)]


class Views:
    """The views of a scenario, each computed once."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._streams: dict[str, list[ViewTuple]] = {}
        self._views: dict[tuple[str, Expr | None, int], View] = {}
        #: By stream that is derived, what its log has, whoever forgot it since.
        self._derived: dict[str, list[Batch]] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._taus: dict[str, int] = {}
        #: Views of what derived streams had before; others know them by their identity.
        self._former: list[View] = []

    def derived(self, stream: str, schema: pa.Schema, tau: int, batches: list[Batch]) -> None:
        """What the log of a derived stream has ever had, for good."""
        self._derived[stream], self._schemas[stream], self._taus[stream] = batches, schema, tau
        self._streams.pop(stream, None)
        for place in [place for place in self._views if place[0] == stream]:
            self._former.append(self._views.pop(place))

    def of(self, stream: str, condition: Expr | None = None, first_tick: int = TICK_MIN) -> View:
        """The view; the columns of its filter are under the stream's name."""
        place = (stream, condition, first_tick)
        if place not in self._views:
            found = [item for item in self._passing(stream, condition) if item.tick >= first_tick]
            self._views[place] = View(found)
        return self._views[place]

    def _passing(self, stream: str, condition: Expr | None) -> list[ViewTuple]:
        tuples = self._all(stream)
        if condition is None or not tuples:
            return tuples
        schema = self._schemas.get(stream) or self._scenario.data(stream).table().schema
        rows = pa.RecordBatch.from_pylist([item.values for item in tuples], schema=schema)
        holding = rows_that_hold(condition, rows.rename_columns([f"{stream}.{name}" for name in schema.names]))
        return [item for item, holds in zip(tuples, holding, strict=True) if holds]

    def _all(self, stream: str) -> list[ViewTuple]:
        if stream not in self._derived and all(stream != data.name for data in self._scenario.streams):
            # A kept join has made nothing yet.
            return []
        if stream in self._derived and stream not in self._streams:
            found = self._streams[stream] = []
            for batch in self._derived[stream]:
                for ts, row in zip(batch.ts.tolist(), batch.rows.to_pylist(), strict=True):
                    found.append(ViewTuple(len(found), ts, ts // self._taus[stream], row))
        if stream not in self._streams:
            data = self._scenario.data(stream)
            rows = sorted(kept(self._scenario, stream)[0].to_pylist(), key=lambda row: int(row["ts"]))
            self._streams[stream] = [
                ViewTuple(place, row["ts"], tick_of(self._scenario, data, row["ts"]), row)
                for place, row in enumerate(rows)
            ]
        return self._streams[stream]
