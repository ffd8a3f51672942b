"""The records of a site for all threads of its daemon, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from node.core.links.lives import Met
from node.core.records import RecordChange
from node.storage.site_records import Records


class SharedRecords:
    """``Records`` that any thread may use. Whoever waits for a commit waits for a sync: not the event loop."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._using = threading.Lock()
        self.life, self.lives, self.folder = records.life, records.lives, records.folder

    @property
    def met(self) -> Mapping[str, Met]:
        return self._records.met

    def remember(self, peer: str, met: Met) -> None:
        with self._using:
            self._records.remember(peer, met)

    def all(self, kind: str) -> dict[str, bytes]:
        with self._using:
            return self._records.all(kind)

    def commit(self, changes: Iterable[RecordChange]) -> None:
        with self._using:
            self._records.commit(changes)
