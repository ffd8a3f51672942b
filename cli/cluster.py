"""Starts the daemons of a cluster as processes of this machine, and stops exactly those."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from cli.client import Client, DaemonUnreachableError
from node.config import ClusterConfig
from planner.errors import NarrowsError

READY_S_MAX = 60.0
#: What a daemon logs once its port is its own. Until then, whoever answers there is somebody else.
_LISTENS = "listens on"
STOP_S_MAX = 10.0
BLAME_S = 1.0


class ClusterError(NarrowsError):
    """The cluster did not come up, or fell over."""


class LocalCluster:
    """One process per site. They end with this process, whatever happens to it."""

    def __init__(self, config: ClusterConfig, speed: float | None) -> None:
        self._config = config
        self._speed = speed
        self._logs = tempfile.TemporaryDirectory(prefix="narrows-logs-")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.clients: dict[str, Client] = {}

    def __enter__(self) -> LocalCluster:
        try:
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
        command.append("--with-parent")
        if self._speed is not None:
            command += ["--speed", str(self._speed)]
        with self._log(site).open("wb") as log:
            # Standard input stays open as long as we live: the daemon stops when it closes.
            self._processes[site] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, site: str) -> Path:
        return Path(self._logs.name) / f"{site}.log"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not (self._all_listen() and self._all_linked()):
            self.check()
            if time.monotonic() > deadline:
                raise ClusterError(f"the cluster requires all links up within {READY_S_MAX:.0f} s; {self._missing()}")
            time.sleep(0.05)

    def _all_listen(self) -> bool:
        return all(_LISTENS in self._log(site).read_text(errors="replace") for site in self._processes)

    def _all_linked(self) -> bool:
        try:
            return all(link.state == "up" for client in self.clients.values() for link in client.status().links)
        except DaemonUnreachableError:
            return False

    def _missing(self) -> str:
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
        """Raise ClusterError if a daemon has ended, with what it said."""
        for site, process in self._processes.items():
            code = process.poll()
            if code is not None:
                said = self._log(site).read_text(errors="replace").strip().splitlines()
                raise ClusterError(f"the daemon of site {site} ended ({code}): {_gist(said)}")

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


def _gist(said: list[str]) -> str:
    errors = [line for line in said if line.startswith("narrows: ")]
    return (errors or said or ["it said nothing"])[-1].removeprefix("narrows: ")
