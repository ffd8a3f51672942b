"""Those who are behind their stream catch up: its log is read for them, piece by piece, as far as they can take it.

What is read for a copy is sent in pieces, which hardly keep what else is sent waiting (``node.core.links.pace``).

A copy whose tuples are looked for in tables must not be further than those tables, or it would be told of keys whose
tuples cannot be found yet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from node.core.arrangements.copies.copy import OwnedCopy
from node.core.arrangements.copies.mixed_copy import MixedOwner
from node.core.arrangements.copies.owned_copies import OwnedCopies
from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.fed import Fed
from node.core.arrangements.feeds import Feed, LogReaders
from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.table import RowTable
from node.core.effects import AskReceipt
from node.core.errors import QueryFailedError
from node.core.limits import Limits
from node.core.links.outbox import Outbox
from node.core.links.pace import Pace
from node.core.status import CatchingUp
from node.core.streams.sealer import Batch
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.core.streams.view import SealedRows, joined

#: However little is sent for what is read, a piece is made of no more than so much of it.
_RATIO_MIN = 1 / 64

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
        self.pace = Pace(limits)
        #: What was read for copies and is to be sent, in order.
        self._read: dict[OwnedCopy, deque[SealedRows]] = {}
        #: Of copies that are behind: how many bytes were sent for one that was read.
        self._ratio: dict[OwnedCopy, float] = {}
        #: What was sent in this turn, by peer.
        self._sent_now: Counter[str] = Counter()

    def forget(self, copy: OwnedCopy) -> None:
        """A copy is closed."""
        self._read.pop(copy, None)
        self._ratio.pop(copy, None)

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
        parts = [stream.rows_of(batch, now_us) for batch in batches]
        if not parts and feed.frontier < stream.fed:
            raise self._gap(name, feed, "got nothing: it is not there any more")
        if isinstance(feed, OwnedCopy):
            if parts:
                self._take(stream, feed, parts)
            else:
                self._end_of_read(stream, feed)
            return fed
        assert isinstance(feed, RowTable | HeadCursor)
        # Heads are walked as they were sealed; to the engine of a table each batch is a run.
        for sealed in parts if isinstance(feed, HeadCursor) else joined(parts):
            if not sealed.span.first <= feed.frontier < sealed.span.end:
                raise self._gap(name, feed, f"got {sealed.span}")
            if not self._feed(stream, feed, sealed, fed):
                break
        end = feed.table.frontier if isinstance(feed, HeadCursor) else stream.fed
        if feed.frontier < end:
            if self._has_enough(name, feed, full):
                self._readers.pause(name, feed)
            else:
                self._readers.begin(name, feed)
        return fed

    def _feed(self, stream: StreamState, feed: RowTable | HeadCursor, sealed: SealedRows, fed: Fed) -> bool:
        """Give a table, or a head, the next batch; whether it may have more."""
        if isinstance(feed, RowTable):
            part = sealed.after(feed.frontier, stream.tau)
            feed.take(part)
            fed.batches.append((feed, part))
            fed.woken += feed.progress.release()
            return True
        if not feed.is_behind:
            return False
        part = sealed.after(feed.frontier, stream.tau)
        feed.frontier = part.span.end
        fed.heads.append((feed, part))
        return True

    # -- copies -------------------------------------------------------------------------------

    def send_on(self) -> Fed:
        """Send copies that are behind the next pieces of what was read for them, as fast as their links take it."""
        fed = Fed()
        sending = list(self._read)
        while sending:
            # A piece for each in turn: they share the link.
            sending = [copy for copy in sending if self._send_piece(copy, fed)]
        self._sent_now.clear()
        return fed

    def _send_piece(self, copy: OwnedCopy, fed: Fed) -> bool:
        """Send a copy its next piece, if it may have one now; whether it had it and may have another."""
        stream, parts = self._streams[copy.spec.stream], self._read[copy]
        readable = self._readable(stream.info.name, copy)
        tau_us = 1000 * (stream.tau // stream.info.unit)
        waiting_bytes = self._outbox.backlog_bytes(copy.peer) + self._sent_now[copy.peer]
        if copy.frontier >= readable or not self.pace.may_send(copy.peer, tau_us, waiting_bytes):
            return False
        allowed, taken, sent = self.pace.piece_bytes(copy.peer, tau_us) / self._ratio[copy], 0, copy.sent_bytes
        while parts and taken < allowed and copy.frontier < readable:
            part = parts.popleft()
            end = min(part.end_within(allowed - taken, stream.tau), readable)
            if end < part.span.end:
                parts.appendleft(part.after(end, stream.tau))
            piece = part.before(end, stream.tau)
            taken += piece.nbytes
            fed.woken += self._owned.feed(copy, piece)  # type: ignore[arg-type]
        self._note_sent(copy, taken, copy.sent_bytes - sent)
        del self._read[copy]
        if not parts:
            self._end_of_read(stream, copy)
            return False
        # Behind those that share the link.
        self._read[copy] = parts
        return True

    def _note_sent(self, copy: OwnedCopy, taken: int, sent: int) -> None:
        """A piece of what was read led to so many bytes. The next may be larger if that was little, but not at once."""
        if taken:
            self._ratio[copy] = max(sent / taken, self._ratio[copy] / 2, _RATIO_MIN)
        if sent:
            self._sent_now[copy.peer] += sent
            self.pace.sent(copy.peer)
            self._outbox.do(AskReceipt(copy.peer))

    def _end_of_read(self, stream: StreamState, copy: OwnedCopy) -> None:
        """All that was read for a copy is sent: it has caught up, or more is read."""
        if copy.frontier < stream.fed:
            self._readers.pause(stream.info.name, copy)
        else:
            self._readers.forget(copy)
            self._ratio.pop(copy, None)
            self._owned.say_level(copy)

    def _take(self, stream: StreamState, copy: OwnedCopy, found: Sequence[SealedRows]) -> None:
        """Keep for a copy what was read, as few batches: each costs a message."""
        frontier = copy.frontier
        for part in found:
            if not part.span.first <= frontier < part.span.end:
                raise self._gap(stream.info.name, copy, f"got {part.span}")
            frontier = part.span.end
        first = found[0].after(copy.frontier, stream.tau)
        self._read[copy] = deque(joined([first, *found[1:]]))
        if not any(other.peer == copy.peer for other in self._ratio):
            self.pace.begin(copy.peer)
        self._ratio.setdefault(copy, 1.0)
        self._readers.pause(stream.info.name, copy)

    # -- for reports --------------------------------------------------------------------------

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
                self._readers.begin(stream, feed)

    def _has_enough(self, stream: str, feed: Feed, full: IsFull) -> bool:
        if isinstance(feed, RowTable | HeadCursor):
            return full(feed)
        assert isinstance(feed, OwnedCopy)
        return feed in self._read or self._readable(stream, feed) <= feed.frontier

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
