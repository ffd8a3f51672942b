"""The simulator: real nodes without IO, a virtual clock, and a network that misbehaves by seed.

Everything that happens is an entry in one heap, ordered by virtual time. The
nodes are ``node.stack.Stack``, the very objects the daemon drives; encoded
frames travel between them. Nothing here reads a clock or a socket, so a seed
always tells the same story.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from node.barrier import Barrier
from node.codec import cut
from node.core.effects import (
    AppendBatch,
    BlamePeer,
    NoteIgnored,
    OpenLog,
    QueryState,
    ReadLog,
    ReadSource,
    RemoveLog,
    ReportQuery,
    ReportSwitch,
    RunOp,
    SetAside,
    StoreRows,
    SwitchState,
    TrimLog,
    WriteRecords,
)
from node.core.engine import Append, Engine, Question
from node.core.events import (
    BatchLogged,
    DropRequested,
    LogRead,
    ProbeFinished,
    QueryIssued,
    ReplanRequested,
    RowsArrived,
    RowsStored,
    SiteStarted,
)
from node.core.links.link_states import LinkState
from node.core.links.lives import Met
from node.core.links.messages import Prepare
from node.core.queries.query_id import query_of
from node.core.queries.waiting import Waiting
from node.core.query_records import RecordKind
from node.core.records import Put, RecordChange
from node.core.site import Site
from node.core.streams.derived import DerivedStream
from node.core.streams.log_extent import LogExtent
from node.core.streams.position import Position, SourcePlace
from node.core.streams.sealer import Batch
from node.core.streams.stream import LocalStream
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.engine.native import NativeEngine
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    LifeRemembered,
    Output,
    RememberLife,
    SendFrame,
    Stack,
    TimePassed,
)
from node.storage.disk_log import DiskLog
from node.storage.memory_log import MemoryLog
from node.storage.site_records import PEER_LIFE
from node.storage.stream_logs import LogEffect, StreamLogs
from node.wire.records import done_in, recovered
from planner.algorithms.http2 import ANSWER_BYTES, DIAL_BYTES, Framing
from planner.model.beginning import BeginAt
from planner.model.query import JoinQuery, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.sim.crashes import Crashes, SiteDiedError
from tests.sim.disk import PowerLostError, SimulatedDisk
from tests.sim.frames import FrameKinds, name_of
from tests.sim.home_rows import HomeRows
from tests.sim.judges.copies import CopyJudge
from tests.sim.judges.durability import Durability
from tests.sim.judges.invariants import Invariants
from tests.sim.judges.sharing import Sharing
from tests.sim.judges.views import Views
from tests.sim.mail import Mail
from tests.sim.record_disk import RecordDisk
from tests.sim.reference_engine import ReferenceEngine
from tests.sim.scenarios.queries import QuerySpec, Replan
from tests.sim.scenarios.scenario import NO_QUOTA, Fault, Restart, Scenario, StreamData

START_US = 1_800_000_000_000_000
DEADLINE_US = 3_600_000_000
#: A site hears of the time so often while it runs a query, and while it does not: a daemon more often, to no effect.
TIMER_US = 50_000
RESTING_US = 1_000_000
#: How long somebody watches streams stand still at a quota before it is raised.
QUOTA_US = 20_000_000
#: Why a site ends a query that it gives up alone.
GIVEN_UP = "given up here alone"


class SimulationError(AssertionError):
    """The run broke a promise; the text has the story."""


@dataclass
class Delivered:
    """What became of one query."""

    query_id: str
    spec: QuerySpec
    state: QueryState = QueryState.PREPARING
    reason: str = ""
    #: Which life its home was in when it was issued; None: it is yet to be issued.
    life: int | None = None
    parsed: JoinQuery | None = None
    called: bool = False
    #: How many of its other plans it was asked to go over to.
    replanned: int = 0
    drop_called: bool = False
    gave_up: bool = False
    #: The tick with which its rows begin, once it runs; and from where on it sees its streams, where that is another.
    first_tick: int | None = None
    begins: dict[str, int] = field(default_factory=dict)
    #: How far all its streams were logged when it was issued.
    fed: int = TICK_MIN
    #: Its home has said something of it: to another site, or to who issued it.
    promised: bool = False
    #: Its home was killed before that, or lost its disk, and knows nothing of it.
    forgotten: bool = False
    #: Before it was over a site of it died; the longest that one stayed away; and one lost its disk.
    hurt: bool = False
    away_us: int = 0
    disk_lost: bool = False
    sites: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list)
    #: The walks whose rows the sink has for good.
    stored: list[tuple[str, Span]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.state.ended or self.forgotten

    @property
    def rows(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, schema=self.schema)


@dataclass
class Outcome:
    """What a run delivered, and how."""

    queries: list[Delivered]
    #: By stream, for those that were read to their end: how many tuples were set aside on the way.
    aside: dict[str, int]
    story: list[str]
    virtual_us: int
    counts: dict[str, int] = field(default_factory=dict)
    probes_early: int = 0
    probes_late: int = 0

    @property
    def rows(self) -> pa.Table:
        """Of the first query, where it is the only one that matters."""
        return self.queries[0].rows


class SimSource:
    """A stream's rows in order, in chunks whose size the seed decides."""

    def __init__(self, data: StreamData, chunk_rows_max: int) -> None:
        self._rows = data.table().combine_chunks().to_batches()
        self._table = self._rows[0] if self._rows else None
        self._next = 0
        self._chunk_rows_max = chunk_rows_max
        self.info = StreamInfo(
            data.name, data.site, data.table().schema, "ts", TimeUnit.US if data.unit == "us" else TimeUnit.MS
        )

    def read(self, rng: random.Random) -> RowsArrived:
        """The next chunk; the end comes with the last rows or after them, as it may in a file."""
        if self._table is None:
            empty = pa.RecordBatch.from_pylist([], schema=self.info.schema)
            return RowsArrived(
                self.info.name, empty, pa.array([], pa.int64()), None, True, None, Position(0, 0), Position(0, 0)
            )
        rows = self._table.slice(self._next, rng.randint(0, self._chunk_rows_max))
        self._next += rows.num_rows
        over = self._next == self._table.num_rows
        ended = over and (rows.num_rows == 0 or rng.random() < 0.5)
        start, end = Position(0, self._next - rows.num_rows), Position(0, self._next)
        return RowsArrived(self.info.name, rows, rows.column("ts"), None, ended, None, start, end)

    def go_on(self, place: SourcePlace) -> None:
        """Read again what a daemon that died had not sealed."""
        self._next = place.resume.row

    def read_live(self, now_ms: int) -> RowsArrived:
        """What has come since the last time, and the news that there is nothing more before ``now_ms``."""
        scale = self.info.unit // TimeUnit.MS
        rest = self._table.slice(self._next) if self._table is not None else None
        times = rest.column("ts").to_pylist() if rest is not None else []
        count = sum(ts < now_ms * scale for ts in times)
        rows = rest.slice(0, count) if rest is not None else pa.RecordBatch.from_pylist([], schema=self.info.schema)
        start, end = Position(0, self._next), Position(0, self._next + count)
        self._next += count
        return RowsArrived(
            self.info.name, rows, rows.column("ts"), now_ms * scale, count == len(times), None, start, end
        )


