"""Those who are behind their stream catch up: its log is read for them, piece by piece, as far as they can take it.

A copy whose tuples are looked for in tables must not be further than those tables, or it would be told of keys whose
tuples cannot be found yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from node.core.arrangements.copies.copy import OwnedCopy
from node.core.arrangements.copies.mixed_copy import MixedOwner
from node.core.arrangements.copies.owned_copies import OwnedCopies
from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.fed import Fed
from node.core.arrangements.feeds import Feed, LogReaders
from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.table import RowTable
from node.core.errors import QueryFailedError
from node.core.limits import Limits
from node.core.links.outbox import Outbox
from node.core.status import CatchingUp
from node.core.streams.sealer import Batch
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.core.streams.view import SealedRows, joined

#: Whether those whom a table or a cursor feeds have enough for now.
IsFull = Callable[[RowTable | HeadCursor], bool]


class LogGapError(QueryFailedError):
    """A stream's log does not have what these queries still need."""

    def __init__(self, text: str, queries: Iterable[str]) -> None:
        super().__init__(text)
        self.queries = tuple(dict.fromkeys(queries))


class CatchUp:
    """Reads logs for tables and copies of a site's streams."""

    def __init__(
        self,
        streams: Mapping[str, StreamState],
        readers: LogReaders,
        owned: OwnedCopies,
        outbox: Outbox,
        limits: Limits,
    ) -> None:
        self._streams = streams
        self._readers = readers
        self._owned = owned
        self._outbox = outbox
        self._limits = limits
        #: Copies whose next batch may not be read yet, and how far could be read when that was seen.
        self._blocked: dict[OwnedCopy, int] = {}

    def forget(self, copy: OwnedCopy) -> None:
        """A copy is closed."""
        self._blocked.pop(copy, None)

    def on_read(self, reader: int, batches: tuple[Batch, ...], now_us: int, full: IsFull) -> Fed:
        """Batches out of a stream's log, for someone who is behind.

        Raises LogGapError if they are not those that were to come.
        """
        fed = Fed()
        found = self._readers.take(reader)
        if found is None:
            return fed
        name, feed = found
        stream = self._streams[name]
        for sealed in self._portions(stream, feed, [stream.rows_of(batch, now_us) for batch in batches]):
            if not sealed.span.first <= feed.frontier < sealed.span.end:
                raise self._gap(name, feed, f"got {sealed.span}")
            if not self._feed(stream, feed, sealed, fed):
                break
        if not batches and feed.frontier < stream.fed:
            raise self._gap(name, feed, "got nothing: it is not there any more")
        end = feed.table.frontier if isinstance(feed, HeadCursor) else stream.fed
        if feed.frontier < end:
            if self._has_enough(name, feed, full):
                self._readers.pause(name, feed)
            else:
                self._readers.begin(name, feed)
        return fed

    def _portions(self, stream: StreamState, feed: Feed, found: Sequence[SealedRows]) -> Sequence[SealedRows]:
        """What was read, as few batches: each costs a run of the engine, or a message.

        Heads are walked as they were sealed. A copy gets what it may have by now apart from the rest.
        """
        if isinstance(feed, HeadCursor):
            return found
        readable = self._readable(stream.info.name, feed) if isinstance(feed, OwnedCopy) else TICK_END
        by_now = [sealed for sealed in found if sealed.span.end <= readable]
        return [*joined(by_now), *found[len(by_now) :]]

    def _feed(self, stream: StreamState, feed: Feed, sealed: SealedRows, fed: Fed) -> bool:
        """Give someone the next batch; whether it may have more."""
        if isinstance(feed, RowTable):
            part = sealed.after(feed.frontier, stream.tau)
            feed.take(part)
            fed.batches.append((feed, part))
            fed.woken += feed.progress.release()
        elif isinstance(feed, HeadCursor):
            if not feed.is_behind:
                return False
            part = sealed.after(feed.frontier, stream.tau)
            feed.frontier = part.span.end
            fed.heads.append((feed, part))
        else:
            assert isinstance(feed, OwnedCopy)
            readable = self._readable(stream.info.name, feed)
            if sealed.span.end > readable:
                self._blocked[feed] = readable
                return False
            fed.woken += self._owned.feed(feed, sealed)  # type: ignore[arg-type]
        return True

    def statuses(self) -> list[CatchingUp]:
        """Who is behind, and how far."""
        return [self._status(stream, feed) for stream, feed in self._readers.all]

    def _status(self, stream: str, feed: Feed) -> CatchingUp:
        if isinstance(feed, HeadCursor):
            return CatchingUp(stream, "head", "", (feed.query_id,), feed.frontier, feed.table.frontier)
        assert isinstance(feed, RowTable | OwnedCopy)
        what, peer = ("copy", feed.peer) if isinstance(feed, OwnedCopy) else ("window", "")
        queries = dict.fromkeys(lease.query_id for lease in feed.leases)
        return CatchingUp(stream, what, peer, tuple(queries), feed.frontier, self._streams[stream].fed)

    def on_unread(self, reader: int, reason: str) -> tuple[str, ...]:
        """What was to be read for somebody cannot be; the queries that end because of it."""
        found = self._readers.take(reader)
        return () if found is None else self._give_up(found[1], reason)

    def _gap(self, stream: str, feed: Feed, got: str) -> LogGapError:
        text = f"stream {stream} requires tick {feed.frontier} in its log; {got}"
        return LogGapError(text, self._give_up(feed, text))

    def _give_up(self, feed: Feed, reason: str) -> tuple[str, ...]:
        """The queries that lose a table which cannot be filled.

        A copy is broken off: that ends those who use it, and not those who only might.
        """
        if isinstance(feed, OwnedCopy):
            self._owned.break_off(feed, reason)
            return ()
        if isinstance(feed, HeadCursor):
            return (feed.query_id,)
        assert isinstance(feed, RowTable)
        return tuple(dict.fromkeys(lease.query_id for lease in feed.leases))

    def read_on(self, full: IsFull) -> None:
        """Go on reading for those who are behind and can take more."""
        for feed, stream in self._readers.paused:
            if not self._has_enough(stream, feed, full):
                self._blocked = {copy: readable for copy, readable in self._blocked.items() if copy is not feed}
                self._readers.begin(stream, feed)

    def _has_enough(self, stream: str, feed: Feed, full: IsFull) -> bool:
        if isinstance(feed, RowTable | HeadCursor):
            return full(feed)
        assert isinstance(feed, OwnedCopy)
        readable = self._readable(stream, feed)
        return readable <= feed.frontier or self._blocked.get(feed) == readable or self._is_busy(feed.peer)

    def _is_busy(self, peer: str) -> bool:
        """Whether so much waits for the link with a site that the past of a stream has to wait too."""
        return self._outbox.backlog_bytes(peer) > self._limits.inflight_bytes_max

    def _readable(self, stream: str, copy: OwnedCopy) -> int:
        """How far the log may be read for a copy: not beyond the tables in which tuples are looked for on its behalf.

        A query whose start is not known here yet has no such table of the past.
        """
        if not isinstance(copy, ReducedOwner | MixedOwner):
            return TICK_END
        if any(lease.frozen for lease in copy.leases if lease.query_id in copy.users):
            return TICK_MIN
        behind = [feed for feed in self._readers.behind(stream) if isinstance(feed, RowTable)]
        tables = [table for table in behind if any(lease.query_id in copy.users for lease in table.leases)]
        return min((table.frontier for table in tables), default=TICK_END)
