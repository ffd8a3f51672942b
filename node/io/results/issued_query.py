"""One query of which this site is the home: what it is, how it stands, its rows, and who reads them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from node.core.effects import QueryState, ReportSwitch, StoreRows, SwitchState
from node.core.queries.query_id import successor_of
from node.io.planning.outcome import NO_FORECAST, Forecast, Planned
from node.io.reports.latency import LatencyHistogram
from node.io.results.about import About, about_plan
from node.io.results.journal import JOURNAL_NAME, Facts, Journal
from node.io.results.readers import Reader, reader_name
from node.io.results.spool import Spool
from node.io.results.switch_history import SwitchHistory, change_of
from node.io.threads.file_thread import FileWork
from node.storage.errors import NoRoomError, disk_error
from planner.model.errors import QueryError
from planner.search.alternatives import Compared


@dataclass
class IssuedQuery:
    """A query. Its journal has what a start of the site must know; all else is for this life."""

    query_id: str
    about: About
    spool: Spool
    journal: Journal
    work: FileWork
    #: None for one that was issued in an earlier life, unless it goes on.
    planned: Planned | None = None
    #: It may go over to a better plan by itself; and what was thought of that last.
    adaptive: bool = False
    outlook: str = ""
    switches: SwitchHistory = field(default_factory=SwitchHistory)
    #: The run by which sites count what its plan takes; and whether an earlier plan is in these figures too.
    counted_as: str = ""
    is_mixed: bool = False
    #: Its rows have numbers; whoever remembers one must not meet another query.
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    readers: dict[str, Reader] = field(default_factory=dict)
    #: What the plan was compared with, once somebody wanted to know.
    others: Compared | None = None
    state: QueryState = QueryState.PREPARING
    reason: str = ""
    #: It is over for the core; it ends for clients once all its rows are kept.
    ending: bool = False
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Walks that are not stored yet, because too many rows wait for readers or the disk is full; and why.
    held: list[StoreRows] = field(default_factory=list)
    trouble: str = ""
    #: How it has ended, while the disk has no room to note that.
    unnoted_end: tuple[QueryState, str] | None = None
    #: What the last plan to which it was to go over, and the one before, are expected to cost.
    _forecast: Forecast = NO_FORECAST
    #: One at a time changes what readers have: who comes second is answered when the first is durable.
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.counted_as = self.counted_as or self.query_id

    @property
    def followed(self) -> bool:
        return any(reader.attached for reader in self.readers.values())

    @property
    def slowest(self) -> Reader:
        """The reader for whom most rows are kept."""
        return min(self.readers.values(), key=lambda reader: reader.passed)

    @property
    def unsent_bytes(self) -> int:
        """Of rows that some reader was not sent."""
        return self.spool.written - self.spool.position(self.slowest.passed)

    @property
    def read_rows(self) -> int:
        """Rows before this number were read, or taken, by every reader."""
        return min(reader.read for reader in self.readers.values())

    @property
    def is_settled(self) -> bool:
        """Whether it is over and nobody can want rows of it any more."""
        everything = self.spool.taken == self.spool.rows and not self.spool.keep and not self.spool.damage
        return self.state.ended and everything and not self.followed

    def wake(self) -> None:
        """Tell whoever waits for this query that something changed."""
        self.changed.set()
        self.changed = asyncio.Event()

    # -- what is noted ------------------------------------------------------------------------

    def facts(self) -> list[Facts]:
        """Everything that its journal has to say of it when it begins."""
        readers = [reader.facts() for reader in self.readers.values()]
        return [self.first_facts(), self.state_facts(), *readers, *(change.facts() for change in self.switches)]

    def first_facts(self) -> dict[str, Any]:
        """What it is."""
        facts: dict[str, Any] = {"query": self.query_id, "run": self.run, "keep": self.spool.keep}
        return facts | {"adaptive": self.adaptive, "about": self.about.facts()}

    def state_facts(self) -> dict[str, Any]:
        """How it stands."""
        return {"state": self.state.value, "reason": self.reason, "rows": self.spool.rows}

    def note(self, then: Callable[[Exception | None], None], *noted: Facts) -> None:
        """Have something noted in its journal; ``then`` is told when that is durable, or why it cannot be."""
        self.work.put(lambda: self.journal.append(*noted), then, self.journal.commit)

    async def noted(self, *noted: Facts) -> None:
        """The same, for who waits for it. Raises StorageError: NoRoomError if the disk is only full."""
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.note(lambda error: None if done.done() else done.set_result(error), *noted)
        error = await done
        if isinstance(error, OSError):
            raise disk_error(f"{self.query_id}/{JOURNAL_NAME}", "a disk that takes a note", error) from error
        if error is not None:
            raise error

    # -- plans --------------------------------------------------------------------------------

    def may_adapt(self, adaptive: bool) -> None:
        """Whether it may go over to a better plan by itself, after a start of the site too."""
        if adaptive != self.adaptive:
            self.adaptive = adaptive
            # On a full disk it is so until the next start. No row depends on it.
            self.note(lambda _: None, {"adaptive": adaptive})

    def runs_by(self, planned: Planned) -> None:
        """From now on it runs by this plan."""
        self.planned, self.others = planned, None
        self.about = about_plan(planned.plan)

    def report_switch(self, report: ReportSwitch, forecast: Forecast, now_ms: int) -> None:
        """It goes over to another plan, and has got so far. One that is refused as it is asked for is not kept."""
        change, noted = self.switches.known(report.number), []
        if change is None:
            if report.state is SwitchState.GIVEN_UP or self.planned is None:
                return
            runs = self.counted_as, successor_of(self.query_id, report.number)
            change = change_of(report, self.planned.plan, forecast, runs, self.spool.rows, now_ms)
            self._forecast = forecast
            noted = self.switches.add(change)
        change.state, change.reason = report.state, report.reason
        if report.state is SwitchState.SWITCHING:
            change.switching_ms = now_ms
        elif report.state.ended:
            change.ended_ms, change.rows_after = now_ms, self.spool.rows
        if report.state is SwitchState.SWITCHED:
            self.runs_by(Planned(report.plan, self._forecast.after))
            self.counted_as, self.is_mixed = change.run_after, False
            noted = [self.first_facts()]
        # Not waited for: it is for people, and what runs is in the home's record.
        self.note(lambda _: None, *noted, change.facts())
        self.wake()

    def end_switch(self, state: SwitchState, reason: str, now_ms: int) -> None:
        """Nothing more is heard of the switch that is under way, if one is."""
        change = self.switches.under_way
        if change is not None:
            change.state, change.reason = state, reason
            change.ended_ms, change.rows_after = now_ms, self.spool.rows
            self.note(lambda _: None, change.facts())

    # -- readers ------------------------------------------------------------------------------

    def begin_reader(self, name: str, place: int) -> Reader:
        """Another reader, which wants every row from ``place`` on."""
        reader = self.readers[name] = Reader(name, place)
        return reader

    async def reader(self, name: str) -> Reader:
        """The reader of this name; a new one begins with the oldest row that is kept.

        Raises QueryError if it cannot be called so, StorageError if it cannot be noted.
        """
        name = reader_name(name)
        async with self._changing:
            if name not in self.readers:
                begun = Reader(name, self.spool.first_row)
                await self.noted(begun.facts())
                self.readers[name] = begun
            return self.readers[name]

    async def take(self, reader: Reader, row: int, note: Facts | None = None) -> None:
        """A reader has kept every row before ``row``; true when that is durable. Raises StorageError.

        ``note`` is what is noted of its file from now on.
        """
        async with self._changing:
            forgotten = self.readers.get(reader.name) is not reader
            if forgotten or (note is None and row <= reader.durable):
                return
            after = replace(reader, place=row, note=reader.note if note is None else note)
            try:
                await self.noted(after.facts())
            except NoRoomError:
                if note is not None:
                    # A start cuts the file to what is noted, and so needs every row from there on.
                    raise
                self._forget_before(row, reader)
                await self.noted(after.facts())
            reader.place, reader.durable, reader.note = row, row, after.note
            self.forget_taken()

    async def forget_reader(self, name: str) -> None:
        """Nobody reads under this name any more. Raises QueryError if nobody else reads, StorageError."""
        async with self._changing:
            if name not in self.readers:
                return
            if len(self.readers) == 1:
                hint = f"narrows drop {self.query_id} ends it"
                raise QueryError(f"query {self.query_id} requires at least one reader; {hint}")
            reader, facts = self.readers[name], {"forgotten": name}
            try:
                await self.noted(facts)
            except NoRoomError:
                if reader.note:
                    raise
                self._forget_before(self.spool.rows, reader)
                await self.noted(facts)
            del self.readers[name]
            self.forget_taken()
        self.wake()

    def _forget_before(self, row: int, reader: Reader) -> None:
        """On a full disk forgetting rows makes room for the note that a reader does not want them.

        Whatever a crash leaves of them then, a reader never stands before the oldest row that is kept.
        """
        others = [each.place for each in self.readers.values() if each is not reader]
        self.spool.take(min([row, *others]))
        reader.place = max(reader.place, self.spool.taken)

    def forget_taken(self) -> None:
        """Rows that every reader has are not kept any more."""
        self.spool.take(min(reader.place for reader in self.readers.values()))
