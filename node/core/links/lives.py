"""Lives of daemons, and sessions between two of them.

Every start of a daemon is a **life**, a number that only rises: also when the site's folder was emptied, because the
clock is in it. A **session** is what two daemons have in common while neither is started again and the link between
them is not reset: messages are numbered within it, and all of them arrive, once, in order.

    session    (life of the site whose name sorts first, life of the other, resets)

A site's folder is known by the life in which it was begun, also a copy of it, and says which lives it had. If that in
which a peer met the same folder is none of them it is an old copy, for good: what the site has told since is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
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

#: A site tells so many of its folder's lives: five bytes each, once a connection.
LIVES_TOLD_MAX = 1_000


def knows_life(lives: Sequence[int], life: int) -> bool:
    """Whether a folder that tells these lives, ascending, had this one. It may have had many before them."""
    is_cut = len(lives) >= LIVES_TOLD_MAX
    return life in lives or (is_cut and life < lives[0])


def next_life(last: int | None, clock_s: int) -> int:
    """The life of a daemon that starts now: later than the last one that its folder knows, and than the clock."""
    return max((last or 0) + 1, clock_s)
