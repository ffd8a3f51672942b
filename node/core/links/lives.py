"""Lives of daemons, and sessions between two of them.

Every start of a daemon is a **life**, a number that only rises: also when the site's folder was emptied, because the
clock is in it. A **session** is what two daemons have in common while neither is started again and the link between
them is not reset: messages are numbered within it, and all of them arrive, once, in order.

    session    (life of the site whose name sorts first, life of the other, resets)

A site's folder is known by the life in which it was begun, also a copy of it. A life that goes on from an earlier one
than that in which a peer met the same folder is that of an old copy: what the site has told since is not in it.
"""

from __future__ import annotations

from typing import NamedTuple


class Session(NamedTuple):
    """The same value at both ends."""

    first_life: int
    second_life: int
    resets: int


class Met(NamedTuple):
    """The highest life of a site that was met, and which folder it was in (0: none, or it was not said)."""

    life: int = 0
    folder: int = 0


NEVER_MET = Met()


def next_life(last: int | None, clock_s: int) -> int:
    """The life of a daemon that starts now: later than the last one that its folder knows, and than the clock."""
    return max((last or 0) + 1, clock_s)
