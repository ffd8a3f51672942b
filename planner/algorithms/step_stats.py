"""What is expected of the steps of a walk and of the keys of a window, as values: ``planner.estimate`` makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CarryStats:
    """The walks of a head when a set of streams is joined. All figures per second."""

    rows: float
    #: The head's tuples that are still there: each has one row or more.
    heads: float
    #: Batches that still have rows.
    batches: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStats:
    """One more stream joined to a carry. All figures per second, or shares."""

    carry: CarryStats
    #: Different keys of the carry's batches, and those of them that were not asked about lately.
    keys: float
    keys_new: float
    #: Keys that were asked about lately.
    keys_noted: float
    #: Share of the carry's rows, and of its keys, that have a match.
    match: float
    #: The share that a copy of the keys lets pass: those of tuples that left the window a little while ago too.
    match_kept: float
    rows_out: float
    #: Share of the stream's tuples that are sent when only asked ones are (W'), and all of the keys asked for (M).
    reduced_share: float
    mixed_share: float
    #: Keys of M that are asked for.
    fetched_keys: float

    def loosened(self, times: float) -> JoinStats:
        """The same with a copy that has ``times`` as many keys as the join needs."""
        match, fetched = min(1.0, self.match_kept * times), min(self.keys, self.fetched_keys * times)
        return replace(self, match_kept=match, fetched_keys=fetched, mixed_share=self.mixed_share * times)


@dataclass(frozen=True, slots=True)
class KeysStats:
    """The different keys of a window: how many there are, and how many come, or go, in a second."""

    alive: float
    born: float


#: Of a window that is joined without keys.
NO_KEYS = KeysStats(0.0, 0.0)
