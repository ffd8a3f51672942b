"""How a message is laid out, for the compressor and for ``node.codec``:

numbers                                   ticks and times: what differs from message to message
length, protobuf                          whose query, which walk: what is mostly the same
blobs, lengths before all but the last    rows, keys, answers: encoded already

Numbers stay numbers up to the connection, which knows what was sent before and codes them, once.
"""

from __future__ import annotations

from node.core.encoding.varint import decode_varint, decode_varints, encode_varint, encode_varints, signed
from node.core.errors import LocalProtocolError, PeerProtocolError
from node.core.links.link_frames import Packed
from node.core.streams.ticks import Span


def pack(numbers: tuple[int, ...], body: bytes, blobs: tuple[bytes, ...]) -> Packed:
    """A message as a link carries it; the numbers have 64 bits with sign."""
    lengths = encode_varints(len(blob) for blob in blobs[:-1])
    return Packed(b"".join((encode_varint(len(body)), body, lengths, *blobs)), numbers)


def unpack(packed: Packed) -> tuple[Numbers, bytes, Blobs]:
    """Its parts. Raises PeerProtocolError, as do they, if there is less than there should be."""
    data = packed.payload
    length, at = decode_varint(data, 0)
    if length > len(data) - at:
        raise PeerProtocolError(f"a message requires a body of {length} bytes; got {len(data) - at}")
    return Numbers(packed.numbers), data[at : at + length], Blobs(data, at + length)


class Numbers:
    """The numbers of a message, taken one by one."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._numbers = numbers
        self._next = 0

    def take(self) -> int:
        if self._next == len(self._numbers):
            raise PeerProtocolError(f"a message requires more numbers than {self._next}; got no more")
        self._next += 1
        return self._numbers[self._next - 1]

    def span(self) -> Span:
        first = self.take()
        try:
            return Span(first, signed(first + self.take()))
        except LocalProtocolError as error:
            raise PeerProtocolError(str(error)) from None

    def check_empty(self) -> None:
        if self._next != len(self._numbers):
            raise PeerProtocolError(f"a message requires {self._next} numbers; got {len(self._numbers)}")


class Blobs:
    """What is behind a message's protobuf."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def blob(self) -> bytes:
        """The only one, or the last."""
        at, self._at = self._at, len(self._data)
        return self._data[at:]

    def blobs(self, count: int) -> tuple[bytes, ...]:
        """All of them: the lengths of all but the last come first."""
        lengths, self._at = decode_varints(self._data, self._at, count - 1)
        if sum(lengths) > len(self._data) - self._at:
            raise PeerProtocolError(f"a message requires blobs of {lengths} bytes; got {len(self._data) - self._at}")
        out = []
        for length in lengths:
            out.append(self._data[self._at : self._at + length])
            self._at += length
        return (*out, self.blob())

    def check_empty(self) -> None:
        if self._at != len(self._data):
            raise PeerProtocolError(f"a message requires no blob; got one of {len(self._data) - self._at} bytes")
