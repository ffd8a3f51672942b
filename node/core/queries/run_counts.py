"""How much a query saw and had at a site, for people and for explain. Nothing that it does depends on it."""

from __future__ import annotations

import pyarrow as pa

from node.core.engine import TS
from node.core.planning.ship_all import ShipAllMeter
from node.core.queries.query_id import query_of
from node.core.queries.waiting import Walk
from node.core.status import StepRows, ViewCount
from node.core.streams.ticks import TICK_END
from planner.model.query import Plan
from planner.model.time_unit import TimeUnit


class RunCounts:
    """One run of a query at one site."""

    def __init__(self, run_id: str, plan: Plan, site: str, local_aliases: tuple[str, ...]) -> None:
        self._run_id = run_id
        self._unit = plan.query.unit
        self._is_sink = plan.sink == site
        self._rows = dict.fromkeys(local_aliases, 0)
        #: What shipping every tuple of the local streams to the sink would have cost.
        self._ship_all = {alias: ShipAllMeter() for alias in local_aliases}
        #: Oldest and newest event time of each local stream that the query saw, in the query's unit.
        self._times: dict[str, tuple[int, int]] = {}
        #: Rows and walks with rows, by head and step.
        self._steps: dict[tuple[str, int], tuple[int, int]] = {}

    def on_batch(self, alias: str, rows: pa.RecordBatch) -> None:
        """A local stream sealed a batch; ``rows`` is what the query sees of it."""
        self._rows[alias] += rows.num_rows
        if rows.num_rows:
            times = rows.column(TS)
            oldest, _ = self._times.get(alias, (times[0].as_py(), 0))
            self._times[alias] = oldest, times[-1].as_py()
        if not self._is_sink:
            self._ship_all[alias].add(rows)

    def on_walk(self, walk: Walk) -> None:
        """A walk comes to a step, or is over."""
        if walk.rows.num_rows:
            rows, walks = self._steps.get((walk.head, walk.step), (0, 0))
            self._steps[walk.head, walk.step] = rows + walk.rows.num_rows, walks + 1

    def views(self) -> list[ViewCount]:
        """What the query saw of the local streams."""
        query_id = query_of(self._run_id)
        return [
            ViewCount(query_id, self._run_id, alias, rows, self._ship_all[alias].nbytes, self._span_us(alias))
            for alias, rows in self._rows.items()
        ]

    def _span_us(self, alias: str) -> int:
        oldest, newest = self._times.get(alias, (0, 0))
        return min(TICK_END, (newest - oldest) * TimeUnit.US // self._unit)

    def steps(self) -> list[StepRows]:
        """Rows of walks before each step that was begun here."""
        return [StepRows(self._run_id, head, step, *counts) for (head, step), counts in self._steps.items()]
