"""What the queries of an earlier life of a site have left, in words: for who is about to forget it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.storage.errors import StorageError


def leavings(folder: Path) -> list[str]:
    """A line for each query whose rows are in the folder. Torn tails are cut, as a start does; all else stays."""
    queries = Queries("", folder, _NoWork(), durable=True)
    try:
        queries.recover()
        queries.take_over()
    except StorageError as error:
        return [f"queries that cannot be read: {error}"]
    return [_leaving(query) for query in queries.by_id.values()]


def _leaving(query: IssuedQuery) -> str:
    state = query.state.value if query.state.ended else "not ended"
    kept = query.spool.rows - query.spool.first_row
    unread = [
        f"{query.spool.rows - reader.place:,} not taken by reader {reader.name}"
        for reader in query.readers.values()
        if reader.place < query.spool.rows
    ]
    return f"query {query.query_id} ({state}), {kept:,} rows: {', '.join(unread) or 'all taken'}"


class _NoWork:
    """Files that are not needed any more stay where they are."""

    def put(
        self, work: Callable[[], Any], then: Callable[[Any], None], commit: Callable[[], None] | None = None
    ) -> None:
        """Leave it."""
