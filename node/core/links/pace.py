"""How fast the past of streams goes over a link, so that what runs there is hardly later for it.

A copy that catches up is sent its past in pieces. A piece takes at most a quarter of a tick of what the link carries,
and behind each the peer is asked to say that it has it. The next one leaves when no more is on its way than what a
link without a queue has on its way, and a piece. So the link is never idle for want of the next piece, and what comes
up meanwhile waits for one piece or two, not for all that was there to be sent.

A past does not begin with all of that at once, which would wait for a round trip in front of the link: two pieces more
may be on their way after each round trip.

One piece may always be on its way, whatever else waits: a link that others keep busy for good carries one each time
that all before it has arrived.
"""

from __future__ import annotations

from collections import Counter

from node.core.events import LinkMeasured
from node.core.limits import Limits

#: What a piece takes of a tick.
_SHARE = 4
#: While it is not known what a link carries: so many pieces on their way let that be measured.
_PIECES_UNKNOWN = 4


class Pace:
    """Of all links of a site."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes_per_s: dict[str, float | None] = {}
        #: The shortest round trips of these connections: longer ones waited in a queue, which shall not grow for that.
        self._rtt_us: dict[str, int] = {}
        #: Pieces of which a peer has not said that it has them, and how many there may be.
        self._under_way: Counter[str] = Counter()
        self._most: dict[str, float] = {}

    def connected(self, peer: str) -> None:
        """There is another connection, maybe on another way; nothing that was asked on the one before is answered."""
        self._rtt_us.pop(peer, None)
        del self._under_way[peer]
        self.begin(peer)

    def begin(self, peer: str) -> None:
        """A past is to be sent, after a while without."""
        self._most[peer] = 1.0

    def measured(self, event: LinkMeasured) -> None:
        """A peer answered: it has what was sent before it was asked."""
        peer = event.peer
        self._bytes_per_s[peer] = event.bytes_per_s
        self._rtt_us[peer] = min(event.rtt_us, self._rtt_us.get(peer, event.rtt_us))
        under_way, most = self._under_way[peer], self._most.get(peer, 1.0)
        if under_way + 1 > most:
            # Not if others keep the link busy, or there is no more to be sent: it would be too much later.
            self._most[peer] = most + 2 / most
        self._under_way[peer] = max(0, under_way - 1)

    def sent(self, peer: str) -> None:
        """A piece leaves, and behind it the question whether it is there."""
        self._under_way[peer] += 1

    def piece_bytes(self, peer: str, tau_us: int) -> int:
        """How large a piece may be."""
        limits, carried = self._limits, self._bytes_per_s.get(peer)
        if carried is None:
            return limits.piece_bytes_unknown
        share = int(carried * tau_us / 1e6 / _SHARE)
        return max(limits.piece_bytes_min, min(share, limits.piece_bytes_max))

    def may_send(self, peer: str, tau_us: int, waiting_bytes: int) -> bool:
        """Whether another piece may leave while so much is on its way to a peer, or waits for that."""
        if not self._under_way[peer]:
            return True
        if self._under_way[peer] + 1 > self._most.get(peer, 1.0):
            return False
        piece, carried = self.piece_bytes(peer, tau_us), self._bytes_per_s.get(peer)
        if carried is None:
            return waiting_bytes + piece <= _PIECES_UNKNOWN * piece
        return waiting_bytes <= carried * self._rtt_us.get(peer, 0) / 1e6 + piece
