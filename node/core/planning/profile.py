"""What a site can say about a stream as a query sees it, from a sample of its rows.

Bytes are measured, not guessed: the rows are cut into batches of the typical size, encoded and compressed
as on a link. Each column is measured alone, so that the cost of any choice of columns is a sum; then all are
scaled by what the whole row costs, because columns that travel together share the compressor.

Keys are hashed so that equal keys have equal hashes in whichever stream, type of integer or kind of string
they are. The hash of a whole number is scrambled, so the smallest hashes are a random sample of the keys.
Only the upper half of a hash is kept: two different keys out of a million then look alike once in
four thousand, which no estimate notices, and a sketch travels in half the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from node.core.arrangements.reach import reach_of
from node.core.encoding.payload import take_batch
from node.core.encoding.rows import encode_rows
from node.core.encoding.varint import encode_varint
from node.core.engine import TS
from node.core.keys.hashing import U64, scramble
from node.core.keys.keycodes import codes, exact, usable
from node.core.links.compression import Compressor
from node.core.streams.sealer import Batch, Times
from node.core.streams.ticks import TICK_MIN, Span
from node.core.streams.view import SealedRows, View
from planner.estimate.sketches import below, key_choices, sketch_of
from planner.estimate.statistics import KeySketch, StreamProfile
from planner.model.query import JoinQuery
from planner.model.time_unit import TimeUnit

#: How much of a sample is encoded and compressed: enough for the compressor to find what repeats.
_MEASURED_ROWS_MAX = 2**16
_MEASURED_BATCHES_MAX = 64
#: Sketches on the wire: about this share of what the sample would weigh there, within bounds. A key costs so much.
_SKETCH_SHARE = 0.01
_SKETCH_KEYS_MIN, _SKETCH_KEYS_MAX = 128, 512
_SKETCH_KEY_BYTES = 5
#: Of a small sample fewer: what is at stake is little, and planning must not cost more than it can save.
_SMALL_SHARE = 0.1
_SMALL_KEYS_MIN = 32
#: Beyond this, some 36,000 years, times are not kept.
_TIME_MAX_US = 2**60
_UPPER_HALF = np.uint64(0xFFFFFFFF00000000)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a stream with their event times, oldest first.

    ``batch_rows`` is how many the typical batch has; None when a batch is what comes in a tick.
    """

    rows: pa.RecordBatch
    ts: Times
    batch_rows: float | None = None


def sample_of(batches: tuple[Batch, ...]) -> Sample:
    """The batches of a stream, one after the other, as a sample of it. At least one is required."""
    rows = pa.concat_batches([batch.rows for batch in batches])
    return Sample(rows, np.concatenate([batch.ts for batch in batches]), rows.num_rows / len(batches))


def profile_of(query: JoinQuery, alias: str, tau_ms: int, sample: Sample, span_us: int | None = None) -> StreamProfile:
    """Measure a stream as ``query`` sees it under the name ``alias``; ``span_us``: the time that the sample covers.

    Raises QueryFailedError if its event times do not fit the query.
    """
    unit = query.ref(alias).stream.unit
    seen = sample.rows.num_rows
    span_us = span_us or _span_us(sample.ts, 1000 * tau_ms, unit)
    reach = reach_of(query, alias, tau_ms)
    batch = _batch(sample)
    view = View(query, reach, TICK_MIN).rows(SealedRows(reach.stream, batch.span, batch.rows, batch.ts, 0, 0))
    per_batch = sample.batch_rows or seen * tau_ms * 1000 / span_us
    passed = view.num_rows / seen if seen else 1.0
    batch_rows = max(1.0, per_batch * passed)
    keys = {names: _sketch(alias, names, view, query.unit) for names in key_choices(query, alias)}
    return StreamProfile(view.num_rows, span_us, batch_rows, _column_bytes(view, round(batch_rows)), keys)


# -- time -------------------------------------------------------------------------------------


