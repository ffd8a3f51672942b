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
    part       acknowledgement, count, numbers, number of the part: as differences; payload

The kind and the size are outside the compressed body, so bytes can be counted by
kind, exactly and at both ends, without reading what is inside. The CRC-32 covers
heads and bodies as they were before compression, and goes on from shipment to
shipment: one that is damaged, lost or out of place is noticed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from node.core.encoding.varint import (
    decode_varint,
    decode_varints,
    encode_varint,
    encode_varints,
    signed,
    unsigned,
    unzigzag,
    zigzag,
)
from node.core.errors import PeerProtocolError
from node.core.links.compression import Compressor, Decompressor
from node.core.links.link_frames import Ack, Frame, Kind, Part
from node.wire import decode_frame, encode_frame
from planner.algorithms.http2 import HTTP2_PAYLOAD_BYTES

#: What a shipment may hold before compression. gRPC refuses 4 MiB, and limits keep a part below that.
SHIPMENT_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024
#: Frames are joined up to this much: what HTTP/2 cuts again is no cheaper together.
_JOINED_BYTES_MAX = HTTP2_PAYLOAD_BYTES
_CHECKSUM_BYTES = 4
#: Of messages with at most this many numbers the last ones are remembered; no honest one has many more.
_REMEMBERED_MAX = 32


#: ... nor so many: the longest is that of a query's done frontiers, one for each of its streams.
_NUMBERS_MAX = 4096


class _Form(IntEnum):
    """How the body of a frame is laid out."""

    RARE = 0
    PART = 1
    ACK = 2


_FOLLOWED, _FORM_SHIFT, _MORE, _KIND = 0x80, 5, 0x10, 0x0F
_PART_HEAD, _ACK_HEAD, _RARE_HEAD = (form << _FORM_SHIFT for form in (_Form.PART, _Form.ACK, _Form.RARE))
#: Each head as the byte that the checksum takes.
_HEAD_BYTES = [bytes((head,)) for head in range(256)]


class Cut(NamedTuple):
    """Where a frame is in its shipment: its head, and where its compressed body begins and ends."""

    head: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Shipment:
    """The bytes of one gRPC message, and the frames in it; none if they are no shipment at all."""

    data: bytes
    cuts: tuple[Cut, ...]

    def __len__(self) -> int:
        """How many bytes travel."""
        return len(self.data)

    @property
    def shares(self) -> list[tuple[Kind, int]]:
        """What each frame is for, and how many bytes are its own; the last one has the checksum too."""
        shares, at = [], 0
        for head, _, end in self.cuts:
            kind = _KINDS[head & _KIND]
            if kind is None:
                return [(Kind.CONTROL, len(self.data))]
            shares.append((kind, end - at))
            at = end
        if not shares:
            return [(Kind.CONTROL, len(self.data))]
        shares[-1] = (shares[-1][0], shares[-1][1] + len(self.data) - at)
        return shares


class _Numbers:
    """The last numbers of each kind of message: those of the next one are near them."""

    def __init__(self) -> None:
        self._last: dict[tuple[Kind, int], Sequence[int]] = {}

    def differences(self, kind: Kind, numbers: tuple[int, ...]) -> list[int]:
        if not numbers:
            return []
        last = self._last.get((kind, len(numbers))) or (0,) * len(numbers)
        self._remember(kind, numbers)
        return [zigzag(number - before) for number, before in zip(numbers, last, strict=True)]

    def numbers(self, kind: Kind, differences: list[int]) -> tuple[int, ...]:
        if not differences:
            return ()
        last = self._last.get((kind, len(differences))) or (0,) * len(differences)
        numbers = tuple(signed(before + unzigzag(more)) for before, more in zip(last, differences, strict=True))
        self._remember(kind, numbers)
        return numbers

    def _remember(self, kind: Kind, numbers: tuple[int, ...]) -> None:
        if len(numbers) <= _REMEMBERED_MAX:
            self._last[kind, len(numbers)] = numbers


