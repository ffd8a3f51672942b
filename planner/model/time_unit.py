"""What event times count."""

from __future__ import annotations

from enum import IntEnum


class TimeUnit(IntEnum):
    """Resolution of an event time; the value is how many units make a millisecond."""

    MS = 1
    US = 1_000
    NS = 1_000_000
