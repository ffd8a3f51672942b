"""What was measured of a run over event time: bytes of all links, how long rows took, and each switch with its cost."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from node.core.queries.query_id import successor_of
from node.io.reports.latency import percentile_us
from node.rpc import control_pb2 as pb

LOOKING = ""
_SWITCHED = "switched"
_UNITS = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


@dataclass(frozen=True)
class Sample:
    """What had happened up to a moment of event time, and when that was by the clock, in milliseconds since 1970."""

    at_s: float
    clock_ms: float
    #: On all links, everything included.
    nbytes: int
    #: By run of the query: what each of its plans was sent; and under ``LOOKING`` what planning and looking took.
    by_run: Mapping[str, float]
    #: Rows by upper bound of their emit latency.
    latency_us: Mapping[int, int]


@dataclass(frozen=True)
class Switch:
    """From one plan to another; times are event time."""

    #: By which the bytes of the new plan are counted.
    run: str
    state: str
    why: str
    reason: str
    before: str
    after: str
    begun_s: float
    #: When heads went over; and when the plan before had nothing under way any more. None: that did not come.
    live_s: float | None
    ended_s: float | None

    @property
    def made(self) -> bool:
        """Whether the query went over."""
        return self.state == _SWITCHED and self.live_s is not None and self.ended_s is not None

    @property
    def snapshot_bytes(self) -> float | None:
        """What is to be sent first, snapshots and messages, as it was expected; None if nobody said so."""
        told = re.search(r"; ([0-9.]+) ([kMG]?B) are sent first", self.why)
        return float(told[1]) * _UNITS[told[2]] if told else None


@dataclass
class Ran:
    """One run."""

    samples: list[Sample] = field(default_factory=list)
    #: All rows, in an order of their own.
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    #: The query, and the last that was heard of each of its switches.
    query_id: str = ""
    statuses: dict[int, pb.SwitchStatus] = field(default_factory=dict)

    # -- bytes --------------------------------------------------------------------------------

    def sent(self, first_s: float, last_s: float) -> float:
        """Bytes between two moments, on all links."""
        return self._between([one.nbytes for one in self.samples], first_s, last_s)

    def sent_for(self, run: str, first_s: float, last_s: float) -> float:
        """Bytes between two moments for one of the query's plans."""
        return self._between([one.by_run.get(run, 0.0) for one in self.samples], first_s, last_s)

    def _between(self, counted: list[float] | list[int], first_s: float, last_s: float) -> float:
        """Straight between two samples."""
        first, last = np.interp([first_s, last_s], [one.at_s for one in self.samples], counted)
        return float(last - first)

    @property
    def nbytes(self) -> int:
        """All."""
        return self.samples[-1].nbytes

    # -- latency ------------------------------------------------------------------------------

    def latency_ms(self, first_s: float, last_s: float, share: float) -> float:
        """Of rows that were stored between two moments; nan if there were none."""
        before = [one for one in self.samples if one.at_s <= first_s]
        within = [one for one in self.samples if one.at_s <= last_s]
        if not within:
            return math.nan
        counted = Counter(within[-1].latency_us)
        counted.subtract(before[-1].latency_us if before else {})
        us = percentile_us(sorted((+counted).items()), share)
        return math.nan if us is None else us / 1000

    # -- switches -----------------------------------------------------------------------------

    @property
    def switches(self) -> list[Switch]:
        """All that were begun, in order."""
        return [self._switch(status) for _, status in sorted(self.statuses.items())]

    def _switch(self, status: pb.SwitchStatus) -> Switch:
        return Switch(
            successor_of(self.query_id, status.number),
            status.state,
            status.why,
            status.reason,
            status.before,
            status.after,
            self._event_time(status.begun_ms),
            self._event_time(status.switching_ms) if status.HasField("switching_ms") else None,
            self._event_time(status.ended_ms) if status.HasField("ended_ms") else None,
        )

    def _event_time(self, clock_ms: float) -> float:
        times = [one.clock_ms for one in self.samples]
        return float(np.interp(clock_ms, times, [one.at_s for one in self.samples]))

    def sent_before(self, switch: Switch) -> float:
        """Bytes for the new plan before any walk went by it: its snapshots, and what came to its copies meanwhile."""
        return 0.0 if switch.live_s is None else self.sent_for(switch.run, 0.0, switch.live_s)

    def cost(self, switch: Switch, window_s: float, until_s: float) -> tuple[float, float] | None:
        """Bytes for the new plan up to a window after the switch, beyond what it is sent in as long a time after that.

        And what that is. None if it did not last long enough to say.
        """
        if switch.live_s is None or switch.ended_s is None:
            return None
        settled_s = switch.ended_s + window_s
        if until_s - settled_s < window_s:
            return None
        usual = self.sent_for(switch.run, settled_s, until_s) / (until_s - settled_s) * (settled_s - switch.live_s)
        return self.sent_for(switch.run, 0.0, settled_s) - usual, usual
