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
from tests.chaos.disks import Disks
from tests.chaos.recoveries import Recovery, recovery_lines
from tests.chaos.rig import Played, Rig
from tests.chaos.switches import SwitchFigures, switch_lines

_WRONG_MAX = 600
_DEFINITION = (
    "A recovery is from the start of the daemon (Java: its death) to the first look, one each 0.25 s, at which every",
    "query runs again and is done beyond where it was; the first new row is the first look at which a query that",
    "needs the site has more rows. Times are of those that were completed before something else was killed; links",
    "that were cut, machines that hung and disks that were full meanwhile are part of them. Latencies, bytes and",
    "reconnects below are what the daemons tell, and so since the last start of each.",
)


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
    """Resident memory of a process, or what a site keeps on its disk: at the end of each minute (the largest of ten
    seconds), and the peak of all.
    """

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
    disk: tuple[MemoryFigures, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    kill_mean_s: float | None = None
    #: What was run.
    commit: str = ""
    played: tuple[Played, ...] = ()
    looks: int = 0
    spark_restarts: int = 0
    switches: SwitchFigures = field(default_factory=SwitchFigures)
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
        if self.commit:
            yield f"Commit {self.commit}."
            yield ""
        deadly = self.kill_mean_s is not None
        told = "each once, for every reader" if deadly else "status told what happened"
        verdict = f"every row of every query is the oracle's, {told}, memory stayed bounded"
        yield f"**{'FAILED' if self.wrong else 'Passed'}**: {'; '.join(self.wrong) if self.wrong else verdict}."
        yield ""
        yield f"{self.tuples:,} tuples, {sum(query.rows for query in self.queries):,} rows, {len(self.played)} faults; "
        if not deadly:
            longest = max((one.settled_after_s for one in self.played), default=0.0)
            yield f"the longest catch-up after a fault took {longest:.1f} s; "
            yield f"Spark was started again {self.spark_restarts} times; "
        yield f"the cluster was up for {self.took_s:.0f} s; status was asked {self.looks:,} times."
        yield ""
        yield from switch_lines(self.switches)
        if deadly:
            yield f"Kill -9 of something every {self.kill_mean_s:g} s on the mean, beside the faults below."
            yield from _DEFINITION
            yield ""
            yield from recovery_lines(self.recoveries)
            yield ""
        yield "| query | rows | latency p50 | p99 | max | most rows unread | plan |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for query in self.queries:
            times = " | ".join(f"{each:,.0f} ms" for each in query.latency_ms)
            yield f"| {query.query_id} | {query.rows:,} | {times} | {query.largest_unread:,} | {query.plan} |"
        yield ""
        yield "| fault | times |" if deadly else "| fault | times | said after (longest) | well again after (longest) |"
        yield "|---|---:|" if deadly else "|---|---:|---:|---:|"
        for name, count in sorted(Counter(one.name for one in self.played).items()):
            if deadly:
                yield f"| {name} | {count} |"
                continue
            ones = [one for one in self.played if one.name == name]
            said = max((one.said_after_s for one in ones if one.line), default=None)
            said_text = "" if said is None else f"{said:.1f} s"
            yield f"| {name} | {count} | {said_text} | {max(one.settled_after_s for one in ones):.1f} s |"
        yield ""
        yield "| from > to | bytes | reconnects | largest backlog |"
        yield "|---|---:|---:|---:|"
        for link in self.links:
            yield f"| {link.name} | {size_text(link.nbytes)} | {link.reconnects} | {size_text(link.largest_backlog)} |"
        yield from _over_time("memory, MB", self.memory)
        if self.disk:
            yield from _over_time("state on disk, MB", self.disk)
        lines = list(dict.fromkeys(one.line for one in self.played if one.line))
        if lines:
            yield ""
            yield "What status said, among others:"
            yield ""
            yield from (f"- {line}" for line in lines)


def _over_time(what: str, figures: Sequence[MemoryFigures]) -> Iterator[str]:
    minutes = max((len(each.by_minute) for each in figures), default=0)
    yield ""
    yield "| " + " | ".join([what, *(f"min {minute + 1}" for minute in range(minutes)), "peak"]) + " |"
    yield f"|---|{'---:|' * (minutes + 1)}"
    for each in figures:
        yield "| " + " | ".join([each.name, *(f"{size / 1e6:,.0f}" for size in (*each.by_minute, each.peak))]) + " |"


def _disk_figures(disks: Disks, minutes: Sequence[int]) -> tuple[MemoryFigures, ...]:
    return tuple(
        MemoryFigures(site, tuple(disks.around(site, minute) for minute in minutes), disks.peak(site))
        for site in sorted(disks.samples)
    )


def measured(figures: Figures, rig: Rig, played: Sequence[Played], recoveries: Sequence[Recovery]) -> Figures:
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
    memory, disks = rig.memory, rig.stage.disks
    minutes = range(60, int(memory.seconds) + 1, 60)
    return replace(
        figures,
        queries=tuple(queries),
        links=tuple(links),
        memory=tuple(
            MemoryFigures(name, tuple(memory.around(name, minute) for minute in minutes), memory.peak(name))
            for name in sorted(memory.samples)
        ),
        disk=() if disks is None else _disk_figures(disks, minutes),
        recoveries=tuple(recoveries),
        played=tuple(played),
        looks=rig.watch.looks,
        spark_restarts=sum(status.engine.restarts for status in rig.watch.last.values()),
        took_s=memory.seconds,
    )
