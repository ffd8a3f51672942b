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
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from node.barrier import Barrier
from node.codec import cut
from node.core.effects import (
    AppendBatch,
    BlamePeer,
    NoteIgnored,
    QueryState,
    ReadLog,
    ReadSource,
    ReportQuery,
    RunOp,
    SetAside,
    StoreRows,
    TrimLog,
    WriteRecords,
)
from node.core.engine import Append, Engine, Question
from node.core.events import (
    BatchLogged,
    DropRequested,
    ProbeFinished,
    QueryIssued,
    RowsArrived,
    RowsStored,
    SiteStarted,
)
from node.core.links.link_states import LinkState
from node.core.queries.waiting import Waiting
from node.core.query_records import RecordKind
from node.core.records import Put
from node.core.site import Site
from node.core.streams.log_extent import LogExtent
from node.core.streams.position import Position, SourcePlace
from node.core.streams.stream import LocalStream
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.engine.native import NativeEngine
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    Output,
    SendFrame,
    Stack,
    TimePassed,
)
from node.storage.disk_log import DiskLog
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import LogEffect, StreamLogs
from node.wire.records import recovered
from planner.algorithms.http2 import ANSWER_BYTES, DIAL_BYTES, Framing
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.sim.disk import SimulatedDisk
from tests.sim.judges.copies import CopyJudge
from tests.sim.judges.invariants import Invariants
from tests.sim.judges.sharing import Sharing
from tests.sim.judges.views import Views
from tests.sim.mail import Mail
from tests.sim.reference_engine import ReferenceEngine
from tests.sim.scenarios.queries import QuerySpec
from tests.sim.scenarios.scenario import Fault, Restart, Scenario, StreamData

