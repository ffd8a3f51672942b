"""When to merge which runs: a pure decision over their sizes in bytes, in order of arrival.

Only neighbours merge: rows arrive about in order of time, so every run covers about one stretch of it.

1. Growing: merge the newest runs back to the oldest one that is at most a third
   of all that came after it. With batches of one size this is a merge of four
   equal runs, as in a tiered LSM tree: a row is copied log4(window / batch) times.
2. Filling: merged runs stop growing at a cap, so that whole runs expire. Left
   alone, rule 1 would leave runs of a quarter of the cap. So neighbours that
   together fit under it, when the next one does not, are merged too, if the
   largest of them thereby grows by half or more.

Either way a copied row ends up in a run larger by a constant factor, which
bounds the copies of a row by O(log window), and what is left is O(log window) runs.

The cap is an eighth of the window: dead rows that wait for the rest of their run
are at most about that share of it. Below a floor of a few megabytes that is not
worth more runs: there a run, and so the dead rows, may by rule 1 be as large as
the live rows and a third. Above a ceiling, 32-bit offsets of string columns
would overflow.

Sizes are bytes, not rows, so that rows that are wide are not copied more for it:
the cap and the ceiling then stop merges after fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHARE = 8
_FLOOR = 4 << 20
_CEILING = 512 << 20
_FANOUT = 4


def cap(total: int) -> int:
    """The largest size a merge may make in a window of ``total`` bytes."""
    return min(max(_FLOOR, total // _SHARE), _CEILING)


def next_merge(sizes: Sequence[int], limit: int) -> tuple[int, int] | None:
    """The runs [start, stop) to merge into one, or None when the runs are well as they are."""
    return _growing(sizes, limit) or _filling(sizes, limit)


def _growing(sizes: Sequence[int], limit: int) -> tuple[int, int] | None:
    found = None
    newer = 0
    for place in range(len(sizes) - 1, -1, -1):
        if newer + sizes[place] > limit:
            break
        if sizes[place] * (_FANOUT - 1) <= newer:
            found = (place, len(sizes))
        newer += sizes[place]
    return found


def _filling(sizes: Sequence[int], limit: int) -> tuple[int, int] | None:
    stop, total = 0, 0
    for start in range(len(sizes)):
        if stop < start:
            stop, total = start, 0
        while stop < len(sizes) and total + sizes[stop] <= limit:
            total += sizes[stop]
            stop += 1
        if stop == len(sizes):
            return None
        if stop - start > 1 and max(sizes[start:stop]) * 3 <= total * 2:
            return (start, stop)
        if stop > start:
            total -= sizes[start]
    return None
