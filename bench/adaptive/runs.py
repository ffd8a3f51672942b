"""One run of a case by real daemons: what they had sent, and how long rows took, over event time."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench.adaptive.cases import Case
from bench.sites import BenchError
from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster
from demo.ports import free_ports
from netsim.network import found
from netsim.profiles import Shape
from netsim.proxies import Proxies
from node.client import Client
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.io.reports.latency import percentile_us
from node.rpc import control_pb2 as pb

_LOOK_S = 0.2
_END_S_MAX = 180.0
_LATENCY_MS = 20


@dataclass(frozen=True)
class Sample:
    """What had happened up to a moment of event time."""

    at_s: float
    nbytes: int
    #: Rows by upper bound of their emit latency.
    latency_us: Mapping[int, int]


@dataclass(frozen=True)
class Switch:
    """From one plan to another."""

    begun_s: float
    ended_s: float
    why: str

    @property
    def snapshot_bytes(self) -> float:
        """As it was expected."""
        told = re.search(r"; ([0-9.]+) (B|kB|MB) are sent first", self.why)
        return float(told[1]) * {"B": 1, "kB": 1e3, "MB": 1e6}[told[2]] if told else 0.0


@dataclass
class Ran:
    """One run."""

    samples: list[Sample] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    rows: int = 0
    #: By number of a switch, when it was first heard of; and those that are over.
    begun_s: dict[int, float] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)

    def bytes_at(self, at_s: float) -> float:
        """Sent up to a moment, straight between two samples."""
        before = max((one for one in self.samples if one.at_s <= at_s), key=lambda one: one.at_s, default=None)
        after = min((one for one in self.samples if one.at_s > at_s), key=lambda one: one.at_s, default=None)
        if before is None or after is None:
            return float((before or self.samples[0]).nbytes)
        share = (at_s - before.at_s) / (after.at_s - before.at_s)
        return before.nbytes + share * (after.nbytes - before.nbytes)

    def sent(self, first_s: float, last_s: float) -> float:
        """Bytes between two moments."""
        return self.bytes_at(last_s) - self.bytes_at(first_s)

    def latency_ms(self, first_s: float, last_s: float, share: float) -> float:
        """Of rows that were stored between two moments."""
        within = [one for one in self.samples if first_s <= one.at_s <= last_s]
        if not within:
            return math.nan
        counted = Counter(within[-1].latency_us)
        counted.subtract(within[0].latency_us)
        us = percentile_us(sorted((+counted).items()), share)
        return math.nan if us is None else us / 1000


def write(case: Case, folder: Path) -> Path:
    """The cluster file of a case, with its streams."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['cluster = "adaptive"', f'tau = "{case.tau_ms}ms"', 'engine = "native"']
    lines += ["", "[planner]", f"epoch = {case.epoch_ticks}"]
    if case.narrowed is not None:
        lines += ["", "[wan]", f'latency = "{_LATENCY_MS}ms"']
    for site, port in zip(case.sites, free_ports(len(case.sites)), strict=True):
        lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{port}"']
        for name, (place, table) in case.streams.items():
            if place == site:
                path = folder / f"{name}.parquet"
                pq.write_table(table, path, compression="zstd")
                lines += ["", f"[site.{site}.stream.{name}]", f'path = "{path}"', 'ts = "ts"', 'unit = "ms"']
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n")
    return config


def best_plan(case: Case, folder: Path, *options: str) -> str:
    """The plan that is chosen for a case, by its whole streams, or named: the text of a plan file."""
    command = [sys.executable, "-m", "cli.main", "explain", "--config", str(write(case, folder)), "--start", "--json"]
    # Paced, streams come in ticks, which is what is planned for.
    command += ["--speed", str(case.speed), *options, "--at", case.home, case.text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{case.name}: {done.stderr.strip()}")
    return done.stdout


def run(case: Case, folder: Path, plan: str, later: Sequence[str] = (), *, adaptive: bool = False) -> Ran:
    """Run a case: by a given plan, and by a later one from each shift on, or ``adaptive``."""
    config = load_cluster(write(case, folder))
    ran = Ran()
    with LocalCluster(config, case.speed) as cluster:
        _shape(case, config.path, 1.0)
        home = cluster.clients[case.home]
        request = pb.IssueRequest(text=case.text, policy="frontier", plan_file=plan, begin="start", adaptive=adaptive)
        query_id = home.install(request).query_id
        todo = list(case.shifts_s)
        deadline = time.monotonic() + case.length_s / case.speed + _END_S_MAX
        while True:
            cluster.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{case.name}: its end is required within {_END_S_MAX:.0f} s; it did not come")
            info = home.query(query_id)
            at_s = _look(case, cluster.clients, info, ran)
            _note_switch(info, at_s, ran)
            if todo and at_s is not None and at_s >= todo[0]:
                todo.pop(0)
                _shape(case, config.path, 0.1)
                number = len(case.shifts_s) - len(todo) - 1
                if number < len(later):
                    home.replan(pb.ReplanRequest(query_id=query_id, plan=pb.IssueRequest(plan_file=later[number])))
            if info.state in ("completed", "failed", "dropped"):
                break
            time.sleep(_LOOK_S)
        if info.state != "completed":
            raise BenchError(f"{case.name}: the query {info.state}: {info.reason}")
        ran.rows = info.rows
    return ran


def _look(case: Case, clients: Mapping[str, Client], info: pb.QueryInfo, ran: Ran) -> float | None:
    """Take a sample; the event time that its streams have come to."""
    statuses = [client.status() for client in clients.values()]
    frontiers = [stream.frontier for status in statuses for stream in status.streams]
    if any(tick <= TICK_MIN for tick in frontiers) or not frontiers:
        return None
    at_ms = min(tick * case.tau_ms for tick in frontiers) - case.start_ms if min(frontiers) < TICK_END else math.inf
    at_s = min(case.length_s, at_ms / 1000)
    sent = sum(size for status in statuses for link in status.links for size in link.sent_bytes.values())
    latency = dict(zip(info.latency_us_buckets, info.latency_rows, strict=True))
    if not ran.samples or at_s > ran.samples[-1].at_s:
        ran.samples.append(Sample(at_s, sent, latency))
    return at_s


def _note_switch(info: pb.QueryInfo, at_s: float | None, ran: Ran) -> None:
    last = info.last_switch
    if at_s is None or not last.number:
        return
    begun_s = ran.begun_s.setdefault(last.number, at_s)
    if last.state == "switched" and last.number not in ran.over:
        ran.over.add(last.number)
        ran.switches.append(Switch(begun_s, at_s, last.why))


def _shape(case: Case, config: Path, share: float) -> None:
    if case.narrowed is None:
        return
    one, other, bytes_per_s = case.narrowed
    proxies = Proxies(found(config).port)
    for source, target in ((one, other), (other, one)):
        proxies.shape(source, target, Shape(_LATENCY_MS, 0, bytes_per_s * case.speed * share))


def plan_name(plan: str) -> str:
    """A plan file on one line."""
    document = json.loads(plan)
    heads = []
    for sequence in document["sequences"]:
        steps = "".join(f" {step['alias']}({step['algorithm']})@{step['site']}" for step in sequence["steps"])
        heads.append(f"{sequence['head']}@{sequence['start']}{steps}")
    return "; ".join(heads)