START_US = 1_800_000_000_000_000
DEADLINE_US = 3_600_000_000
TIMER_US = 50_000
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
    called: bool = False
    drop_called: bool = False
    gave_up: bool = False
    #: The tick from which on it sees tuples, once it runs.
    first_tick: int | None = None
    #: Its home was killed before it ended, and knows nothing of it.
    forgotten: bool = False
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
        #: By stream, what its site found in its log when it was last started.
        self._extents: dict[str, LogExtent | None] = {}
        #: How often each site was started; what was under way in an earlier life comes to nothing.
        self._lives = dict.fromkeys(scenario.sites, 1)
        self._down: set[str] = set()
        #: What each site keeps of queries over a crash; what it writes at the moment, and what waits for that.
        self._records: dict[str, dict[str, dict[str, bytes]]] = {site: {} for site in scenario.sites}
        self._writing: dict[str, list[WriteRecords]] = {site: [] for site in scenario.sites}
        self._barriers: dict[str, Barrier] = {}
        self._storing: dict[str, list[StoreRows]] = {site: [] for site in scenario.sites}
        self._queries = [Delivered(f"q{number}", spec) for number, spec in enumerate(scenario.queries, 1)]
        specs = {query.query_id: query.spec for query in self._queries}
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
        self._logs[site] = StreamLogs(
            {data.name: self._log(data) for data in self.scenario.streams if data.site == site}
        )
        self._log_us[site] = 0
        self._writing[site], self._storing[site] = [], []
        self._barriers[site] = Barrier(lambda output: self._do(site, output), lambda output: self._write(site, output))
        self._nodes[site] = self._node(site)
        self._give(site, [SiteStarted()])

    def _log(self, data: StreamData) -> DiskLog | MemoryLog:
        """A stream's log as a daemon begins with it: what a crash left is recovered."""
        self._extents[data.name] = None
        if not self.scenario.disk:
            return MemoryLog()
        disk = self._disks.get(data.name)
        if disk is None:
            disk = self._disks[data.name] = SimulatedDisk(random.Random(f"{self.scenario.seed} {data.name}"))
        else:
            disk.crash()
        log = DiskLog(disk)
        found = log.recover()
        durable = self._durable.get(data.name, TICK_MIN)
        if self._lives[data.site] > 1 and durable > TICK_MIN and found.frontier < durable:
            raise SimulationError(
                f"the log of {data.name} lost ticks: {durable} were durable, {found.frontier} are there"
            )
        self._durable[data.name] = found.frontier
        self._extents[data.name] = found.extent
        return log

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
                streams.append(LocalStream(source.info, data.lateness_ms, first_ts, retain_ms, extent, aside))
        peers = [peer for peer in scenario.sites if peer != site]
        life = self._lives[site]
        stored = {query.query_id: query.stored for query in self._queries if query.spec.sink == site}
        found = recovered(self._records[site], stored)
        node = Stack("sim", site, peers, scenario.tau_ms, life, streams, scenario.limits, recovered=found)
        self.mail.watch(node.site)
        return node

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
        while self._heap and not self._over():
            self.now_us, _, action = heapq.heappop(self._heap)
            if self.now_us - START_US > DEADLINE_US:
                raise SimulationError(f"not finished after {DEADLINE_US / 1e6:.0f} virtual seconds: {self._where()}")
            action()
        self._check_nothing_is_left()
        self.counts["copy checks"] = self.copies.checks
        self.counts["tuples sent to copies"] = self.copies.tuples_sent
        self.counts["invariant checks"] = self.invariants.checks
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
            if followed or (isinstance(engine, ReferenceEngine) and engine.tables):
                raise SimulationError(f"{name} still holds {followed} or tables of a query that has ended")

    def _crash(self, restart: Restart) -> None:
        site = restart.site
        if site in self._down:
            return
        self._tell(f"{site} is killed, and its disk is {'lost' if restart.fresh else 'as a crash leaves it'}")
        self._count("crashes with an empty disk" if restart.fresh else "crashes")
        self._count_crash(site)
        # What was being written may be there or not, but nothing without what was before it.
        for writing in self._writing[site][: self._rng.randint(0, len(self._writing[site]))]:
            self._keep(site, writing)
        for storing in self._storing[site][: self._rng.randint(0, len(self._storing[site]))]:
            self._keep_rows(storing)
        if restart.fresh:
            self._empty_disk(site)
        self._forget_unpromised(site)
        self._lives[site] += 1
        self._down.add(site)
        self.copies.forget(site)
        self.mail.lost(site)
        self.invariants.restarted(site, restart.fresh)
        for pair in self._pairs():
            if site in pair:
                self._break(pair, "the daemon died")
        self._at(restart.down_us, lambda: self._come_back(site))

    def _forget_unpromised(self, site: str) -> None:
        known = self._records[site].get(RecordKind.HOME, {})
        for query in self._queries:
            if query.spec.sink == site and query.life is not None and not query.state.ended:
                query.forgotten |= query.query_id not in known

    def _empty_disk(self, site: str) -> None:
        self._records[site] = {}
        for data in self.scenario.streams:
            if data.site == site:
                self._disks.pop(data.name, None)
                self._aside.pop(data.name, None)
                self._durable.pop(data.name, None)

    def _count_crash(self, site: str) -> None:
        """What a site was at when it died."""
        node = self._nodes[site].site
        self._count("crashes while records were written", bool(self._writing[site]))
        self._count("crashes while rows were stored", bool(self._storing[site]))
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
        self._give(site, [TimePassed()])
        self._at(TIMER_US, lambda: self._timer(site))

    # -- queries ------------------------------------------------------------------------------

    def _call_queries(self) -> None:
        """Issue, and drop, what is due after so many reads."""
        for query in self._queries:
            if not query.called and self._reads >= query.spec.after_reads:
                self._call(query)
            drop_after = query.spec.drop_after_reads
            if query.life is not None and drop_after is not None and self._reads >= drop_after:
                self._call_drop(query)

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
        query.schema, query.sites, query.life = parsed.output_schema(), plan.sites, self._lives[query.spec.sink]
        self._tell(f"{query.spec.sink} is asked as {query.query_id}: {query.spec.text}")
        if query.spec.drop_after_us is not None:
            query.drop_called = True
            self._at(query.spec.drop_after_us, lambda: self._drop(query))
        if query.spec.given_up is not None:
            site, after_us = query.spec.given_up
            self._at(after_us, lambda: self._give_up(site, query))
        self._give(query.spec.sink, [QueryIssued(query.query_id, plan)])

    def _give_up(self, site: str, query: Delivered) -> None:
        """A site ends a query for reasons of its own, as if its engine had failed; home hears of it later."""
        node = self._nodes[site]
        if not query.over and query.query_id in node.site.runs and site not in self._down:
            query.gave_up = True
            self.invariants.given_up.add(query.query_id)
            self.copies.doomed.add(query.query_id)
            self._tell(f"{site} gives {query.query_id} up")
            node.site._participant.fail(query.query_id, GIVEN_UP)
            self._give(site, [TimePassed()])

    def _call_drop(self, query: Delivered) -> None:
        if not query.drop_called:
            query.drop_called = True
            self._at(self._delay(), lambda: self._drop(query))

    def _drop(self, query: Delivered) -> None:
        if query.spec.sink in self._down:
            self._at(100_000, lambda: self._drop(query))
        elif not query.over:
            self.copies.doomed.add(query.query_id)
            self._give(query.spec.sink, [DropRequested(query.query_id)])

    def _reported(self, site: str, report: ReportQuery) -> None:
        query = self._query(report.query_id)
        query.state, query.reason = report.state, report.reason
        if report.state is QueryState.RECOVERING:
            self._count("recoveries begun")
            self.copies.doomed.add(query.query_id)
        if report.state is QueryState.RUNNING and query.first_tick is not None:
            self._count("recoveries completed")
        elif report.state is QueryState.RUNNING:
            query.first_tick = self._nodes[site].site.homes[report.query_id].first_tick
            assert query.first_tick is not None
            latest = max(self._retained_from(ref.stream) for ref in query.spec.refs)
            if query.first_tick > latest:
                raise SimulationError(
                    f"{query.query_id} starts at {query.first_tick}; retained is all from {latest} on"
                )

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
        return next(query for query in self._queries if query.query_id == query_id)

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
        self._barriers[site].put(outputs)
        self._finish_turn(site)
        self._sharing.note(self._nodes[site].site, self.mail.sent)
        if isinstance(inputs[0], FrameArrived):
            self.copies.check(site, self._nodes[site].site, self._engines[site])
            self.invariants.after(site)

    def _do(self, site: str, output: Output) -> None:  # noqa: C901
        match output:
            case SendFrame():
                self._carry(site, output)
            case CloseConnection():
                pair = (min(site, output.peer), max(site, output.peer))
                self._tell(f"{site} closes {output.peer}: {output.reason}")
                if self._connections.get(pair) == output.connection:
                    self._break(pair, output.reason)
            case ReadSource():
                self._read(site, output.stream)
            case RunOp():
                self._ops.append(output)
            case AppendBatch() | ReadLog() | TrimLog():
                self._logging.append(output)
            case StoreRows():
                self._store(site, output)
            case SetAside():
                assert output.positions is not None
                rows = {Position(*map(int, position)) for position in output.positions}
                self._aside.setdefault(output.stream, set()).update(rows)
            case ReportQuery():
                self._tell(f"{site} reports {output.query_id} {output.state} {output.reason}")
                self._reported(site, output)
            case NoteIgnored():
                self._count(output.reason)
            case BlamePeer():
                raise SimulationError(f"{site} blames {output.peer}: {output.reason}")

    def _finish_turn(self, site: str) -> None:
        """What was asked of the engine and of the logs in a turn is done together."""
        ops, self._ops, logging, self._logging = self._ops, [], self._logging, []
        self._run_ops(site, ops)
        if logging:
            self._run_log(site, logging)

    def _run_log(self, site: str, effects: list[LogEffect]) -> None:
        """The storage is slow at times, but it does one thing after the other."""
        done = max(self.now_us + self._delay(), self._log_us[site])
        self._log_us[site] = done
        life = self._lives[site]

        def run() -> None:
            if self._lives[site] != life:
                return
            events = self._logs[site].run(effects)
            for event in events:
                if isinstance(event, BatchLogged):
                    self._durable[event.stream] = event.frontier
                    self.invariants.logged(event.stream, event.frontier)
            if events:
                self._give(site, list[Input](events))
                self.invariants.fed(site)

        self._at(done - self.now_us, run)

    def _read(self, site: str, stream: str) -> None:
        source, tau_us = self._sources[stream], 1_000 * self.scenario.tau_ms
        self._reads += 1
        self._call_queries()
        if self.scenario.live:
            delay = tau_us - (self.now_us - START_US) % tau_us
            self._later(site, delay, lambda: source.read_live((self.now_us - START_US) // 1_000))
        else:
            self._answer(site, tau_us if self.scenario.paced else self._delay(), source.read(self._rng))

    def _answer(self, site: str, delay_us: int, answer: Input) -> None:
        """What a site asked for, unless it has died meanwhile."""
        self._later(site, delay_us, lambda: answer)

    def _later(self, site: str, delay_us: int, answer: Callable[[], Input]) -> None:
        self._later_do(site, delay_us, lambda: self._give(site, [answer()]))

    def _later_do(self, site: str, delay_us: int, action: Callable[[], None]) -> None:
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
                self._answer(site, answered - self.now_us, ProbeFinished(effect.op_id, outcome))

    def _store(self, site: str, effect: StoreRows) -> None:
        self._storing[site].append(effect)

        def stored() -> Input:
            self._storing[site].remove(effect)
            self._keep_rows(effect)
            return RowsStored(effect.query_id, effect.head, effect.span)

        self._later(site, self._delay(), stored)

    def _keep_rows(self, effect: StoreRows) -> None:
        query, walk = self._query(effect.query_id), (effect.head, effect.span)
        if walk in query.stored:
            raise SimulationError(f"walk {walk} of {effect.query_id} is stored twice")
        query.stored.append(walk)
        self.invariants.stored(effect)
        query.batches.append(effect.rows)

    # -- records ------------------------------------------------------------------------------

    def _write(self, site: str, effect: WriteRecords) -> None:
        """The disk takes its time, and takes what was handed over meanwhile together."""
        self._writing[site].append(effect)
        if len(self._writing[site]) == 1:
            self._later_do(site, self._delay(), lambda: self._written(site))

    def _written(self, site: str) -> None:
        writing, self._writing[site] = self._writing[site], []
        for effect in writing:
            self._keep(site, effect)
        self._barriers[site].written(len(writing))
        self._finish_turn(site)

    def _keep(self, site: str, effect: WriteRecords) -> None:
        for change in effect.changes:
            of_kind = self._records[site].setdefault(change.kind, {})
            if isinstance(change, Put):
                of_kind[change.key] = change.value
            else:
                of_kind.pop(change.key, None)

    def walks(self) -> list[str]:
        """Every walk under way, and what it waits for."""
        return [f"{name}: {waiting}" for name, node in self._nodes.items() for waiting in node.site.waiting()]

    # -- the story ----------------------------------------------------------------------------

    def _count(self, what: str, happened: bool = True) -> None:
        self.counts[what] = self.counts.get(what, 0) + happened

    def _tell(self, line: str) -> None:
        self.story.append(f"{(self.now_us - START_US) / 1e6:12.6f}  {line}")


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
