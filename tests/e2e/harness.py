"""What end-to-end tests share: cluster files, the ``narrows`` command, daemons by hand, the oracle's answer.

Every process a test starts carries the test's tag in its environment, so that
``none_left`` finds whatever outlives it, however it was started.

No test may depend on how fast the machine is. What it waits for is a condition, for as long as ``PATIENCE_S``.
What has to come before a stream ends comes while ``lasting`` streams (``cases.py``) play by the clock, which are
as long as a test may take; ``Daemons.hurry`` ends them when it has come.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from node.client import Client, DaemonUnreachableError, NotNowError
from node.client.start import Start
from node.core.queries.query_id import home_of
from node.rpc import control_pb2 as pb
from tests.oracle.compare import same_rows
from tests.oracle.oracle import OracleStream, Unit, Window, accepted, expected, expected_pairs

T = TypeVar("T")

TAG = "NARROWS_E2E_TAG"
NARROWS = (sys.executable, "-m", "cli.main")
#: How long anything may take on a slow and busy machine; nothing waits this long when all is well.
PATIENCE_S = 120.0
POLL_S = 0.05

SP_S, SP_D, SM_S1, SM_S2, SM_D1, SM_D2 = SIX = ("SP-S", "SP-D", "SM-S1", "SM-S2", "SM-D1", "SM-D2")
#: Another algorithm for each direction: copies of both kinds at one site, keys and rows on one link.
MIXES = ("l=SP-S,r=SP-D", "l=SM-S1,r=SM-D1", "l=SM-D2,r=SM-S2")
ALGORITHMS = (*SIX, *MIXES)

#: What a join by each algorithm puts on the link between its two streams, in both directions.
CARRIED = {
    SP_S: {"sync"},
    SP_D: {"tuples"},
    SM_S1: {"keys", "tuples"},
    SM_S2: {"keys", "tuples", "sync"},
    SM_D1: {"tuples", "sync"},
    SM_D2: {"keys", "key_answers", "tuples"},
}
#: Every kind of byte that a ledger knows.
KINDS = {"control", "framing", "results", "keys", "key_answers", "tuples", "sync"}

#: Above this the oracle's vectorised form is asked, which says the same.
_BRUTE_ROWS_MAX = 1_000
_US = {"MICROSECONDS": 1, "MILLISECONDS": 1_000, "SECONDS": 1_000_000, "MINUTES": 60_000_000}
#: Below the range from which outgoing connections get theirs, so that none takes a port before its daemon does.
#: Processes that run tests beside each other have theirs apart: the port of a daemon that was killed is free for all.
_WORKERS_MAX = 16
_PORTS = range(20_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _WORKERS_MAX, 32_000, _WORKERS_MAX)
_given_ports: set[int] = set()


def free_port() -> int:
    """A port of loopback that nobody listens on, given out once."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port


