"""Whole numbers, packed: each in as many bits as the spread of all of them needs.

Either the numbers themselves are packed, less the smallest of them, or the steps
from one to the next, which is narrower for what is sorted: keys, event times.
All arithmetic is modulo 2**64, so the ends of the range need no special care.

    tag (steps or not, bits a number), smallest (and with steps: first), planes

A plane has the same 8, 4, 2 or 1 bits of every number, lowest bits first. Bits that
mean much and change little so lie together, apart from those that are noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from node.core.encoding.varint import decode_varint, encode_varint, unzigzag, zigzag
from node.core.errors import PeerProtocolError

Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_STEPS = 0x80
_WIDTH = 0x7F
#: Bits of the planes above the whole bytes, lowest first.
_SMALL_PLANES = (4, 2, 1)


def encode_ints(values: Ints) -> bytes:
    """Any whole numbers, with their count; none are no bytes."""
    return encode_varint(len(values)) + pack_ints(values) if len(values) else b""


def decode_ints(data: bytes, count_max: int) -> Ints:
    """What ``encode_ints`` was given, if it is not more than ``count_max`` numbers.

    Raises PeerProtocolError if the bytes are not that.
    """
    if not data:
        return np.empty(0, np.int64)
    count, at = decode_varint(data, 0)
    if not 0 < count <= count_max:
        raise PeerProtocolError(f"numbers require a count from 1 to {count_max}; got {count}")
    values, at = unpack_ints(memoryview(data), at, count)
    if at != len(data):
        raise PeerProtocolError(f"numbers require {at} bytes; got {len(data)}")
    return values


def pack_ints(values: Ints) -> bytes:
    """Numbers whose count the reader knows."""
    if not len(values):
        return b""
    low, width = _spread(values)
    if width > 1 and len(values) > 1:
        steps = values[1:] - values[:-1]
        step_low, step_width = _spread(steps)
        # A step less and a varint more; what is nearly as narrow without steps is better for the compressor.
        if (len(values) - 1) * step_width + 8 < len(values) * width:
            head = (
                bytes((_STEPS | step_width,)) + encode_varint(zigzag(int(values[0]))) + encode_varint(zigzag(step_low))
            )
            return head + _planes(steps, step_low, step_width)
    return bytes((width,)) + encode_varint(zigzag(low)) + _planes(values, low, width)


def unpack_ints(data: memoryview, at: int, count: int) -> tuple[Ints, int]:
    """``count`` numbers that begin at ``at``, and where they end. The caller bounds ``count``.

    Raises PeerProtocolError if they are not there.
    """
    if not count:
        return np.empty(0, np.int64), at
    if at >= len(data):
        raise PeerProtocolError(f"{count} numbers require bytes; got none")
    tag = data[at]
    first, at = decode_varint(data, at + 1)
    if not tag & _STEPS:
        return _from_planes(data, at, count, unzigzag(first), tag)
    low, at = decode_varint(data, at)
    steps, at = _from_planes(data, at, count - 1, unzigzag(low), tag & _WIDTH)
    values = np.empty(count, np.int64)
    values[0] = unzigzag(first)
    values[1:] = steps
    return np.cumsum(values, out=values), at


def pack_bits(bits: npt.NDArray[Any]) -> bytes:
    """Numbers that are 0 or 1, or truth values."""
    return np.packbits(bits, bitorder="little").tobytes()


def _spread(values: Ints) -> tuple[int, int]:
    """The smallest, and how many bits the largest is above it."""
    low, high = int(values.min()), int(values.max())
    return low, (high - low).bit_length()


def _planes(values: Ints, low: int, width: int) -> bytes:
    if not width:
        return b""
    # Their difference is less than 2**64, whatever the signs: wrapping around gives it.
    words = (values - np.int64(low)).astype("<u8", copy=False) if low else values.astype("<u8", copy=False)
    cells = words.view(np.uint8).reshape(-1, 8)
    whole, left = divmod(width, 8)
    planes = [cells[:, place].tobytes() for place in range(whole)]
    shift = 0
    for bits in _SMALL_PLANES:
        if left & bits:
            planes.append(_small_plane(cells[:, whole] >> np.uint8(shift) & np.uint8((1 << bits) - 1), bits))
            shift += bits
    return b"".join(planes)


def _small_plane(cells: _Bytes, bits: int) -> bytes:
    if bits == 1:
        return pack_bits(cells)
    each = 8 // bits
    padded = np.zeros(-(-len(cells) // each) * each, np.uint8)
    padded[: len(cells)] = cells
    out = padded[::each].copy()
    for place in range(1, each):
        out |= padded[place::each] << np.uint8(place * bits)
    return out.tobytes()


def _from_planes(data: memoryview, at: int, count: int, low: int, width: int) -> tuple[Ints, int]:
    if width > 64:
        raise PeerProtocolError(f"numbers require at most 64 bits each; got {width}")
    whole, left = divmod(width, 8)
    size = whole * count + sum(-(-count * bits // 8) for bits in _SMALL_PLANES if left & bits)
    if size > len(data) - at:
        raise PeerProtocolError(f"{count} numbers of {width} bits require {size} bytes; got {len(data) - at}")
    words = np.zeros(count, "<u8")
    cells = words.view(np.uint8).reshape(-1, 8)
    for place in range(whole):
        cells[:, place] = np.frombuffer(data, np.uint8, count, at)
        at += count
    shift = 0
    for bits in _SMALL_PLANES:
        if left & bits:
            length = -(-count * bits // 8)
            cells[:, whole] |= _from_small_plane(np.frombuffer(data, np.uint8, length, at), bits, count) << np.uint8(
                shift
            )
            at += length
            shift += bits
    return words.view(np.int64) + np.int64(low), at


def _from_small_plane(packed: _Bytes, bits: int, count: int) -> _Bytes:
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    each = 8 // bits
    out = np.empty(len(packed) * each, np.uint8)
    for place in range(each):
        out[place::each] = packed >> np.uint8(place * bits) & np.uint8((1 << bits) - 1)
    return out[:count]
