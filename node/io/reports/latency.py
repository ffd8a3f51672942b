"""Emit latency: from a batch being sealed to its rows being stored, weighted by rows."""

from __future__ import annotations

import math

#: Buckets grow by 5 percent, so a percentile is off by at most that.
_GROWTH = math.log(1.05)


class LatencyHistogram:
    """Counts rows by latency; constant in size however long a query runs."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def add(self, latency_us: int, rows: int) -> None:
        bucket = math.ceil(math.log(max(1, latency_us)) / _GROWTH)
        self._rows[bucket] = self._rows.get(bucket, 0) + rows

    def buckets(self) -> list[tuple[int, int]]:
        """(upper bound in microseconds, rows), ascending."""
        return [(round(math.exp(bucket * _GROWTH)), rows) for bucket, rows in sorted(self._rows.items())]


def percentile_us(buckets: list[tuple[int, int]], share: float) -> int | None:
    """The latency that ``share`` of the rows do not exceed."""
    wanted = share * sum(rows for _, rows in buckets)
    seen = 0
    for bound_us, rows in buckets:
        seen += rows
        if seen >= wanted and rows:
            return bound_us
    return None
