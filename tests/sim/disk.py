"""A disk in memory that forgets in a crash what disks may forget, by seed.

A crash keeps what was synced. What else it leaves may go in the next one: the first may have killed a process, whose
writes are with the system, and the second cuts the power. Of bytes written since, it keeps any prefix; sometimes the
file is as long as it was, and what is missing, at the end or in the middle, is zeros. Each name that was made, moved
or removed since the names were synced is, one by one, as it is or as it was.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from node.storage.disk import Bytes


class PowerLostError(Exception):
    """The disk was told to crash at this operation."""


@dataclass
class _File:
    data: bytearray = field(default_factory=bytearray)
    #: What a crash leaves for certain.
    synced: bytes = b""


class SimulatedFile:
    """A file that is open to be written at its end."""

    def __init__(self, disk: SimulatedDisk, file: _File) -> None:
        self._disk = disk
        self._file = file

    def append(self, data: Sequence[Bytes]) -> None:
        self._disk.operate()
        for part in data:
            taken = len(part) if self._disk.room is None else min(len(part), self._disk.room)
            self._file.data += part[:taken]
            if self._disk.room is not None:
                self._disk.room -= taken
            if taken < len(part):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        self._disk.operate()
        self._disk.check_sync()
        self._disk.syncs += 1
        self._file.synced = bytes(self._file.data)

    def truncate(self, nbytes: int) -> None:
        self._disk.operate()
        if self._disk.room is not None:
            self._disk.room += len(self._file.data) - nbytes
        del self._file.data[nbytes:]

    def close(self) -> None:
        pass


class SimulatedDisk:
    """One folder."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        #: Bytes that still fit; None: any number.
        self.room: int | None = None
        #: Power is lost at the operation after so many more; None: at none.
        self.operations_left: int | None = None
        #: The next sync fails with this error, and what it was to keep is lost in a crash; None: it does not.
        self.sync_error: int | None = None
        #: How often bytes, and names, were synced.
        self.syncs = 0
        self.names_synced = 0
        self.operations = 0

    @property
    def path(self) -> str:
        return "simulated"

    def operate(self) -> None:
        """Something is to be changed."""
        self.operations += 1
        if self.operations_left is not None:
            if self.operations_left == 0:
                raise PowerLostError
            self.operations_left -= 1

    def check_sync(self) -> None:
        """Raise OSError if this sync is to fail."""
        if self.sync_error is not None:
            number, self.sync_error = self.sync_error, None
            raise OSError(number, os.strerror(number))

    def crash(self) -> None:
        """Power is lost and comes back."""
        names: dict[str, _File] = {}
        for name in sorted({*self._names, *self._synced_names}):
            now, before = self._names.get(name), self._synced_names.get(name)
            kept = self._rng.choice((now, before))
            if kept is not None:
                names[name] = kept
        left = {id(file): self._left_of(file) for file in names.values()}
        gone = {id(file): _File(bytearray(file.synced), file.synced) for file in self._synced_names.values()}
        self._names = {name: left[id(file)] for name, file in names.items()}
        self._synced_names = {name: (gone | left)[id(file)] for name, file in self._synced_names.items()}
        self.operations_left = None

    def _left_of(self, file: _File) -> _File:
        data, synced = bytes(file.data), file.synced
        if not data.startswith(synced):  # it was cut, which is either done or not
            data = synced = self._rng.choice((data, synced))
        cut = self._rng.randint(len(synced), len(data))
        kept = data[:cut]
        if self._rng.random() < 0.4:
            # Pages go to the disk in any order: a later one may be there while an earlier one is not.
            end = self._rng.choice((len(data), self._rng.randint(cut, len(data))))
            kept += bytes(end - cut) + data[end:]
        return _File(bytearray(kept), synced)

    # -- the folder ---------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self._names)

    def create(self, name: str) -> SimulatedFile:
        self.operate()
        self._names[name] = _File()
        return SimulatedFile(self, self._names[name])

    def open(self, name: str) -> SimulatedFile:
        return SimulatedFile(self, self._names[name])

    def size(self, name: str) -> int:
        return len(self._names[name].data)

    def read(self, name: str, offset: int, nbytes: int) -> bytes:
        return bytes(self._names[name].data[offset : offset + nbytes])

    def rename(self, name: str, new_name: str) -> None:
        self.operate()
        self._names[new_name] = self._names.pop(name)

    def remove(self, name: str) -> None:
        self.operate()
        if self.room is not None:
            self.room += len(self._names[name].data)
        del self._names[name]

    def sync_names(self) -> None:
        self.operate()
        self.check_sync()
        self._synced_names = dict(self._names)
        self.names_synced += 1

    # -- damage -------------------------------------------------------------------------------

    def flip(self, name: str, byte: int, bit: int) -> None:
        """One bit of what is there is not as it was written."""
        self._names[name].data[byte] ^= 1 << bit
        self._names[name].synced = bytes(self._names[name].data)

    def cut(self, name: str, nbytes: int) -> None:
        """Only the first bytes are there."""
        del self._names[name].data[nbytes:]
        self._names[name].synced = bytes(self._names[name].data)
