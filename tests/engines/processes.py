"""Processes that Spark is made of, found from the one that was started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def children(pid: int) -> list[int]:
    """Direct children that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent(int(entry.name)) == pid:
            found.append(int(entry.name))
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def command(pid: int) -> str:
    """How a process was started; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def jvms(pid: int, main: str = "") -> list[int]:
    """The JVMs below a process."""
    return [below for below in descendants(pid) if "java" in command(below).split(" ")[0] and main in command(below)]


def workers(jvm: int) -> list[int]:
    """The Python workers of a JVM: its one Python child forks them."""
    forkers = [child for child in children(jvm) if "pyspark.daemon" in command(child)]
    return [worker for forker in forkers for worker in children(forker)]


def kill(pid: int) -> None:
    """At once."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    """Until it is so; a limit only against waiting for ever."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended; one whose parent has not looked yet has."""
    return _parent(pid) is None


def _parent(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else int(fields[1])
