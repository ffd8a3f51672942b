"""Parts of dates and times, in UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels.values import INT64_MAX, INT64_MIN, Ints, Kernel, Mask, made, nulls, plain, where
from planner.model.query import Call
from planner.model.types import UNITS

_DAY_S = 86_400
#: The days of the years 1 to 9999, before and after which calendars and engines disagree.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_PARTS = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}


def in_calendar(values: Ints, unit: str) -> Mask:
    """Which instants are within the years 1 to 9999."""
    size = _DAY_S * UNITS[unit]
    low, high = max(FIRST_DAY * size, INT64_MIN), min((LAST_DAY + 1) * size - 1, INT64_MAX)
    return np.asarray((values >= low) & (values <= high))


def _part(call: Call, args: list[pa.Array]) -> pa.Array:
    array = args[0]
    known = where(in_calendar(plain(array), array.type.unit), array.view(pa.timestamp(array.type.unit)))
    return _PARTS[call.function](known).cast(pa.int64())


def _epoch(call: Call, args: list[pa.Array]) -> pa.Array:
    return made(plain(args[0]) / UNITS[args[0].type.unit], nulls(args[0]), call.type)


KERNELS: dict[str, Kernel] = {**dict.fromkeys(_PARTS, _part), "epoch": _epoch}
