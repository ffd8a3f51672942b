"""How fast a link carries bytes, seen from the end that sends: what was acknowledged, over time, while it was busy.

Most of the time a link carries what there is to send, which says nothing about what it could carry. So only
stretches count in which, at every acknowledgement, much more was under way already. The best of the last
stretches is the answer: one in which the sender was slow only makes it too low. What was long before the newest one
says nothing about a link that has changed.
"""

from __future__ import annotations

from collections import deque

#: A stretch must be as long as this, in bytes and in time, or one late acknowledgement would decide it.
_BYTES_MIN = 64 * 1024
_US_MIN = 20_000
#: One that takes this long may be shorter.
_US_ENOUGH = 4_000_000
#: A link is busy while at least so much is under way: less may be so only because its acknowledgement is held back ...
_BUSY_BYTES = 256 * 1024
#: ... unless it is what the link takes this long for, which is longer than any is held back.
_BUSY_S, _BUSY_BYTES_MIN = 3.0, 8 * 1024
_STRETCHES = 16
_LATELY_US = 20_000_000


class BandwidthMeter:
    """One direction of one link. Parts are known by their numbers (``node.core.links.link``)."""

    def __init__(self) -> None:
        self._flying: deque[tuple[int, int]] = deque()
        self._flying_bytes = 0
        self._since_us: int | None = None
        self._heard_us: int | None = None
        self._bytes = 0
        #: When each stretch was over, and how fast it was.
        self._rates: deque[tuple[int, float]] = deque(maxlen=_STRETCHES)

    @property
    def bytes_per_s(self) -> float | None:
        """None until the link was busy once."""
        return max((rate for _, rate in self._rates), default=None)

    @property
    def flying_bytes(self) -> int:
        """What has left and was not acknowledged, as it is on the wire."""
        return self._flying_bytes

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
        heard_us, self._heard_us = self._heard_us, now_us
        if not self._is_busy(arrived, heard_us, now_us):
            self._since_us = None
            return
        if self._since_us is None:
            self._since_us = now_us
            return
        took_us = now_us - self._since_us
        is_long = took_us >= _US_ENOUGH or self._bytes >= _BYTES_MIN
        if is_long and took_us >= max(_US_MIN, rtt_us or 0):
            self._rates.append((now_us, self._bytes * 1e6 / took_us))
            while self._rates[0][0] < now_us - _LATELY_US:
                self._rates.popleft()
            self._since_us, self._bytes = now_us, 0

    def _is_busy(self, arrived: int, heard_us: int | None, now_us: int) -> bool:
        """Whether much is under way still; ``arrived`` is what was acknowledged since ``heard_us``."""
        if self._flying_bytes >= _BUSY_BYTES:
            return True
        if heard_us is None or self._flying_bytes < _BUSY_BYTES_MIN:
            return False
        return self._flying_bytes * (now_us - heard_us) > arrived * _BUSY_S * 1e6

    def interrupted(self) -> None:
        """The connection is gone, and with it what was under way."""
        self._flying.clear()
        self._flying_bytes = 0
        self._since_us = self._heard_us = None
