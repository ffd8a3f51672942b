"""The example of the documentation, run in the simulator: every message, with when it left and when it arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from docs import story
from netsim.profiles import Change, Wan
from node.core.effects import Effect, Send
from node.core.events import Event, MessageReceived
from node.core.links.messages import (
    AskMatches,
    Carry,
    Done,
    KeyAnswer,
    Message,
    Rows,
    Sync,
)
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, JoinQuery, Plan, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.oracle.oracle import OracleStream, expected
from tests.sim.scenarios.queries import QuerySpec, Ref, Way
from tests.sim.scenarios.scenario import Fault, Scenario, StreamData
from tests.sim.world import START_US, Outcome, World

TableRows = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class TableData(StreamData):
    """A stream with the columns of the example."""

    rows: TableRows = ()

    def table(self) -> pa.Table:
        return pa.Table.from_pylist([dict(row) for row in self.rows])


@dataclass(frozen=True)
class TextSpec(QuerySpec):
    """A query by its text alone; without ways, every step is done by one algorithm."""

    sql: str = ""
    algorithm: str = "SP-D"

    @property
    def text(self) -> str:
        return self.sql

    def plan(self, query: JoinQuery) -> Plan:
        return super().plan(query) if self.ways else forced_plan(query, self.sink, Algorithm(self.algorithm))


@dataclass(frozen=True)
class Seen:
    """A message between two sites. ``arrived_ms`` is None if it was under way at the end."""

    sent_ms: int
    source: str
    target: str
    message: Message
    arrived_ms: int | None


@dataclass(frozen=True)
class Kept:
    """Where a query stands at a site: batches that are not done, and before what its windows may have forgotten."""

    at_ms: int
    site: str
    backlog: tuple[int, ...]
    kept_from: tuple[int, ...]


class StoryWorld(World):
    """Writes down what sites send and when it gets there."""

    outcome: Outcome

    def __init__(self, scenario: Scenario) -> None:
        self.kept: list[Kept] = []
        self.sent: list[tuple[int, str, str, Message]] = []
        self.arrived: dict[tuple[str, str], list[int]] = {}
        super().__init__(scenario)

    def _start(self, site: str) -> None:
        super()._start(site)
        inner = self._nodes[site].site
        handle = inner.handle

        def watched(events: Sequence[Event], now_us: int) -> list[Effect]:
            now_ms = (now_us - START_US) // 1000
            for event in events:
                if isinstance(event, MessageReceived):
                    self.arrived.setdefault((event.peer, site), []).append(now_ms)
            effects = handle(events, now_us)
            for effect in effects:
                if isinstance(effect, Send):
                    self.sent.append((now_ms, site, effect.peer, effect.message))
            for run in inner.runs.values():
                backlog = tuple(len(backlog.batches) for backlog in run.backlogs.values())
                kept_from = tuple(run.pins.values())
                self.kept.append(Kept(now_ms, site, backlog, kept_from))
            return effects

        inner.handle = watched  # type: ignore[method-assign]

    @property
    def seen(self) -> list[Seen]:
        """Links keep order and lose nothing: the n-th message that left on a way is the n-th that arrived."""
        counts: dict[tuple[str, str], int] = {}
        found = []
        for sent_ms, source, target, message in self.sent:
            number = counts.get((source, target), 0)
            counts[source, target] = number + 1
            times = self.arrived.get((source, target), [])
            found.append(Seen(sent_ms, source, target, message, times[number] if number < len(times) else None))
        return found


def name_of(message: Message) -> str:
    """A message as the story names it: what it is, and of which walk or up to which tick."""
    kind = type(message).__name__
    match message:
        case Rows() | Carry() | AskMatches() | KeyAnswer():
            return f"{kind} {message.head} {message.span}"
        case Sync():
            return f"{kind} {message.frontier}"
        case Done():
            return " ".join([kind, *(f"{head}={tick}" for head, tick in message.frontiers)])
        case _:
            return kind


def run(text: str, steps: Mapping[str, Sequence[tuple[str, str]]], faults: tuple[Fault, ...] = ()) -> StoryWorld:
    """Run a query of the example to its end."""
    ways = tuple(Way(head, tuple(of_head)) for head, of_head in steps.items())
    return run_tables(TextSpec((), (), (), story.SINK, ways, sql=text), story.TABLES, story.SITES, faults)


def run_tables(
    spec: TextSpec, tables: Mapping[str, TableRows], sites: Mapping[str, str], faults: tuple[Fault, ...] = ()
) -> StoryWorld:
    """Run a query over tables of any columns, event time in ``ts``."""
    streams = tuple(
        TableData(name, sites[name], "ms", 0, tuple(int(row["ts"]) for row in rows), (), "int", rows=rows)
        for name, rows in tables.items()
    )
    infos = {data.name: StreamInfo(data.name, data.site, data.table().schema, "ts", TimeUnit.MS) for data in streams}
    parsed = parse_query(spec.sql, infos)
    refs = tuple(Ref(ref.alias, ref.stream.name, ("range", 1)) for ref in parsed.streams)
    scenario = Scenario(
        seed=1,
        sites=tuple(sorted({*sites.values()})),
        streams=streams,
        queries=(replace(spec, refs=refs),),
        tau_ms=story.TAU_MS,
        chunk_rows_max=10,
        delay_us_max=0,
        paced=False,
        reference_engine=True,
        faults=faults,
        live=True,
        wan=Wan("regions", Change(jitter_ms=0, unlimited=True)),
    )
    world = StoryWorld(scenario)
    world.outcome = world.run()
    return world


def oracle_rows(windows_s: Mapping[str, int], edges: Sequence[Any], outputs: Sequence[Any]) -> list[dict[str, Any]]:
    """What the definition says about the example."""
    streams = [
        OracleStream(
            alias,
            pa.Table.from_pylist(
                [dict(row) for name, rows in story.TABLES.items() if name[0] == alias for row in rows]
            ),
            "ts",
            "ms",
            ("range", seconds * 1_000_000),
        )
        for alias, seconds in windows_s.items()
    ]
    return sorted(expected(streams, edges, outputs).to_pylist(), key=lambda row: int(row["id"]))
