"""``make demo``: three sites on this machine join orders with payments, and the result is checked.

DEMO_SECONDS (event time of the data), DEMO_SPEED (times real time) and DEMO_FOLDER override the defaults.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from cli.client import DaemonUnreachableError
from cli.cluster import LocalCluster
from cli.tables import size_text
from demo.live import LiveLine, bar
from demo.report import judge, show_bytes, show_rows
from demo.shop import DEMO_QUERY, SITES, write_shop
from node.config import load_cluster
from node.rpc import control_pb2 as pb
from planner.errors import NarrowsError

SECONDS = 90
SPEED = 4.0
FOLDER = Path("out/demo")
ORDERS_PER_SECOND = 200.0
SEED = 7
HOME = "singapore"
JOINED = ("orders", "payments")

POLL_S = 0.05
STOP_S_MAX = 5.0


class DemoError(NarrowsError):
    """The demo cannot go on."""


@dataclass(frozen=True)
class Setting:
    """What the demo runs on."""

    folder: Path
    seconds: int
    speed: float

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster.toml"

    @property
    def rows(self) -> Path:
        return self.folder / "rows.parquet"


def main() -> int:
    """Run the demo; 0 if every row is right, 1 if anything is wrong, 130 after Ctrl-C."""
    console = Console(highlight=False)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _demo(console, _setting())
    except KeyboardInterrupt:
        print("\nstopped before the end; nothing is left running", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Nobody reads any more; python would complain again when it closes standard output.
        sys.stdout = None  # type: ignore[assignment]
        return 1
    except (NarrowsError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _interrupt(_: int, __: object) -> None:
    raise KeyboardInterrupt


def _setting() -> Setting:
    return Setting(
        folder=Path(os.environ.get("DEMO_FOLDER", FOLDER)),
        seconds=round(_positive("DEMO_SECONDS", SECONDS)),
        speed=_positive("DEMO_SPEED", SPEED),
    )


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 86_400:
        raise DemoError(f"{name} requires a number from 0.5 to 86400; got {text!r}")
    return value


def _demo(console: Console, setting: Setting) -> int:
    total = _make_data(console, setting)
    _tell_sites(console, setting)
    with LocalCluster(load_cluster(setting.cluster), setting.speed) as cluster:
        console.print(f"The {_count(len(SITES))} daemons are up and linked. The query, as you would type it:\n")
        console.print(_query_text(setting) + "\n", markup=False, soft_wrap=True)
        seconds = _run_query(console, setting, cluster, total)
        statuses = {site: client.status() for site, client in cluster.clients.items()}
    console.print(f"Done in {seconds:.0f} s; the daemons are stopped. Now the same join by brute force.\n")
    verdict = judge(setting.folder, setting.rows)
    show_rows(console, verdict)
    show_bytes(console, HOME, statuses)
    _tell_savings(console)
    if verdict.difference is not None:
        print(f"demo: the rows are not those that the oracle expects: {verdict.difference}", file=sys.stderr)
        return 1
    console.print("Every row that should be there is there, once, and no other.")
    return 0


def _count(number: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(number, str(number))


# -- before -----------------------------------------------------------------------------------


def _make_data(console: Console, setting: Setting) -> dict[str, int]:
    """Write the streams; returns how many tuples each has."""
    write_shop(setting.folder, setting.seconds, ORDERS_PER_SECOND, SEED, _free_ports())
    setting.rows.unlink(missing_ok=True)
    total = {name: pq.read_metadata(setting.folder / f"{name}.parquet").num_rows for name in SITES.values()}
    console.print("A shop takes orders in Frankfurt. Its card provider takes payments in Virginia.")
    console.print("The office in Singapore wants to see which orders are paid, as it happens.\n")
    console.print(f"{setting.seconds} seconds of that are made up in {setting.folder}:")
    for site, stream in SITES.items():
        console.print(f"  {site:10} {stream:9} {total[stream]:>7,} tuples")
    return total


def _free_ports() -> tuple[int, int, int]:
    """Three loopback ports that nobody uses now."""
    with socket.socket() as first, socket.socket() as second, socket.socket() as third:
        for probe in (first, second, third):
            probe.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1], third.getsockname()[1]


def _tell_sites(console: Console, setting: Setting) -> None:
    config = load_cluster(setting.cluster)
    console.print("\nEach site is a process of its own, as if started with:")
    for site in config.sites:
        command = f"narrows node --config {setting.cluster} --site {site.name} --speed {setting.speed:g}"
        console.print(f"  {command}", soft_wrap=True)
    ports = ", ".join(str(site.listen) for site in config.sites)
    console.print(f"They listen on {ports}\nand replay their files {setting.speed:g} times as fast as it happened.\n")


# -- the query --------------------------------------------------------------------------------


def _query_text(setting: Setting) -> str:
    """The query command, broken into lines that a shell takes as they are."""
    lines = textwrap.wrap(DEMO_QUERY, 70)
    query = "\n     ".join(lines)
    return (
        f"  narrows query --config {setting.cluster} --at {HOME} \\\n    --out {setting.rows} --algorithm SP-D \\\n"
        f'    "{query}"'
    )


def _run_query(console: Console, setting: Setting, cluster: LocalCluster, total: Mapping[str, int]) -> float:
    """Issue the query from the command line and show how far it is until it ends; returns the seconds it took."""
    said = setting.folder / "query.log"
    began = time.monotonic()
    progress = _Progress(console, cluster, total, setting)
    with said.open("wb") as log, _process(_query_command(setting), log) as query:
        with said.open() as answers:
            while query.poll() is None:
                progress.step(answers.readline)
                time.sleep(POLL_S)
            progress.finish(answers.readline)
    if query.returncode != 0:
        raise DemoError(f"narrows query ended with {query.returncode}")
    return time.monotonic() - began
