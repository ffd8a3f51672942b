"""What takes the batches of a local stream, each from its own tick on: tables, and copies that others hold.

Whoever begins in the past reads the stream's log until it has caught up, one piece at a time; then it takes each batch
as it is sealed.
"""

from __future__ import annotations

from typing import Protocol

from node.core.effects import ReadLog
from node.core.links.outbox import Outbox


class Feed(Protocol):
    """Something that is fed."""

    @property
    def frontier(self) -> int:
        """The next tick that it wants."""
        ...


class LogReaders:
    """Who reads which stream's log."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._count = 0
        self._reading: dict[int, tuple[str, Feed]] = {}
        #: By what is fed: the stream. They are behind, and nothing is being read for them.
        self._paused: dict[Feed, str] = {}

    def begin(self, stream: str, feed: Feed) -> None:
        """Read on for someone who is behind."""
        self._paused.pop(feed, None)
        self._count += 1
        self._reading[self._count] = stream, feed
        self._outbox.do(ReadLog(self._count, stream, feed.frontier))

    def pause(self, stream: str, feed: Feed) -> None:
        """Someone who is behind wants no more for now."""
        self._paused[feed] = stream

    def take(self, reader: int) -> tuple[str, Feed] | None:
        """Who asked for what was read; None if nobody wants it any more."""
        return self._reading.pop(reader, None)

    def forget(self, feed: Feed) -> None:
        """Somebody wants nothing any more."""
        self._paused.pop(feed, None)
        for reader in [reader for reader, (_, other) in self._reading.items() if other is feed]:
            del self._reading[reader]

    def behind(self, stream: str) -> list[Feed]:
        """Those who read that stream's log."""
        reading = [feed for name, feed in self._reading.values() if name == stream]
        return reading + [feed for feed, name in self._paused.items() if name == stream]

    def is_behind(self, feed: Feed) -> bool:
        """Whether a log is read for somebody."""
        return feed in self._paused or any(other is feed for _, other in self._reading.values())

    @property
    def paused(self) -> list[tuple[Feed, str]]:
        """Those who are behind and for whom nothing is being read."""
        return list(self._paused.items())

    @property
    def all(self) -> list[tuple[str, Feed]]:
        """All who are behind, each with its stream."""
        return [*self._reading.values(), *((stream, feed) for feed, stream in self._paused.items())]

    @property
    def in_use(self) -> bool:
        return bool(self._reading or self._paused)
