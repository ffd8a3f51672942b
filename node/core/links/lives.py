"""Lives of daemons, and sessions between two of them.

Every start of a daemon is a **life**, a number that only rises: also when the site's folder was emptied, because the
clock is in it. A **session** is what two daemons have in common while neither is started again and the link between
them is not reset: messages are numbered within it, and all of them arrive, once, in order.

    session    (life of the site whose name sorts first, life of the other, resets)
"""

from __future__ import annotations

from typing import NamedTuple


class Session(NamedTuple):
    """The same value at both ends."""

    first_life: int
    second_life: int
    resets: int


def next_life(last: int | None, clock_s: int) -> int:
    """The life of a daemon that starts now: later than the last one that its folder knows, and than the clock."""
    return max((last or 0) + 1, clock_s)
