"""How long a cluster takes to go on after something of it was killed, as somebody who asks for its status sees it.

A recovery begins when the daemon is started again (Java: when it is killed, since its daemon starts it again by
itself). It is completed at the first look that finds every query running at its home, or over, and done beyond where
it was before; that of Java also requires that the site counts another start of it. The first new row is the first look
at which a query that needs the site has more rows than before. Looks are a quarter of a second apart. A recovery during
which something else was killed is interrupted: its time is not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from node.core.streams.ticks import TICK_END
from node.rpc import control_pb2 as pb

#: What is killed that is no daemon.
JAVA = "Java of a site"

Statuses = Mapping[str, pb.StatusReply | str]


@dataclass(frozen=True)
class Place:
    """How far a query is."""

    rows: int
    done_tick: int
    runs: bool
    #: That it needs.
    sites: tuple[str, ...]


@dataclass
class Recovery:
    """What was killed, and what became of it."""

    kind: str
    site: str
    #: When it was started again, by the clock that never goes back.
    began_s: float
    before: Mapping[str, Place]
    #: How often the site's Java had been started again by then.
    restarts: int = 0
    #: Seconds until the first new row, and until all queries went on.
    row_s: float | None = None
    on_s: float | None = None
    interrupted: bool = False


class Recoveries:
    """All of a run; told of each kill by one thread, and of each look at the cluster by another."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        """``homes``: by query, the site where it was issued."""
        self._homes = homes
        self._lock = threading.Lock()
        self._last: dict[str, Place] = {}
        self._restarts: dict[str, int] = {}
        self._open: list[Recovery] = []
        self.all: list[Recovery] = []

    def killed(self) -> None:
        """Something is killed: what is not completed by now is interrupted."""
        with self._lock:
            for each in self._open:
                each.interrupted = True

    def began(self, kind: str, site: str, now_s: float, statuses: Statuses) -> None:
        """It is started again; ``statuses`` are of a moment when it was not there."""
        with self._lock:
            self._last |= self._places(statuses)
            one = Recovery(kind, site, now_s, dict(self._last), self._restarts.get(site, 0))
            self.all.append(one)
            self._open.append(one)

    def looked(self, statuses: Statuses, asked_s: float, now_s: float) -> None:
        """The cluster was asked how it is, and had answered by now."""
        with self._lock:
            places = self._places(statuses)
            self._last |= places
            replies = {site: each for site, each in statuses.items() if isinstance(each, pb.StatusReply)}
            self._restarts |= {site: each.engine.restarts for site, each in replies.items()}
            for each in [each for each in self._open if asked_s > each.began_s]:
                if each.row_s is None and _more_rows(each, places):
                    each.row_s = now_s - each.began_s
                back = each.kind != JAVA or self._restarts[each.site] > each.restarts
                if back and set(places) == set(self._homes) and _all_on(each.before, places):
                    each.on_s = now_s - each.began_s
                    self._open.remove(each)

    def _places(self, statuses: Statuses) -> dict[str, Place]:
        found = {}
        for query_id, home in self._homes.items():
            status = statuses.get(home)
            if not isinstance(status, pb.StatusReply):
                continue
            for brief in status.queries:
                if brief.query_id == query_id:
                    found[query_id] = Place(brief.rows, brief.done_tick, brief.state == "running", tuple(brief.sites))
            for brief in status.ended:
                if brief.query_id == query_id:
                    found[query_id] = Place(brief.rows, TICK_END, True, tuple(brief.sites))
        return found


def _more_rows(recovery: Recovery, now: Mapping[str, Place]) -> bool:
    """Of a query that needs the site: others have rows all the while."""
    needing = [query_id for query_id, place in now.items() if recovery.site in place.sites]
    before = {query_id: recovery.before[query_id].rows for query_id in needing if query_id in recovery.before}
    return any(now[query_id].rows > rows for query_id, rows in before.items())


def _all_on(before: Mapping[str, Place], now: Mapping[str, Place]) -> bool:
    return all(
        place.runs and (place.done_tick == TICK_END or query_id not in before or place.done_tick > old.done_tick)
        for query_id, place in now.items()
        for old in [before.get(query_id, place)]
    )


def completed(recoveries: Sequence[Recovery]) -> list[Recovery]:
    """Those that came to their end before something else was killed."""
    return [each for each in recoveries if each.on_s is not None and not each.interrupted]


def recovery_lines(recoveries: Sequence[Recovery]) -> Iterator[str]:
    """A table, as Markdown."""
    yield "| killed | times | completed | another kill before | first new row p50 | p99 | all go on p50 | p99 | max |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    kinds = sorted({each.kind for each in recoveries})
    for kind in [*kinds, *(["all"] if len(kinds) > 1 else [])]:
        ones = [each for each in recoveries if kind in (each.kind, "all")]
        yield f"| {kind} | {_cells(ones)} |"


def _cells(ones: Sequence[Recovery]) -> str:
    whole = completed(ones)
    rows = [each.row_s for each in whole if each.row_s is not None]
    on = [each.on_s for each in whole if each.on_s is not None]
    times = [quantile(rows, 0.5), quantile(rows, 0.99), quantile(on, 0.5), quantile(on, 0.99), quantile(on, 1.0)]
    counts = [len(ones), len(whole), sum(each.interrupted for each in ones)]
    return " | ".join([*map(str, counts), *("" if each is None else f"{each:.1f} s" for each in times)])


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that ``share`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)] if ordered else None
