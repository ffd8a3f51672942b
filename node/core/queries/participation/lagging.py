"""Which queries lag: they cannot go on, and keep others from reading the same streams.

A source is read only as far as every query that follows it keeps up. A query that does not get on at all, because one
of its sites or its home is away, or because its rows cannot be stored, would so stop all others. It is voided: it
follows no stream, and pins what it needs to return in the streams' logs.

It may be slow instead: one walk may take longer than any patience. So after each time without progress it is given
twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from node.core.limits import Limits
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.streams.stream import StreamState

#: Patience is doubled so often at most.
_DOUBLED_MAX = 10


class Lagging:
    """How long queries have been standing still, and how often they were voided for that."""

    def __init__(self, limits: Limits, streams: Mapping[str, StreamState]) -> None:
        self._limits = limits
        self._streams = streams
        #: By query: what was done when it was voided last, and how often it was then, one time after the other.
        self._voided: dict[str, tuple[dict[str, int], int]] = {}

    def find(self, runs: Iterable[QueryRun], now_us: int) -> list[QueryRun]:
        """The queries that lag."""
        return [run for run in runs if self._lags(run, now_us)]

    def _lags(self, run: QueryRun, now_us: int) -> bool:
        if not run.started or now_us - run.moved_us < self.patience_us(run):
            return False
        return any(self._stops_others(run, alias) for alias in run.local_aliases)

    def _stops_others(self, run: QueryRun, alias: str) -> bool:
        """Whether it has as much of a stream under way as is allowed, and somebody else who waits for more has not.

        Others wait for it if they are fed by what feeds it: by the source, while that has more, or by a table that is
        being filled. What it reads from the log alone nobody waits for.
        """
        stream = self._streams[run.plan.query.ref(alias).stream.name]
        filled = run.filled_table(alias)
        is_read = not run.is_behind(alias) and stream.has_more
        if not run.backlogs[alias].full(self._limits) or (filled is None and not is_read):
            return False
        return any(
            other.started and not other.backlogs[name].full(self._limits)
            for name, other in stream.followers
            if query_of(other.query_id) != query_of(run.query_id)
            and other.filled_table(name) is filled
            and (filled is not None or not other.is_behind(name))
        )

    def patience_us(self, run: QueryRun) -> int:
        """How long a query may stand still."""
        done, times = self._voided.get(query_of(run.query_id), ({}, 0))
        return self._limits.lag_us << (times if done == run.done else 0)

    def voided(self, run: QueryRun) -> None:
        """A query was voided because it lags."""
        done, times = self._voided.get(query_of(run.query_id), ({}, 0))
        self._voided[query_of(run.query_id)] = run.done, min(times + 1, _DOUBLED_MAX) if done == run.done else 1

    def forget(self, query_id: str) -> None:
        """A query is over."""
        self._voided.pop(query_id, None)
