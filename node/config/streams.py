"""[site.X.stream.S]: a recording that is replayed, or a source that Spark reads; and what is declared of it."""

from __future__ import annotations

import re
from pathlib import Path

from node.config import keys
from node.config.places import Places
from node.config.problems import one_of, shown
from node.config.spark_sources import read_spark_source
from node.config.table import Table
from node.config.texts import choice, matching, non_empty
from node.config.units import DAY_MS, duration_between
from node.config.values import MAX_AHEAD_MS, SourceFormat, StreamConfig
from planner.model.declarations import DeclaredStream
from planner.model.time_unit import TimeUnit

# In nanoseconds, the finest unit, this still stays below the 2**62 that event times stay below.
LATENESS_MAX_MS = 36_500 * DAY_MS
RETAIN_MAX_MS = 36_500 * DAY_MS
_STREAM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SUFFIXES = {
    ".parquet": SourceFormat.PARQUET,
    ".csv": SourceFormat.CSV,
    ".jsonl": SourceFormat.JSONL,
    ".ndjson": SourceFormat.JSONL,
    ".json": SourceFormat.JSONL,
}
#: What an integer event time counts, by name: the unit it is kept in, and how many of those one is.
_UNITS = {"s": (TimeUnit.MS, 1_000), "ms": (TimeUnit.MS, 1), "us": (TimeUnit.US, 1), "ns": (TimeUnit.NS, 1)}
_lateness = duration_between(0, LATENESS_MAX_MS, 'from "0ms" to "876000h"')
_max_ahead = duration_between(1, LATENESS_MAX_MS, 'from "1ms" to "876000h"')
_retain = duration_between(0, RETAIN_MAX_MS, 'from "0ms" to "876000h"')


def read_stream(name: str, site: str, table: Table, places: Places) -> StreamConfig:
    """A stream of a site, of either kind, with what is declared of it."""
    table.check_name(matching(_STREAM_NAME))
    table.only(*keys.STREAM, *keys.FILE, *keys.SPARK_STREAM, "stats")
    spark = read_spark_source(name, site, table, places) if table.has("spark") else None
    if spark is None:
        for key in keys.SPARK_STREAM:
            if table.has(key):
                table.note(key, "a stream that Spark reads: spark = { format = ... }", "a stream without the key spark")
    path = "" if spark else table.text("path", "a file name", non_empty("a file name"), "", required=True)
    unit, scale = _unit(table)
    return StreamConfig(
        key=table.key,
        name=name,
        site=site,
        path=places.file if spark else places.base / path,
        format=SourceFormat.PARQUET if spark else _format(table, path),
        ts=table.text("ts", "the name of the event-time column", non_empty("a column name"), "", required=True),
        unit=unit,
        lateness_ms=table.text("lateness", 'a duration such as "0ms"', _lateness, 0),
        max_ahead_ms=table.text("max_ahead", 'a duration such as "1h"', _max_ahead, MAX_AHEAD_MS),
        retain_ms=table.text("retain", 'a duration such as "10min"', _retain, 0),
        keep_whole=spark is None and not table.has("retain"),
        stats=_stats(table.table("stats")),
        spark=spark,
        ts_scale=scale,
    )


def _unit(table: Table) -> tuple[TimeUnit | None, int]:
    if not table.has("unit"):
        return None, 1
    return table.text("unit", one_of(_UNITS, ""), choice(_UNITS), (TimeUnit.MS, 1))


def _format(table: Table, path: str) -> SourceFormat:
    """The format key decides, else the end of the file's name."""
    if table.has("format"):
        formats = {name.value: name for name in SourceFormat}
        return table.text("format", one_of(formats, ""), choice(formats), SourceFormat.PARQUET)
    suffix = Path(path).suffix.lower()
    if path and suffix not in _SUFFIXES:
        table.note("path", f"a name that ends in {', '.join(_SUFFIXES)}, or the key format", shown(path))
    return _SUFFIXES.get(suffix, SourceFormat.PARQUET)


def _stats(table: Table) -> DeclaredStream:
    """What is declared of a stream. Whether it has these columns is known only to the site that has the file."""
    table.only(*keys.STATS)
    distinct, sizes = table.table("distinct"), table.table("bytes")
    return DeclaredStream(
        table.number("rate", "tuples per second, above 0"),
        _by_column(distinct, "how many different values the column has, above 0"),
        _by_column(sizes, "how many bytes a value takes on the wire, above 0"),
    )


def _by_column(table: Table, what: str) -> dict[str, float]:
    found = {name: table.number(name, what) for name in table.names()}
    return {name: value for name, value in found.items() if value is not None}
