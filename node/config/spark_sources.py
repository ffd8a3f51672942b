"""[site.X.stream.S.spark] and the keys beside it: a source of Structured Streaming."""

from __future__ import annotations

import re
from pathlib import Path

from node.config import keys
from node.config.places import Places
from node.config.problems import dotted, one_of, shown
from node.config.table import Table
from node.config.texts import choice, non_empty
from node.config.units import DAY_MS, duration_between
from node.config.values import SparkSource, Watermark

AVAILABLE_NOW = "available-now"
_ALL_THERE_IS = -2
#: Options of Spark's sources, in lower case, by which a micro-batch is not all that there is.
BATCH_LIMITS = (
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_interval = duration_between(0, DAY_MS, f'from "0ms" to "24h", or "{AVAILABLE_NOW}"')


def read_spark_source(name: str, site: str, table: Table, places: Places) -> SparkSource:
    """What can be known of it without Spark; the rest is asked of Spark when the site's daemon starts."""
    for key in keys.FILE:
        if table.has(key):
            table.note(key, f"either spark or path, and spark has its own format: no {key}", "both")
    inner = table.table("spark")
    inner.only(*keys.SPARK_SOURCE)
    trigger = table.text("trigger", f'a duration such as "500ms", or "{AVAILABLE_NOW}"', _trigger, -1)
    watermarks = {mark.value: mark for mark in Watermark}
    source = SparkSource(
        format=inner.text(
            "format",
            'a source of Spark such as "kafka"',
            non_empty("a source"),
            "",
            required=table.is_table("spark"),
        ),
        options=_source_options(inner.table("options"), places.base),
        folder=places.state_dir / site / name,
        schema=inner.text("schema", "columns as DDL", non_empty('columns such as "k LONG, v STRING"'), "") or None,
        where=table.text("where", "a condition in Spark SQL", non_empty("a condition in Spark SQL"), "") or None,
        select=table.texts("select", "an array of expressions in Spark SQL"),
        trigger_ms=None if trigger < 0 else trigger,
        available_now=trigger == _ALL_THERE_IS,
        watermark=table.text("watermark", one_of(watermarks, ""), choice(watermarks), Watermark.DATA),
    )
    if source.watermark is Watermark.CLOCK:
        _check_clock(source, table)
    return source


def _trigger(text: str) -> int:
    return _ALL_THERE_IS if text == AVAILABLE_NOW else _interval(text)


def _check_clock(source: SparkSource, table: Table) -> None:
    """By the clock only if a micro-batch has all that was there when it began."""
    if source.available_now:
        table.note("watermark", f'"data" with trigger = "{AVAILABLE_NOW}", which ends the stream', '"clock"')
    for name, _ in source.options:
        if name.lower() in BATCH_LIMITS:
            required = '"data" where a micro-batch may leave tuples behind'
            table.note("watermark", required, f'"clock" beside spark.options.{dotted(name)}')


def _source_options(table: Table, base: Path) -> tuple[tuple[str, str], ...]:
    """Options as text, as Spark takes them; a path is relative to the cluster file, like every path in it."""
    options: dict[str, str] = {}
    for name in table.names():
        value = table.scalar(name, "text, a number, true or false")
        if value is None:
            continue
        if name.lower() in (known.lower() for known in options):
            table.note(name, "an option given once; Spark ignores case", shown(name))
        if name.lower() == "path" and not _URI.match(value):
            value = str(base / value)
        options[name] = value
    return tuple(options.items())
