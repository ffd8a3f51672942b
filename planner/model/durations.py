"""Lengths of time as people write them: in a window, in an option, in a message."""

from __future__ import annotations

import re
from fractions import Fraction

DAY_US = 86_400_000_000
DAYS_MAX = 100_000
DURATION_US_MAX = DAYS_MAX * DAY_US
UNIT_NAMES = "MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS"
UNITS_US = {
    **dict.fromkeys(("MICROSECOND", "MICROSECONDS", "US"), 1),
    **dict.fromkeys(("MILLISECOND", "MILLISECONDS", "MS"), 1_000),
    **dict.fromkeys(("SECOND", "SECONDS", "S"), 1_000_000),
    **dict.fromkeys(("MINUTE", "MINUTES", "MIN"), 60_000_000),
    **dict.fromkeys(("HOUR", "HOURS", "H"), 3_600_000_000),
    **dict.fromkeys(("DAY", "DAYS", "D"), DAY_US),
    **dict.fromkeys(("WEEK", "WEEKS"), 7 * DAY_US),
}
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
#: No number that means something is longer, and reading one costs more than its length.
NUMBER_CHARACTERS_MAX = 30
_WRITTEN = re.compile(rf"({NUMBER.pattern})\s*([A-Z]+)", re.ASCII | re.IGNORECASE)
_SHOWN = {"d": DAY_US, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000}


def duration_us(text: str) -> int | None:
    """Microseconds of ``250ms`` or ``2 seconds``; None unless it is a whole number of them within the limit."""
    found = _WRITTEN.fullmatch(text.strip())
    unit_us = None if found is None else UNITS_US.get(found[3].upper())
    if found is None or unit_us is None or len(found[1]) > NUMBER_CHARACTERS_MAX:
        return None
    length = Fraction(found[1]) * unit_us
    return length.numerator if length.denominator == 1 and length <= DURATION_US_MAX else None


def duration_text(length_us: int) -> str:
    """The length in the largest unit that keeps it whole; ``duration_us`` reads it back."""
    unit = next((unit for unit, us in _SHOWN.items() if length_us and length_us % us == 0), "us")
    return f"{length_us // _SHOWN.get(unit, 1)} {unit}"
