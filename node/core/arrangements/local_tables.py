"""The tables of a site's own streams: nearly always one a stream, which all queries over it lease.

A query that begins further back than that table reaches has another, filled from the log. Leases never move, so
that one stays until its queries are over. Queries that are about to go on after a crash wish for a table: it is filled
from as far back as they need, and forgets nothing until they have begun.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from node.core.arrangements.feeds import LogReaders
from node.core.arrangements.lease import Lease
from node.core.arrangements.reach import Reach
from node.core.arrangements.table import RowTable
from node.core.status import TableStatus
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_MIN
from node.core.streams.view import SealedRows
from node.core.work import Work


class TableWisher(Protocol):
    """Who will need tables once it begins."""

    def hold_table(self, alias: str, table: RowTable) -> None:
        """Keep a table as it is, because it may be right."""
        ...


@dataclass(frozen=True, slots=True)
class TableWish:
    """A query that is about to go on will look at a stream, from a tick on."""

    alias: str
    stream: str
    begin: int
    who: TableWisher


class LocalTables:
    """All of them, by stream."""

    def __init__(self, streams: Mapping[str, StreamState], work: Work, readers: LogReaders) -> None:
        self._streams = streams
        self._work = work
        self._readers = readers
        self._count = 0
        self._tables: dict[str, list[RowTable]] = {name: [] for name in streams}
        self._wishes: dict[tuple[str, str], TableWish] = {}

    def add(self, stream: str) -> None:
        """There is another stream."""
        self._tables[stream] = []

    def remove(self, stream: str) -> None:
        """A stream is gone; nobody has a table of it."""
        del self._tables[stream]

    def of(self, stream: str) -> list[RowTable]:
        return self._tables[stream]

    def live(self, stream: str) -> RowTable:
        """The table that is as far as the stream, made if there is none."""
        state = self._streams[stream]
        for table in self._tables[stream]:
            if table.frontier == state.fed and table not in self._readers.behind(stream):
                return table
        return self._open(stream, state.fed, state.fed_rows)

    def past(self, stream: str, tick: int) -> RowTable:
        """A table of its own for what is from a tick of the log on."""
        table = self._open(stream, tick, 0)
        self._readers.begin(stream, table)
        return table

    def wish(self, query_id: str, wish: TableWish) -> None:
        """A query is prepared that goes on: tables of the stream are held for it, also those that are opened later."""
        self._wishes[query_id, wish.alias] = wish
        for table in self._tables[wish.stream]:
            wish.who.hold_table(wish.alias, table)

    def unwish(self, query_id: str) -> None:
        """It begins, or is over."""
        self._wishes = {place: wish for place, wish in self._wishes.items() if place[0] != query_id}

    def reaching(self, stream: str, tick: int, reach: Reach, looks: bool) -> RowTable:
        """A table in which a query finds all that is from a tick on: one that is there, or else a new one."""
        state = self._streams[stream]
        if tick >= state.fed:
            return self.live(stream)
        first_ts = state.sealed_ts(tick)
        for table in self._tables[stream]:
            if table.reaches_back_to(first_ts, reach, looks):
                return table
        return self.past(stream, self._begin_of(stream, tick))

    def _begin_of(self, stream: str, tick: int) -> int:
        """From which tick on to fill a table: from where the first one needs it of those that are about to go on.

        Not if that is more than twice as much as the query itself needs.
        """
        least = max(TICK_MIN, tick - (self._streams[stream].fed - tick))
        wishes = [wish.begin for wish in self._wishes.values() if wish.stream == stream]
        return min([tick, *(begin for begin in wishes if begin >= least)])

    def _open(self, stream: str, tick: int, first: int) -> RowTable:
        state = self._streams[stream]
        self._count += 1
        table = RowTable(self._work, f"{stream}/{self._count}", stream, state.info.schema, state.tau, tick, first)
        self._tables[stream].append(table)
        for wish in self._wishes.values():
            if wish.stream == stream:
                wish.who.hold_table(wish.alias, table)
        return table

    def release(self, stream: str, table: RowTable, lease: Lease) -> None:
        """A query lets go; a table that nobody leases is forgotten."""
        table.release(lease)
        if not table.leases:
            self._tables[stream].remove(table)
            self._readers.forget(table)

    def take(self, sealed: SealedRows) -> list[tuple[RowTable, SealedRows]]:
        """A stream was sealed further; the tables that took the batch, with what they took."""
        taken = []
        for table in self._tables[sealed.stream]:
            if sealed.span.first <= table.frontier < sealed.span.end:
                part = sealed.after(table.frontier, table.progress.tau)
                table.take(part)
                taken.append((table, part))
        return taken

    def with_index(
        self, stream: str, keys: tuple[str, ...], users: Collection[str], but: Collection[object] = ()
    ) -> RowTable | None:
        """The table of one of these queries that can be searched by these keys: that which reaches back furthest."""
        fitting = [table for table in self._tables[stream] if keys in table.keys and table not in but]
        theirs = [table for table in fitting if any(lease.query_id in users for lease in table.leases)]
        return min(theirs, key=lambda table: table.kept_from, default=None)

    def lowest_kept(self, stream: str) -> int | None:
        """Tuples before this number can be found in no table of the stream any more; None if there is no such table."""
        return min((table.kept_from for table in self._tables[stream] if table.keys), default=None)

    def statuses(self) -> list[TableStatus]:
        return [
            table_status(table, stream) for stream, tables in self._tables.items() for table in tables if table.keys
        ]

    @property
    def all(self) -> list[RowTable]:
        return [table for tables in self._tables.values() for table in tables]


def table_status(table: RowTable, stream: str) -> TableStatus:
    """What a table says about itself."""
    users = tuple(dict.fromkeys(lease.query_id for lease in table.leases))
    waiting = len(table.progress.waiting)
    return TableStatus(table.name, stream, tuple(table.keys), table.frontier, waiting, users)
