"""What a site remembers of runs that are over, so that they can be looked at: of the newest queries, and no more.

A query that runs for months may have had any number of runs. The newest have their figures each; what earlier ones saw
of the streams is added to them, for that is what shipping everything would have cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from node.core.status import CopyStatus, ProbeCounts, StepRows, ViewCount

#: The figures of so many runs of a query are kept apart.
RUNS_MAX = 16
#: So many halves of copies are shown as they were when a run of the query ended.
COPIES_MAX = 200


@dataclass(slots=True)
class EndedRun:
    """The last figures of a run, of all its generations together."""

    views: dict[str, ViewCount] = field(default_factory=dict)
    steps: dict[tuple[str, int], StepRows] = field(default_factory=dict)
    probes: ProbeCounts | None = None

    def add_views(self, views: Iterable[ViewCount]) -> None:
        """One more generation saw so much."""
        for new in views:
            old = self.views.get(new.alias)
            self.views[new.alias] = (
                new
                if old is None
                else replace(
                    old,
                    rows=old.rows + new.rows,
                    ship_all_bytes=old.ship_all_bytes + new.ship_all_bytes,
                    span_us=max(old.span_us, new.span_us),
                )
            )

    def add_steps(self, steps: Iterable[StepRows]) -> None:
        """Walks of one more generation had so many rows."""
        for new in steps:
            place = new.head, new.step
            old = self.steps.get(place)
            self.steps[place] = (
                new if old is None else replace(new, rows=old.rows + new.rows, walks=old.walks + new.walks)
            )

    def add_probes(self, new: ProbeCounts) -> None:
        """Probes of one more generation."""
        old = self.probes
        self.probes = new if old is None else replace(new, early=old.early + new.early, late=old.late + new.late)


class EndedQuery:
    """The last figures of a query at this site."""

    def __init__(self) -> None:
        self.copies: list[CopyStatus] = []
        #: By their names, the last that ended at the end.
        self._runs: dict[str, EndedRun] = {}

    @property
    def runs(self) -> list[EndedRun]:
        return list(self._runs.values())

    def run(self, run_id: str) -> EndedRun:
        """Where the figures of a run belong that ends."""
        run = self._runs[run_id] = self._runs.pop(run_id, EndedRun())
        if len(self._runs) > RUNS_MAX:
            oldest = self._runs.pop(next(iter(self._runs)))
            next(iter(self._runs.values())).add_views(oldest.views.values())
        return run

    def add_copies(self, copies: Iterable[CopyStatus]) -> None:
        """Halves of copies as they were at the end of a run."""
        self.copies = [*self.copies, *copies][-COPIES_MAX:]


class EndedQueries:
    """The last ``most`` queries that ended here, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queries: dict[str, EndedQuery] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def of(self, query_id: str) -> EndedQuery:
        """Where the figures of a query belong that ends."""
        query = self._queries.get(query_id)
        if query is None:
            query = self._queries[query_id] = EndedQuery()
            while len(self._queries) > self._most:
                del self._queries[next(iter(self._queries))]
        return query

    @property
    def views(self) -> list[ViewCount]:
        return [count for run in self._runs for count in run.views.values()]

    @property
    def probes(self) -> list[ProbeCounts]:
        return [run.probes for run in self._runs if run.probes is not None]

    @property
    def steps(self) -> list[StepRows]:
        return [rows for run in self._runs for rows in run.steps.values()]

    @property
    def copies(self) -> list[CopyStatus]:
        return [half for query in self._queries.values() for half in query.copies]

    @property
    def _runs(self) -> list[EndedRun]:
        return [run for query in self._queries.values() for run in query.runs]
