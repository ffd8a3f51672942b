"""``make demo``: three regions join orders, payments and refunds over an emulated network, and the result is checked.

ENGINE=native runs it without Spark, and so without Java. DEMO_SECONDS (how much is made up), DEMO_SPEED (times real
time) and DEMO_FOLDER override the defaults.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from cli.cluster import LocalCluster
from cli.cluster_file import load_cluster, wan_of
from cli.show.look import look
from cli.spark_check import check_spark
from demo.ports import free_ports
from demo.report import judge, longest_text, saved_text, show_verdict
from demo.shop import BANDWIDTH, BYTES_PER_S, DEMO_QUERY, SITES, write_shop
from demo.watch import Watched, watch
from netsim.binary import NoToxiproxyError, server_path
from node.config import NATIVE, SPARK, ClusterConfig
from planner.model.errors import NarrowsError

SECONDS = 90
SPEED = 4.0
FOLDER = Path("out/demo")
ORDERS_PER_SECOND = 1_000.0
SEED = 7
HOME = "singapore"
SHOWN = ("id", "customer", "item", "method", "reason")

STORY = """\
A shop takes orders in Frankfurt. Its card provider takes payments in Virginia.
Its service desk in Singapore pays money back, and wants to see at once which
order each refund is about: a join of three streams over three continents.
"""
#: What is said while daemons start.
ENGINES = {
    SPARK: "The joins of each site run on a Spark of its own; three of them start now.\n"
    "(ENGINE=native make demo needs no Spark and no Java.)",
    NATIVE: "The joins run in the daemons themselves (ENGINE=native).",
}
NETWORK = f"""\
Between them is an emulated network (Toxiproxy): the delays between these
regions, and {BANDWIDTH} each way."""
NO_NETWORK = """\
Between them is this machine's loopback, without the delays of a real network."""
METHOD = """\
How it was done: the plan, step by step, with what was expected and measured.
"""


class DemoError(NarrowsError):
    """The demo was asked for something it cannot do."""


@dataclass(frozen=True)
class Setting:
    """What the demo runs on."""

    folder: Path
    seconds: int
    speed: float
    engine: str

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster.toml"

    @property
    def rows(self) -> Path:
        return self.folder / "rows.parquet"


