"""What one end of a link has got from the other, in one session: parts in order, put together to messages."""

from __future__ import annotations

from node.core.errors import PeerProtocolError
from node.core.limits import Limits
from node.core.links.link_frames import Kind, Packed, Part


class UnfitPartError(PeerProtocolError):
    """A part cannot be what its number says; it would be the same on every connection."""


class Incoming:
    """The next part, and what has come of the message that it belongs to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.expects = 1
        #: Of the message that is under way: its parts, the kind and the numbers that the first one named.
        self._parts: list[bytes] = []
        self._nbytes = 0
        self._kind: Kind | None = None
        self._numbers: tuple[int, ...] = ()

    def is_known(self, part: Part) -> bool:
        """Whether a part came before, and so is a repetition.

        Raises PeerProtocolError if one before it is missing.
        """
        if part.seq > self.expects:
            raise PeerProtocolError(f"link requires part {self.expects} next; got {part.seq}")
        return part.seq < self.expects

    def take(self, part: Part) -> Packed | None:
        """The next part; the message that it completes.

        Raises UnfitPartError.
        """
        self._check(part)
        if not self._parts:
            self._kind, self._numbers = part.kind, part.numbers
        self._nbytes += len(part.payload)
        self._parts.append(part.payload)
        self.expects += 1
        if part.more:
            return None
        payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        self._nbytes = 0
        return Packed(payload, self._numbers)

    def _check(self, part: Part) -> None:
        if self._nbytes + len(part.payload) > self._limits.message_bytes_max:
            raise UnfitPartError(f"link requires messages of at most {self._limits.message_bytes_max} bytes; got more")
        if part.more and not part.payload:
            raise UnfitPartError("link requires bytes in each part of a message that goes on; got none")
        if self._parts and (part.kind is not self._kind or part.numbers):
            raise UnfitPartError(f"link requires more of a message of kind {self._kind}; got the start of another")
