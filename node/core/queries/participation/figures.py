"""What queries did at a site, for those who look on: those that run, and the newest of those that ended."""

from __future__ import annotations

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.copy import OwnedCopy
from node.core.queries.participation.ended_queries import EndedQueries
from node.core.queries.participation.runs import Runs
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Waiting
from node.core.status import CopyStatus, ProbeCounts, StepRows, ViewCount
from node.core.work import Work


class Figures:
    """Counts, and what is under way."""

    def __init__(self, runs: Runs, work: Work, arrangements: Arrangements, ended_max: int) -> None:
        self._runs = runs.by_id
        self._work = work
        self._arrangements = arrangements
        self._ended = EndedQueries(ended_max)

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, ended queries included."""
        return [*self._ended.views, *(count for run in self._runs.values() for count in run.counts.views())]

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, ended queries included."""
        return [*self._ended.probes, *(run.probe_counts for run in self._runs.values())]

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, ended queries included."""
        return [*self._ended.steps, *(rows for run in self._runs.values() for rows in run.counts.steps())]

    def copy_statuses(self) -> list[CopyStatus]:
        """Halves of copies here, each once with all who use it; those of ended queries as they were at the end."""
        closed = [half for run in self._runs.values() for half in run.closed_copies.values()]
        return [*self._ended.copies, *closed, *self._arrangements.copy_statuses()]

    def waiting(self) -> list[Waiting]:
        """Every walk that is under way here, and what it waits for."""
        asking = [asker for asker in self._work.asking.values() if isinstance(asker, Waiting)]
        of_runs = (one for run in self._runs.values() for one in run.waiting)
        return [*self._arrangements.waiting, *asking, *of_runs]

    def note_end(self, run: QueryRun) -> None:
        """A run is about to end."""
        query = self._ended.of(query_of(run.query_id))
        ended = query.run(run.query_id)
        ended.add_views(run.counts.views())
        ended.add_steps(run.counts.steps())
        ended.add_probes(run.probe_counts)
        query.add_copies(run.closed_copies.values())
        query.add_copies(half for half in self._arrangements.copy_statuses() if half.query_id == run.query_id)

    def note_closed(self, copy: OwnedCopy) -> None:
        """A copy is about to be closed by its holder: its figures belong to its first user."""
        half = copy.status()
        run = self._runs.get(half.query_id)
        if run is not None and half.query_id in copy.users:
            run.closed_copies[copy.users[half.query_id]] = half
