"""What a home must know of its queries after a crash: kept before anybody relies on it, and removed with the query."""

from __future__ import annotations

from node.core.effects import KeepRecord, RemoveRecord
from node.core.links.outbox import Outbox
from node.core.queries.home.home_query import HomeQuery
from node.core.query_records import DoneRecord, RecordKind


class HomeRecords:
    """Two for each query: what it is and became, and what of it is done."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def keep(self, home: HomeQuery) -> None:
        """What it is, by which plan, and what became of it."""
        self._outbox.do(KeepRecord(home.record()))

    def keep_done(self, home: HomeQuery) -> None:
        """What is done, by which others forget for good."""
        home.done_kept()
        self._outbox.do(KeepRecord(DoneRecord(home.query_id, home.kept_done)))

    def keep_news(self, home: HomeQuery) -> None:
        """What is done is about to be told."""
        if home.sink is not None and home.sink.frontiers != home.kept_done:
            self.keep_done(home)

    def forget(self, query_id: str) -> None:
        """A query is not remembered any more."""
        self._outbox.do(RemoveRecord(RecordKind.HOME, query_id))
        self._outbox.do(RemoveRecord(RecordKind.DONE, query_id))
