"""What shipping every tuple would cost, measured with the encoding and the compressor of a link."""

from __future__ import annotations

import pyarrow as pa

from node.core.encoding.rows import encode_rows
from node.core.links.compression import Compressor

#: The first batches are all measured, later ones only one in so many.
_FIRST_BATCHES = 64
_EVERY = 16


class ShipAllMeter:
    """The bytes of a stream's rows if they all travelled, one batch after the other, on a link of their own.

    To encode and compress costs 3 ns for each byte of Arrow data in large batches and 25 in batches of some
    hundred rows, more than may be spent on a figure that is only shown. So beyond the first 64 batches every
    sixteenth is measured, by its number and not by chance, and the others are taken to cost as much for each
    byte of Arrow data as those that were. What is skipped is missing from the compressor's history too, which
    holds much more than a batch.
    """

    def __init__(self) -> None:
        self._compressor = Compressor()
        self._batches = 0
        self._raw = 0
        self._raw_measured = 0
        self._measured = 0
        self._first = 0
        self._first_raw = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Count one batch. An empty one costs nothing: its heartbeat travels in any case."""
        if not rows.num_rows:
            return
        self._batches += 1
        raw = rows.nbytes
        first = self._batches <= _FIRST_BATCHES
        if first:
            self._first_raw += raw
        else:
            self._raw += raw
        if first or self._batches % _EVERY == 0:
            size = len(self._compressor.compress(encode_rows(rows)))
            if first:
                self._first += size
            else:
                self._measured += size
                self._raw_measured += raw

    @property
    def nbytes(self) -> int:
        """All of it, in bytes."""
        if not self._raw:
            return self._first
        # Until a later batch has been measured, later ones cost what the first did.
        measured, raw = (self._measured, self._raw_measured) if self._raw_measured else (self._first, self._first_raw)
        return self._first + round(self._raw * measured / max(1, raw))
