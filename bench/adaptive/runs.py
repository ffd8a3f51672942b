"""One run of a case by real daemons: what they had sent, and how long rows took, over event time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from bench.adaptive.cases import Case
from bench.adaptive.measurements import LOOKING, Ran, Sample
from bench.sites import BenchError
from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster
from demo.ports import free_ports
from netsim.network import found
from netsim.profiles import Shape
from netsim.proxies import Proxies
from node.client import Client
from node.core.queries.query_id import query_of
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

_LOOK_S = 0.2
_END_S_MAX = 180.0
_LATENCY_MS = 20


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
        # Its home writes the rows away: those that wait for a reader would hold up the streams.
        out = folder / "rows.parquet"
        request = pb.IssueRequest(
            text=case.text,
            policy="frontier",
            plan_file=plan,
            begin="start",
            adaptive=adaptive,
            to=str(out),
            to_format="parquet",
        )
        ran.query_id = home.install(request).query_id
        todo = list(case.shifts_s)
        deadline = time.monotonic() + case.length_s / case.speed + _END_S_MAX
        while True:
            cluster.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{case.name}: its end is required within {_END_S_MAX:.0f} s; it did not come")
            info = home.query(ran.query_id)
            at_s = _look(case, cluster.clients, info, ran)
            if info.last_switch.number:
                ran.statuses[info.last_switch.number] = info.last_switch
            if todo and at_s is not None and at_s >= todo[0]:
                todo.pop(0)
                _shape(case, config.path, 0.1)
                number = len(case.shifts_s) - len(todo) - 1
                if number < len(later):
                    plan_file = pb.IssueRequest(plan_file=later[number])
                    home.replan(pb.ReplanRequest(query_id=ran.query_id, plan=plan_file))
            if info.state in ("completed", "failed", "dropped"):
                break
            time.sleep(_LOOK_S)
        if info.state != "completed":
            raise BenchError(f"{case.name}: the query {info.state}: {info.reason}")
        while not out.exists():
            # It has its name when it is whole.
            cluster.check()
            if time.monotonic() > deadline:
                raise BenchError(f"{case.name}: rows in {out.name} are required; they did not come")
            time.sleep(_LOOK_S)
    table = pq.read_table(out)
    ran.rows = table.sort_by([(name, "ascending") for name in table.column_names])
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
    by_run: dict[str, float] = {}
    for each in [each for status in statuses for each in status.traffic]:
        run = each.query_id if query_of(each.query_id) == ran.query_id else LOOKING
        by_run[run] = by_run.get(run, 0.0) + each.bytes + each.framing_bytes
    latency = dict(zip(info.latency_us_buckets, info.latency_rows, strict=True))
    if ran.samples and at_s <= ran.samples[-1].at_s:
        if at_s < case.length_s:
            return at_s
        # What comes after the end of the streams is of their last moment.
        ran.samples.pop()
    ran.samples.append(Sample(at_s, 1000 * time.time(), sent, by_run, latency))
    return at_s


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
