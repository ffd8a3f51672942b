"""How fast a link carries bytes, seen from the end that sends: what was acknowledged, over time, while it was busy.

Most of the time a link carries what there is to send, which says nothing about what it could carry. So only
stretches count in which, at every acknowledgement, much more was under way already. The best of the last
stretches is the answer: one in which the sender was slow only makes it too low.
"""

from __future__ import annotations

from collections import deque

#: A stretch must be as long as this, in bytes and in time, or one late acknowledgement would decide it.
_BYTES_MIN = 64 * 1024
_US_MIN = 20_000
#: A link is busy while at least so much is under way: less may be so only because its acknowledgement is held back.
_BUSY_BYTES = 256 * 1024
_STRETCHES = 16


class BandwidthMeter:
    """One direction of one link. Parts are known by their numbers (``node.core.links.link``)."""

    def __init__(self) -> None:
        self._flying: deque[tuple[int, int]] = deque()
        self._flying_bytes = 0
        self._since_us: int | None = None
        self._bytes = 0
        self._rates: deque[float] = deque(maxlen=_STRETCHES)

    @property
    def bytes_per_s(self) -> float | None:
        """None until the link was busy once."""
        return max(self._rates, default=None)

    def sent(self, part: int, nbytes: int) -> None:
        """So many bytes left, the last of them for this part."""
        self._flying.append((part, nbytes))
        self._flying_bytes += nbytes

    def acknowledged(self, expects: int, now_us: int, rtt_us: int | None) -> None:
        """The peer has all parts before ``expects``."""
        arrived = 0
        while self._flying and self._flying[0][0] < expects:
            arrived += self._flying.popleft()[1]
        if not arrived:
            return
        self._flying_bytes -= arrived
        if self._since_us is None:
            # What came before took a round trip to be acknowledged; what comes from now on does not.
            self._bytes = 0
        else:
            self._bytes += arrived
        if self._flying_bytes < _BUSY_BYTES:
            self._since_us = None
            return
        if self._since_us is None:
            self._since_us = now_us
            return
        took_us = now_us - self._since_us
        if self._bytes >= _BYTES_MIN and took_us >= max(_US_MIN, rtt_us or 0):
            self._rates.append(self._bytes * 1e6 / took_us)
            self._since_us, self._bytes = now_us, 0

    def interrupted(self) -> None:
        """The connection is gone, and with it what was under way."""
        self._flying.clear()
        self._flying_bytes = 0
        self._since_us = None
