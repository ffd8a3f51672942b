"""How many bytes what a peer sends may become: a few bytes can stand for any number of equal values."""

from __future__ import annotations

from node.core.errors import PeerProtocolError

#: The rows of one message in memory: 1 GiB, twice what a message may be. Whoever sends stays a little below.
DECODED_BYTES_MAX = 2**30
SENT_BYTES_MAX = DECODED_BYTES_MAX - 2**20


class Room:
    """What is left for one message. Values are charged before they are made."""

    def __init__(self, bytes_max: int = DECODED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._used = 0

    def charge(self, nbytes: int, what: object) -> None:
        """Raises PeerProtocolError if there is no room for so many bytes more."""
        self._used += nbytes
        if self._used > self._bytes_max:
            raise PeerProtocolError(
                f"rows of one message require at most {self._bytes_max} bytes in memory; got {self._used} up to {what}"
            )
