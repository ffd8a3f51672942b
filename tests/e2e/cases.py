"""Data sets that have gone wrong somewhere before, here or in other systems. Each packs several troubles."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.e2e.harness import Join, Stream

WORDS = ("", "a", "A", "é", "e\u0301", "日本", "🚢⚓", "with,comma", 'with "quote"', "line\nbreak", " a", "a\x00b")


def table(ts: Sequence[int | None], key: Any, **columns: Any) -> pa.Table:
    """Columns ts, k, seq and what else is given."""
    times = pa.array(ts, pa.int64())
    return pa.table({"seq": np.arange(len(times)), "ts": times, "k": pa.array(key), **columns})


def ties_and_skew() -> Join:
    """A few distinct times, half of all tuples on one key, null and composite unicode keys, a gap, an early end."""
    random = np.random.default_rng(1)

    def side(name: str, site: str, rows: int, last_ms: int) -> Stream:
        ts = np.sort(random.choice([0, 1, 99, 100, 101, 199, 200, 250, 5_000, 5_001, 5_100, last_ms], rows))
        word = [None if pick == 99 else WORDS[min(pick, len(WORDS) - 1)] for pick in random.zipf(1.6, rows) % 100]
        number = pa.array(random.integers(0, 2, rows), pa.int16(), mask=random.random(rows) < 0.05)
        return Stream(name, table(ts.tolist(), word, n=number), site)

    left, right = side("ties_l", "alpha", 220, 9_000), side("ties_r", "beta", 160, 5_101)
    return Join(left, right, on=(("k", "k"), ("n", "n")), windows=("300 MILLISECONDS", "50 MILLISECONDS"))


def range_zero_around_zero() -> Join:
    """RANGE 0 against a long window, times below and above zero, both streams at one site."""
    random = np.random.default_rng(2)
    times = np.sort(random.integers(-700, 700, (2, 300)), axis=1)
    keys = random.integers(-2, 3, (2, 300))
    left = Stream("zero_l", table(times[0].tolist(), keys[0]), "beta")
    right = Stream("zero_r", table(times[1].tolist(), keys[1]), "beta")
    return Join(left, right, windows=("0 SECONDS", "100 MILLISECONDS"), select=[("l", "seq", "a"), ("r", "seq", "b")])


def very_large_times() -> Join:
    """Milliseconds around 2**53, where floats lose count, and up to 2**61; and the same far below zero."""
    random = np.random.default_rng(3)
    centres = (-(2**61), -(2**53), 0, 2**53, 2**61)

    def side(name: str, site: str) -> Stream:
        ts = np.sort(np.concatenate([centre + random.integers(-50, 50, 40) for centre in centres]))
        return Stream(name, table(ts.tolist(), random.integers(0, 4, len(ts))), site)

    return Join(side("large_l", "alpha"), side("large_r", "beta"), windows=("3 MILLISECONDS", "7 MILLISECONDS"))


def units_ms_and_us() -> Join:
    """Milliseconds on one side, microseconds on the other, a window finer than a millisecond."""
    random = np.random.default_rng(4)
    left = np.sort(random.integers(0, 400, 250))
    right = np.sort(random.integers(0, 400_000, 250) // 250 * 250)
    keys = random.integers(0, 3, (2, 250))
    return Join(
        Stream("units_ms", table(left.tolist(), keys[0]), "alpha"),
        Stream("units_us", table(right.tolist(), keys[1]), "beta", unit="us"),
        windows=("750 MICROSECONDS", "1250 MICROSECONDS"),
    )


def units_us_and_timestamp_ns() -> Join:
    """Microseconds as numbers, nanoseconds as a timestamp column with a zone."""
    random = np.random.default_rng(5)
    start_us = 1_700_000_000_000_000
    left = np.sort(start_us + random.integers(0, 300_000, 200) // 100 * 100)
    right = np.sort(start_us * 1000 + random.integers(0, 300_000_000, 200) // 50_000 * 50_000)
    keys = random.integers(0, 3, (2, 200))
    ns = table(right.tolist(), keys[1])
    ns = ns.set_column(1, "ts", ns.column("ts").cast(pa.timestamp("ns")).cast(pa.timestamp("ns", "UTC")))
    return Join(
        Stream("micros", table(left.tolist(), keys[0]), "alpha", unit="us"),
        Stream("nanos", ns, "beta"),
        windows=("200 MICROSECONDS", "2 MILLISECONDS"),
    )


def one_empty() -> Join:
    some = Stream("one_some", table([1, 2, 3], [1, 1, 2]), "alpha")
    return Join(some, Stream("one_none", table([], pa.array([], pa.int64())), "beta"))


def both_empty() -> Join:
    none = pa.array([], pa.string())
    return Join(Stream("both_l", table([], none), "alpha"), Stream("both_r", table([], none), "beta"))


def self_join() -> Join:
    """A stream with itself is two streams: every tuple pairs with itself once."""
    random = np.random.default_rng(6)
    ts = np.sort(random.integers(0, 3_000, 150))
    stream = Stream("own", table(ts.tolist(), random.integers(0, 4, 150)), "beta")
    return Join(stream, stream, windows=("200 MILLISECONDS", "100 MILLISECONDS"))


def disordered() -> Join:
    """Disorder, some of it beyond the lateness, and tuples without event time."""
    random = np.random.default_rng(7)

    def side(name: str, site: str, lateness_ms: int) -> Stream:
        ts = np.arange(300) * 10 + random.integers(-260, 260, 300)
        times = [None if index % 61 == 60 else int(time) for index, time in enumerate(ts)]
        return Stream(name, table(times, random.integers(0, 6, 300)), site, lateness_ms=lateness_ms)

    left, right = side("late_l", "alpha", 150), side("late_r", "beta", 0)
    return Join(left, right, windows=("400 MILLISECONDS", "90 MILLISECONDS"))


def text_files() -> Join:
    """CSV on one side, JSON lines on the other."""
    random = np.random.default_rng(8)
    words = [word for word in WORDS if word and "\x00" not in word]

    def side(name: str, site: str, form: str) -> Stream:
        ts = np.sort(random.integers(0, 5_000, 120))
        value = pa.array(np.round(random.random(120), 3))
        return Stream(
            name, table(ts.tolist(), [words[pick] for pick in random.integers(0, 9, 120)], v=value), site, form
        )

    left, right = side("text_l", "alpha", "csv"), side("text_r", "beta", "jsonl")
    columns = [("r", "k", "key"), ("l", "v", "lv"), ("r", "v", "rv"), ("l", "seq", "ls"), ("r", "seq", "rs")]
    return Join(left, right, windows=("300 MILLISECONDS", "2 SECONDS"), select=columns)


def every_type() -> Join:
    """A column of every common Arrow type that Parquet can hold, with nulls, on both sides."""
    random = np.random.default_rng(9)
    rows = 60
    left = Stream("types_l", typed(np.sort(random.integers(0, 800, rows)), random, 0), "alpha")
    right = Stream("types_r", typed(np.sort(random.integers(0, 800, rows)), random, 1), "beta")
    return Join(left, right, windows=("100 MILLISECONDS", "200 MILLISECONDS"))


def typed(ts: Any, random: np.random.Generator, salt: int) -> pa.Table:
    """A table with the given times; every value column is null now and then."""
    rows = len(ts)
    number = random.integers(0, 100, rows)
    stamp = [datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=int(value) * 7) for value in number]
    points = pa.struct([("x", pa.float32()), ("names", pa.list_(pa.string()))])
    values: dict[str, tuple[list[Any], pa.DataType]] = {
        "b": ([bool(value % 2) for value in number], pa.bool_()),
        "i8": ([int(value) - 50 for value in number], pa.int8()),
        "u8": (number.tolist(), pa.uint8()),
        "u64": ([2**64 - 1 - int(value) for value in number], pa.uint64()),
        "i64": ([-(2**63) + int(value) for value in number], pa.int64()),
        "f16": ([np.float16(value / 8) for value in number], pa.float16()),
        "f64": (
            [(float("nan"), float("inf"), -0.0, 0.1 + value)[value % 4] for value in number.tolist()],
            pa.float64(),
        ),
        "s": ([WORDS[value % len(WORDS)] for value in number], pa.string()),
        "ls": ([WORDS[value % len(WORDS)] * 3 for value in number], pa.large_string()),
        "bin": ([bytes([value, 0, 255]) for value in number.tolist()], pa.binary()),
        "fix": ([bytes([value, salt, 0, 1]) for value in number.tolist()], pa.binary(4)),
        "d32": ([value.date() for value in stamp], pa.date32()),
        "t_ms": (stamp, pa.timestamp("ms")),
        "t_ns": ([1_700_000_000_000_000_001 + value for value in number.tolist()], pa.timestamp("ns")),
        "tod_ms": ([value.time().replace(microsecond=0) for value in stamp], pa.time32("ms")),
        "t_us": (stamp, pa.timestamp("us", "Europe/Berlin")),
        "tod": ([value.time() for value in stamp], pa.time64("us")),
        "span": ([datetime.timedelta(milliseconds=value) for value in number.tolist()], pa.duration("ms")),
        "dec": ([decimal.Decimal(value).scaleb(-2) for value in number.tolist()], pa.decimal128(20, 2)),
        "dec256": ([decimal.Decimal(value) * 10**40 for value in number.tolist()], pa.decimal256(60, 0)),
        "list": ([[None, value] * (value % 3) for value in number.tolist()], pa.list_(pa.int32())),
        "point": ([{"x": value / 2, "names": ["é", None]} for value in number.tolist()], points),
        "map": ([[(str(value), value)] for value in number.tolist()], pa.map_(pa.string(), pa.int64())),
        "none": ([None] * rows, pa.null()),
    }
    columns: dict[str, Any] = {}
    for name, (given, kind) in values.items():
        holes = random.random(rows) < 0.15
        kept = [None if hole else value for hole, value in zip(holes, given, strict=True)]
        columns[name] = pa.array(kept, kind)
    return table(ts.tolist(), random.integers(0, 5, rows), **columns)


#: Every data set by name.
CASES = {
    case.__name__: case
    for case in (
        ties_and_skew,
        range_zero_around_zero,
        very_large_times,
        units_ms_and_us,
        units_us_and_timestamp_ns,
        one_empty,
        both_empty,
        self_join,
        disordered,
        text_files,
        every_type,
    )
}


#: As long as a test may take at all: by the clock, at the speed of 1, streams of this length outlast every test.
LASTING_S = 300


def lasting() -> Join:
    """Streams that do not end while they are paced, so a test has time for what has to come before their end.

    It kills or drops what reads them, or calls ``Daemons.hurry`` when it wants the end.
    """
    return steady(LASTING_S, 100)


def steady(seconds: int, rows_per_second: int = 200, suffix: str = "", noise_bytes: int = 0) -> Join:
    """Two streams that go on for a while and match all the time; ``noise_bytes`` of each tuple do not compress."""
    random = np.random.default_rng(21)

    def side(name: str, site: str) -> Stream:
        rows = seconds * rows_per_second
        ts = np.sort(random.integers(0, seconds * 1_000, rows))
        pad = pa.array([f"{name} {number:06d}" * 4 + random.bytes(noise_bytes).hex() for number in range(rows)])
        return Stream(name + suffix, table(ts.tolist(), random.integers(0, 50, rows), pad=pad), site)

    columns = [("l", "seq", "a"), ("r", "seq", "b"), ("l", "pad", "pad")]
    columns += [("r", "pad", "noise")] if noise_bytes else []
    return Join(
        side("left", "alpha"), side("right", "beta"), windows=("300 MILLISECONDS", "200 MILLISECONDS"), select=columns
    )
