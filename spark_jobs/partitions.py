"""Which rows belong to which partition: equal keys to the same one, whatever the width of their types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from node.core import keycodes, payload
from node.core.engine import TS
from node.core.hashing import I64, scramble


def split_by_key(columns: Sequence[pa.Array], partitions: int) -> list[I64]:
    """The rows of each partition, by their key. A row with a null in its key equals nothing and is in none."""
    places = scramble(keycodes.codes(columns).view(np.uint64)) % np.uint64(partitions)
    usable = keycodes.usable(columns)
    if usable is not None:
        places[~usable] = partitions
    return [np.flatnonzero(places == number) for number in range(partitions)]


def split_evenly(rows: pa.RecordBatch, partitions: int) -> list[I64]:
    """The rows of each partition of a window without keys: by their position, so that it is evenly filled."""
    places = scramble(keycodes.integers(rows.column(TS)).view(np.uint64)) % np.uint64(partitions)
    return [np.flatnonzero(places == number) for number in range(partitions)]


def picked(rows: pa.RecordBatch, places: I64) -> pa.RecordBatch:
    """Some rows; the batch itself when that is all of them."""
    return rows if len(places) == rows.num_rows else payload.take_batch(rows, places)
