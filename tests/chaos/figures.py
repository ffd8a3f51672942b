"""The figures of a sustained run, as a table for people and for the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from cli.show.tables import size_text
from node.io.reports.latency import percentile_us
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError
from tests.chaos.rig import Played, Rig

_WRONG_MAX = 600


@dataclass(frozen=True)
class QueryFigures:
    """What a query did."""

    query_id: str
    plan: str
    rows: int
    #: From a batch being sealed to its rows being stored: median, 99th percentile, maximum.
    latency_ms: tuple[float, float, float]
    largest_unread: int


@dataclass(frozen=True)
class LinkFigures:
    """What a direction of a link did."""

    name: str
    nbytes: int
    reconnects: int
    largest_backlog: int


@dataclass(frozen=True)
class MemoryFigures:
    """Resident memory of a process: at the end of each minute (the largest of ten seconds), and the peak of all."""

    name: str
    by_minute: tuple[int, ...]
    peak: int


@dataclass(frozen=True)
class Figures:
    """All that is told of a run."""

    seconds: int
    seed: int
    engine: str
    tuples: int
    queries: tuple[QueryFigures, ...] = ()
    links: tuple[LinkFigures, ...] = ()
    memory: tuple[MemoryFigures, ...] = ()
    played: tuple[Played, ...] = ()
    looks: int = 0
    spark_restarts: int = 0
    took_s: float = 0.0
    wrong: tuple[str, ...] = field(default=())

    def with_wrong(self, wrong: Sequence[str]) -> Figures:
        """Each in one line, and not too long."""
        return replace(self, wrong=tuple(" ".join(each.split())[:_WRONG_MAX] for each in wrong))

    def text(self) -> str:
        """As Markdown."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"# Chaos: {self.seconds} s of load, engine {self.engine}, seed {self.seed}"
        yield ""
        verdict = "every row of every query is the oracle's, status told what happened, memory stayed bounded"
        yield f"**{'FAILED' if self.wrong else 'Passed'}**: {'; '.join(self.wrong) if self.wrong else verdict}."
        yield ""
        longest = max((one.settled_after_s for one in self.played), default=0.0)
        yield f"{self.tuples:,} tuples, {sum(query.rows for query in self.queries):,} rows, {len(self.played)} faults; "
        yield f"the longest catch-up after a fault took {longest:.1f} s; the cluster was up for {self.took_s:.0f} s;"
        yield f"Spark was started again {self.spark_restarts} times; status was asked {self.looks:,} times."
        yield ""
        yield "| query | rows | latency p50 | p99 | max | most rows unread | plan |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for query in self.queries:
            times = " | ".join(f"{each:,.0f} ms" for each in query.latency_ms)
            yield f"| {query.query_id} | {query.rows:,} | {times} | {query.largest_unread:,} | {query.plan} |"
        yield ""
        yield "| fault | times | said after (longest) | well again after (longest) |"
        yield "|---|---:|---:|---:|"
        for name, count in sorted(Counter(one.name for one in self.played).items()):
            ones = [one for one in self.played if one.name == name]
            said = max((one.said_after_s for one in ones if one.line), default=None)
            said_text = "" if said is None else f"{said:.1f} s"
            yield f"| {name} | {count} | {said_text} | {max(one.settled_after_s for one in ones):.1f} s |"
        yield ""
        yield "| from > to | bytes | reconnects | largest backlog |"
        yield "|---|---:|---:|---:|"
        for link in self.links:
            yield f"| {link.name} | {size_text(link.nbytes)} | {link.reconnects} | {size_text(link.largest_backlog)} |"
        yield ""
        minutes = max((len(each.by_minute) for each in self.memory), default=0)
        yield f"| memory, MB | {' | '.join(f'min {minute + 1}' for minute in range(minutes))} | peak |"
        yield f"|---|{'---:|' * (minutes + 1)}"
        for each in self.memory:
            cells = " | ".join(f"{size / 1e6:,.0f}" for size in each.by_minute)
            yield f"| {each.name} | {cells} | {each.peak / 1e6:,.0f} |"
        lines = list(dict.fromkeys(one.line for one in self.played if one.line))
        if lines:
            yield ""
            yield "What status said, among others:"
            yield ""
            yield from (f"- {line}" for line in lines)


def measured(figures: Figures, rig: Rig, played: Sequence[Played]) -> Figures:
    """With what the cluster says, while it is still there."""
    infos: dict[str, pb.QueryInfo] = {}
    for client in rig.watch.clients.values():
        # Of a site that is gone there are no figures, but of the others.
        with suppress(NarrowsError):
            infos |= {info.query_id: info for info in client.queries()}
    queries = []
    for each in [each for each in rig.followed if each.query_id in infos]:
        info = infos[each.query_id]
        buckets = list(zip(info.latency_us_buckets, info.latency_rows, strict=True))
        latency = [(percentile_us(buckets, share) or 0) / 1000 for share in (0.5, 0.99, 1.0)]
        unread = rig.watch.largest_unread[each.query_id]
        plan = info.plan_text.replace("\n", "; ")
        queries.append(QueryFigures(each.query_id, plan, info.rows, (latency[0], latency[1], latency[2]), unread))
    links = [
        LinkFigures(
            f"{site} > {link.peer}",
            sum(link.sent_bytes.values()),
            link.reconnects,
            rig.watch.largest_backlog[f"{site} > {link.peer}"],
        )
        for site, status in rig.watch.last.items()
        for link in status.links
    ]
    memory = rig.memory
    minutes = range(60, int(memory.seconds) + 1, 60)
    return replace(
        figures,
        queries=tuple(queries),
        links=tuple(links),
        memory=tuple(
            MemoryFigures(name, tuple(memory.around(name, minute) for minute in minutes), memory.peak(name))
            for name in sorted(memory.samples)
        ),
        played=tuple(played),
        looks=rig.watch.looks,
        spark_restarts=sum(status.engine.restarts for status in rig.watch.last.values()),
        took_s=memory.seconds,
    )
