"""Two daemons of one release on this machine, the queries they run, and what they have counted at a moment."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from bench.queries.query_set import START_MS, STREAMS, Query
from bench.releases import Release
from bench.sites import BenchError
from cli.asking import ask_all
from demo.ports import free_ports
from node.client import Client, DaemonUnreachableError, NotNowError
from node.io.reports.latency import percentile_us
from node.rpc import control_pb2 as pb

#: Which site each stream is at.
SITES = {"a": "west", "b": "east"}
READY_S_MAX = 60.0
STOP_S_MAX = 20.0
_POLL_S = 0.1
_ENDED = {"completed", "failed", "dropped"}


class StreamsEndedError(BenchError):
    """Something took so long that there was nothing left to measure."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What both daemons had counted at a moment."""

    at_s: float
    #: By site.
    cpu_s: Mapping[str, float]
    rss_peak: Mapping[str, int]
    #: Sent by both, by kind.
    sent: Mapping[str, int]
    #: Event time up to which each stream is sealed.
    sealed_ms: Mapping[str, float]
    #: Rows by upper bound of their emit latency, of all queries; and rows of each query.
    latency_us: Mapping[int, int]
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What happened between two samples, by the second of wall time."""

    queries: int
    seconds: float
    #: Processor time of both daemons in a second.
    cpu: float
    bytes_per_s: Mapping[str, float]
    rows_per_s: float
    p50_ms: float
    p99_ms: float
    #: By how much event time fell behind the clock meanwhile; about 0 if the daemons keep up.
    behind_s: float

    @property
    def bytes_total(self) -> float:
        """Of all kinds, in a second."""
        return sum(self.bytes_per_s.values())


def between(first: Sample, last: Sample) -> Stretch:
    """The stretch from one sample to another. Raises BenchError if a query gave no rows in it."""
    silent = sum(last.rows[query] == rows for query, rows in first.rows.items())
    if silent:
        raise BenchError(f"every query requires rows while it is measured; {silent} of {len(last.rows)} gave none")
    seconds = last.at_s - first.at_s
    counted = Counter(last.latency_us)
    counted.subtract(first.latency_us)
    latency = sorted(counted.items())
    progress_ms = min(last.sealed_ms[name] - first.sealed_ms[name] for name in STREAMS)
    return Stretch(
        len(last.rows),
        seconds,
        sum(last.cpu_s[site] - first.cpu_s[site] for site in last.cpu_s) / seconds,
        {kind: (last.sent[kind] - first.sent.get(kind, 0)) / seconds for kind in sorted(last.sent)},
        sum(counted.values()) / seconds,
        _ms(percentile_us(latency, 0.5)),
        _ms(percentile_us(latency, 0.99)),
        seconds - progress_ms / 1_000,
    )


def _ms(microseconds: int | None) -> float:
    return math.nan if microseconds is None else microseconds / 1_000


class Pair:
    """Two daemons with a stream each, replayed as fast as the clock runs; they end with this process."""

    def __init__(
        self,
        release: Release,
        folder: Path,
        tables: Mapping[str, pa.Table],
        tau_ms: int,
        *,
        home: str = "a",
        options: Sequence[str] = (),
    ) -> None:
        """``folder`` is a new one; queries are issued at the site of stream ``home``.

        ``options`` are further ones of ``narrows node``.
        """
        self._release = release
        self._folder = folder
        self._tau_ms = tau_ms
        self._home = SITES[home]
        self._options = tuple(options)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, Client] = {}
        self._closing = ExitStack()
        #: By query id; and the event times between which it began.
        self.queries: dict[str, Query] = {}
        self.began_ms: dict[str, tuple[int, int]] = {}
        folder.mkdir(parents=True)
        self._config = folder / "cluster.toml"
        ports = free_ports(len(SITES))
        self._addresses = {site: f"127.0.0.1:{port}" for site, port in zip(SITES.values(), ports, strict=True)}
        self._config.write_text(_cluster_text(self._addresses, tau_ms))
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")

    def __enter__(self) -> Pair:
        try:
            for site, address in self._addresses.items():
                self._start(site)
                self._clients[site] = self._closing.enter_context(Client(site, address))
            self.wait("both daemons to be linked", self._linked, READY_S_MAX)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stop()

    def _start(self, site: str) -> None:
        command = self._release.command("node", "--config", str(self._config), "--site", site, "--speed", "1")
        with (self._folder / f"{site}.log").open("wb") as log:
            # Its standard input stays open as long as we live: the daemon stops when that closes.
            self._processes[site] = subprocess.Popen(
                [*command, "--with-parent", *self._options],
                cwd=self._release.folder,
                env=self._release.environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def _stop(self) -> None:
        self._closing.close()
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _linked(self) -> bool:
        try:
            statuses = [client.status() for client in self._clients.values()]
        except (DaemonUnreachableError, NotNowError):
            return False
        return all(status.links and all(link.state == "up" for link in status.links) for status in statuses)

    def wait(self, what: str, done: Callable[[], bool], seconds_max: float) -> None:
        """Until ``done``. Raises BenchError if a daemon ends, or nothing comes of it in time."""
        deadline = time.monotonic() + seconds_max
        while not done():
            self.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{self._release.name} requires {what} within {seconds_max:.0f} s; it did not happen")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raises BenchError if a daemon has ended."""
        for site, process in self._processes.items():
            if process.poll() is not None:
                said = self._said(site).strip().splitlines()[-3:]
                raise BenchError(f"the daemon of {site} ({self._release.name}) ended: {' '.join(said)}")

    def _said(self, site: str) -> str:
        return (self._folder / f"{site}.log").read_text(errors="replace")

    # -- queries --------------------------------------------------------------------------------

    def issue(self, queries: Sequence[Query], algorithm: str = "") -> None:
        """Install the queries, planned unless an algorithm is forced, and wait until all of them run."""
        before_ms = self._sealed_ms()
        issued = []
        for query in queries:
            request = pb.IssueRequest(text=query.text, algorithm=algorithm, policy="frontier")
            issued.append(self._clients[self._home].install(request).query_id)
            self.queries[issued[-1]] = query
        self.wait("all queries to run", self._all_run, READY_S_MAX)
        self.began_ms |= dict.fromkeys(issued, (before_ms, self._sealed_ms() + self._tau_ms))

    def _sealed_ms(self) -> int:
        """The event time up to which the stream that is ahead is sealed; before they begin, their beginning."""
        streams = [stream for client in self._clients.values() for stream in client.status().streams]
        return max(START_MS, *(stream.frontier * self._tau_ms for stream in streams))

    def _all_run(self) -> bool:
        states = {info.query_id: info.state for info in self._infos()}
        return all(states[query_id] not in {"preparing", "issued"} for query_id in self.queries)

    def _infos(self) -> list[pb.QueryInfo]:
        infos = self._clients[self._home].queries()
        failed = [info for info in infos if info.state == "failed"]
        if failed:
            raise BenchError(f"{self._release.name}: a query failed: {failed[0].reason}\n{failed[0].text}")
        return infos

    def plans(self) -> dict[str, int]:
        """How many queries run by each plan, streams named instead of aliases."""
        briefs = {brief.query_id: brief.plan_brief for brief in self._clients[self._home].status().queries}
        found: Counter[str] = Counter()
        for query_id, query in self.queries.items():
            text = briefs.get(query_id, "unknown")
            for alias, stream in zip(query.aliases, STREAMS, strict=True):
                text = text.replace(alias, stream)
            found[text] += 1
        return dict(found.most_common())

    def all_done_before(self, event_ms: int) -> bool:
        """Whether every row of every query is stored whose head is older than ``event_ms`` after the start."""
        tick = (START_MS + event_ms) // self._tau_ms
        return all(head.done_tick >= tick for info in self._infos() for head in info.heads)

    def all_completed(self) -> bool:
        return all(info.state in _ENDED for info in self._infos())

    def rows(self) -> dict[str, int]:
        """Rows that each query has given so far."""
        return {info.query_id: info.rows for info in self._infos()}

    # -- figures --------------------------------------------------------------------------------

    def sample(self) -> Sample:
        """Both daemons, now. Raises StreamsEndedError if it is too late to measure."""
        infos = self._infos()
        statuses: dict[str, pb.StatusReply] = {}
        for site, answer in ask_all(self._clients).items():
            if isinstance(answer, str):
                raise BenchError(f"{site} requires to tell its status; {answer}")
            statuses[site] = answer
        sent: Counter[str] = Counter()
        for link in (link for status in statuses.values() for link in status.links):
            sent.update(link.sent_bytes)
        latency: Counter[int] = Counter()
        for info in infos:
            latency.update(dict(zip(info.latency_us_buckets, info.latency_rows, strict=True)))
        streams = [stream for status in statuses.values() for stream in status.streams]
        over = [stream.name for stream in streams if stream.state == "ended"]
        if over:
            text = f"streams require to go on while they are measured; {', '.join(over)} ended"
            raise StreamsEndedError(f"{self._release.name}: {text}")
        return Sample(
            time.monotonic(),
            {site: status.cpu_seconds for site, status in statuses.items()},
            {site: status.rss_bytes for site, status in statuses.items()},
            dict(sent),
            {stream.name: stream.frontier * self._tau_ms for stream in streams},
            dict(latency),
            {info.query_id: info.rows for info in infos},
        )

    def engine(self) -> str:
        """What joins at the sites."""
        return ", ".join(sorted({client.status().engine.name for client in self._clients.values()}))

    def rss_bytes(self, stream: str) -> int:
        """The memory that the daemon of a stream's site has now."""
        pages = Path(f"/proc/{self._processes[SITES[stream]].pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def rss_peak_bytes(self, stream: str) -> int:
        """The most memory that the daemon of a stream's site had, by its own account."""
        return self._clients[SITES[stream]].status().rss_bytes


def _cluster_text(addresses: Mapping[str, str], tau_ms: int) -> str:
    lines = ['cluster = "bench"', f'tau = "{tau_ms}ms"', 'engine = "native"']
    for stream, site in SITES.items():
        lines += ["", f"[site.{site}]", f'listen = "{addresses[site]}"']
        lines += ["", f"[site.{site}.stream.{stream}]", f'path = "{stream}.parquet"', 'ts = "ts"', 'unit = "ms"']
    return "\n".join(lines) + "\n"