def _span_us(ts: Times, tau_us: int, unit: int) -> int:
    """The event time that the rows cover: from the first to the last, and as much more as lies between two of them."""
    if len(ts) < 2:
        return tau_us
    length = int(ts.max()) - int(ts.min())
    return min(_TIME_MAX_US, max(1, length * 1000 * len(ts) // (unit * (len(ts) - 1))))


def _batch(sample: Sample) -> Batch:
    """The whole sample as if it were one batch; a view asks nothing of its span."""
    return Batch(Span(TICK_MIN, TICK_MIN + 1), sample.rows, sample.ts)


# -- bytes ------------------------------------------------------------------------------------


def _column_bytes(view: pa.RecordBatch, batch_rows: int) -> dict[str, float]:
    """Of the event time and of each column: compressed bytes of a value; 0 for all if there are no rows."""
    names = [TS if name == TS else name.partition(".")[2] for name in view.schema.names]
    pieces = [view.slice(start, batch_rows) for start in _starts(view.num_rows, batch_rows)]
    rows = sum(piece.num_rows for piece in pieces)
    if not rows:
        return dict.fromkeys(names, 0.0)
    # What a message costs however little is in it is not a column's.
    base = _compressed([encode_varint(piece.num_rows) for piece in pieces])
    whole = max(0, _compressed([encode_rows(piece) for piece in pieces]) - base)
    alone = [_alone(pieces, name, base) for name in view.schema.names]
    scale = whole / max(1, sum(alone))
    return {name: size * scale / rows for name, size in zip(names, alone, strict=True)}


def _starts(rows: int, batch_rows: int) -> range:
    end = min(rows, max(batch_rows, _MEASURED_ROWS_MAX), batch_rows * _MEASURED_BATCHES_MAX)
    return range(0, end, batch_rows)


def _alone(pieces: list[pa.RecordBatch], name: str, base: int) -> int:
    return max(0, _compressed([encode_rows(piece.select([name])) for piece in pieces]) - base)


def _compressed(messages: list[bytes]) -> int:
    compressor = Compressor()
    return sum(len(compressor.compress(message)) for message in messages)


# -- keys -------------------------------------------------------------------------------------


def _sketch(alias: str, names: tuple[str, ...], view: pa.RecordBatch, unit: int) -> KeySketch:
    columns = [view.column(f"{alias}.{name}") for name in names]
    times: Times = view.column(TS).to_numpy()
    mask = usable(columns)
    if mask is not None:
        places = np.flatnonzero(mask)
        columns = take_batch(pa.RecordBatch.from_arrays(columns, names=list(names)), places).columns
        times = times[places]
    return sketch_of(key_hashes(columns), _times_us(times, unit))


def _times_us(times: Times, unit: int) -> Times | None:
    """Event times in microseconds; None if one of them does not fit."""
    if unit > TimeUnit.US:
        return times // (unit // TimeUnit.US)
    scale = TimeUnit.US // unit
    if len(times) and max(-int(times.min()), int(times.max())) > _TIME_MAX_US // scale:
        return None
    return times * scale


def key_hashes(columns: list[pa.Array]) -> U64:
    """The hash of each row's key; none of them may be null."""
    found: U64 = codes(columns).view(np.uint64)
    if exact([column.type for column in columns]):
        found = scramble(found)
    return found & _UPPER_HALF


# -- on the wire ------------------------------------------------------------------------------


def for_the_wire(profile: StreamProfile, tau_us: int) -> StreamProfile:
    """The profile with sketches that are worth their bytes: what is sent to plan a query must not show beside it.

    Sketches lose the keys with the largest hashes, and their times are rounded down to whole ticks.
    """
    sample_bytes = profile.rows * sum(profile.column_bytes.values())
    keys = sample_bytes / _SKETCH_KEY_BYTES / max(1, len(profile.keys))
    least = max(_SMALL_KEYS_MIN, min(_SKETCH_KEYS_MIN, keys * _SMALL_SHARE))
    keys_max = round(min(_SKETCH_KEYS_MAX, max(least, keys * _SKETCH_SHARE)))
    return replace(profile, keys={names: _cut(sketch, keys_max, tau_us) for names, sketch in profile.keys.items()})


def _cut(sketch: KeySketch, keys_max: int, tau_us: int) -> KeySketch:
    if len(sketch.hashes) > keys_max:
        sketch = below(sketch, int(sketch.hashes[keys_max]))
    if sketch.first_us is None or sketch.last_us is None:
        return sketch
    return replace(sketch, first_us=sketch.first_us // tau_us * tau_us, last_us=sketch.last_us // tau_us * tau_us)
