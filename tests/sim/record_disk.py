"""The records of a site on a disk that takes its time: a crash keeps what is durable, and a first part of the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence

from node.core.records import Put, RecordChange


class RecordDisk:
    """Groups of changes, each all or nothing, durable in the order in which they were handed over."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        #: What a crash leaves for certain, by kind and key; and what was handed over and may be there after one.
        self.durable: dict[str, dict[str, bytes]] = {}
        self._pending: list[tuple[RecordChange, ...]] = []

    @property
    def pending(self) -> int:
        """How many groups are not durable."""
        return len(self._pending)

    def put(self, change: RecordChange) -> None:
        """A change that is durable at once, whatever waits."""
        self._make((change,))

    def write(self, changes: Sequence[RecordChange]) -> None:
        """The changes are handed over."""
        self._pending.append(tuple(changes))

    def sync(self) -> list[tuple[RecordChange, ...]]:
        """All that was handed over is durable: which groups that were."""
        pending, self._pending = self._pending, []
        for changes in pending:
            self._make(changes)
        return pending

    def crash(self) -> list[tuple[RecordChange, ...]]:
        """Power is lost: a transaction was committed or not, and none without those before it. Which ones were."""
        kept = self._pending[: self._rng.randint(0, len(self._pending))]
        for changes in kept:
            self._make(changes)
        self._pending = []
        return kept

    def _make(self, changes: Sequence[RecordChange]) -> None:
        for change in changes:
            of_kind = self.durable.setdefault(change.kind, {})
            if isinstance(change, Put):
                of_kind[change.key] = change.value
            else:
                of_kind.pop(change.key, None)
