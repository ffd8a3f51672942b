"""Frames to the bytes of a connection and back; each direction of each connection has its own writer and reader.

The two share a context that starts fresh with the connection and lives as long:
the compressor's window, the running checksum, and the last numbers sent. What was
said before so costs next to nothing to say again; what is repeated after a
reconnect goes through the new connection's context like everything else.

Several frames travel as one shipment, because what gRPC adds to a message weighs
more than most of our frames:

    shipment   frame... checksum
    frame      head (1 byte), size (only if another frame follows), body (compressed)
    head       1 bit: another frame follows; 2: form; 1: the message goes on; 4: kind

The kind and the size are outside the compressed body, so bytes can be counted by
kind, exactly and at both ends, without reading what is inside. The CRC-32 covers
heads and bodies as they were before compression, and goes on from shipment to
shipment: one that is damaged, lost or out of place is noticed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import IntEnum

from node.core.compression import Compressor, Decompressor
from node.core.errors import PeerProtocolError
from node.core.link import Ack, Frame, Kind, Part
from node.core.varint import decode_varint, encode_varint, unzigzag, zigzag
from node.wire import decode_frame, encode_frame

#: What a shipment may hold before compression. gRPC refuses 4 MiB, and limits keep a part below that.
SHIPMENT_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024
#: Frames are joined up to this much. HTTP/2 cuts at 16 KiB, so there is nothing more to gain.
_JOINED_BYTES_MAX = 16 * 1024
_CHECKSUM_BYTES = 4
#: A part's numbers are sent as differences if it has at most this many.
_NUMBERS_MAX = 32
_MASK = 2**64 - 1


class _Form(IntEnum):
    """How the body of a frame is laid out."""

    RARE = 0
    PART = 1
    ACK = 2


_FOLLOWED, _FORM_SHIFT, _MORE, _KIND = 0x80, 5, 0x10, 0x0F


class _Numbers:
    """The last numbers of each kind of message: those of the next one are near them."""

    def __init__(self) -> None:
        self._last: dict[tuple[Kind, int], tuple[int, ...]] = {}

    def differences(self, kind: Kind, numbers: tuple[int, ...]) -> list[int]:
        last = self._last.get((kind, len(numbers))) or (0,) * len(numbers)
        self._last[kind, len(numbers)] = numbers
        return [zigzag(number - before) for number, before in zip(numbers, last, strict=True)]

    def numbers(self, kind: Kind, differences: list[int]) -> tuple[int, ...]:
        last = self._last.get((kind, len(differences))) or (0,) * len(differences)
        numbers = tuple(
            (before + unzigzag(difference)) & _MASK for before, difference in zip(last, differences, strict=True)
        )
        self._last[kind, len(differences)] = numbers
        return numbers


class FrameWriter:
    """One direction of one connection, at the end that sends."""

    def __init__(self) -> None:
        self._compressor = Compressor()
        self._checksum = 0
        self._numbers = _Numbers()
        self._seq = 0
        self._ack = 0

    def write(self, frames: Iterable[Frame]) -> list[bytes]:
        """The shipments that carry these frames, in order."""
        shipments: list[bytes] = []
        batch: list[tuple[int, bytes]] = []
        size = 0
        for frame in frames:
            head, body = self._encode(frame)
            if batch and size + len(body) > _JOINED_BYTES_MAX:
                shipments.append(self._ship(batch))
                batch, size = [], 0
            batch.append((head, body))
            size += len(body)
        if batch:
            shipments.append(self._ship(batch))
        return shipments

    def _ship(self, batch: Sequence[tuple[int, bytes]]) -> bytes:
        out = bytearray()
        for place, (form, body) in enumerate(batch, 1):
            followed = place < len(batch)
            head = form | (_FOLLOWED if followed else 0)
            self._checksum = zlib.crc32(body, zlib.crc32(bytes((head,)), self._checksum))
            packed = self._compressor.compress(body)
            out.append(head)
            if followed:
                out += encode_varint(len(packed))
            out += packed
        return bytes(out) + self._checksum.to_bytes(_CHECKSUM_BYTES, "little")

    def _encode(self, frame: Frame) -> tuple[int, bytes]:
        match frame:
            case Part():
                head = _Form.PART << _FORM_SHIFT | (_MORE if frame.more else 0) | frame.kind
                return head, self._part(frame)
            case Ack():
                return _Form.ACK << _FORM_SHIFT | Kind.CONTROL, self._acknowledgement(frame.expects)
            case _:
                return _Form.RARE << _FORM_SHIFT | Kind.CONTROL, encode_frame(frame)

    def _part(self, part: Part) -> bytes:
        payload = part.payload
        # Only how the bytes look counts here, not what they mean: the reader undoes it for any bytes.
        count = payload[0] if payload else 0
        rest = 1 + 8 * count
        if not 0 < count <= _NUMBERS_MAX or rest > len(payload):
            count = rest = 0
        numbers = struct.unpack_from(f"<{count}Q", payload, 1 if count else 0)
        out = bytearray(self._acknowledgement(part.ack))
        out.append(count)
        for difference in self._numbers.differences(part.kind, numbers):
            out += encode_varint(difference)
        out += encode_varint(zigzag(part.seq - self._seq))
        self._seq = part.seq + 1
        return bytes(out) + payload[rest:]

    def _acknowledgement(self, expects: int) -> bytes:
        difference = zigzag(expects - self._ack)
        self._ack = expects
        return encode_varint(difference)


class FrameReader:
    """One direction of one connection, at the end that receives."""

    def __init__(self) -> None:
        self._decompressor = Decompressor()
        self._checksum = 0
        self._numbers = _Numbers()
        self._seq = 0
        self._ack = 0

    def read(self, shipment: bytes) -> list[Frame]:
        """The frames in a shipment. After an error the reader is of no further use.

        Raises PeerProtocolError if the bytes are not the next shipment of this connection.
        """
        bodies = []
        room = SHIPMENT_BYTES_MAX
        for head, packed, _ in _cut(shipment):
            body = self._decompressor.decompress(packed, room)
            room -= len(body)
            self._checksum = zlib.crc32(body, zlib.crc32(bytes((head,)), self._checksum))
            bodies.append((head, body))
        if self._checksum.to_bytes(_CHECKSUM_BYTES, "little") != shipment[-_CHECKSUM_BYTES:]:
            raise PeerProtocolError(f"a frame requires a checksum that fits; got {len(shipment)} damaged bytes")
        return [self._decode(head, body) for head, body in bodies]

    def _decode(self, head: int, body: bytes) -> Frame:
        match head >> _FORM_SHIFT & 3:
            case _Form.PART:
                return self._part(_kind(head), bool(head & _MORE), body)
            case _Form.ACK:
                expects, at = self._acknowledgement(body)
                if at != len(body):
                    raise PeerProtocolError(f"an acknowledgement requires {at} bytes; got {len(body)}")
                return Ack(expects)
            case _:
                return decode_frame(body)

    def _part(self, kind: Kind, more: bool, body: bytes) -> Part:
        ack, at = self._acknowledgement(body)
        count, at = decode_varint(body, at)
        if count > _NUMBERS_MAX:
            raise PeerProtocolError(f"a part requires at most {_NUMBERS_MAX} numbers; got {count}")
        differences = []
        for _ in range(count):
            difference, at = decode_varint(body, at)
            differences.append(difference)
        numbers = self._numbers.numbers(kind, differences)
        jump, at = decode_varint(body, at)
        seq = (self._seq + unzigzag(jump)) & _MASK
        self._seq = seq + 1
        head = struct.pack(f"<B{count}Q", count, *numbers) if count else b""
        return Part(seq, kind, more, head + body[at:], ack)

    def _acknowledgement(self, body: bytes) -> tuple[int, int]:
        difference, at = decode_varint(body, 0)
        self._ack = (self._ack + unzigzag(difference)) & _MASK
        return self._ack, at


def shares_of(shipment: bytes) -> list[tuple[Kind, int]]:
    """What each frame of a shipment is for, and how many bytes are its own; the last one has the checksum too."""
    try:
        shares = [(_kind(head), size) for head, _, size in _cut(shipment)]
    except PeerProtocolError:
        return [(Kind.CONTROL, len(shipment))]
    kind, size = shares[-1]
    return [*shares[:-1], (kind, size + _CHECKSUM_BYTES)]


def _cut(shipment: bytes) -> list[tuple[int, memoryview, int]]:
    """Of each frame the head, the compressed body, and the size of both together."""
    cut = []
    view = memoryview(shipment)
    at, end = 0, len(shipment) - _CHECKSUM_BYTES
    followed = True
    while followed:
        if at >= end:
            raise PeerProtocolError(f"a frame requires a head and a checksum that fits; got {len(shipment)} bytes")
        start, head = at, shipment[at]
        followed = bool(head & _FOLLOWED)
        at += 1
        size = end - at
        if followed:
            size, at = decode_varint(shipment, at)
            if size > end - at:
                raise PeerProtocolError(f"a frame requires {size} bytes; got {end - at}")
        cut.append((head, view[at : at + size], at + size - start))
        at += size
    return cut


def _kind(head: int) -> Kind:
    try:
        return Kind(head & _KIND)
    except ValueError:
        raise PeerProtocolError(f"a part requires a kind up to {max(Kind)}; got {head & _KIND}") from None
