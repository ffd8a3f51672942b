"""Bytes on the wire, counted where they enter and leave the socket, by kind.

Messages and the frames around them are counted as they are. What gRPC sends on
its own account cannot be seen from here, so it is estimated from measurements
on the wire; an end-to-end test holds the sum to what a proxy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from node.core.link import Kind
from node.framing import ANSWER_BYTES, DIAL_BYTES, framing_bytes, update_bytes

FRAMING = "framing"


class Ledger:
    """Bytes of one direction of one link."""

    def __init__(self) -> None:
        self.bytes_by_kind = {kind.name.lower(): 0 for kind in Kind} | {FRAMING: 0}

    def count(self, shares: Sequence[tuple[Kind, int]]) -> None:
        """One gRPC message, made up of these bytes."""
        for kind, size in shares:
            self.bytes_by_kind[kind.name.lower()] += size
        self.count_framing(framing_bytes(sum(size for _, size in shares)))

    def count_framing(self, size: int) -> None:
        self.bytes_by_kind[FRAMING] += size


@dataclass
class LinkLedger:
    """Bytes of both directions of one link."""

    sent: Ledger = field(default_factory=Ledger)
    received: Ledger = field(default_factory=Ledger)
    #: How many messages went since the last one came, and came since the last one went; None before the first.
    _went: int | None = None
    _came: int | None = None

    def count_sent(self, shares: Sequence[tuple[Kind, int]]) -> None:
        self.sent.count(shares)
        self._went = _count_updates(self.sent, self._went)
        self._came = 0

    def count_received(self, shares: Sequence[tuple[Kind, int]]) -> None:
        self.received.count(shares)
        self._came = _count_updates(self.received, self._came)
        self._went = 0

    def count_dialled(self) -> None:
        """A connection was made from here."""
        self.sent.count_framing(DIAL_BYTES)
        self.received.count_framing(ANSWER_BYTES)

    def count_answered(self) -> None:
        """A connection was made from there."""
        self.sent.count_framing(ANSWER_BYTES)
        self.received.count_framing(DIAL_BYTES)


def _count_updates(ledger: Ledger, before: int | None) -> int | None:
    """Count what a message gives back, the one after ``before`` others in a row; how many there are now."""
    if before is None:
        return None
    ledger.count_framing(update_bytes(before))
    return before + 1
