"""What a site remembers of queries that are over, so that they can be looked at: the newest ones, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.core.status import CopyStatus, ProbeCounts, StepRows, ViewCount


@dataclass(slots=True)
class EndedQuery:
    """The last figures of a query at this site."""

    views: list[ViewCount] = field(default_factory=list)
    probes: list[ProbeCounts] = field(default_factory=list)
    steps: list[StepRows] = field(default_factory=list)
    copies: list[CopyStatus] = field(default_factory=list)


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
        return [count for query in self._queries.values() for count in query.views]

    @property
    def probes(self) -> list[ProbeCounts]:
        return [counts for query in self._queries.values() for counts in query.probes]

    @property
    def steps(self) -> list[StepRows]:
        return [rows for query in self._queries.values() for rows in query.steps]

    @property
    def copies(self) -> list[CopyStatus]:
        return [half for query in self._queries.values() for half in query.copies]
