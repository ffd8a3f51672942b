"""Whole numbers in as few bytes as they need: seven bits a byte, lowest first; the highest bit says: more follow."""

from __future__ import annotations

from collections.abc import Iterable

from node.core.errors import PeerProtocolError

#: What 64 bits need.
_BYTES_MAX = 10
_MASK = 2**64 - 1
#: Most numbers are small: these are the bytes of each.
_SMALL = [bytes((value,)) for value in range(0x80)]


def encode_varint(value: int) -> bytes:
    """A number of at least 0 and less than 2**64."""
    return _SMALL[value] if value < 0x80 else encode_varints((value,))


def encode_varints(values: Iterable[int]) -> bytes:
    """Such numbers, one behind the other."""
    out = bytearray()
    for value in values:
        rest = value
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def decode_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends.

    Raises PeerProtocolError if there is none.
    """
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    for place, byte in enumerate(data[at : at + _BYTES_MAX], at + 1):
        if byte < 0x80:
            value |= byte << shift
            if value > _MASK:
                break
            return value, place
        value |= (byte & 0x7F) << shift
        shift += 7
    raise PeerProtocolError(f"a number requires at most {_BYTES_MAX} bytes and 64 bits; got others at byte {at}")


def decode_varints(data: bytes | memoryview, at: int, count: int) -> tuple[list[int], int]:
    """``count`` numbers that begin at ``at``, and where they end. Raises PeerProtocolError if there are fewer."""
    values = []
    for _ in range(count):
        value, at = decode_varint(data, at)
        values.append(value)
    return values, at


def zigzag(value: int) -> int:
    """A signed difference modulo 2**64, near zero whichever its sign."""
    value = signed(value)
    return value << 1 if value >= 0 else (~value << 1) | 1


def unzigzag(value: int) -> int:
    """What ``zigzag`` was given, as a signed number."""
    return (value >> 1) ^ -(value & 1)


def signed(value: int) -> int:
    """A number modulo 2**64, as the one of 64 bits with sign."""
    if -(2**63) <= value < 2**63:
        return value
    value = unsigned(value)
    return value - 2**64 if value >= 2**63 else value


def unsigned(value: int) -> int:
    """A number modulo 2**64, as the one of 64 bits without sign."""
    return value & _MASK
