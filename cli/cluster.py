"""Starts the daemons of a cluster as processes of this machine, and stops exactly those."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from cli.cluster_file import wan_of
from netsim.network import network
from netsim.proxies import Proxies, WanError
from node.client import Client, DaemonUnreachableError
from node.client.start import Start
from node.config import ClusterConfig
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

READY_S_MAX = 60.0
#: Several JVMs that start on a busy machine take their time, and say so meanwhile.
SPARK_READY_S_MAX = 300.0
#: A step that takes longer is mentioned again, each time so long has passed.
_SLOW_S = 30
STOP_S_MAX = 20.0
BLAME_S = 1.0


class ClusterError(NarrowsError):
    """The cluster did not come up, or fell over."""


class LocalCluster:
    """One process per site; ``check_spark`` comes first. They end with this process, whatever happens to it."""

    def __init__(
        self,
        config: ClusterConfig,
        speed: float | None,
        say: Callable[[str], None] = lambda _: None,
        engine: str | None = None,
    ) -> None:
        """``say`` is told how the start goes; ``engine``, if given, is what ``config`` was changed to."""
        self._config = config
        self._speed = speed
        self._say = say
        self._engine = engine
        self._said: set[str] = set()
        self._began_s = 0.0
        #: By site. One that is ready is not asked again.
        self._starts: dict[str, Start] = {}
        self._starting: set[str] = set()
        #: By site, what it does to become ready, if it says so.
        self._steps: dict[str, str] = {}
        self._logs = tempfile.TemporaryDirectory(prefix="narrows-logs-")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._network = ExitStack()
        self._proxies: Proxies | None = None
        #: What a network that was up already had counted before.
        self._proxied_before: dict[tuple[str, str], int] = {}
        #: Bytes from one site to another by the count of the emulated network, once the daemons have stopped.
        self.proxied: dict[tuple[str, str], int] = {}
        self.clients: dict[str, Client] = {}

    def __enter__(self) -> LocalCluster:
        try:
            addresses = {site.name: site.address for site in self._config.sites}
            between = network(self._config.path, addresses, wan_of(self._config))
            self._proxies = self._network.enter_context(between)
            if self._proxies is not None:
                self._proxied_before = self._proxies.counters()
            self._began_s = time.monotonic()
            for site in self._config.sites:
                self._start(site.name)
                self.clients[site.name] = Client(site.name, site.address)
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def _start(self, site: str) -> None:
        command = [sys.executable, "-m", "cli.main", "node", "--config", str(self._config.path), "--site", site]
        # They end with us, so nobody continues what they did.
        command += ["--with-parent", "--no-log"]
        if self._speed is not None:
            command += ["--speed", str(self._speed)]
        if self._engine is not None:
            command += ["--engine", self._engine]
        start = self._starts[site] = Start()
        self._starting.add(site)
        with self._log(site).open("wb") as log:
            # Standard input stays open as long as we live: the daemon stops when it closes.
            self._processes[site] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=start.environment(),
                start_new_session=True,
            )

    def _log(self, site: str) -> Path:
        return Path(self._logs.name) / f"{site}.log"

    def _wait_until_ready(self) -> None:
        patience_s = SPARK_READY_S_MAX if any(site.needs_spark for site in self._config.sites) else READY_S_MAX
        deadline = time.monotonic() + patience_s
        while not self._all_ready() or not self._all_linked():
            self.check()
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster requires all links up within {patience_s:.0f} s; {self._missing()}")
            time.sleep(0.05)

    def _all_ready(self) -> bool:
        """Whether all daemons say so. What is new about their start is passed on."""
        for site in sorted(self._starting):
            said = self._starts[site].readiness(self.clients[site])
            if said is None:
                continue
            self._steps[site] = said.steps[-1] if said.steps else ""
            self._tell(site, said)
            if said.ready:
                self._starting.discard(site)
        return not self._starting

    def _tell(self, site: str, said: pb.ReadyReply) -> None:
        """Steps are told once; a daemon without any was ready at once, which is not worth a word."""
        news = [f"site {site}: {step}" for step in said.steps]
        if news and said.ready:
            news.append(f"site {site}: ready after {time.monotonic() - self._began_s:.1f} s")
        elif news and said.step_seconds >= _SLOW_S:
            news.append(f"{news[-1]}, since {int(said.step_seconds) // _SLOW_S * _SLOW_S} s")
        for text in news:
            if text not in self._said:
                self._said.add(text)
                self._say(text)

    def _all_linked(self) -> bool:
        try:
            return all(link.state == "up" for client in self.clients.values() for link in client.status().links)
        except DaemonUnreachableError:
            return False

    def _missing(self) -> str:
        if self._starting:
            steps = {site: self._steps.get(site, "") for site in sorted(self._starting)}
            told = [f"{site} ({step})" if step else site for site, step in steps.items()]
            return f"{', '.join(told)} did not come up"
        troubles = [
            f"{client.site}-{link.peer} is {link.state} ({link.trouble})"
            for client in self.clients.values()
            for link in client.status().links
            if link.state != "up"
        ]
        return "; ".join(troubles)

    def blame(self) -> None:
        """Like ``check``, after somebody did not answer: a daemon's connections close a little before it has ended."""
        deadline = time.monotonic() + BLAME_S
        while time.monotonic() < deadline and all(process.poll() is None for process in self._processes.values()):
            time.sleep(0.02)
        self.check()

    def check(self) -> None:
        """Raise ClusterError if a daemon has ended, with what it said, or the emulated network."""
        for site, process in self._processes.items():
            code = process.poll()
            if code is not None:
                said = self._log(site).read_text(errors="replace").strip().splitlines()
                raise ClusterError(f"the daemon of site {site} ended ({code}): {_gist(said)}")
        if self._proxies is not None and not self._proxies.is_there():
            raise ClusterError("the emulated network ended: its Toxiproxy server does not listen any more")

    def stop(self) -> None:
        """Ask all to stop, then make sure."""
        for client in self.clients.values():
            client.close()
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
        deadline = time.monotonic() + STOP_S_MAX
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._logs.cleanup()
        if self._proxies is not None:
            # Their server may have died, which is said elsewhere.
            with suppress(WanError):
                counted = self._proxies.settled_counters()
                self.proxied = {way: nbytes - self._proxied_before.get(way, 0) for way, nbytes in counted.items()}
        self._network.close()


def _gist(said: list[str]) -> str:
    errors = [line for line in said if line.startswith("narrows: ")]
    return (errors or said or ["it said nothing"])[-1].removeprefix("narrows: ")
