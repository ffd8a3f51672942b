"""What ``bench.queries`` has measured, and what it comes to."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.queries.runs import Climb, FullSpeed, Held
from bench.releases import FIRST, NOW

PLANNED = "planned"
#: The same, of queries that select most columns, and of a dashboard.
LONG = "planned, long select lists"
DASHBOARD = "planned, a dashboard"
FORCED = ("SM-S1", "SM-D1", "SP-S")
DURABLE, NULL_LOG = "durable log", "null log"


@dataclass
class Results:
    """All runs, by side and, where there are several, by plan."""

    quick: bool
    #: The machine's load average before anything was started.
    load: float
    many_queries: int
    memory_queries: int
    memory_rows: int
    full_rows: int
    climbs: dict[tuple[str, str], list[Climb]] = field(default_factory=dict)
    many: dict[str, list[Climb]] = field(default_factory=dict)
    held: dict[str, list[Held]] = field(default_factory=dict)
    full_speed: dict[str, list[FullSpeed]] = field(default_factory=dict)
    durable: dict[str, list[Climb]] = field(default_factory=dict)
    #: By plan and number of queries: what they need of stream b in a second, each value once, compressed as on a link:
    #: of tuples that are in some result, and of all that pass a filter.
    needed: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)
    #: Sides that could not run many queries at all, and what was tried.
    too_slow: dict[str, str] = field(default_factory=dict)
    #: Runs that came to nothing.
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def processor_ratio(self, side: str, plan: str, queries: int) -> float | None:
        """Processor time with many queries over that with one, in the same run."""
        return median(climb.at(queries).cpu / climb.at(1).cpu for climb in self.climbs.get((side, plan), ()))

    def bytes_ratio(self, side: str, plan: str, queries: int) -> float | None:
        """Bytes on the link with many queries over those with one, in the same run."""
        found = self.climbs.get((side, plan), ())
        return median(climb.at(queries).bytes_total / climb.at(1).bytes_total for climb in found)

    def memory_ratio(self, side: str) -> float | None:
        """Memory with many queries over that with one."""
        one, many = (
            median(held.rss_bytes for held in self.held.get(side, ()) if held.queries == count)
            for count in (1, self.memory_queries)
        )
        return many / one if one is not None and many is not None else None

    def p99_ms(self, side: str) -> float | None:
        """Emit latency of many queries."""
        return median(climb.stretches[-1].p99_ms for climb in self.many.get(side, ()))

    def behind_s(self, side: str) -> float | None:
        """By how much many queries fell behind the clock while they were measured."""
        return median(climb.stretches[-1].behind_s for climb in self.many.get(side, ()))

    def full_speed_s(self, side: str) -> float | None:
        return median(run.seconds for run in self.full_speed.get(side, ()))

    def full_speed_bytes(self, side: str) -> float | None:
        return median(run.nbytes for run in self.full_speed.get(side, ()))

    def durable_cpu_ratio(self) -> float | None:
        """Processor time with the log over that without."""
        durable, null = (median(run.at(1).cpu for run in self.durable.get(log, ())) for log in (DURABLE, NULL_LOG))
        return durable / null if durable is not None and null is not None else None

    def durable_more_ms(self) -> float | None:
        """What the log adds to the median emit latency."""
        durable, null = (median(run.at(1).p50_ms for run in self.durable.get(log, ())) for log in (DURABLE, NULL_LOG))
        return durable - null if durable is not None and null is not None else None

    def troubles(self, side: str) -> list[str]:
        """What was wrong with the rows of a side."""
        climbs = [climb for (name, _), runs in self.climbs.items() if name == side for climb in runs]
        climbs += self.many.get(side, [])
        climbs += [climb for runs in self.durable.values() for climb in runs] if side == NOW else []
        troubles = [climb.trouble for climb in climbs] + [held.trouble for held in self.held.get(side, ())]
        return [trouble for trouble in troubles if trouble]

    def wrong_now(self) -> bool:
        """Whether this tree failed, or gave other rows than it must."""
        failed = any(FIRST not in failure for failure in self.failures)
        return failed or bool(self.troubles(NOW))


def median(values: Iterable[float | None]) -> float | None:
    """None if there is nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
