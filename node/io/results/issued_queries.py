"""Queries that were issued at this site: their rows, their state, who follows them.

Of those that have ended and whose rows are all taken the last ``limits.ended_queries_max`` are kept, to be looked at.
Rows that nobody took are never forgotten, nor are those that are to be kept, before the query is dropped; so a site
that has ``limits.untaken_queries_max`` of such queries takes on no more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from node.core.effects import QueryState, StoreRows
from node.core.events import RowsStored, StoreFailed
from node.core.limits import Limits
from node.core.queries.query_id import new_query_id
from node.io.planning.outcome import Planned
from node.io.reports.latency import LatencyHistogram
from node.io.results.spool import Spool
from node.io.threads.file_thread import FileWork
from planner.model.errors import QueryError
from planner.model.plans import describe
from planner.model.query import Plan
from planner.search.alternatives import Compared

#: With more than this not yet sent to a follower, storing is not confirmed, so that sources pause.
UNSENT_BYTES_MAX = 1 << 30
_LIMITS = Limits()


@dataclass
class IssuedQuery:
    """One query of which this site is the home."""

    query_id: str
    planned: Planned
    spool: Spool
    #: What the plan was compared with, once somebody wanted to know.
    others: Compared | None = None
    state: QueryState = QueryState.PREPARING
    reason: str = ""
    #: It is over for the core; it ends for clients once all its rows are kept.
    ending: bool = False
    followed: bool = False
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    unconfirmed: list[RowsStored] = field(default_factory=list)
    #: Of the bytes that were ever stored, those that the present follower was sent or any client has taken.
    sent_bytes: int = 0
    #: Rows before this number were read by the present follower, which may not have kept them.
    seen_rows: int = 0
    #: Ids are used again when the daemon is restarted; whoever remembers a row's number must not meet another query.
    run: str = field(default_factory=lambda: secrets.token_hex(8))

    #: The plan that was last described, and how.
    _described: tuple[Plan, str] | None = None

    @property
    def plan(self) -> Plan:
        return self.planned.plan

    @property
    def plan_text(self) -> str:
        """The plan in words; followers are told it several times a second."""
        if self._described is None or self._described[0] is not self.plan:
            self._described = self.plan, describe(self.plan)
        return self._described[1]

    @property
    def unsent_bytes(self) -> int:
        return self.spool.written - self.sent_bytes

    @property
    def read_rows(self) -> int:
        """Rows before this number were read by the present follower, or taken by anybody."""
        return max(self.seen_rows, self.spool.taken)

    @property
    def is_settled(self) -> bool:
        """Whether it is over and nobody can want rows of it any more."""
        everything = self.spool.taken == self.spool.rows and not self.spool.keep
        return self.state.ended and everything and not self.followed

    def follow(self, follows: bool) -> None:
        """Somebody begins, or ceases, to follow it."""
        self.followed = follows
        self.seen_rows = self.spool.taken if follows else 0
        self.spool.follow(follows)

    def sent_before(self, chunk: int) -> None:
        """Chunks before this number are out of the daemon's hands."""
        self.sent_bytes = max(self.sent_bytes, self.spool.position(chunk))

    def wake(self) -> None:
        """Tell whoever waits for this query that something changed."""
        self.changed.set()
        self.changed = asyncio.Event()


class Queries:
    """All of them, by id."""

    def __init__(self, site: str, folder: Path, work: FileWork, limits: Limits = _LIMITS, life: int = 1) -> None:
        self._site = site
        self._life = life
        self._folder = folder
        self._work = work
        self._limits = limits
        self._count = 0
        self.by_id: dict[str, IssuedQuery] = {}
        #: Those that have ended, in the order in which they did.
        self._ended: dict[str, IssuedQuery] = {}

    def new(self, planned: Planned, keep: bool = False) -> IssuedQuery:
        """A query whose rows are forgotten when they are taken; or, to ``keep``, not before it is dropped.

        Raises QueryError if there are too many queries here whose rows wait for somebody.
        """
        waiting = sum(not query.is_settled for query in self._ended.values())
        if waiting >= self._limits.untaken_queries_max:
            least = f"fewer than {self._limits.untaken_queries_max} ended queries whose rows are kept"
            raise QueryError(f"site {self._site} requires {least}; it has {waiting}: narrows drop ID forgets one")
        self._count += 1
        name = new_query_id(self._site, self._life, self._count)
        query = IssuedQuery(name, planned, Spool(self._folder / name, self._work, keep))
        self.by_id[name] = query
        return query

    def store(
        self,
        effects: Sequence[StoreRows],
        now_us: Callable[[], int],
        deliver: Callable[[Sequence[RowsStored | StoreFailed]], None],
    ) -> None:
        """Keep the rows of walks, those of a query together, and deliver what may be confirmed then."""
        by_query: dict[str, list[StoreRows]] = {}
        for effect in effects:
            by_query.setdefault(effect.query_id, []).append(effect)
        for query_id, walks in by_query.items():
            query = self.by_id.get(query_id)
            if query is not None and not query.ending:
                self._store(query, walks, now_us, deliver)

    def _store(
        self,
        query: IssuedQuery,
        walks: Sequence[StoreRows],
        now_us: Callable[[], int],
        deliver: Callable[[Sequence[RowsStored | StoreFailed]], None],
    ) -> None:
        def stored(error: Exception | None) -> None:
            if error is not None:
                text = getattr(error, "strerror", None) or str(error)
                deliver([StoreFailed(query.query_id, f"the result rows cannot be kept at {self._site}: {text}")])
                return
            at_us = now_us()
            for walk in walks:
                query.latency.add(at_us - walk.sealed_at_us, walk.rows.num_rows)
                query.unconfirmed.append(RowsStored(walk.query_id, walk.head, walk.span))
            query.wake()
            deliver(self.confirm(query))

        query.spool.append([walk.rows for walk in walks], stored)

    @staticmethod
    def confirm(query: IssuedQuery) -> list[RowsStored]:
        """The stored walks that may be confirmed: all, unless the follower is too far behind."""
        if query.unsent_bytes > UNSENT_BYTES_MAX:
            return []
        confirmed, query.unconfirmed = query.unconfirmed, []
        return confirmed

    def report(self, query_id: str, state: QueryState, reason: str) -> None:
        """A query is in another state; it has ended when the rows that came before that are kept."""
        query = self.by_id.get(query_id)
        if query is None:
            return
        if state.ended:
            query.ending = True
            query.spool.finish(lambda: self._end(query, state, reason))
        else:
            query.state, query.reason = state, reason
            query.wake()

    def _end(self, query: IssuedQuery, state: QueryState, reason: str) -> None:
        query.state, query.reason = state, reason
        query.unconfirmed.clear()
        query.wake()
        if query.query_id not in self.by_id:
            return
        self._ended[query.query_id] = query
        settled = [ended.query_id for ended in self._ended.values() if ended.is_settled]
        for oldest in settled[: -self._limits.ended_queries_max]:
            self.forget(oldest)

    def forget(self, query_id: str) -> None:
        """Nobody asks for this query any more."""
        query = self.by_id.pop(query_id, None)
        self._ended.pop(query_id, None)
        if query is not None:
            query.spool.close()

    def close(self) -> None:
        for query in self.by_id.values():
            query.spool.close()
