"""Connections of this machine, as the kernel lists them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_ESTABLISHED = "01"
#: The columns of the kernel's list: ends as address:port in hexadecimal, the state, the socket's number.
_LOCAL, _REMOTE, _STATE, _INODE = 1, 2, 3, 9


def _listed() -> Iterable[list[str]]:
    """Established connections, of both families: gRPC opens sockets that can do both."""
    for family in ("tcp", "tcp6"):
        lines = Path(f"/proc/net/{family}").read_text().splitlines()[1:]
        yield from (fields for fields in map(str.split, lines) if fields[_STATE] == _ESTABLISHED)


def _ends(ports: Iterable[int]) -> dict[int, set[str]]:
    """For each port the ends that dialled it."""
    found: dict[int, set[str]] = {port: set() for port in ports}
    for fields in _listed():
        port = int(fields[_REMOTE].rpartition(":")[2], 16)
        if port in found:
            found[port].add(fields[_LOCAL])
    return found


def dialled(ports: Iterable[int]) -> Counter[int]:
    """For each port how many connections to it are established, by the end that dialled."""
    return Counter({port: len(ends) for port, ends in _ends(ports).items()})


def dialled_by(pid: int, ports: Iterable[int]) -> Counter[int]:
    """The same, of one process."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    remotes = (
        int(fields[_REMOTE].rpartition(":")[2], 16) for fields in _listed() if f"socket:[{fields[_INODE]}]" in own
    )
    found = Counter(remotes)
    return Counter({port: found[port] for port in set(ports)})


class Watch:
    """How often there was more than one connection dialled to a port, looked at many times a second.

    The kernel's list is not read in one moment: a connection that ends and the one that replaces it may both be in it.
    So what is in one reading is read again: if both are in the second one too, the old one was there after the first
    had seen the new one.
    """

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = list(ports)
        #: Looks that saw one connection, and those that saw more, of any port.
        self.one = 0
        self.more = 0
        self.looks = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            first = _ends(self._ports)
            self.one += any(len(ends) == 1 for ends in first.values())
            if any(len(ends) > 1 for ends in first.values()):
                second = _ends(self._ports)
                self.more += any(len(first[port] & second[port]) > 1 for port in self._ports)
            self.looks += 1
