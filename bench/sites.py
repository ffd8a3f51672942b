"""Two sites with a stream each and a third that asks, in one process and on a virtual clock.

Streams ``a`` and ``b`` live at the sites of the same names, the query is issued at
``c``: result rows and done messages never touch the link between a and b, so what
that link carries is what the join costs. The nodes are ``node.stack.Stack``, the very
objects the daemon drives; the link's ledger is kept as ``node.io.transport`` keeps it,
and processor time is taken around each call into a site or its engine.

Streams are live: what happened in a tick is read when the tick is over. Links have
one fixed delay; engines, logs and the sink's store answer at once, a turn later.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from node.core.effects import (
    AppendBatch,
    QueryState,
    ReadLog,
    ReadSource,
    ReportQuery,
    RunOp,
    StoreRows,
    TrimLog,
    WriteRecords,
)
from node.core.engine import Engine
from node.core.events import ProbeFinished, QueryIssued, RowsArrived, RowsStored
from node.core.limits import Limits
from node.core.links.link_states import LinkState
from node.core.streams.stream import LocalStream
from node.io.reports.ledger import LinkLedger
from node.io.runner import TIMER_S
from node.stack import ConnectionOpened, FrameArrived, Input, Output, SendFrame, Stack, TimePassed
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import StreamLogs
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query

SITES = ("a", "b", "c")
HOME = "c"
QUERY_ID = "c-1800000000-1"
START_MS = 1_800_000_000_000
#: The streams begin this much later, when the query runs for certain.
LEAD_MS = 1_000
LINK_DELAY_US = 20_000
TURN_US = 500
#: Figures are taken this long before a tick ends, when everything about the last one is over.
_QUIET_US = 5_000


class BenchError(Exception):
    """The run went wrong; its figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a stream has for its next ticks, ``ts`` in milliseconds since the streams began."""

    rows: pa.RecordBatch
    ticks: int = 1


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of processor time at one site."""

    core: float = 0.0
    engine: float = 0.0

    def __sub__(self, earlier: Cpu) -> Cpu:
        return Cpu(self.core - earlier.core, self.engine - earlier.engine)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted up to some moment."""

    #: Bytes on the link between a and b, by (direction, kind).
    bytes_by: dict[tuple[str, str], int]
    cpu: dict[str, Cpu]

    def since(self, earlier: Figures) -> Figures:
        counted = {key: size - earlier.bytes_by[key] for key, size in self.bytes_by.items()}
        return Figures(counted, {site: self.cpu[site] - earlier.cpu[site] for site in self.cpu})

    @property
    def bytes_total(self) -> int:
        return sum(self.bytes_by.values())

    def by_kind(self) -> dict[str, int]:
        """Both directions together."""
        kinds: dict[str, int] = {}
        for (_, kind), size in self.bytes_by.items():
            kinds[kind] = kinds.get(kind, 0) + size
        return kinds


@dataclass
class _Source:
    """A live stream: one chunk after another, each when its last tick is over."""

    info: StreamInfo
    chunks: Sequence[Chunk]
    tau_ms: int
    place: int = 0
    tick: int = 0

    def read(self) -> tuple[int, RowsArrived]:
        """When the next chunk is there (in ms), and the chunk."""
        chunk = self.chunks[self.place]
        self.place += 1
        self.tick += chunk.ticks
        over_ms = START_MS + LEAD_MS + self.tick * self.tau_ms
        ended = self.place == len(self.chunks)
        return over_ms, RowsArrived(self.info.name, chunk.rows, chunk.rows.column("ts"), over_ms, ended)


@dataclass
class Outcome:
    """One run: how many rows the query gave, and the figures at the end of each chunk."""

    rows: int = 0
    figures: list[Figures] = field(default_factory=list)


class Sites:
    """The three of them, and what is between them."""

    def __init__(
        self,
        tau_ms: int,
        schema: pa.Schema,
        chunks: Mapping[str, Sequence[Chunk]],
        engines: Mapping[str, Engine],
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``clock`` gives processor time; to ask it costs a system call, so it is only read where that matters."""
        self._clock = clock
        self._now_us = START_MS * 1_000
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._tie = 0
        self._cpu = dict.fromkeys(SITES, Cpu())
        self._state = QueryState.PREPARING
        self._outcome = Outcome()
        self._ledger = LinkLedger()
        self._engines = engines
        infos = {name: StreamInfo(name, name, schema, "ts", TimeUnit.MS) for name in chunks}
        self._sources = {name: _Source(infos[name], chunks[name], tau_ms) for name in chunks}
        self._nodes = {site: self._node(site, infos, tau_ms) for site in SITES}
        self._logs = StreamLogs({name: MemoryLog() for name in infos})
        self._moments_us = _moments(chunks["a"], tau_ms)

    def _node(self, site: str, infos: dict[str, StreamInfo], tau_ms: int) -> Stack:
        own = [LocalStream(info) for info in infos.values() if info.site == site]
        peers = [peer for peer in SITES if peer != site]
        return Stack("bench", site, peers, tau_ms, 1 + SITES.index(site), own, Limits())

    def run(self, query: str, algorithms: dict[str, Algorithm] | Algorithm) -> Outcome:
        """Let the query run to the end of its streams.

        Raises BenchError if it does not come to its end.
        """
        self._connect()
        self._issue(query, algorithms)
        for site in SITES:
            self._timer(site)
        for moment_us in self._moments_us:
            self._at(moment_us - self._now_us, self._take_figures)
        while not self._state.ended:
            self._step()
        if self._state is not QueryState.COMPLETED:
            raise BenchError(f"a query requires to be completed; it is {self._state}")
        return self._outcome

    def _connect(self) -> None:
        self._ledger.count_dialled()
        for number, pair in enumerate((("a", "b"), ("a", "c"), ("b", "c")), 1):
            for site, peer in (pair, pair[::-1]):
                self._give(site, [ConnectionOpened(peer, number)])
        while any(link.state is not LinkState.UP for node in self._nodes.values() for link in node.links.values()):
            self._step()

    def _issue(self, text: str, algorithms: dict[str, Algorithm] | Algorithm) -> None:
        query = parse_query(text, self._nodes[HOME].site.catalogue)
        self._give(HOME, [QueryIssued(QUERY_ID, forced_plan(query, HOME, algorithms))])

    # -- time -----------------------------------------------------------------------------------

    def _at(self, delay_us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self._now_us + delay_us, self._tie, action))
        self._tie += 1

    def _step(self) -> None:
        self._now_us, _, action = heapq.heappop(self._heap)
        action()

    def _timer(self, site: str) -> None:
        self._give(site, [TimePassed()])
        self._at(round(TIMER_S * 1e6), lambda: self._timer(site))

    def _take_figures(self) -> None:
        directions = {"a-b": self._ledger.sent, "b-a": self._ledger.received}
        counted = {(way, kind): n for way, ledger in directions.items() for kind, n in ledger.bytes_by_kind.items()}
        self._outcome.figures.append(Figures(counted, dict(self._cpu)))

    # -- what sites do --------------------------------------------------------------------------

    def _give(self, site: str, inputs: list[Input]) -> None:
        began = self._clock()
        outputs = self._nodes[site].handle(inputs, self._now_us)
        self._used(site, core=self._clock() - began)
        for output in outputs:
            self._perform(site, output)

    def _used(self, site: str, core: float = 0.0, engine: float = 0.0) -> None:
        cpu = self._cpu[site]
        self._cpu[site] = Cpu(cpu.core + core, cpu.engine + engine)

    def _later(self, site: str, delay_us: int, event: Input) -> None:
        self._at(delay_us, lambda: self._give(site, [event]))

    def _perform(self, site: str, output: Output) -> None:
        match output:
            case SendFrame():
                self._carry(site, output)
            case ReadSource():
                over_ms, arrived = self._sources[output.stream].read()
                self._later(site, max(0, over_ms * 1_000 - self._now_us), arrived)
            case RunOp():
                self._run_op(site, output)
            case AppendBatch() | ReadLog() | TrimLog():
                for event in self._logs.run([output]):
                    self._later(site, TURN_US, event)
            case StoreRows():
                self._outcome.rows += output.rows.num_rows
                self._later(site, TURN_US, RowsStored(output.query_id, output.head, output.span))
            case WriteRecords():
                pass  # nobody dies here
            case ReportQuery():
                self._state = output.state
                if output.reason:
                    raise BenchError(f"the query is {output.state}: {output.reason}")
            case _:
                raise BenchError(f"{site} requires nothing unusual to happen; got {output}")

    def _carry(self, site: str, frame: SendFrame) -> None:
        between = {site, frame.peer} == {"a", "b"}
        if between and site == "a":
            self._ledger.count_sent(frame.shipment.shares)
        self._at(LINK_DELAY_US, lambda: self._arrive(site, frame, between))

    def _arrive(self, site: str, frame: SendFrame, between: bool) -> None:
        if between and site == "b":
            self._ledger.count_received(frame.shipment.shares)
        self._give(frame.peer, [FrameArrived(site, frame.connection, frame.shipment)])

    def _run_op(self, site: str, effect: RunOp) -> None:
        began = self._clock()
        (outcome,) = self._engines[site].run([effect.op])
        self._used(site, engine=self._clock() - began)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            self._later(site, TURN_US, ProbeFinished(effect.op_id, outcome))


def _moments(chunks: Sequence[Chunk], tau_ms: int) -> list[int]:
    """Shortly before the end of each chunk, when that of the one before has come to rest."""
    moments, tick = [], 0
    for chunk in chunks:
        tick += chunk.ticks
        moments.append((START_MS + LEAD_MS + tick * tau_ms) * 1_000 - _QUIET_US)
    return moments