@dataclass
class DerivedLog:
    """The log of a kept join's stream: what was appended, and of that what is durable; also what was forgotten."""

    site: str
    schema: pa.Schema
    tau: int
    appended: list[Batch] = field(default_factory=list)
    durable: list[Batch] = field(default_factory=list)


@dataclass
class _Logs:
    """Where a site's logs of kept joins are."""

    world: World
    site: str

    def open(self, stream: str) -> DiskLog | MemoryLog:
        return self.world.open_log(stream, self.site)

    def remove(self, stream: str) -> None:
        self.world.remove_log(stream)


class World:
    """All nodes of a scenario and what is between them."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now_us = START_US
        self.story: list[str] = []
        self.counts: dict[str, int] = {}
        self.views = Views(scenario)
        self.copies = CopyJudge(self.views)
        self.mail = Mail()
        self._rng = random.Random(scenario.seed ^ 0x5EED)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._tie = 0
        self._sources: dict[str, SimSource] = {}
        self._engines: dict[str, Engine] = {}
        self._nodes: dict[str, Stack] = {}
        self._disks: dict[str, SimulatedDisk] = {}
        self._logs: dict[str, StreamLogs] = {}
        #: When a site's storage is through with what it was asked; and by stream, up to which tick it is durable.
        self._log_us: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        #: When a site's disk is through with the lives of others that it was to remember.
        self._met_us: dict[str, int] = {}
        #: By stream, what its site found in its log when it was last started.
        self._extents: dict[str, LogExtent | None] = {}
        #: How often each site was started; what was under way in an earlier life comes to nothing.
        self._lives = dict.fromkeys(scenario.sites, 1)
        self._down: set[str] = set()
        self.crashes = Crashes(scenario.crashes)
        self.durability = Durability()
        self._frames: dict[str, FrameKinds] = {}
        #: What each site keeps of queries over a crash, and what waits for that.
        self._records = {site: self._record_disk(site) for site in scenario.sites}
        self._limits = dict.fromkeys(scenario.sites, scenario.limits)
        #: Since when the logs of a site are full.
        self._full_us: dict[str, int] = {}
        self._barriers: dict[str, Barrier] = {}
        #: By query, its rows at home; and what a site asks to be stored in a turn.
        self._rows: dict[str, HomeRows] = {}
        self._stores: list[StoreRows] = []
        self._queries = [Delivered(f"q{number}", spec) for number, spec in enumerate(scenario.queries, 1)]
        specs = {query.query_id: query.spec for query in self._queries}
        #: The switches to plans that keep joins, or from them.
        self._tree_switches: set[tuple[str, int]] = set()
        #: By stream of a kept join, what its log has ever had.
        self._derived: dict[str, DerivedLog] = {}
        #: By kept join, the state and the generation in which it was seen last, and where.
        self._joins: dict[str, tuple[str, QueryState, int]] = {}
        self.invariants = Invariants(self._nodes, self.mail, self.views, self.copies, specs, scenario.tau_ms)
        self._connections: dict[tuple[str, str], int] = {}
        self._connection_count = 0
        self._arrival_us: dict[tuple[int, str], int] = {}
        #: When each direction of a link is free to send more, where links have a pace; and what it carried.
        self._free_us: dict[tuple[str, str], int] = {}
        self.nbytes: dict[tuple[str, str], int] = {}
        #: What gRPC would add to that.
        self.framing: dict[tuple[str, str], int] = {}
        self._framings: defaultdict[tuple[str, str], Framing] = defaultdict(Framing)
        self._engine_us: dict[str, int] = {}
        self._faults_now: dict[tuple[str, str], Fault] = {}
        self._reads = 0
        #: What a site asks in a turn of its engine and of its logs.
        self._ops: list[RunOp] = []
        self._logging: list[LogEffect] = []
        self._sharing = Sharing()
        #: By stream, the rows that were set aside.
        self._aside: dict[str, set[Position]] = {}
        for site in scenario.sites:
            self._start(site)

    def _start(self, site: str) -> None:
        self._engines[site] = ReferenceEngine() if self.scenario.reference_engine else NativeEngine()
        logs = {data.name: self._log(data.name, site) for data in self.scenario.streams if data.site == site}
        logs |= {name: self._log(name, site) for name in self._kept_streams(site)}
        self._logs[site] = StreamLogs(logs, _Logs(self, site))
        self._log_us[site] = 0
        self._barriers[site] = Barrier(
            lambda output: self._do(site, output), lambda output: self._write(site, output), self._noted
        )
        self._nodes[site] = self._node(site)
        self._frames[site] = FrameKinds(self._nodes[site])
        self.crashes.step(site, "before SiteStarted")
        self._give(site, [SiteStarted()])
        self.crashes.step(site, "after SiteStarted")

    def _record_disk(self, site: str) -> RecordDisk:
        return RecordDisk(random.Random(f"{self.scenario.seed} records of {site}"))

    def _kept_streams(self, site: str) -> list[str]:
        """The streams of joins that a site keeps, as its records say; the logs of others go."""
        homes = recovered(self._records[site].durable, {}).homes
        kept = [home.query_id.rpartition("@")[0] for home in homes if home.prepare.part]
        for name, log in list(self._derived.items()):
            if log.site == site and name not in kept:
                self.remove_log(name)
        return kept

    def _log(self, name: str, site: str) -> DiskLog | MemoryLog:
        """A stream's log as a daemon begins with it: what a crash left is recovered."""
        self._extents[name] = None
        if not self.scenario.disk:
            return MemoryLog()
        disk = self._disks.get(name)
        if disk is None:
            disk = self._disks[name] = SimulatedDisk(random.Random(f"{self.scenario.seed} {name}"))
        else:
            disk.crash()
        log = DiskLog(disk)
        found = log.recover()
        durable = self._durable.get(name, TICK_MIN)
        if self._lives[site] > 1 and durable > TICK_MIN and found.frontier < durable:
            raise SimulationError(f"the log of {name} lost ticks: {durable} were durable, {found.frontier} are there")
        self._durable[name] = found.frontier
        self.invariants.logged(name, found.frontier)
        self._extents[name] = found.extent
        if name in self._derived:
            self._derived_logged(name, found.frontier, is_again=True)
        return log

    def open_log(self, name: str, site: str) -> DiskLog | MemoryLog:
        """A log for the stream of a join that is kept from now on. Something may have been appended to it already."""
        appended = self._derived.get(name)
        self.remove_log(name)
        self.invariants.begun(name)
        log = self._log(name, site)
        if appended is not None and not appended.durable:
            self._derived[name] = appended
        return log

    def remove_log(self, name: str) -> None:
        """Nobody reads a kept join any more."""
        self._disks.pop(name, None)
        self._durable.pop(name, None)
        self._extents.pop(name, None)
        self._derived.pop(name, None)

    def _derived_appended(self, site: str, effect: AppendBatch) -> None:
        stream = self._nodes[site].site.streams.get(effect.stream)
        if isinstance(stream, DerivedStream):
            log = self._derived.setdefault(effect.stream, DerivedLog(site, stream.info.schema, stream.tau))
            log.appended.append(effect.batch)

    def _derived_logged(self, name: str, frontier: int, is_again: bool = False) -> None:
        log = self._derived[name]
        log.durable += [batch for batch in log.appended if batch.span.end <= frontier]
        # A daemon that died makes what was not durable anew, perhaps otherwise.
        log.appended = [] if is_again else [batch for batch in log.appended if batch.span.end > frontier]
        self._count("batches of kept joins")
        self.views.derived(name, log.schema, log.tau, list(log.durable))

    def _note_homes(self, site: str) -> None:
        """What queries of a site do of which nobody is told."""
        for home in self._nodes[site].site.homes.values():
            self._count("walks of another plan that wait for the one before", bool(home.switch and home.switch.walks))
        self._note_joins(site)

    def _note_joins(self, site: str) -> None:
        """Kept joins begin again, and end, without a word to those who asked for queries."""
        homes = {home.query_id: home for home in self._nodes[site].site.homes.values() if home.stream is not None}
        for query_id, home in homes.items():
            before, now = self._joins.get(query_id), (site, home.state, home.generation)
            if before == now:
                continue
            self._joins[query_id] = now
            self._tell(f"{site} has {query_id} {home.state}, generation {home.generation} {home.reason}")
            if home.state is QueryState.RECOVERING:
                self._count("kept joins begun again")
                self.copies.recovers(query_id)
            elif home.state is QueryState.RUNNING:
                self._count("kept joins run")
                self.copies.runs(query_id)
            elif home.state.ended and home.state is not QueryState.COMPLETED:
                self.copies.doom(query_id)
        for query_id in [one for one, (there, _, _) in self._joins.items() if there == site and one not in homes]:
            del self._joins[query_id]
            self._tell(f"{site} forgets {query_id}")
            self.copies.doom(query_id)

    def _node(self, site: str) -> Stack:
        scenario = self.scenario
        streams = []
        for data in scenario.streams:
            if data.site == site:
                source = self._sources[data.name] = SimSource(data, scenario.chunk_rows_max)
                extent = self._extents[data.name]
                resume = Position(0, 0)
                if extent is not None and extent.place is not None:
                    resume = extent.place.resume
                    source.go_on(extent.place)
                aside = frozenset(position for position in self._aside.get(data.name, ()) if position >= resume)
                first_ts, retain_ms = data.first_ts, data.retain_ms
                streams.append(
                    LocalStream(source.info, data.lateness_ms, first_ts, retain_ms, extent, aside, data.keep_whole)
                )
        peers = [peer for peer in scenario.sites if peer != site]
        life = self._lives[site]
        stored = {query.query_id: query.stored for query in self._queries if query.spec.sink == site}
        records = self._records[site].durable
        found = replace(recovered(records, stored), kept_logs=self._kept_extents())
        met = {peer: Met(*map(int, value.split())) for peer, value in records.get(PEER_LIFE, {}).items()}
        node = Stack("sim", site, peers, scenario.tau_ms, life, streams, self._limits[site], met, found)
        self.mail.watch(node.site)
        return node

    def _kept_extents(self) -> dict[str, LogExtent]:
        own = {data.name for data in self.scenario.streams}
        return {name: extent for name, extent in self._extents.items() if extent is not None and name not in own}

    # -- the heap -----------------------------------------------------------------------------

    def _at(self, delay_us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now_us + delay_us, self._tie, action))
        self._tie += 1

    def _delay(self) -> int:
        return self._rng.randint(0, self.scenario.delay_us_max)

    def run(self) -> Outcome:
        """Let it happen until the query is over."""
        for pair in self._pairs():
            self._at(self._delay(), lambda pair=pair: self._dial(pair))  # type: ignore[misc]
        for fault in self.scenario.faults:
            self._at(fault.at_us, lambda fault=fault: self._begin_fault(fault))  # type: ignore[misc]
        for site in self.scenario.sites:
            self._at(TIMER_US, lambda site=site: self._timer(site))  # type: ignore[misc]
        self._call_queries()
        for restart in self.scenario.restarts:
            self._at(restart.at_us, lambda restart=restart: self._crash(restart))  # type: ignore[misc]
        self.crashes.armed = True
        deadline_us = START_US + DEADLINE_US + sum(crash.down_us for crash in self.scenario.crashes)
        while self._heap and not self._over():
            self.now_us, _, action = heapq.heappop(self._heap)
            if self.now_us > deadline_us:
                seconds = (deadline_us - START_US) / 1e6
                raise SimulationError(f"not finished after {seconds:.0f} virtual seconds: {self._where()}")
            self.crashes.turn += 1
            try:
                action()
            except SiteDiedError as death:
                self._die(death)
        self._check_nothing_is_left()
        self._check_rows()
        self.counts |= {f"crash {kind}": hits for kind, hits in self.crashes.hits.items()}
        self.counts["copy checks"] = self.copies.checks
        self.counts["tuples sent to copies"] = self.copies.tuples_sent
        self.counts["copy checks after a recovery"] = self.copies.checks_again
        self.counts["invariant checks"] = self.invariants.checks
        self.counts["checks of both halves after a crash"] = self.invariants.checks_again
        self.counts["checks of what home tells"] = self.durability.checks
        self.counts |= self._sharing.counts
        virtual_us = self.now_us - START_US
        probes = [counts for node in self._nodes.values() for counts in node.site.probe_counts()]
        early, late = sum(counts.early for counts in probes), sum(counts.late for counts in probes)
        ended = [stream for node in self._nodes.values() for stream in node.site.streams.values() if stream.ended]
        aside = {stream.info.name: len(self._aside.get(stream.info.name, ())) for stream in ended}
        return Outcome(self._queries, aside, self.story, virtual_us, self.counts, early, late)

    def _over(self) -> bool:
        """Every query has ended, or its home forgot it, and so has every site."""
        if self._down:
            return False
        if any(query.called and not query.over for query in self._queries):
            return False
        waiting = [query for query in self._queries if not query.called]
        if waiting:
            # Nothing is read any more that could make its time come.
            self._call(waiting[0])
            return False
        return not any(_is_busy(node.site) for node in self._nodes.values())

    def _check_nothing_is_left(self) -> None:
        for name, node in self._nodes.items():
            followed = [stream.info.name for stream in node.site.streams.values() if stream.followers]
            engine = self._engines[name]
            if any(isinstance(asker, Waiting) for asker in node.site.asking.values()):
                raise SimulationError(f"{name} still waits for probes of a query that has ended")
            if node.site.waiting():
                raise SimulationError(f"{name} still has walks under way: {[str(one) for one in node.site.waiting()]}")
            for stream in node.site.streams.values():
                if stream._log and not stream._is_kept(stream._log[0]):
                    raise SimulationError(f"{name} still keeps the log of {stream.info.name}, which nobody needs")
            if followed or (isinstance(engine, ReferenceEngine) and engine.tables):
                raise SimulationError(f"{name} still holds {followed} or tables of a query that has ended")

    def _check_rows(self) -> None:
        """The files of each query have the rows that were stored, in that order."""
        for query in self._queries:
            if query.query_id in self._rows:
                there = self._rows[query.query_id].rows()
                if not there.equals(query.rows):
                    raise SimulationError(
                        f"{query.query_id} stored {query.rows.num_rows} rows; its files have {there.num_rows} or others"
                    )

    def _die(self, death: SiteDiedError) -> None:
        """A site came to a step at which it is killed."""
        point = death.point
        self._tell(str(death))
        for site in dict.fromkeys((point.site, *point.also)):
            self._crash(Restart(0, site, point.down_us))

    def _crash(self, restart: Restart) -> None:
        site = restart.site
        if site in self._down:
            return
        self._ops, self._logging, self._stores = [], [], []
        self._tell(f"{site} is killed, and its disk is {'lost' if restart.fresh else 'as a crash leaves it'}")
        self._count("crashes with an empty disk" if restart.fresh else "crashes")
        self._count_crash(site)
        for changes in self._records[site].crash():
            self.durability.durable(site, changes)
        for query in self._queries:
            if query.spec.sink == site and query.query_id in self._rows:
                self._find_rows(query, self._rows[query.query_id])
        if restart.fresh:
            self._empty_disk(site)
        self.durability.restarted(site, self._records[site].durable)
        self._note_hurt(restart)
        self._forget_unpromised(site, restart.fresh)
        self._lives[site] += 1
        self._down.add(site)
        self.copies.forget(site)
        self.mail.lost(site)
        self.invariants.restarted(site, restart.fresh)
        for pair in self._pairs():
            if site in pair:
                self._break(pair, "the daemon died")
        self._at(restart.down_us, lambda: self._come_back(site))

    def _note_hurt(self, restart: Restart) -> None:
        """A site dies: what becomes of queries that need it, and of no others, may be because of that."""
        for query in self._queries:
            streams = [self.scenario.data(ref.stream).site for ref in query.spec.refs]
            plans = [query.spec, *map(query.spec.by, query.spec.replans)]
            joins = [join for plan in plans for join in plan.kept]
            starts = [way.start for plan in plans for way in plan.ways]
            starts += [place for join in joins for place in (join.site, *(way.start for way in join.ways))]
            if not query.over and restart.site in (query.spec.sink, *streams, *starts):
                query.hurt = True
                query.away_us = max(query.away_us, restart.down_us)
                query.disk_lost |= restart.fresh

    def _forget_unpromised(self, site: str, is_disk_lost: bool) -> None:
        known = self._records[site].durable.get(RecordKind.HOME, {})
        for query in self._queries:
            is_known = query.query_id in known or query.spec.sink != site
            if is_known or query.life is None or query.over:
                continue
            end = self.durability.end_of(site, query.query_id)
            if end is not None and not is_disk_lost:
                # It was forgotten after others had ended, before anybody was told.
                query.state, query.reason = end
                query.first_tick = self.durability.first_tick(site, query.query_id)
                query.begins = self.durability.begins(site, query.query_id)
                continue
            if query.promised and not is_disk_lost:
                raise SimulationError(f"{site} had promised {query.query_id}, and knows nothing of it after a crash")
            query.forgotten = True

    def _empty_disk(self, site: str) -> None:
        self._records[site] = self._record_disk(site)
        for query in self._queries:
            if query.spec.sink == site:
                self._rows.pop(query.query_id, None)
        for name in [name for name, log in self._derived.items() if log.site == site]:
            self.remove_log(name)
        for data in self.scenario.streams:
            if data.site == site:
                self._disks.pop(data.name, None)
                self._aside.pop(data.name, None)
                self._durable.pop(data.name, None)

    def _count_crash(self, site: str) -> None:
        """What a site was at when it died."""
        node = self._nodes[site].site
        own = [query.query_id for query in self._queries if query.spec.sink == site]
        storing = [query_id for query_id in own if query_id in self._rows and self._rows[query_id].pending]
        self._count("crashes while records were written", bool(self._records[site].pending))
        self._count("crashes while rows were stored", bool(storing))
        self._count("crashes with queries running", any(run.started for run in node.runs.values()))
        self._count("crashes with queries prepared", any(not run.started for run in node.runs.values()))
        states = [home.state for home in node.homes.values()]
        self._count("crashes of a home", QueryState.RUNNING in states)
        self._count("crashes of a home that recovers", QueryState.RECOVERING in states)
        self._count("crashes while logs were read", node.arrangements.readers.in_use)

    def _come_back(self, site: str) -> None:
        self._tell(f"{site} is started again")
        self._down.discard(site)
        self._start(site)

    def _where(self) -> str:
        states = []
        for name, node in self._nodes.items():
            for stream in node.site.streams.values():
                states.append(f"{name}.{stream.info.name} {stream.state} at {stream.frontier}")
            states += [f"{name}-{link.peer} {link.state.value} {link.trouble}" for link in node.links.values()]
            states += [f"{name}: {run.query_id} {run.state}" for run in node.site.runs.values()]
            states += [f"{name}: {copy}" for copy in node.site.arrangements.copy_statuses()]
            states += [f"{name}: table {table.name} {table.frontier}" for table in node.site.arrangements.local.all]
            if node.site.arrangements.owned.claims or node.site.arrangements.readers.in_use:
                states.append(f"{name}: claims or readers")
        return "; ".join(states)

    def _pairs(self) -> list[tuple[str, str]]:
        return [(a, b) for a in self.scenario.sites for b in self.scenario.sites if a < b]

    def _timer(self, site: str) -> None:
        self._at(RESTING_US if self._nodes[site].resting else TIMER_US, lambda: self._timer(site))
        self._give(site, [TimePassed()])
        self._look_at_quota(site)

    def _look_at_quota(self, site: str) -> None:
        """If queries need more than their site may keep, it is started again with a larger quota."""
        if site in self._down or not self._nodes[site].site.arrangements.logs_full:
            self._full_us.pop(site, None)
        elif self.now_us - self._full_us.setdefault(site, self.now_us) >= QUOTA_US:
            self._tell(f"{site} gets a larger quota")
            self._count("quotas raised")
            self._limits[site] = replace(self.scenario.limits, log_bytes_max=NO_QUOTA)
            self._crash(Restart(0, site))

    # -- queries ------------------------------------------------------------------------------

    def _call_queries(self) -> None:
        """Issue, and drop, what is due after so many reads."""
        for query in self._queries:
            if not query.called and self._reads >= query.spec.after_reads:
                self._call(query)
            drop_after = query.spec.drop_after_reads
            if query.life is not None and drop_after is not None and self._reads >= drop_after:
                self._call_drop(query)
            waiting = query.spec.replans[query.replanned :]
            if query.life is not None and waiting and self._reads >= waiting[0].after_reads:
                query.replanned += 1
                self._at(self._delay(), partial(self._replan, query, waiting[0]))

    def _replan(self, query: Delivered, replan: Replan) -> None:
        """Have a query go over to another plan, once it could; it is asked too early now and then."""
        node = self._nodes[query.spec.sink].site
        home = node.homes.get(query.query_id)
        if query.over:
            return
        is_due = home is not None and home.state is QueryState.RUNNING and home.switch is None
        if query.spec.sink in self._down or not (is_due or self._rng.random() < 0.02):
            self._at(1_000 + 5 * self._delay(), lambda: self._replan(query, replan))
            return
        assert query.parsed is not None
        plan = query.spec.by(replan).plan(query.parsed)
        self._count("switches at once" if replan.at_once else "switches without a stop")
        self._give(query.spec.sink, [ReplanRequested(query.query_id, plan, "the seed wants it", replan.at_once)])

    def _switch_reported(self, site: str, report: ReportSwitch) -> None:
        self._tell(f"{site} reports switch {report.number} of {report.query_id} {report.state} {report.reason}")
        self._count(f"switches {report.state}")
        place = report.query_id, report.number
        home = self._nodes[site].site.homes.get(report.query_id)
        if report.state is SwitchState.PREPARING and home is not None and (report.plan.kept or home.plan.kept):
            self._tree_switches.add(place)
        self._count(f"switches of trees {report.state}", place in self._tree_switches)
        if report.state is SwitchState.SWITCHED:
            self.copies.doom_before(report.query_id, report.number)
        elif report.state is SwitchState.GIVEN_UP:
            self.copies.doom_generation(report.query_id, report.number)

    def _call(self, query: Delivered) -> None:
        query.called = True
        self._at(self._delay(), lambda: self._try_issue(query))

    def _try_issue(self, query: Delivered) -> None:
        home = self._nodes[query.spec.sink]
        if query.spec.sink in self._down or any(link.state is not LinkState.UP for link in home.links.values()):
            self._at(100_000, lambda: self._try_issue(query))
            return
        parsed = parse_query(query.spec.text, home.site.catalogue)
        plan = query.spec.plan(parsed)
        query.parsed = parsed
        query.schema, query.sites, query.life = parsed.output_schema(), plan.sites, self._lives[query.spec.sink]
        self._rows[query.query_id] = HomeRows(f"{self.scenario.seed} rows of {query.query_id}", query.schema)
        query.fed = max(self._nodes[ref.stream.site].site.streams[ref.stream.name].fed for ref in parsed.streams)
        begin = query.spec.beginning
        self._tell(
            f"{query.spec.sink} is asked as {query.query_id}: {query.spec.text}, from {begin.at} {begin.time_ms}"
        )
        if query.spec.drop_after_us is not None:
            query.drop_called = True
            self._at(query.spec.drop_after_us, lambda: self._drop(query))
        if query.spec.given_up is not None:
            site, after_us = query.spec.given_up
            self._at(after_us, lambda: self._give_up(site, query))
        self._give(query.spec.sink, [QueryIssued(query.query_id, plan, query.spec.beginning)])

    def _give_up(self, site: str, query: Delivered) -> None:
        """A site ends a query: its engine failed, or a user dropped it there. Home hears of it later, or never."""
        node = self._nodes[site].site
        is_dropped = site != query.spec.sink and int(query.query_id[1:]) % 3 != 0
        runs = [run_id for run_id in node.runs if query_of(run_id) == query.query_id]
        there = node.keeps(query.query_id) if is_dropped else bool(runs)
        if query.over or query.gave_up:
            return
        if not there or site in self._down:
            self._at(100_000, lambda: self._give_up(site, query))
            return
        query.gave_up = True
        self.invariants.given_up.add(query.query_id)
        self.copies.doom(query.query_id)
        self._tell(f"{site} gives {query.query_id} up")
        self._count("dropped at another site", is_dropped)
        if is_dropped:
            self._give(site, [DropRequested(query.query_id)])
        else:
            node._participant.ends.fail(query.query_id, GIVEN_UP)
            self._give(site, [TimePassed()])

    def _call_drop(self, query: Delivered) -> None:
        if not query.drop_called:
            query.drop_called = True
            self._at(self._delay(), lambda: self._drop(query))

    def _drop(self, query: Delivered) -> None:
        if query.spec.sink in self._down:
            self._at(100_000, lambda: self._drop(query))
        elif not query.over:
            self.copies.doom(query.query_id)
            self._give(query.spec.sink, [DropRequested(query.query_id)])

    def _reported(self, site: str, report: ReportQuery) -> None:
        query = self._query(report.query_id)
        query.state, query.reason, query.promised = report.state, report.reason, True
        if report.state is QueryState.RECOVERING:
            self._count("recoveries begun")
            self.copies.recovers(query.query_id)
        if report.state is QueryState.RUNNING:
            self.copies.runs(query.query_id)
            self._count("recoveries completed", query.first_tick is not None)
        if query.first_tick is None:
            # Who died before it said that the query runs may say at once that it has ended, or know it no more.
            query.first_tick = self.durability.first_tick(site, report.query_id)
            query.begins = self.durability.begins(site, report.query_id)
            if report.state is QueryState.RUNNING:
                assert query.first_tick is not None
                self._check_beginning(query, query.first_tick)

    def _check_beginning(self, query: Delivered, tick: int) -> None:
        """A query begins where it was asked to, or at the first tick that all its streams should have."""
        begin = query.spec.beginning
        self._count(f"queries from {begin.at or 'default'}")
        self._count("queries that begin before what was there", tick < query.fed)
        self._count("queries that begin with what is to come", query.fed < tick)
        self._count("queries that look back", bool(query.begins))
        self._count("queries that see what was before they began", any(tick > seen for seen in query.begins.values()))
        self._check_look_back(query, tick)
        earliest = {
            BeginAt.TIME: begin.time_ms // self.scenario.tau_ms,
            BeginAt.NOW: TICK_MIN if any(restart.fresh for restart in self.scenario.restarts) else query.fed,
        }.get(begin.at, TICK_MIN)
        latest = max(earliest, *(self._kept_from(ref.stream, begin.at) for ref in query.spec.refs))
        # At the quota of its logs a site keeps less.
        if tick < earliest or (tick > latest and not self.scenario.has_quota):
            raise SimulationError(f"{query.query_id} requires a first tick from {earliest} to {latest}; got {tick}")

    def _check_look_back(self, query: Delivered, tick: int) -> None:
        """Of a stream of which all is kept a query that looks back has its whole window when it begins."""
        loses = self.scenario.has_quota or self.scenario.damaged_per_mille or query.disk_lost
        for ref in query.spec.refs:
            if loses or ref.alias not in query.begins or not self.scenario.data(ref.stream).keep_whole:
                continue
            kind, size = ref.window
            wanted = (tick * self.scenario.tau_ms - size) // self.scenario.tau_ms if kind == "range" else TICK_END
            if query.begins[ref.alias] > wanted:
                got = f"{ref.alias} from {query.begins[ref.alias]} on"
                raise SimulationError(f"{query.query_id} requires its window from {wanted} to {tick}; got {got}")

    def _kept_from(self, stream: str, begin: BeginAt) -> int:
        """A tick from which on a query that asks to begin so can have all of a stream."""
        data = self.scenario.data(stream)
        if begin is BeginAt.NOW:
            return self._nodes[data.site].site.streams[stream].frontier
        if data.keep_whole and begin is not BeginAt.DEFAULT:
            return TICK_MIN
        return self._retained_from(stream)

    def _retained_from(self, stream: str) -> int:
        """A tick from which on the stream has what it retains, if it retains all it should."""
        data = self.scenario.data(stream)
        frontier, scale = self._nodes[data.site].site.streams[stream].frontier, 1000 if data.unit == "us" else 1
        tau = self.scenario.tau_ms * scale
        times = [ts for ts in data.ts if ts is not None]
        if frontier == TICK_MIN or not data.retain_ms or (frontier == TICK_END and not times):
            return frontier
        newest = frontier * tau if frontier < TICK_END else max(times) + 1
        return (newest - data.retain_ms * scale) // tau

    def _query(self, query_id: str) -> Delivered:
        return next(query for query in self._queries if query.query_id == query_of(query_id))

    # -- the network --------------------------------------------------------------------------

    def _dial(self, pair: tuple[str, str]) -> None:
        fault = self._faults_now.get(pair)
        if (fault is not None and not fault.silent) or self._down & set(pair):
            self._at(200_000, lambda: self._dial(pair))
            return
        self._connection_count += 1
        connection = self._connection_count
        self._connections[pair] = connection
        self._tell(f"{pair[0]}-{pair[1]} connected as #{connection}")
        for way, nbytes in ((pair, DIAL_BYTES), (pair[::-1], ANSWER_BYTES)):
            self.framing[way] = self.framing.get(way, 0) + nbytes
        for site, peer in (pair, pair[::-1]):
            self._give(site, [ConnectionOpened(peer, connection)])

    def _begin_fault(self, fault: Fault) -> None:
        self._tell(f"{fault.pair[0]}-{fault.pair[1]} {'goes silent' if fault.silent else 'is cut'}")
        self._faults_now[fault.pair] = fault
        if not fault.silent:
            self._break(fault.pair, "cut")
        self._at(fault.length_us, lambda: self._end_fault(fault))

    def _end_fault(self, fault: Fault) -> None:
        if self._faults_now.get(fault.pair) is fault:
            del self._faults_now[fault.pair]
            self._tell(f"{fault.pair[0]}-{fault.pair[1]} heals")
            # What a silent fault swallowed leaves a gap that only a new connection fills.
            if fault.silent:
                self._break(fault.pair, "lost bytes")

    def _break(self, pair: tuple[str, str], reason: str) -> None:
        connection = self._connections.pop(pair, None)
        if connection is None:
            return
        for site, peer in (pair, pair[::-1]):
            notice = ConnectionClosed(peer, connection, reason)
            self._at(self._delay(), lambda site=site, notice=notice: self._give(site, [notice]))  # type: ignore[misc]
        self._at(200_000 + self._delay(), lambda: self._dial(pair))

    def _carry(self, site: str, frame: SendFrame) -> None:
        pair = (min(site, frame.peer), max(site, frame.peer))
        if self._connections.get(pair) != frame.connection or pair in self._faults_now:
            self._count("frames lost")
            return
        # One connection keeps its order: nothing arrives before what was sent earlier.
        key = (frame.connection, site)
        arrival = max(self._passed_us(site, frame), self._arrival_us.get(key, 0))
        self._arrival_us[key] = arrival
        frame = self._damaged(frame)
        self._at(arrival - self.now_us, lambda: self._arrive(pair, site, frame))

    def _passed_us(self, site: str, frame: SendFrame) -> int:
        """When a frame is through: sent when those before it are, at the pace of the link, then under way."""
        way = site, frame.peer
        framing = self._framings[way].went(len(frame.shipment))
        self.nbytes[way] = self.nbytes.get(way, 0) + len(frame.shipment)
        self.framing[way] = self.framing.get(way, 0) + framing
        if self.scenario.wan is None:
            return self.now_us + self._delay()
        shape = self.scenario.wan.shape(*way)
        sent = max(self.now_us, self._free_us.get(way, 0))
        if shape.bytes_per_s is not None:
            sent += round((len(frame.shipment) + framing) / shape.bytes_per_s * 1e6)
        self._free_us[way] = sent
        return sent + 1_000 * (shape.latency_ms + self._rng.randint(-shape.jitter_ms, shape.jitter_ms))

    def _damaged(self, frame: SendFrame) -> SendFrame:
        if self._rng.randrange(1000) >= self.scenario.damaged_per_mille:
            return frame
        self._count("frames damaged")
        data = bytearray(frame.shipment.data)
        data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        return replace(frame, shipment=cut(bytes(data)))

    def _arrive(self, pair: tuple[str, str], site: str, frame: SendFrame) -> None:
        if self._connections.get(pair) == frame.connection:
            self._framings[frame.peer, site].came_back()
            self._give(frame.peer, [FrameArrived(site, frame.connection, frame.shipment)])
        else:
            self._count("frames lost")

    # -- effects ------------------------------------------------------------------------------

    def _give(self, site: str, inputs: list[Input]) -> None:
        if not isinstance(inputs[0], TimePassed) and site not in self._down:
            self._tell(f"{site} <- {_brief(inputs[0])}")
        for item in inputs:
            if isinstance(item, ProbeFinished):
                self.invariants.answered(site, item.op_id)
        if site in self._down:
            return
        outputs = self._nodes[site].handle(inputs, self.now_us)
        for output in outputs:
            if isinstance(output, TrimLog):
                self.invariants.trimmed(site, output.stream, output.tick)
        self._note_homes(site)
        self._barriers[site].put(outputs)
        for item in inputs:
            if isinstance(item, ConnectionClosed):
                self._barriers[site].closed(item.connection)
        self._finish_turn(site)
        self._sharing.note(self._nodes[site].site, self.mail.sent)
        self.copies.note_opened(site, self._nodes[site].site)
        if isinstance(inputs[0], FrameArrived):
            self.copies.check(site, self._nodes[site].site, self._engines[site])
            self.invariants.after(site)

    def _do(self, site: str, output: Output) -> None:
        """An effect, and the steps before and after it."""
        names = self._names_of(site, output)
        self.crashes.step(site, *(f"before {name}" for name in names))
        self._perform(site, output)
        self.crashes.step(site, *(f"after {name}" for name in names))

    def _names_of(self, site: str, output: Output) -> Sequence[str]:
        match output:
            case SendFrame():
                inside = self._frames[site].of(output)
                for message in inside:
                    self.durability.leaves(site, message)
                    if isinstance(message, Prepare) and not message.part:
                        self._query(message.query_id).promised = True
                return list(dict.fromkeys(f"send {name_of(one)}" for one in inside))
            case NoteIgnored() | BlamePeer() | RememberLife():
                return ()
        return (type(output).__name__,)

    def _perform(self, site: str, output: Output) -> None:  # noqa: C901
        match output:
            case SendFrame():
                self._carry(site, output)
            case CloseConnection():
                pair = (min(site, output.peer), max(site, output.peer))
                self._tell(f"{site} closes {output.peer}: {output.reason}")
                if self._connections.get(pair) == output.connection:
                    self._break(pair, output.reason)
            case RememberLife():
                self._remember(site, output)
            case ReadSource():
                self.invariants.reading(site)
                self._read(site, output.stream)
            case RunOp():
                self._ops.append(output)
            case AppendBatch() | ReadLog() | OpenLog() | RemoveLog() | TrimLog():
                if isinstance(output, AppendBatch):
                    self._derived_appended(site, output)
                self._logging.append(output)
            case StoreRows():
                self._stores.append(output)
            case SetAside():
                assert output.positions is not None
                rows = {Position(*map(int, position)) for position in output.positions}
                self._aside.setdefault(output.stream, set()).update(rows)
            case ReportQuery():
                self._tell(f"{site} reports {output.query_id} {output.state} {output.reason}")
                self._store(site)
                self._reported(site, output)
            case ReportSwitch():
                self._switch_reported(site, output)
            case NoteIgnored():
                self._count(output.reason)
            case BlamePeer():
                raise SimulationError(f"{site} blames {output.peer}: {output.reason}")

    def _finish_turn(self, site: str) -> None:
        """What was asked of the engine and of the logs in a turn is done together."""
        ops, self._ops, logging, self._logging = self._ops, [], self._logging, []
        self._run_ops(site, ops)
        self._store(site)
        if logging:
            self._run_log(site, logging)

    def _run_log(self, site: str, effects: list[LogEffect]) -> None:
        """The storage is slow at times, but it does one thing after the other."""
        done = max(self.now_us + self._disk_us(), self._log_us[site])
        self._log_us[site] = done
        self._later_do(site, done - self.now_us, lambda: self._log_done(site, effects))

    def _log_done(self, site: str, effects: list[LogEffect]) -> None:
        if any(isinstance(effect, AppendBatch) for effect in effects) and self.scenario.disk:
            there = [self._disks[effect.stream] for effect in effects if effect.stream in self._disks]
            self._tear(site, "torn batch", there)
        try:
            events = self._logs[site].run(effects)
        except PowerLostError:
            events = []
            self.crashes.step(site, "torn batch")
        # All are durable before the site dies at any of them: they were written together.
        for event in events:
            if isinstance(event, BatchLogged):
                self._note_logged(event)
        for event in events:
            if isinstance(event, BatchLogged):
                self.crashes.step(site, "durable batch")
            elif isinstance(event, LogRead):
                self.crashes.step(site, "log read")
        if any(isinstance(effect, TrimLog) for effect in effects):
            self.crashes.step(site, "trimmed log")
        if events:
            self._give(site, list[Input](events))
            self.invariants.fed(site)
            self._check_sizes(site)

    def _note_logged(self, event: BatchLogged) -> None:
        self._durable[event.stream] = event.frontier
        self.invariants.logged(event.stream, event.frontier)
        if event.stream in self._derived:
            self._derived_logged(event.stream, event.frontier)

    def _tear(self, site: str, kind: str, disks: list[SimulatedDisk]) -> None:
        """Power is lost after the next operation of these disks, if the site dies so now."""
        if self.crashes.is_due(site, kind):
            for disk in disks:
                disk.operations_left = 1
        else:
            self.crashes.step(site, kind)

    def _disk_us(self) -> int:
        return self._delay() + self.scenario.sync_us

    def _check_sizes(self, site: str) -> None:
        """What a site takes its logs to hold is what is there, in this life and in those before."""
        for name, stream in self._nodes[site].site.streams.items():
            if name not in self._logs[site]._logs:
                # It is yet to be opened.
                continue
            there = sum(self._logs[site]._logs[name].sizes_from(stream.log_begin)) if stream._log else 0
            if stream.logged_bytes != there:
                raise SimulationError(f"{site} takes the log of {name} for {stream.logged_bytes} bytes; it has {there}")

    def _read(self, site: str, stream: str) -> None:
        source, tau_us = self._sources[stream], 1_000 * self.scenario.tau_ms
        self._reads += 1
        self._call_queries()
        if self.scenario.live:
            delay = tau_us - (self.now_us - START_US) % tau_us
            self._later_do(site, delay, lambda: self._give(site, [source.read_live((self.now_us - START_US) // 1_000)]))
        else:
            answer = partial(self._give_after, site, "source read", source.read(self._rng))
            self._later_do(site, tau_us if self.scenario.paced else self._delay(), answer)

    def _give_after(self, site: str, step: str, answer: Input) -> None:
        self.crashes.step(site, step)
        self._give(site, [answer])

    def _later_do(self, site: str, delay_us: int, action: Callable[[], None]) -> None:
        """Unless the site has died meanwhile."""
        life = self._lives[site]
        self._at(delay_us, lambda: action() if self._lives[site] == life else None)

    def _run_ops(self, site: str, effects: list[RunOp]) -> None:
        """All of a turn together, as the daemon does; what an engine answers it answers in order."""
        for effect, outcome in zip(effects, self._engines[site].run([effect.op for effect in effects]), strict=True):
            if isinstance(outcome, Exception):
                raise SimulationError(f"{site}: {type(effect.op).__name__} failed: {outcome}") from outcome
            if isinstance(effect.op, Append):
                self.copies.appended(site, effect.op.table, effect.op.rows)
            if isinstance(effect.op, Question):
                answered = max(self.now_us + self._delay(), self._engine_us.get(site, 0))
                self._engine_us[site] = answered
                self.invariants.asked(site, effect.op_id)
                answer = partial(self._give_after, site, "engine answered", ProbeFinished(effect.op_id, outcome))
                self._later_do(site, answered - self.now_us, answer)

    # -- rows at home -------------------------------------------------------------------------

    def _store(self, site: str) -> None:
        """What a turn has of a query is stored together."""
        stores, self._stores = self._stores, []
        for query_id in dict.fromkeys(effect.query_id for effect in stores):
            self._rows[query_id].write([effect for effect in stores if effect.query_id == query_id])
            self._later_do(site, self._disk_us(), partial(self._rows_done, site, query_id))

    def _rows_done(self, site: str, query_id: str) -> None:
        """The disk is through with all rows of a query that were handed over."""
        rows = self._rows[query_id]
        if not rows.pending:
            return
        self._tear(site, "torn rows", [rows.disk])
        try:
            walks = rows.sync()
        except PowerLostError:
            walks = []
            self.crashes.step(site, "torn rows")
        for walk in walks:
            self._keep_rows(walk)
        self.crashes.step(site, "durable rows")
        self._give(site, [RowsStored(query_id, walk.head, walk.span) for walk in walks])

    def _keep_rows(self, effect: StoreRows) -> None:
        query, walk = self._query(effect.query_id), (effect.head, effect.span)
        if walk in query.stored:
            raise SimulationError(f"walk {walk} of {effect.query_id} is stored twice")
        query.stored.append(walk)
        self.invariants.stored(effect)
        query.batches.append(effect.rows)

    def _find_rows(self, query: Delivered, rows: HomeRows) -> None:
        """What a crash left: every walk that was durable, and of those that were handed over some first ones."""
        handed, found = rows.crash()
        known, there = len(query.stored), rows.spans
        wanted = [*query.stored, *((walk.head, walk.span) for walk in handed)]
        if found.damage or len(there) < known or there != wanted[: len(there)]:
            raise SimulationError(f"{query.query_id} stored {wanted}, {known} for good; found {there} {found.damage}")
        for walk in handed[: len(there) - known]:
            self._keep_rows(walk)

    # -- records ------------------------------------------------------------------------------

    def _write(self, site: str, effect: WriteRecords) -> None:
        """The disk takes its time, and takes what was handed over meanwhile together."""
        names = [_record_name(change) for change in effect.changes]
        self.crashes.step(site, *(f"before {name}" for name in names))
        self._records[site].write(effect.changes)
        self.crashes.step(site, *(f"after {name}" for name in names))
        if self._records[site].pending == 1:
            self._later_do(site, self._disk_us(), lambda: self._written(site))

    def _written(self, site: str) -> None:
        groups = self._records[site].sync()
        for changes in groups:
            self.durability.durable(site, changes)
        names = dict.fromkeys(_record_name(change) for changes in groups for change in changes)
        self.crashes.step(site, *(f"durable {name}" for name in names))
        self._barriers[site].written(len(groups))
        self._finish_turn(site)

    def _noted(self, records: WriteRecords) -> None:
        for query_id, done in done_in(records.changes):
            if query_id in self._rows:
                self._rows[query_id].spool.done(done)

    def _remember(self, site: str, effect: RememberLife) -> None:
        def remembered() -> None:
            change = Put(PEER_LIFE, effect.peer, f"{effect.met.life} {effect.met.folder}".encode())
            self._records[site].put(change)
            self.durability.durable(site, [change])
            self.crashes.step(site, "durable life of a peer")
            self._give(site, [LifeRemembered(effect.peer, effect.met)])

        # One after the other, as a disk writes them.
        done = max(self.now_us + self._disk_us(), self._met_us.get(site, 0))
        self._met_us[site] = done
        self._later_do(site, done - self.now_us, remembered)

    def walks(self) -> list[str]:
        """Every walk under way, and what it waits for."""
        return [f"{name}: {waiting}" for name, node in self._nodes.items() for waiting in node.site.waiting()]

    # -- the story ----------------------------------------------------------------------------

    def _count(self, what: str, happened: bool = True) -> None:
        self.counts[what] = self.counts.get(what, 0) + happened

    def _tell(self, line: str) -> None:
        self.story.append(f"{(self.now_us - START_US) / 1e6:12.6f}  {line}")


def _record_name(change: RecordChange) -> str:
    return f"{'keep' if isinstance(change, Put) else 'remove'} {change.kind}"


def _is_busy(site: Site) -> bool:
    return bool(site.runs or site.arrangements.in_use or site.pins)


def _brief(item: Input) -> str:
    text = type(item).__name__
    if isinstance(item, FrameArrived):
        return f"{text} from {item.peer} #{item.connection} {len(item.shipment)} bytes"
    if isinstance(item, RowsArrived):
        return f"{text} {item.stream} {item.rows.num_rows} rows{' and the end' if item.ended else ''}"
    if isinstance(item, RowsStored):
        return f"{text} {item.head} {item.span}"
    return text
