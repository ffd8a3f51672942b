"""Two whole nodes without IO and the wire between them: a test says what happens, shipment by shipment."""

from __future__ import annotations

from collections import deque

from node.codec import FrameReader
from node.core.effects import AppendBatch, QueryState, ReadLog, ReportQuery, RunOp, StoreRows, TrimLog
from node.core.engine import Question
from node.core.events import Event, ProbeFinished, QueryIssued, RowsArrived, RowsStored
from node.core.limits import Limits
from node.core.links.link_frames import Frame
from node.core.links.link_states import LinkState
from node.core.query_records import Recovered
from node.core.streams.stream import LocalStream
from node.stack import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    Output,
    SendFrame,
    Stack,
)
from node.storage.memory_log import MemoryLog
from node.storage.stream_logs import StreamLogs
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, StreamInfo
from planner.sql.parser import parse_query
from tests.sim.reference_engine import ReferenceEngine
from tests.unit.sites import QUERY, TAU_MS, info, rows_of

STREAMS: dict[str, StreamInfo] = {"ash": info("l", "ash"), "bow": info("r", "bow")}
PEER = {"ash": "bow", "bow": "ash"}


class Nodes:
    """Ash and bow, one wire, and nothing that happens by itself."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(news_us=0)
        self.now_us = 1_000_000
        self.logs: dict[str, StreamLogs] = {}
        self.stacks = {site: self.new(site, number) for number, site in enumerate(STREAMS, 1)}
        self.engines = {site: ReferenceEngine() for site in STREAMS}
        self.connection = 0
        self.wire: deque[tuple[str, SendFrame]] = deque()
        self.outputs: list[tuple[str, Output]] = []
        self.rows: list[dict[str, int]] = []
        #: A copy of each direction's reader, to look at what is on the wire.
        self.readers = {site: FrameReader() for site in STREAMS}

    def new(self, site: str, life: int, cluster: str = "c", recovered: Recovered | None = None) -> Stack:
        streams = [LocalStream(STREAMS[site])]
        self.logs[site] = StreamLogs({STREAMS[site].name: MemoryLog()})
        return Stack(cluster, site, [PEER[site]], TAU_MS, life, streams, self.limits, recovered=recovered)

    def give(self, site: str, *inputs: Input) -> list[Output]:
        outputs = self.stacks[site].handle(inputs, self.now_us)
        self.outputs += [(site, output) for output in outputs]
        # Before anything else happens: what was sent in this turn is before what the next one sends.
        frames = [output for output in outputs if isinstance(output, SendFrame)]
        self.wire += [(site, frame) for frame in frames if frame.connection == self.connection]
        # What the world answers comes when all that was asked is done.
        for answer in [answer for output in outputs for answer in self._perform(site, output)]:
            self.give(site, answer)
        return outputs

    def _perform(self, site: str, output: Output) -> list[Event]:
        match output:
            case RunOp():
                (outcome,) = self.engines[site].run([output.op])
                if isinstance(output.op, Question):
                    assert not isinstance(outcome, Exception)
                    assert outcome is not None
                    return [ProbeFinished(output.op_id, outcome)]
            case AppendBatch() | ReadLog() | TrimLog():
                return self.logs[site].run([output])
            case StoreRows():
                self.rows += output.rows.to_pylist()
                return [RowsStored(output.query_id, output.head, output.span)]
            case _:
                pass
        return []

    def connect(self) -> None:
        self.connection += 1
        self.readers = {site: FrameReader() for site in STREAMS}
        for site, peer in PEER.items():
            self.give(site, ConnectionOpened(peer, self.connection))
        self.run()

    def run(self) -> None:
        while self.wire:
            self.step()

    def step(self) -> list[Frame]:
        """One shipment arrives; the frames that were in it."""
        site, shipment = self.wire.popleft()
        frames = self.readers[site].read(shipment.shipment)
        self.give(shipment.peer, FrameArrived(site, shipment.connection, shipment.shipment))
        return frames

    def say(self, site: str, *frames: Frame) -> list[Output]:
        """Say something to the other site that ``site`` would not say of itself."""
        connection = self.stacks[site]._connections[PEER[site]]
        (shipment,) = connection.writer.write(frames)
        return self.give(PEER[site], FrameArrived(site, connection.number, shipment))

    def lose(self) -> None:
        """The connection is cut; what was on its way is lost."""
        self.wire.clear()
        for site, peer in PEER.items():
            self.give(site, ConnectionClosed(peer, self.connection, "cut"))

    def issue(self, site: str = "ash", query_id: str = "q1", algorithm: Algorithm = Algorithm.SP_D) -> None:
        query = parse_query(QUERY, self.stacks[site].site.catalogue)
        self.give(site, QueryIssued(query_id, forced_plan(query, site, algorithm)))

    def arrive(self, stream: str, *ts: int, ended: bool = False) -> None:
        site = {"l": "ash", "r": "bow"}[stream]
        rows = rows_of(ts)
        self.give(site, RowsArrived(stream, rows, rows.column("ts"), None, ended))

    def states(self) -> list[tuple[QueryState, str]]:
        return [(output.state, output.reason) for _, output in self.outputs if isinstance(output, ReportQuery)]

    def closes(self, site: str) -> list[CloseConnection]:
        return [output for where, output in self.outputs if where == site and isinstance(output, CloseConnection)]

    def state(self, site: str) -> LinkState:
        return self.stacks[site].links[PEER[site]].state
