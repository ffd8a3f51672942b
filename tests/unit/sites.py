"""Sites without links, clock or simulator: a test says what happens, message by message."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from node.core.effects import (
    AppendBatch,
    AskReceipt,
    BlamePeer,
    Effect,
    IgnoreReason,
    KeepRecord,
    NoteIgnored,
    QueryState,
    ReadLog,
    ReadSource,
    RemoveRecord,
    ReportQuery,
    ReportSwitch,
    RunOp,
    Send,
    SetAside,
    StoreRows,
    SwitchState,
    TrimLog,
)
from node.core.engine import CloseTable, Engine, Op, OpenTable, Question
from node.core.events import (
    ClockAdvanced,
    EngineFailed,
    Event,
    LinkMeasured,
    MessageReceived,
    PeerGreeted,
    PeerStateLost,
    ProbeFinished,
    QueryIssued,
    ReplanRequested,
    RowsArrived,
    RowsStored,
    SiteStarted,
)
from node.core.limits import Limits
from node.core.links.messages import Message
from node.core.query_records import KINDS, DoneRecord, HomeRecord, PinRecord, Record, RecordKind, Recovered
from node.core.site import Site
from node.core.streams.log_extent import LogExtent, LoggedBatch
from node.core.streams.position import Position
from node.core.streams.stream import LocalStream
from node.core.streams.ticks import TICK_MIN, Span
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import StreamLogs
from planner.model.beginning import DEFAULT_BEGINNING, Beginning
from planner.model.plans import forced_plan
from planner.model.query import FRONTIER_POLICY, Algorithm, Plan, Policy, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.oracle.oracle import OracleStream, Unit, Window, expected
from tests.sim.reference_engine import ReferenceEngine

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("n", pa.int64())])
TAU_MS = 10
WINDOW_MS = 30
AnyOp = TypeVar("AnyOp", bound=Op)
RESTARTED = "the daemon was restarted"
TIME_WINDOW: Window = ("range", WINDOW_MS * 1000)


def query_text(window: Window = TIME_WINDOW) -> str:
    kind, size = window
    text = f"RANGE {size // 1000} MS" if kind == "range" else f"ROWS {size}"
    return f"SELECT a.n AS an, b.n AS bn FROM l [{text}] AS a JOIN r [{text}] AS b ON a.key = b.key"


QUERY = query_text()
OUTPUTS = [("an", "a", "n"), ("bn", "b", "n")]


def info(name: str, site: str, unit: TimeUnit = TimeUnit.MS, schema: pa.Schema = SCHEMA) -> StreamInfo:
    return StreamInfo(name, site, schema, "ts", unit)


def rows_of(
    ts: Sequence[int], first: int = 0, key: int = 1, keys: Sequence[int | None] | None = None
) -> pa.RecordBatch:
    columns = [list(ts), list(keys or [key] * len(ts)), list(range(first, first + len(ts)))]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


class Cluster:
    """Stream ``l`` at ash, ``r`` at bow; cam has none and can be the sink."""

    def __init__(
        self,
        limits: Limits | None = None,
        left: str = "ash",
        right: str = "bow",
        units: tuple[TimeUnit, TimeUnit] = (TimeUnit.MS, TimeUnit.MS),
        window: Window = TIME_WINDOW,
        policy: Policy = FRONTIER_POLICY,
        engine: Callable[[], Engine] = ReferenceEngine,
        retain_ms: tuple[int, int] = (0, 0),
        keep_whole: bool = False,
    ) -> None:
        # Without a word about it, all news is told in the turn in which it comes up.
        self.limits = limits or Limits(news_us=0)
        self.window = window
        self.policy = policy
        self.infos = {"l": info("l", left, units[0]), "r": info("r", right, units[1])}
        self.sites: dict[str, Site] = {}
        self.engines: dict[str, Any] = {name: engine() for name in ("ash", "bow", "cam")}
        self.retain_ms = dict(zip(self.infos, retain_ms, strict=True))
        self.keep_whole = keep_whole
        self.now_us = 1_000
        #: On its way from one site to another, in order.
        self.mail: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        #: What the engine of a site has said and the site has not heard.
        self.answers: dict[str, deque[ProbeFinished | EngineFailed]] = defaultdict(deque)
        #: What each turn of a site had its engine do, together.
        self.engine_runs: dict[str, list[list[Op]]] = defaultdict(list)
        #: While ``hold_logs``, what the logs have said waits here for ``hear_logs``.
        self.hold_logs = False
        self.log_news: dict[str, deque[Event]] = defaultdict(deque)
        self.trims: list[TrimLog] = []
        #: What each site keeps of queries over a crash.
        self.records: dict[str, dict[tuple[RecordKind, str], Record]] = defaultdict(dict)
        #: The walks whose rows a sink has, by query; while ``hold_stores``, what it is told to store waits.
        self.walks: dict[str, list[tuple[str, Span]]] = defaultdict(list)
        self.hold_stores = False
        self.storing: dict[str, deque[StoreRows]] = defaultdict(deque)
        self.lives: dict[str, int] = defaultdict(int)
        self.stored: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.states: list[tuple[str, QueryState, str]] = []
        #: How far queries got on their way to other plans, and why they gave it up.
        self.switches: list[tuple[SwitchState, str]] = []
        self.ignored: list[IgnoreReason] = []
        self.blamed: list[tuple[str, str]] = []
        self.aside: list[SetAside] = []
        self.effects: list[tuple[str, Effect]] = []
        #: Streams that were asked for more and have not answered, with the origin they were given.
        self.reads: dict[str, int | None] = {}
        self.open_tables: dict[str, list[str]] = defaultdict(list)
        #: Every row that arrived, by stream: what the oracle is asked about.
        self.rows: dict[str, list[pa.RecordBatch]] = {"l": [], "r": []}
        #: By stream, its log, which outlives its site; and the rows that are read again after a restart.
        self.stream_logs = {name: MemoryLog() for name in self.infos}
        self.read_again: dict[str, pa.RecordBatch] = {}
        self.logs: dict[str, StreamLogs] = {}
        self._engine = engine
        for name in self.engines:
            self._new_site(name)
        for name in self.sites:
            self._meet_all(name)

    def _new_site(self, name: str) -> None:
        streams = [stream for stream in self.infos.values() if stream.site == name]
        own = [
            LocalStream(
                stream,
                retain_ms=self.retain_ms[stream.name],
                logged=self.extent(stream.name),
                keep_whole=self.keep_whole,
            )
            for stream in streams
        ]
        self.lives[name] += 1
        self.sites[name] = Site(name, TAU_MS, own, self.limits, self.lives[name], self._recovered(name))
        self.logs[name] = StreamLogs({stream.name: self.stream_logs[stream.name] for stream in streams})

    def _meet_all(self, name: str) -> None:
        for peer in self.sites:
            theirs = tuple(stream for stream in self.infos.values() if stream.site == peer)
            if peer != name:
                self.give(name, PeerGreeted(peer, theirs))

    def extent(self, stream: str) -> LogExtent | None:
        """What the log of a stream holds, for a site that starts."""
        batches = self.stream_logs[stream]._batches
        if not batches:
            return None
        sizes = self.stream_logs[stream].sizes_from(TICK_MIN)
        logged = tuple(
            LoggedBatch(one.span.first, one.span.end, one.rows.num_rows, nbytes)
            for one, nbytes in zip(batches, sizes, strict=True)
        )
        last = batches[-1]
        return LogExtent(logged, last.first + last.rows.num_rows, last.newest, last.place)

    def _recovered(self, name: str) -> Recovered:
        records = self.records[name].values()
        homes = tuple(record for record in records if isinstance(record, HomeRecord))
        return Recovered(
            homes,
            tuple(record for record in records if isinstance(record, DoneRecord)),
            tuple(record for record in records if isinstance(record, PinRecord)),
            {home.query_id: tuple(self.walks[home.query_id]) for home in homes},
        )

    # -- crashes ------------------------------------------------------------------------------

    def restart(self, *names: str) -> None:
        """Sites die and are started again: what they kept is there, all else is gone, as is what was under way.

        Those that did not die notice. Everything that follows from it is under way.
        """
        for name in names:
            self._kill(name)
            self._new_site(name)
        for name in names:
            self._meet_all(name)
            self.give(name, SiteStarted())
        for other in self.sites:
            for name in names:
                if other not in names:
                    self.give(other, PeerStateLost(name, RESTARTED))

    def _kill(self, name: str) -> None:
        self.engines[name] = self._engine()
        for held in (self.open_tables, self.answers, self.log_news, self.storing):
            held[name].clear()
        for pair in self.mail:
            if name in pair:
                self.mail[pair].clear()
        for stream in self.infos.values():
            if stream.site == name:
                self._read_again(stream.name)

    def _read_again(self, stream: str) -> None:
        """The next read of a source brings first what was not sealed."""
        extent, rows = self.extent(stream), pa.Table.from_batches(self.rows[stream], schema=SCHEMA).combine_chunks()
        place = None if extent is None else extent.place
        (whole,) = rows.to_batches() or [rows_of([])]
        self.read_again[stream] = whole if place is None else whole.slice(place.resume.row)
        self.reads.pop(stream, None)

    def lose_session(self, one: str, other: str, reason: str = "junk") -> None:
        """A link begins anew and what was under way is lost; no site died. Both notice, ``one`` first."""
        self.mail[one, other].clear()
        self.mail[other, one].clear()
        self.give(one, PeerStateLost(other, reason))
        self.give(other, PeerStateLost(one, reason))

    def empty_disk(self, name: str) -> None:
        """All that a site kept is gone; it does not know that before it is started again."""
        self.records[name].clear()
        for stream in self.infos.values():
            if stream.site == name:
                self.stream_logs[stream.name] = MemoryLog()

    # -- what happens -------------------------------------------------------------------------

    def give(self, site: str, *events: Event) -> None:
        """A turn; what the world answers at once comes in turns of its own, when all of this one's effects are done."""
        effects = self.sites[site].handle(events, self.now_us)
        self.effects += [(site, effect) for effect in effects]
        answers = [answer for effect in effects for answer in self._perform(site, effect)]
        self._run(site, [effect for effect in effects if isinstance(effect, RunOp)])
        for answer in answers:
            self.give(site, answer)

    def _perform(self, site: str, effect: Effect) -> list[Event]:  # noqa: C901 - a flat table reads best
        match effect:
            case Send():
                self.mail[site, effect.peer].append(effect.message)
            case AskReceipt():
                return [LinkMeasured(effect.peer, 0)]
            case ReadSource():
                assert effect.stream not in self.reads, "one read at a time"
                self.reads[effect.stream] = effect.origin_ms
            case AppendBatch() | ReadLog() | TrimLog():
                return self._log(site, effect)
            case StoreRows() if self.hold_stores:
                self.storing[site].append(effect)
            case StoreRows():
                return self._store(effect)
            case KeepRecord():
                self.records[site][KINDS[type(effect.record)], effect.record.query_id] = effect.record
            case RemoveRecord():
                self.records[site].pop((effect.kind, effect.query_id), None)
            case ReportQuery():
                self.states.append((effect.query_id, effect.state, effect.reason))
            case ReportSwitch():
                self.switches.append((effect.state, effect.reason))
            case NoteIgnored():
                self.ignored.append(effect.reason)
            case BlamePeer():
                self.blamed.append((effect.peer, effect.reason))
            case SetAside():
                self.aside.append(effect)
        return []

    def _store(self, effect: StoreRows) -> list[Event]:
        walk = effect.head, effect.span
        assert walk not in self.walks[effect.query_id], "a walk is stored twice"
        self.walks[effect.query_id].append(walk)
        self.stored[effect.query_id].append(effect.rows)
        return [RowsStored(effect.query_id, effect.head, effect.span)]

    def finish_store(self, site: str, place: int = 0) -> None:
        """One of the walks that a sink is storing is stored, and the sink hears of it."""
        effect = self.storing[site][place]
        del self.storing[site][place]
        for event in self._store(effect):
            self.give(site, event)

    def _log(self, site: str, effect: AppendBatch | ReadLog | TrimLog) -> list[Event]:
        if isinstance(effect, TrimLog):
            self.trims.append(effect)
        news = self.logs[site].run([effect])
        if not self.hold_logs:
            return news
        self.log_news[site] += news
        return []

    def hear_logs(self) -> None:
        """What the logs have said is heard, each piece of news in a turn of its own."""
        while site := next((site for site, news in self.log_news.items() if news), None):
            self.give(site, self.log_news[site].popleft())

    def _run(self, site: str, effects: Sequence[RunOp]) -> None:
        if not effects:
            return
        ops = [effect.op for effect in effects]
        self.engine_runs[site].append(ops)
        for effect, outcome in zip(effects, self.engines[site].run(ops), strict=True):
            if isinstance(outcome, Exception):
                self.answers[site].append(EngineFailed(effect.op_id, effect.op.table, str(outcome)))
            elif isinstance(effect.op, Question):
                assert outcome is not None
                self.answers[site].append(ProbeFinished(effect.op_id, outcome))
            elif isinstance(effect.op, OpenTable):
                self.open_tables[site].append(effect.op.table)
            elif isinstance(effect.op, CloseTable):
                self.open_tables[site].remove(effect.op.table)

    def issue(
        self,
        sink: str,
        algorithm: Algorithm = Algorithm.SP_D,
        query_id: str = "q1",
        beginning: Beginning = DEFAULT_BEGINNING,
    ) -> Plan:
        plan = self.plan(sink, algorithm)
        self.give(sink, QueryIssued(query_id, plan, beginning))
        return plan

    def replan(self, sink: str, algorithm: Algorithm, query_id: str = "q1") -> Plan:
        """Have a query go over to another plan."""
        plan = self.plan(sink, algorithm)
        self.give(sink, ReplanRequested(query_id, plan, "a test wants it"))
        return plan

    def plan(self, sink: str, algorithm: Algorithm = Algorithm.SP_D) -> Plan:
        query = parse_query(query_text(self.window), self.sites[sink].catalogue)
        return forced_plan(query, sink, algorithm, self.policy)

    def deliver(self, sender: str, receiver: str, count: int = 1) -> Message:
        """The next messages of one direction arrive; the last of them."""
        for _ in range(count):
            message = self.mail[sender, receiver].popleft()
            self.give(receiver, MessageReceived(sender, message))
        return message

    def say(self, sender: str, receiver: str, message: Message) -> None:
        """A message that the sender's own site would never have sent."""
        self.give(receiver, MessageReceived(sender, message))

    def answer(self, site: str) -> None:
        """The engine of a site answers its oldest question."""
        self.give(site, self.answers[site].popleft())

    def settle_mail(self) -> None:
        """Every message arrives; engines do not answer."""
        while pair := next((pair for pair, mail in self.mail.items() if mail), None):
            self.deliver(*pair)

    def settle(self) -> None:
        """Everything that is on its way arrives, until nothing is. News is waited for. Sources stay as they are."""
        while True:
            pair = next((pair for pair, mail in self.mail.items() if mail), None)
            site = next((site for site, answers in self.answers.items() if answers), None)
            if pair is not None:
                self.deliver(*pair)
            elif site is not None:
                self.answer(site)
            elif any(self.holds_news(name) for name in self.sites):
                self.now_us += self.limits.news_us
                for name in self.sites:
                    self.give(name, ClockAdvanced())
            else:
                return

    def settle_but(self, *cut: tuple[str, str]) -> None:
        """Everything that is on its way arrives but what goes these ways."""
        while True:
            pair = next((pair for pair, mail in self.mail.items() if mail and pair not in cut), None)
            site = next((site for site, answers in self.answers.items() if answers), None)
            if pair is not None:
                self.deliver(*pair)
            elif site is not None:
                self.answer(site)
            else:
                return

    def holds_news(self, site: str) -> bool:
        """Whether a site has something to say that waits for company."""
        runs, homes = self.sites[site].runs.values(), self.sites[site].homes.values()
        running = [home for home in homes if home.state is QueryState.RUNNING]
        return any(run.has_endings for run in runs) or not all(home.all_told for home in running)

    def arrive(
        self,
        stream: str,
        *ts: int,
        ended: bool = False,
        watermark: int | None = None,
        key: int = 1,
        keys: Sequence[int | None] | None = None,
    ) -> None:
        """A source answers the read it was asked for; every row has ``key``, or each its own of ``keys``."""
        del self.reads[stream]
        count = sum(batch.num_rows for batch in self.rows[stream])
        rows = rows_of(ts, count, key, keys)
        self.rows[stream].append(rows)
        again = self.read_again.pop(stream, rows_of([]))
        start, end = Position(0, count - again.num_rows), Position(0, count + rows.num_rows)
        rows = pa.Table.from_batches([again, rows]).combine_chunks().to_batches()[0] if again.num_rows else rows
        self.give(
            self.infos[stream].site, RowsArrived(stream, rows, rows.column("ts"), watermark, ended, None, start, end)
        )

    # -- what is seen -------------------------------------------------------------------------

    @property
    def state(self) -> QueryState:
        return self.states[-1][1]

    @property
    def reason(self) -> str:
        return self.states[-1][2]

    def results(self, query_id: str = "q1") -> list[tuple[int, int]]:
        return sorted((row["an"], row["bn"]) for batch in self.stored[query_id] for row in batch.to_pylist())

    def oracle(self, from_ts: int | None = None, rows_from: int | None = None) -> list[tuple[int, int]]:
        """What a query over the rows that arrived must give, if it is about those from a time on.

        ``rows_from``: those rows of which the newest is from there on, in milliseconds.
        """
        streams = []
        for alias, name in (("a", "l"), ("b", "r")):
            unit: Unit = {TimeUnit.MS: "ms", TimeUnit.US: "us", TimeUnit.NS: "ns"}[self.infos[name].unit]  # type: ignore[assignment]
            table = pa.Table.from_batches(self.rows[name], schema=SCHEMA)
            if from_ts is not None:
                table = table.filter(pa.array([ts >= from_ts for ts in table.column("ts").to_pylist()], pa.bool_()))
            streams.append(OracleStream(alias, table, "ts", unit, self.window))
        table = expected(streams, [(("a", "key"), ("b", "key"))], [*OUTPUTS, ("at", "a", "ts"), ("bt", "b", "ts")])
        rows = [row for row in table.to_pylist() if rows_from is None or max(row["at"], row["bt"]) >= rows_from]
        return sorted((row["an"], row["bn"]) for row in rows)

    def ops(self, kind: type[AnyOp], site: str | None = None) -> list[AnyOp]:
        """What engines were asked of that kind, at a site or anywhere."""
        runs = [run for name, runs in self.engine_runs.items() if site in (None, name) for run in runs]
        return [op for run in runs for op in run if isinstance(op, kind)]

    def sent(self, *kinds: type[Message], site: str | None = None) -> list[Message]:
        """The messages of some kinds that have left a site, or any, so far."""
        return [
            effect.message
            for name, effect in self.effects
            if isinstance(effect, Send) and site in (None, name) and isinstance(effect.message, kinds)
        ]

    def holds_nothing(self) -> bool:
        """Whether no site keeps anything of any query."""
        return not self.leftovers()

    def leftovers(self) -> list[str]:
        """What sites still keep of queries."""
        found = []
        for name, site in self.sites.items():
            found += [f"{name} runs {query_id}" for query_id in site.runs]
            found += [f"{name} table {table}" for table in self.open_tables[name]]
            found += [f"{name} {stream.info.name} followed" for stream in site.streams.values() if stream.followers]
            found += [f"{name} waits: {waiting}" for waiting in site.waiting()]
            found += [f"{name} asks {op_id}" for op_id in site.asking]
            found += [f"{name} arrangements"] * site.arrangements.in_use
            found += [f"{name} pins {query_id}" for query_id in site.pins]
        return found
