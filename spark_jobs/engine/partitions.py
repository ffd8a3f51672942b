"""Which rows belong to which partition: equal keys to the same one, whatever the width of their types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import POSITION
from node.core.keys import keycodes
from node.core.keys.hashing import I64, U64, scramble


def split_by_key(columns: Sequence[pa.Array], partitions: int) -> list[I64]:
    """The rows of each partition, by their key. A row with a null in its key equals nothing and is in none."""
    places = _places(keycodes.codes(columns), partitions)
    usable = keycodes.usable(columns)
    if usable is not None:
        places[~usable] = partitions
    return _rows_of(places, partitions)


def split_table(rows: pa.RecordBatch, keys: Sequence[str], partitions: int) -> list[I64]:
    """The rows of each partition of a table: by their keys; evenly, by position, where there are none or null ones."""
    positions = keycodes.integers(rows.column(POSITION))
    columns = [rows.column(name) for name in keys]
    if not columns:
        return _rows_of(_places(positions, partitions), partitions)
    places = _places(keycodes.codes(columns), partitions)
    usable = keycodes.usable(columns)
    if usable is not None:
        places[~usable] = _places(positions[~usable], partitions)
    return _rows_of(places, partitions)


def picked(rows: pa.RecordBatch, places: I64) -> pa.RecordBatch:
    """Some rows; the batch itself when that is all of them."""
    return rows if len(places) == rows.num_rows else payload.take_batch(rows, places)


def _places(codes: I64, partitions: int) -> U64:
    return scramble(codes.view(np.uint64)) % np.uint64(partitions)


def _rows_of(places: U64, partitions: int) -> list[I64]:
    return [np.flatnonzero(places == number) for number in range(partitions)]
