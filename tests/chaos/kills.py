"""Kills daemons and the Java machines below them at random moments, and starts them again with the same command."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cli.asking import ask_all
from tests.chaos.load import SITES
from tests.chaos.recoveries import JAVA, Recoveries
from tests.chaos.switches import KILLED, Trouble
from tests.chaos.watch import Watch
from tests.e2e.harness import Daemons

#: A daemon that was killed is away for up to so long before it is started again.
_AWAY_S_MAX = 2.0
#: Of the kills of a site on Spark, so many hit its Java and not the daemon.
_JAVA_SHARE = 0.4
_SAID_MAX = 1_500

Say = Callable[[str], None]


class Killer:
    """One thread that kills, at times between which ``mean_s`` seconds pass on the mean."""

    def __init__(
        self,
        daemons: Daemons,
        watch: Watch,
        recoveries: Recoveries,
        mean_s: float,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._daemons = daemons
        self._watch = watch
        self._recoveries = recoveries
        self._mean_s = mean_s
        self._draw = random.Random(seed)
        self._say = say
        self._began_s = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: Daemons that ended although nobody had killed them, with what they said; and why killing ended too early.
        self.ended: list[str] = []
        #: Each from its kill until what was killed is started again.
        self.kills: list[Trouble] = []

    def start(self) -> None:
        self._watch.on_look = self._looked
        self._thread.start()

    def stop(self) -> None:
        """Kill nothing more. All daemons are there, or on their way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _looked(self, *look: object) -> None:
        self._recoveries.looked(*look)  # type: ignore[arg-type]

    def _run(self) -> None:
        try:
            self._kill_on()
        except Exception as error:
            # A run in which nothing is killed any more would pass.
            self.ended.append(f"killing ended: {type(error).__name__}: {error}")
            self._tell(self.ended[-1])

    def _kill_on(self) -> None:
        while not self._stopped.wait(self._draw.expovariate(1 / self._mean_s)):
            self._restart_ended()
            site = self._draw.choice(SITES)
            java = java_below(self._daemons.nodes[site].process.pid)
            if java and self._draw.random() < _JAVA_SHARE and self._serves(site):
                self._kill_java(site, java)
            else:
                self._kill_daemon(site)
        self._restart_ended()

    def _serves(self, site: str) -> bool:
        """A daemon whose Java dies while it starts ends, and says so: that is not what is tried here."""
        return not isinstance(ask_all({site: self._watch.clients[site]})[site], str)

    def _kill_daemon(self, site: str) -> None:
        self._recoveries.killed()
        node = self._daemons.nodes[site]
        killed_ms = 1000 * time.time()
        node.signal(signal.SIGKILL)
        node.process.wait()
        away_s = self._draw.uniform(0, _AWAY_S_MAX)
        self._tell(f"kill -9 of {site}, away for {away_s:.1f} s")
        time.sleep(away_s)
        self.kills.append(Trouble(KILLED, killed_ms, 1000 * time.time()))
        self._start(f"daemon {site}", site)

    def _start(self, kind: str, site: str) -> None:
        others = {name: client for name, client in self._watch.clients.items() if name != site}
        statuses = ask_all(others)
        self._recoveries.began(kind, site, time.monotonic(), statuses)
        self._daemons.launch(site)

    def _kill_java(self, site: str, pid: int) -> None:
        killed_s = time.monotonic()
        if not kill(pid):
            return
        self._recoveries.killed()
        self._recoveries.began(JAVA, site, killed_s, {})
        self.kills.append(Trouble(KILLED, 1000 * time.time(), 1000 * time.time()))
        self._tell(f"kill -9 of the Java of {site}")

    def _restart_ended(self) -> None:
        for site, node in list(self._daemons.nodes.items()):
            code = node.process.poll()
            if code is not None:
                self.ended.append(f"{site} ended by itself with {code}: {node.err[-_SAID_MAX:]}")
                self._tell(self.ended[-1])
                self._recoveries.killed()
                self._start("ended by itself", site)

    def _tell(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._began_s:6.0f} s  {text}")


def kill(pid: int) -> bool:
    """Whether there was such a process: it may just have ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def java_below(pid: int) -> int:
    """The process of Java that a daemon has started; 0: there is none, or it is just ending."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        for child in [child for task in tasks for child in (task / "children").read_text().split()]:
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                return int(child)
            if found := java_below(int(child)):
                return found
    except OSError:
        return 0
    return 0
