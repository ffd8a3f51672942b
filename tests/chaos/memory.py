"""How much memory processes have, all the time: a peak between two looks is a peak too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.2
#: Finding children reads all of /proc: not that often.
_CHILDREN_EVERY_S = 5.0


class Memory:
    """Samples the resident memory of daemons, and apart from them that of their children, which are Spark."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._began_s = time.monotonic()
        self._stopped = threading.Event()
        #: By name: (seconds since the beginning, bytes).
        self.samples: dict[str, list[tuple[float, int]]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def peak(self, name: str) -> int:
        return max(size for _, size in self.samples[name])

    def around(self, name: str, second: float) -> int:
        """The largest of the ten seconds before a moment."""
        near = [size for at, size in self.samples[name] if second - 10 <= at <= second]
        return max(near, default=0)

    @property
    def seconds(self) -> float:
        return max((samples[-1][0] for samples in self.samples.values()), default=0.0)

    def _run(self) -> None:
        children: dict[str, list[int]] = {}
        looked_s = -_CHILDREN_EVERY_S
        while not self._stopped.wait(_EVERY_S):
            now_s = time.monotonic() - self._began_s
            pids = self._pids()
            if now_s - looked_s >= _CHILDREN_EVERY_S:
                looked_s = now_s
                parents = _parents()
                children = {name: _descendants(pid, parents) for name, pid in pids.items()}
            for name, pid in pids.items():
                self._note(name, now_s, _resident(pid))
                if children.get(name):
                    self._note(f"{name} spark", now_s, sum(map(_resident, children[name])))

    def _note(self, name: str, now_s: float, size: int) -> None:
        if size:
            self.samples.setdefault(name, []).append((now_s, size))


def _resident(pid: int) -> int:
    """Memory now; 0 of a process that is gone. The peak that a process reports includes that of its parent."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return found


def _descendants(pid: int, parents: Mapping[int, int]) -> list[int]:
    found, last = [], [pid]
    while last := [child for child, parent in parents.items() if parent in last]:
        found += last
    return found
