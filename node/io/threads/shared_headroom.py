"""The room that a daemon keeps for its records, while several threads write beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from node.storage.errors import NoRoomError
from node.storage.headroom import Headroom


class SharedHeadroom(Headroom):
    """``Headroom`` of which any thread may ask for the use of other room; one lends and reserves."""

    def __init__(self, folder: Path, nbytes: int, wait: Callable[[NoRoomError], None] | None = None) -> None:
        super().__init__(folder, nbytes, wait)
        #: So many are writing something that is no record; told when one has done so.
        self._users = 0
        self._using = threading.Condition()

    @contextmanager
    def use(self, folder: Path) -> Iterator[None]:
        with self._using:
            self._require_other_room(folder)
            self._users += 1
        try:
            yield
        finally:
            with self._using:
                self._users -= 1
                self._using.notify_all()

    def _release(self, why: str) -> bool:
        with self._using:
            self.lent = self.lent or why
            # Who began before it was lent must not end in it.
            self._using.wait_for(lambda: not self._users)
        return super()._release(why)
