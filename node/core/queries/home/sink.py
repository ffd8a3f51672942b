"""The sink's ledger: which walks of which heads are stored.

A walk is known by (query, head, first tick). It is stored once, however often
it arrives, and its head is **done** up to a tick when every walk before that
tick is stored. Walks may arrive in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.errors import PeerProtocolError, invariant
from node.core.streams.ticks import TICK_END, Span


class HeadLedger:
    """Progress of one head at the sink."""

    def __init__(self, head: str, first_tick: int) -> None:
        self._head = head
        #: Ends of the walks at or after ``done`` that were taken, by first tick; stored or being stored.
        self._taken: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        #: Every walk before this tick is stored.
        self.done = first_tick

    @property
    def is_storing(self) -> bool:
        """Whether some walk was taken and is not stored."""
        return len(self._taken) > len(self._stored)

    @property
    def islands(self) -> list[Span]:
        """Walks beyond ``done`` that are stored, or being stored: whoever begins again leaves them out."""
        return [Span(first, end) for first, end in sorted(self._taken.items())]

    def found(self, span: Span) -> None:
        """The store has this walk from an earlier life."""
        if span.end > self.done:
            required = f"head {self._head} requires stored walks before tick {self.done}, or from there on"
            invariant(span.first >= self.done, f"{required}; got {span}")
            self._taken[span.first] = span.end
            self.stored(span)

    def take(self, span: Span) -> bool:
        """Claim a walk for storing; False if it was taken before.

        Raises PeerProtocolError for a walk that overlaps one already taken.
        """
        if span.end <= self.done or self._taken.get(span.first) == span.end:
            return False
        for first, end in self._taken.items():
            if span.first < end and first < span.end:
                raise PeerProtocolError(
                    f"head {self._head} requires walks that do not overlap; got {span} beside {Span(first, end)}"
                )
        if span.first < self.done:
            raise PeerProtocolError(f"head {self._head} requires walks from tick {self.done} on; got {span}")
        self._taken[span.first] = span.end
        return True

    def stored(self, span: Span) -> bool:
        """Note that a taken walk is stored; whether that moved ``done``."""
        self._stored[span.first] = span.end
        before = self.done
        while self.done in self._stored:
            first = self.done
            self.done = self._stored.pop(first)
            del self._taken[first]
        return self.done != before


class Sink:
    """Ledgers of all heads of one query, each done up to a tick."""

    def __init__(self, done: Mapping[str, int]) -> None:
        self.heads = {head: HeadLedger(head, tick) for head, tick in done.items()}

    @property
    def frontiers(self) -> tuple[tuple[str, int], ...]:
        return tuple((head, ledger.done) for head, ledger in self.heads.items())

    @property
    def taken(self) -> tuple[tuple[str, int], ...]:
        """What sources need not wait for although it is not done; nothing."""
        return ()

    @property
    def islands(self) -> tuple[tuple[str, Span], ...]:
        """By head, what is stored, or being stored, beyond its done frontier."""
        return tuple((head, span) for head, ledger in self.heads.items() for span in ledger.islands)

    def stored_to(self, first_tick: int) -> int:
        """Of the ticks of heads from the first on, rows may be stored of all before this one."""
        return max(
            first_tick, *(ledger.done for ledger in self.heads.values()), *(span.end for _, span in self.islands)
        )

    @property
    def is_storing(self) -> bool:
        """Whether rows were taken that are not stored."""
        return any(ledger.is_storing for ledger in self.heads.values())

    @property
    def complete(self) -> bool:
        """Whether every row there will ever be is stored."""
        return all(ledger.done == TICK_END for ledger in self.heads.values())
