"""What is known about the streams of a query and the links between their sites, as values.

Sites measure (``node.core.planning.profile``), home collects, users may declare: whoever plans sees only these.
A view is a stream as the query sees it: filtered, and only the columns that are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.model.copies import RunningCopy

#: Where the hashes of keys end.
HASH_END = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class KeySketch:
    """A sample of a view's keys, the same keys in whichever stream: those whose hash is below ``limit``.

    So sketches can be compared key by key (``planner.estimate.samples``). ``limit`` is HASH_END when it has all keys.
    """

    #: Ascending, distinct.
    hashes: NDArray[np.uint64]
    #: How many tuples have that key; of a stream that is only expected, parts of tuples too.
    counts: NDArray[np.int64] | NDArray[np.float64]
    limit: int
    #: Event times, in microseconds, of the first and the last tuple with that key; None if not known. Many keys live
    #: for much less than the profile's span (an order and its payment): without these they look rare in any window.
    first_us: NDArray[np.int64] | None = None
    last_us: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class StreamProfile:
    """What a site measured of a view, what was declared of it, or what is expected of one that is not there yet."""

    #: Tuples that were looked at and passed the filter, and the event time they cover.
    rows: float
    span_us: int
    #: Tuples in the typical batch: those of a tick, or many more when a recording is read at full speed.
    batch_rows: float
    #: Bytes on the wire, encoded and compressed as on a link, of the typical value of each needed column; under
    #: ``EVENT_TIME`` of the event time.
    column_bytes: Mapping[str, float]
    #: By the columns of the key, each choice of keys by which a plan may join the view.
    keys: Mapping[tuple[str, ...], KeySketch]
    #: Of a kept join: the share of the rows in its window whose components are all in their own windows.
    visible: float | None = None
    #: So many tuples come at once, in one batch: of a kept join all that one tuple has found.
    together: float = 1.0

    @property
    def rate(self) -> float:
        """Tuples in a second of event time."""
        return self.rows * 1e6 / max(1, self.span_us)


@dataclass(frozen=True, slots=True)
class LinkStats:
    """The way from one site to another; None is not known."""

    rtt_us: int | None = None
    bytes_per_s: float | None = None
    price_per_gb: float | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Everything that a plan's cost depends on, beside the query."""

    tau_us: int
    profiles: Mapping[str, StreamProfile]
    links: Mapping[tuple[str, str], LinkStats]
    #: Copies that run already: to use one costs nothing more.
    copies: tuple[RunningCopy, ...] = ()
    #: Ways on which a byte counts so many times as much as elsewhere, since they carry less than is to be sent there.
    strained: Mapping[tuple[str, str], float] = field(default_factory=dict)
    #: By site, bytes of joins that are kept there already.
    stored: Mapping[str, float] = field(default_factory=dict)