def eventually(what: str, ask: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Ask until the answer is true; the answer."""
    deadline = time.monotonic() + patience_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
        time.sleep(POLL_S)
    return answer


# -- streams and clusters ---------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """A stream as a test thinks of it: rows in order of arrival, and how its file says them."""

    name: str
    table: pa.Table
    site: str = "alpha"
    form: str = "parquet"
    ts: str = "ts"
    unit: Unit | None = None
    lateness_ms: int = 0
    retain: str = ""

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.{self.form}"
        if self.form == "parquet":
            pq.write_table(self.table, path)
        elif self.form == "csv":
            pa.csv.write_csv(self.table, path)
        else:
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.table.to_pylist()))
        return path

    def config(self) -> list[str]:
        lines = [f"[site.{self.site}.stream.{self.name}]", f'path = "{self.name}.{self.form}"', f'ts = "{self.ts}"']
        lines += [f'unit = "{self.unit}"'] if self.unit else []
        lines += [f'retain = "{self.retain}"'] if self.retain else []
        return lines + ([f'lateness = "{self.lateness_ms}ms"'] if self.lateness_ms else [])


def write_cluster(
    folder: Path,
    streams: Sequence[Stream],
    *,
    sites: Sequence[str] = ("alpha", "beta"),
    tau: str = "100ms",
    cluster: str = "e2e",
    ports: Mapping[str, int] | None = None,
    addresses: Mapping[str, int] | None = None,
    file: str = "cluster.toml",
    planner: Mapping[str, str] | None = None,
) -> Path:
    """The streams' files and the cluster file that names them; ``addresses`` are ports that others dial instead."""
    ports = ports or {site: free_port() for site in sites}
    lines = [f'cluster = "{cluster}"', f'tau = "{tau}"', 'engine = "native"']
    lines += ["[planner]", *(f"{key} = {value}" for key, value in planner.items())] if planner else []
    for site in sites:
        lines += ["", f"[site.{site}]", f'listen = "127.0.0.1:{ports[site]}"']
        lines += [f'address = "127.0.0.1:{addresses[site]}"'] if addresses and site in addresses else []
        for stream in streams:
            if stream.site == site:
                lines += ["", *stream.config()]
    for stream in streams:
        stream.write(folder)
    path = folder / file
    path.write_text("\n".join(lines) + "\n")
    return path


# -- a join and what it must give --------------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """A two-way query, as text and as the oracle reads it. Aliases are ``l`` and ``r``."""

    left: Stream
    right: Stream
    on: Sequence[tuple[str, str]] = (("k", "k"),)
    #: Each a length of time, or a count such as "5 ROWS".
    windows: tuple[str, str] = ("1 SECONDS", "1 SECONDS")
    #: (alias, column, output name); none means ``*``.
    select: Sequence[tuple[str, str, str]] = ()

    @property
    def text(self) -> str:
        columns = ", ".join(f"{alias}.{column} AS {name}" for alias, column, name in self.select) or "*"
        on = " AND ".join(f"l.{left} = r.{right}" for left, right in self.on)
        left, right = (window_text(window) for window in self.windows)
        return f"SELECT {columns} FROM {self.left.name} {left} AS l JOIN {self.right.name} {right} AS r ON {on}"

    def outputs(self) -> list[tuple[str, str, str]]:
        """As the oracle wants them: (output name, alias, column)."""
        if self.select:
            return [(name, alias, column) for alias, column, name in self.select]
        sides = (("l", self.left), ("r", self.right))
        return [(f"{alias}_{column}", alias, column) for alias, side in sides for column in side.table.column_names]

    def expected(self, tau_ms: int = 100) -> pa.Table:
        """The oracle's rows, late tuples left out."""
        sides = []
        for alias, stream, window in (("l", self.left, self.windows[0]), ("r", self.right, self.windows[1])):
            unit = stream.unit or "ms"
            taken, _ = accepted(stream.table, stream.ts, tau_ms, stream.lateness_ms, unit)
            sides.append(OracleStream(alias, taken, stream.ts, unit, oracle_window(window)))
        edges = [(("l", left), ("r", right)) for left, right in self.on]
        if min(side.table.num_rows for side in sides) > _BRUTE_ROWS_MAX:
            return expected_pairs(sides[0], sides[1], edges, self.outputs())
        return expected(sides, edges, self.outputs())

    @property
    def streams(self) -> tuple[Stream, ...]:
        return (self.left,) if self.left is self.right else (self.left, self.right)


def window_text(window: str) -> str:
    """As a query writes it."""
    amount, word = window.split()
    return f"[ROWS {amount}]" if word == "ROWS" else f"[RANGE {window}]"


def oracle_window(window: str) -> Window:
    """As the oracle wants it."""
    amount, word = window.split()
    return ("rows", int(amount)) if word == "ROWS" else ("range", int(amount) * _US[word])


def assert_same_rows(got: pa.Table, want: pa.Table) -> None:
    difference = same_rows(got, want)
    assert difference is None, difference


# -- the command ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    def ok(self) -> Said:
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self

    def failed(self, code: int, *words: str) -> Said:
        """It failed with ``code`` and a text for people that holds ``words``."""
        assert self.code == code, f"exit {self.code}, want {code}\n{self.out}\n{self.err}"
        missing = [word for word in words if word not in self.err]
        assert not missing, f"no {missing} in\n{self.err}"
        return self


def environment() -> dict[str, str]:
    """Of a process of this test: a wide terminal, so that tables are not cut."""
    return os.environ | {"COLUMNS": "250", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def planned(*arguments: str | Path) -> list[str]:
    """The command with SP-D for a query of which the test does not say how it is planned: so it knows what happens."""
    words = [str(argument) for argument in arguments]
    open_plan = words[:1] in (["run"], ["query"]) and not {"--algorithm", "--plan"} & set(words)
    return [*words, "--algorithm", SP_D] if open_plan else words


def narrows(*arguments: str | Path, timeout_s: float = PATIENCE_S) -> Said:
    """Run a command to its end. A stack trace in what it says is a failure, whatever it was asked."""
    command = [*NARROWS, *planned(*arguments)]
    done = subprocess.run(command, capture_output=True, timeout=timeout_s, env=environment(), check=False)
    return no_trace(Said(done.returncode, done.stdout.decode(), done.stderr.decode()))


def no_trace(said: Said) -> Said:
    for text in (said.out, said.err):
        assert "Traceback" not in text, text
    return said


@dataclass(frozen=True)
class Ran:
    """What ``narrows run`` left."""

    rows: pa.Table
    stats: dict[str, Any]
    said: Said


def run(config: Path, query: str, *arguments: str, timeout_s: float = PATIENCE_S) -> Ran:
    """``narrows run`` that must succeed."""
    out, stats = config.parent / "rows.parquet", config.parent / "stats.json"
    for file in (out, stats):
        file.unlink(missing_ok=True)
    said = narrows("run", config, "--query", query, "--out", out, "--stats", stats, *arguments, timeout_s=timeout_s)
    said.ok()
    return Ran(pq.read_table(out), json.loads(stats.read_text()), said)


def carried(by_kind: Mapping[str, int]) -> set[str]:
    """Which kinds of bytes a join has put on a link, rows for the query's home left out."""
    return {kind for kind, nbytes in by_kind.items() if nbytes} - {"control", "framing", "results"}


def shipped(stats: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """By alias: full tuples that the owner of a copy has sent, and that its holder has got."""
    tuples = {(copy["alias"], copy["half"]): copy["tuples"] for copy in stats["copies"]}
    return {alias: (tuples[alias, "owner"], tuples[alias, "holder"]) for alias, _ in tuples}


class Background:
    """A command that goes on beside the test."""

    def __init__(self, *arguments: str | Path, name: str, folder: Path, given: Mapping[str, str] | None = None) -> None:
        """``given``: its environment, if it is not that of every process of the test."""
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*NARROWS, *planned(*arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=given or environment(),
            )

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout_s: float = PATIENCE_S) -> Said:
        """Wait until it has ended by itself."""
        code = self.process.wait(timeout_s)
        return no_trace(Said(code, self.out, self.err))

    def kill(self) -> None:
        """Make sure it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def issued(command: Background) -> str:
    """The id of the query that a command has issued."""
    eventually("the query is issued", lambda: "\n" in command.err.partition("query ")[2])
    return command.err.split("query ", 1)[1].split()[0]


# -- daemons by hand --------------------------------------------------------------------------


@dataclass
class Daemons:
    """A cluster whose daemons are started one by one, as in a real deployment.

    ``config`` is what clients use; ``node_config`` what daemons use, where they differ.
    """

    config: Path
    node_config: Path | None = None
    arguments: tuple[str, ...] = ()
    #: How long a daemon may take until it is ready.
    ready_s: float = PATIENCE_S
    nodes: dict[str, Background] = field(default_factory=dict)
    _starts: int = 0

    def __enter__(self) -> Daemons:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.signal(signal.SIGTERM)
        try:
            for node in self.nodes.values():
                node.process.wait(PATIENCE_S)
        finally:
            for node in self.nodes.values():
                node.kill()

    def start(self, *sites: str) -> Daemons:
        """Start these and wait until they are ready."""
        config = self.node_config or self.config
        starts = {site: self.launch(site) for site in sites}
        for site, start in starts.items():
            # At its own port: others may have to go through something that a test has cut.
            with Client(site, _site_table(config, site)["listen"]) as client:
                try:
                    eventually(f"{site} is ready", partial(self._ready, site, start, client), self.ready_s)
                except AssertionError as error:
                    # What it waits for, it says.
                    raise AssertionError(f"{error}\n{self.nodes[site].err}") from error
        return self

    def hurry(self, *sites: str) -> Daemons:
        """Stop these, or all, and start them without arguments: what would play for minutes ends in seconds then."""
        self.arguments = ()
        stopped = sites or tuple(self.nodes)
        for site in stopped:
            self.nodes[site].signal(signal.SIGTERM)
        for site in stopped:
            self.nodes[site].end().ok()
        return self.start(*stopped)

    def launch(self, site: str) -> Start:
        """Start one, and do not wait for it."""
        start = Start()
        self._starts += 1
        name, folder = f"{site}-{self._starts}", self.config.parent
        words: list[str | Path] = ["node", "--config", self.node_config or self.config, "--site", site, *self.arguments]
        self.nodes[site] = Background(*words, name=name, folder=folder, given=start.environment(environment()))
        return start

    def _ready(self, site: str, start: Start, client: Client) -> bool:
        assert self.nodes[site].process.poll() is None, self.nodes[site].err
        return is_ready(start, client)

    def linked(self, *sites: str) -> Daemons:
        """Wait until these have all their links."""
        for site in sites or tuple(self.nodes):
            eventually(f"{site} has its links", lambda site=site: self._all_up(site))  # type: ignore[misc]
        return self

    def _all_up(self, site: str) -> bool:
        status = self.status(site)
        return status is not None and all(link.state == "up" for link in status.links)

    def client(self, site: str) -> Client:
        table = _site_table(self.config, site)
        return Client(site, table.get("address", table["listen"]))

    def status(self, site: str) -> pb.StatusReply | None:
        with self.client(site) as client:
            try:
                return client.status()
            except (DaemonUnreachableError, NotNowError):
                return None

    def query_id(self, site: str, number: int = 1) -> str:
        """The name of the query that was issued there as that one since the daemon was started."""
        with self.client(site) as client:
            # Those of earlier lives come first.
            return [info.query_id for info in client.queries() if info.query_id.endswith(f"-{number}")][-1]

    def query_info(self, query_id: str) -> pb.QueryInfo:
        with self.client(home_of(query_id)) as client:
            return next(info for info in client.queries() if info.query_id == query_id)


def is_ready(start: Start, client: Client) -> bool:
    """Whether that start of a daemon has come so far."""
    said = start.readiness(client)
    return said is not None and said.ready


def _site_table(config: Path, site: str) -> dict[str, str]:
    table: dict[str, str] = tomllib.loads(config.read_text())["site"][site]
    return table


# -- nothing left behind ----------------------------------------------------------------------


def new_tag() -> str:
    """Mark every process started from now on."""
    os.environ[TAG] = uuid.uuid4().hex
    return os.environ[TAG]


def tagged(tag: str) -> list[int]:
    """Processes, other than this one, that carry the tag."""
    mark = f"{TAG}={tag}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def none_left(tag: str, patience_s: float = PATIENCE_S) -> None:
    """Fail, and end them, if processes with the tag are still there after a while."""
    deadline = time.monotonic() + patience_s
    while (left := tagged(tag)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    said = []
    for pid in left:
        with suppress(OSError):
            said.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            os.kill(pid, signal.SIGKILL)
    assert not left, f"left behind: {said}"