def main() -> int:
    """Run the demo; 0 if every row is right, 1 if anything is wrong, 130 when it was stopped."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
        return _demo(Console(highlight=False), _setting())
    except KeyboardInterrupt:
        print("\ndemo: stopped before the end; nothing is left running", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Nobody reads any more; python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (NarrowsError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _interrupt(_: int, __: object) -> None:
    raise KeyboardInterrupt


def _setting() -> Setting:
    return Setting(
        folder=Path(os.environ.get("DEMO_FOLDER", FOLDER)),
        seconds=round(_number("DEMO_SECONDS", SECONDS)),
        speed=_number("DEMO_SPEED", SPEED),
        engine=_engine(),
    )


def _engine() -> str:
    name = os.environ.get("ENGINE") or SPARK
    if name not in (SPARK, NATIVE):
        raise DemoError(f"ENGINE requires {SPARK} or {NATIVE}; got {name!r}")
    return name


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise DemoError(f"{name} requires a number from 1 to 3600; got {text!r}")
    return value


def _demo(console: Console, setting: Setting) -> int:
    wan = _can_have_network(console)
    tuples = _make_data(setting, wan)
    config = load_cluster(setting.cluster)
    check_spark(config.sites)
    _tell(console, setting, config, tuples)
    with LocalCluster(config, setting.speed, lambda news: console.print(f"  {news}", markup=False)) as cluster:
        console.print("All are up and linked. The query, as you would type it:\n")
        console.print(_typed(setting), markup=False, soft_wrap=True)
        watched = Watched(cluster, config.site(HOME).address, config.tau_ms, SHOWN)
        seen = watch(console, _arguments(setting), setting.folder / "query.log", watched)
        end = look(cluster.clients)
        console.print(f"\n{METHOD}")
        _explain(console, setting, seen.query_id)
    console.print(f"\nThe daemons are stopped; the rows are in {setting.rows}\n", soft_wrap=True)
    verdict = judge(setting.folder, setting.rows)
    show_verdict(console, verdict)
    everything = end.everything
    console.print(saved_text(sum(end.sent.values()), sum(everything.values())))
    if wan and (longest := longest_text(everything, BYTES_PER_S, seen.seconds)):
        console.print(longest)
    if verdict.difference is not None:
        print(f"\ndemo: these are not the rows that the oracle expects: {verdict.difference}", file=sys.stderr)
        return 1
    console.print("The same rows as the oracle's: each that should be there is there, once, and no other.")
    console.print("\nNext: docs/tutorial.md joins two files of your own.")
    return 0


def _can_have_network(console: Console) -> bool:
    """Whether there is a Toxiproxy server, or can be; the demo is worth seeing without one, too."""
    try:
        server_path()
    except NoToxiproxyError as error:
        console.print(f"No emulated network: {error}\n", markup=False, soft_wrap=True)
        return False
    return True


def _make_data(setting: Setting, wan: bool) -> dict[str, int]:
    """Write the streams; returns how many tuples each has."""
    first, second, third = free_ports(3)
    write_shop(setting.folder, setting.seconds, ORDERS_PER_SECOND, SEED, (first, second, third), setting.engine, wan)
    setting.rows.unlink(missing_ok=True)
    return {name: pq.read_metadata(setting.folder / f"{name}.parquet").num_rows for name in SITES.values()}


def _tell(console: Console, setting: Setting, config: ClusterConfig, tuples: dict[str, int]) -> None:
    console.print(STORY)
    console.print(f"{setting.seconds} seconds of that are made up in {setting.folder}:", soft_wrap=True)
    for site in config.sites:
        stream = SITES[site.name]
        console.print(f"  {site.name:10} {site.listen:16} {stream:9} {tuples[stream]:>7,} tuples")
    console.print(f"\n{NETWORK if wan_of(config) else NO_NETWORK}")
    for one, other in combinations([site.name for site in config.sites], 2):
        if (wan := wan_of(config)) is not None:
            trip = wan.shape(one, other).latency_ms + wan.shape(other, one).latency_ms
            console.print(f"  {one} - {other}: {trip} ms there and back")
    console.print(f"\nEach site is a process of its own and replays its file at {setting.speed:g} times real time,")
    console.print("as if started by hand (the command is .venv/bin/narrows):\n")
    for site in config.sites:
        command = f"narrows node --config {setting.cluster} --site {site.name} --speed {setting.speed:g}"
        console.print(f"  {command}", soft_wrap=True)
    console.print(f"\n{ENGINES[setting.engine]}\n")


def _explain(console: Console, setting: Setting, query_id: str) -> None:
    """What the query did, by the command that a user has for it."""
    arguments = ["explain", "--config", str(setting.cluster), query_id]
    console.print(f"  narrows {' '.join(arguments)}\n", markup=False, soft_wrap=True)
    command = [sys.executable, "-m", "cli.main", *arguments]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if said.returncode:
        raise DemoError(f"narrows explain ended with exit code {said.returncode}: {said.stderr.strip()}")
    console.print(said.stdout, markup=False, soft_wrap=True)


def _arguments(setting: Setting) -> list[str]:
    options = {"--config": setting.cluster, "--at": HOME, "--out": setting.rows}
    return ["query", *(str(part) for option in options.items() for part in option), DEMO_QUERY]


def _typed(setting: Setting) -> str:
    """The query command in lines that a shell takes as they are."""
    command, *options, query = _arguments(setting)
    pairs = [" ".join(options[at : at + 2]) for at in range(0, len(options), 2)]
    lines = "\n     ".join(textwrap.wrap(query, 72))
    return " \\\n    ".join([f"  narrows {command}", *pairs, f'"{lines}"']) + "\n"


if __name__ == "__main__":
    sys.exit(main())
