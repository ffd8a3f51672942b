"""Bytes on the wire, counted where they enter and leave the socket, by kind.

Messages and the frames around them are counted as they are. What gRPC sends on
its own account cannot be seen from here, so it is estimated from measurements
on the wire; an end-to-end test holds the sum to what a proxy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from node.core.links.link_frames import Kind
from planner.algorithms.http2 import ANSWER_BYTES, DIAL_BYTES, Framing

FRAMING = "framing"


class Ledger:
    """Bytes of one direction of one link."""

    def __init__(self) -> None:
        self.bytes_by_kind = {kind.label: 0 for kind in Kind} | {FRAMING: 0}
        self._framing = Framing()

    def count(self, shares: Sequence[tuple[Kind, int]]) -> None:
        """One gRPC message, made up of these bytes."""
        for kind, size in shares:
            self.bytes_by_kind[kind.label] += size
        self.count_framing(self._framing.went(sum(size for _, size in shares)))

    def came_back(self) -> None:
        """A gRPC message came the other way."""
        self._framing.came_back()

    def count_framing(self, size: int) -> None:
        self.bytes_by_kind[FRAMING] += size


@dataclass
class LinkLedger:
    """Bytes of both directions of one link."""

    sent: Ledger = field(default_factory=Ledger)
    received: Ledger = field(default_factory=Ledger)

    def count_sent(self, shares: Sequence[tuple[Kind, int]]) -> None:
        self.sent.count(shares)
        self.received.came_back()

    def count_received(self, shares: Sequence[tuple[Kind, int]]) -> None:
        self.received.count(shares)
        self.sent.came_back()

    def count_dialled(self) -> None:
        """A connection was made from here."""
        self.sent.count_framing(DIAL_BYTES)
        self.received.count_framing(ANSWER_BYTES)

    def count_answered(self) -> None:
        """A connection was made from there."""
        self.sent.count_framing(ANSWER_BYTES)
        self.received.count_framing(DIAL_BYTES)
