"""Durations, bandwidths and sizes, as people write them: "100ms", "10 Mbit/s", "4GiB"."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from node.config.problems import RefusedError, shown

DAY_MS = 86_400_000
LATENCY_MAX_MS = 3_600_000
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|s|min|h)")
_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_BANDWIDTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(bit|kbit|Mbit|Gbit|B|kB|MB|GB)/s")
_BITS_PER_S = {"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "B": 8, "kB": 8e3, "MB": 8e6, "GB": 8e9}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def parse_duration_ms(text: str) -> int:
    """Whole milliseconds in a duration such as "100ms", "1.5s", "10min" or "2h"; ValueError otherwise.

    A fraction of a millisecond is refused, not rounded: tau cuts event time, and a cut somewhere other
    than where the operator wrote it would change which batch a tuple is in.
    """
    required = 'a duration in whole milliseconds such as "100ms", "1.5s", "10min" or "2h"'
    match = _DURATION.fullmatch(text)
    if match is None:
        raise RefusedError(required, shown(text))
    length = Fraction(match[1]) * _DURATION_UNITS_MS[match[2]]
    if length.denominator != 1:
        raise RefusedError(required, shown(text))
    return int(length)


def duration_between(low_ms: int, high_ms: int, bounds: str) -> Callable[[str], int]:
    """A parser of durations that refuses what is outside ``bounds``, which says in words what the numbers say."""

    def parse(text: str) -> int:
        length = parse_duration_ms(text)
        if not low_ms <= length <= high_ms:
            raise RefusedError(f"a duration {bounds}", shown(text))
        return length

    return parse


def parse_bandwidth(text: str) -> float:
    """Bytes in a second, of text such as "10 Mbit/s"; ValueError otherwise."""
    match = _BANDWIDTH.fullmatch(text)
    if match is None or not float(match[1]):
        raise RefusedError('a bandwidth above 0 such as "10 Mbit/s", "800 kbit/s" or "2.5 MB/s"', shown(text))
    return float(match[1]) * _BITS_PER_S[match[2]] / 8


def size_bytes(text: str) -> int:
    """Bytes in a size such as "500MB" or "4GiB"; ValueError otherwise."""
    match = _SIZE.fullmatch(text)
    size = 0 if match is None else int(Fraction(match[1]) * _SIZE_UNITS[match[2]])
    if not size:
        raise RefusedError('a size above 0 such as "500MB" or "4GiB"', shown(text))
    return size


latency_ms = duration_between(0, LATENCY_MAX_MS, 'from "0ms" to "1h"')