class FrameWriter:
    """One direction of one connection, at the end that sends."""

    def __init__(self) -> None:
        self._compressor = Compressor()
        self._checksum = 0
        self._numbers = _Numbers()
        self._seq = 0
        self._ack = 0

    def write(self, frames: Iterable[Frame]) -> list[Shipment]:
        """The shipments that carry these frames, in order."""
        shipments: list[Shipment] = []
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

    def _ship(self, batch: Sequence[tuple[int, bytes]]) -> Shipment:
        out = bytearray()
        cuts = []
        checksum, last = self._checksum, len(batch) - 1
        for place, (form, body) in enumerate(batch):
            head = form | _FOLLOWED if place < last else form
            checksum = zlib.crc32(body, zlib.crc32(_HEAD_BYTES[head], checksum))
            packed = self._compressor.compress(body)
            out.append(head)
            if place < last:
                out += encode_varint(len(packed))
            begin = len(out)
            out += packed
            cuts.append(Cut(head, begin, len(out)))
        self._checksum = checksum
        return Shipment(bytes(out) + checksum.to_bytes(_CHECKSUM_BYTES, "little"), tuple(cuts))

    def _encode(self, frame: Frame) -> tuple[int, bytes]:
        match frame:
            case Part():
                return _PART_HEAD | (_MORE if frame.more else 0) | frame.kind, self._part(frame)
            case Ack():
                return _ACK_HEAD | Kind.CONTROL, encode_varint(self._acknowledgement(frame.expects))
            case _:
                return _RARE_HEAD | Kind.CONTROL, encode_frame(frame)

    def _part(self, part: Part) -> bytes:
        differences = self._numbers.differences(part.kind, part.numbers)
        ack, jump = self._acknowledgement(part.ack), zigzag(part.seq - self._seq)
        self._seq = part.seq + 1
        return encode_varints((ack, len(differences), *differences, jump)) + part.payload

    def _acknowledgement(self, expects: int) -> int:
        difference = zigzag(expects - self._ack)
        self._ack = expects
        return difference


class FrameReader:
    """One direction of one connection, at the end that receives."""

    def __init__(self) -> None:
        self._decompressor = Decompressor()
        self._checksum = 0
        self._numbers = _Numbers()
        self._seq = 0
        self._ack = 0

    def read(self, shipment: Shipment) -> list[Frame]:
        """The frames in a shipment. After an error the reader is of no further use.

        Raises PeerProtocolError if the bytes are not the next shipment of this connection.
        """
        data = memoryview(shipment.data)
        if not shipment.cuts:
            raise PeerProtocolError(f"a frame requires a head, its bytes and a checksum; got {len(data)} others")
        bodies = []
        checksum, room = self._checksum, SHIPMENT_BYTES_MAX
        for head, begin, end in shipment.cuts:
            body = self._decompressor.decompress(data[begin:end], room)
            room -= len(body)
            checksum = zlib.crc32(body, zlib.crc32(_HEAD_BYTES[head], checksum))
            bodies.append((head, body))
        self._checksum = checksum
        if checksum.to_bytes(_CHECKSUM_BYTES, "little") != data[-_CHECKSUM_BYTES:]:
            raise PeerProtocolError(f"a frame requires a checksum that fits; got {len(data)} damaged bytes")
        return [self._decode(head, body) for head, body in bodies]

    def _decode(self, head: int, body: bytes) -> Frame:
        match head >> _FORM_SHIFT & 3:
            case _Form.PART:
                return self._part(_kind(head), bool(head & _MORE), body)
            case _Form.ACK:
                difference, at = decode_varint(body, 0)
                if at != len(body):
                    raise PeerProtocolError(f"an acknowledgement requires {at} bytes; got {len(body)}")
                return Ack(self._acknowledgement(difference))
            case _Form.RARE:
                return decode_frame(body)
            case form:
                raise PeerProtocolError(
                    f"a frame requires one of the forms {[each.value for each in _Form]}; got {form}"
                )

    def _part(self, kind: Kind, more: bool, body: bytes) -> Part:
        (ack, count), at = decode_varints(body, 0, 2)
        if count > _NUMBERS_MAX:
            raise PeerProtocolError(f"a part requires at most {_NUMBERS_MAX} numbers; got {count}")
        differences, at = decode_varints(body, at, count)
        jump, at = decode_varint(body, at)
        numbers = self._numbers.numbers(kind, differences)
        seq = unsigned(self._seq + unzigzag(jump))
        self._seq = seq + 1
        return Part(seq, kind, more, body[at:], self._acknowledgement(ack), numbers)

    def _acknowledgement(self, difference: int) -> int:
        self._ack = unsigned(self._ack + unzigzag(difference))
        return self._ack


def cut(data: bytes) -> Shipment:
    """Bytes that came, cut into frames; what cannot be cut is left whole, for a reader to refuse."""
    cuts = []
    at, end = 0, len(data) - _CHECKSUM_BYTES
    followed = True
    while followed:
        if at >= end:
            return Shipment(data, ())
        head, at = data[at], at + 1
        followed = bool(head & _FOLLOWED)
        size = end - at
        if followed:
            try:
                size, at = decode_varint(data, at)
            except PeerProtocolError:
                return Shipment(data, ())
            if size > end - at:
                return Shipment(data, ())
        cuts.append(Cut(head, at, at + size))
        at += size
    return Shipment(data, tuple(cuts))


#: What the kind in a head means; None for those that mean nothing.
_KINDS = [Kind(number) if number in set(Kind) else None for number in range(_KIND + 1)]


def _kind(head: int) -> Kind:
    kind = _KINDS[head & _KIND]
    if kind is None:
        raise PeerProtocolError(f"a part requires a kind up to {max(Kind)}; got {head & _KIND}")
    return kind
