"""Floats: decimal fractions as whole numbers, others as they are, in planes of a byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from node.core.encoding.columns.layout import (
    SAMPLE_ROWS,
    Layout,
    Piece,
    Tag,
    dtype_of,
    fixed,
    from_planes,
    planes,
    values_of,
)
from node.core.encoding.ints import Ints, pack_ints
from node.core.errors import PeerProtocolError

#: Powers of ten that are tried on floats, so that prices and measurements travel as whole numbers.
_SCALES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0, 1_000_000.0)
#: Beyond it whole numbers have gaps among floats.
_EXACT_MAX = 2.0**53


def _encode_floats(column: pa.Array) -> tuple[int, bytes]:
    values = values_of(column)
    for number, scale in enumerate(_SCALES):
        whole = _as_whole(values[:SAMPLE_ROWS], scale)
        if whole is not None and (whole := _as_whole(values, scale)) is not None:
            return Tag.OTHER, bytes((number,)) + pack_ints(whole)
    return Tag.PLAIN, planes(values)


def _as_whole(values: npt.NDArray[np.generic], scale: float) -> Ints | None:
    """``values`` times ``scale``, if dividing gives every bit of them back."""
    with np.errstate(all="ignore"):
        scaled = np.rint(values.astype(np.float64) * scale)
        if not (np.abs(scaled) < _EXACT_MAX).all():
            return None
        back = (scaled / scale).astype(values.dtype)
    word = f"u{values.itemsize}"
    # The bits, because minus zero equals zero.
    return scaled.astype(np.int64) if np.array_equal((back + 0.0).view(word), values.view(word)) else None


def _decode_floats(piece: Piece) -> tuple[pa.Array, int]:
    piece.check_tag(Tag.PLAIN, Tag.OTHER)
    dtype = dtype_of(piece.kind)
    if piece.tag == Tag.OTHER:
        number = piece.bytes_at(piece.at, 1)[0]
        if number >= len(_SCALES):
            raise PeerProtocolError(f"floats require a scale below {len(_SCALES)}; got {number}")
        whole, at = piece.ints(piece.at + 1, piece.count)
        with np.errstate(all="ignore"):
            return fixed(piece, (whole / _SCALES[number]).astype(dtype)), at
    return from_planes(piece, dtype)


FLOATS = Layout(_encode_floats, _decode_floats)
