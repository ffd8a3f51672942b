"""What one end of a link has for the other, in one session: numbered parts of messages, kept until acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from node.core.errors import PeerProtocolError
from node.core.limits import Limits
from node.core.links.link_frames import Kind, Part


class Outgoing:
    """Parts that fly, and behind them those that wait; all numbered from 1 on without a gap."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.next_part = 1
        self._flying: deque[Part] = deque()
        self._flying_bytes = 0
        self._waiting: deque[Part] = deque()
        self._waiting_bytes = 0

    @property
    def nbytes(self) -> int:
        """What the peer does not have yet."""
        return self._flying_bytes + self._waiting_bytes

    @property
    def waiting_bytes(self) -> int:
        """What has not left yet."""
        return self._waiting_bytes

    @property
    def flies(self) -> bool:
        """Whether something is on its way that was not acknowledged."""
        return bool(self._flying)

    @property
    def oldest(self) -> int:
        """The peer has acknowledged all parts before this one."""
        kept = self._flying or self._waiting
        return kept[0].seq if kept else self.next_part

    def put(self, kind: Kind, payload: bytes, numbers: tuple[int, ...]) -> None:
        """Cut a message into parts, which wait."""
        size = self._limits.part_bytes_max
        for start in range(0, max(1, len(payload)), size):
            piece = payload[start : start + size]
            more = start + size < len(payload)
            self._waiting.append(Part(self.next_part, kind, more, piece, 0, () if start else numbers))
            self.next_part += 1
            self._waiting_bytes += len(piece)

    def fly(self, acknowledge: Callable[[], int]) -> list[Part]:
        """The parts that may leave now, each with an acknowledgement."""
        parts: list[Part] = []
        while self._waiting and self._flying_bytes < self._limits.inflight_bytes_max:
            waiting = self._waiting.popleft()
            kind, more, payload = waiting.kind, waiting.more, waiting.payload
            part = Part(waiting.seq, kind, more, payload, acknowledge(), waiting.numbers)
            self._waiting_bytes -= len(payload)
            self._flying.append(part)
            self._flying_bytes += len(payload)
            parts.append(part)
        return parts

    def ground(self) -> None:
        """The connection is gone: whatever flew on it waits again."""
        self._waiting.extendleft(reversed(self._flying))
        self._waiting_bytes += self._flying_bytes
        self._flying.clear()
        self._flying_bytes = 0

    def acknowledged(self, expects: int) -> int:
        """The peer has all parts before this one; how many bytes it had not had before."""
        sent_next = self._flying[-1].seq + 1 if self._flying else self.next_part
        if expects > sent_next:
            raise PeerProtocolError(
                f"link has sent parts up to {sent_next - 1}; got an acknowledgement for {expects - 1}"
            )
        nbytes = 0
        while self._flying and self._flying[0].seq < expects:
            nbytes += len(self._flying.popleft().payload)
        self._flying_bytes -= nbytes
        return nbytes

    def resume(self, wanted: int) -> int:
        """On a new connection the peer wants this part next; how many bytes before it need not be repeated."""
        nbytes = 0
        while self._waiting and self._waiting[0].seq < wanted:
            nbytes += len(self._waiting.popleft().payload)
        self._waiting_bytes -= nbytes
        return nbytes
