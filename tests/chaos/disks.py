"""Small disks for the state of each site, which can be filled and freed; and how much sites keep there over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.small_disk import mount, unmount

#: More than a site keeps in any run; Spark's own files are there too.
SIZE = {"native": "256m", "spark": "1g"}
_BALLAST = "ballast"
_EVERY_S = 1.0


class Disks:
    """A file system of its own for each site, where that can be mounted; else folders that cannot be filled."""

    def __init__(self, state: Path, sites: Sequence[str], size: str) -> None:
        self._places = {site: state / site for site in sites}
        self._mounted: list[Path] = []
        #: Why the disks are those of the machine; empty if they are not.
        self.unmounted = ""
        self._began_s = time.monotonic()
        #: By site: (seconds since the beginning, bytes that it keeps).
        self.samples: dict[str, list[tuple[float, int]]] = {site: [] for site in sites}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for place in self._places.values():
            place.mkdir(parents=True)
            if not self.unmounted:
                self._mount(place, size)
        self._thread.start()

    def _mount(self, place: Path, size: str) -> None:
        self.unmounted = mount(place, size)
        if not self.unmounted:
            self._mounted.append(place)

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        for place in self._mounted:
            unmount(place)

    def fill(self, site: str) -> None:
        """Until not a byte more can be written."""
        for nbytes in (1 << 20, 1 << 16, 1 << 9):
            with suppress(OSError), (self._places[site] / _BALLAST).open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(nbytes))

    def free(self, site: str) -> None:
        (self._places[site] / _BALLAST).unlink(missing_ok=True)

    def peak(self, site: str) -> int:
        return max((size for _, size in self.samples[site]), default=0)

    def around(self, site: str, second: float) -> int:
        """The largest of the ten seconds before a moment."""
        return max((size for at, size in self.samples[site] if second - 10 <= at <= second), default=0)

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            for site, place in self._places.items():
                self.samples[site].append((time.monotonic() - self._began_s, _kept(place)))


def _kept(place: Path) -> int:
    total = 0
    # Files come and go meanwhile.
    with suppress(OSError):
        for file in place.rglob("*"):
            with suppress(OSError):
                total += file.stat().st_blocks * 512 if file.name != _BALLAST and file.is_file() else 0
    return total
