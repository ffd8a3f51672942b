"""Every key of cluster.toml, with what it takes and means: what the readers let through, and the reference.

The tables are those of the file, but for [wan], which ``netsim.wan_table`` reads. ``A``, ``B``, ``X`` and ``S`` stand
for names of sites and streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. ``default`` is empty where the key is required."""

    takes: str
    default: str
    meaning: str


CLUSTER: Mapping[str, Key] = {
    "tau": Key('duration, "1ms" to "24h"', "", "Event time is cut into ticks of this length; joins run tick by tick."),
    "cluster": Key("name", '"narrows"', "Daemons of clusters with different names refuse each other."),
    "engine": Key('"spark" or "native"', '"spark"', "Who runs the joins of sites that do not say."),
    "late_dir": Key(
        "directory", '"late"', "Where tuples are written that are late, too far ahead or without event time."
    ),
    "state_dir": Key(
        "directory",
        '"state"',
        "Where streams have their logs, those that Spark reads their position, and queries their rows.",
    ),
    "results_quota": Key(
        'size, such as "500MB" or "4GiB"',
        '"4GiB"',
        "How much result rows may have that wait for readers at a site: queries with more than their share wait then.",
    ),
    "log_quota": Key(
        'size, such as "500MB" or "16GiB"',
        '"16GiB"',
        "How much the logs of a site's streams may hold. What is only retained gives way; beyond that no stream of the "
        "site is read until less is needed, and status says for whom it is kept.",
    ),
}
PLANNER: Mapping[str, Key] = {
    "adaptive": Key(
        "true or false",
        "true",
        "Whether queries whose plan was chosen by cost go over to a better one while they run; narrows query "
        "--adaptive and --no-adaptive say it of one.",
    ),
    "epoch": Key(
        "whole number of ticks", "10 s, or 10 ticks", "How often the home of a query looks whether there is one."
    ),
    "payback_windows": Key(
        "number",
        "10",
        "Another plan must save within so many windows of the query what its new copies are sent first.",
    ),
    "storage": Key(
        'size, such as "64MB" or "1GiB", or 0',
        '"256MB"',
        "How much the joins that plans keep may take at a site, of all queries, in memory and on disk, as far as is "
        "expected: a plan that is chosen by cost keeps no more. With 0 none is kept.",
    ),
}
SITE: Mapping[str, Key] = {
    "listen": Key('"host:port"', "", "Where its daemon listens."),
    "address": Key('"host:port"', "as listen", "Where others dial it, if that is elsewhere."),
    "engine": Key('"spark" or "native"', "as the cluster", 'Who runs its joins; "native" needs no Java.'),
}
SPARK: Mapping[str, Key] = {
    "master": Key('"local[2]", "spark://...", "k8s://..."', '"local[2]"', "Where its Spark runs."),
    "partitions": Key("whole number", "cores of Spark", "Into how many parts windows are cut by key."),
    "job_timeout": Key(
        'duration, "1s" to "24h"',
        '"10min"',
        "A job that takes longer is taken for one that hangs: Spark is started again.",
    ),
    '"spark.*"': Key("text, number, true or false", "", "Any option of Spark, under its full name in quotes."),
}
STREAM: Mapping[str, Key] = {
    "ts": Key("column", "", "The event time: an integer, or a date or timestamp column."),
    "unit": Key('"s", "ms", "us" or "ns"', '"ms"', "What an integer event time counts."),
    "lateness": Key("duration", '"0ms"', "How much later than its neighbours a tuple may come and still be taken."),
    "max_ahead": Key(
        'duration, "1ms" to "876000h"',
        '"1h"',
        "How far ahead of the clock a tuple that Spark reads may be; one further ahead is set aside. Of a recording: "
        "how far behind a row most of those that follow it may be; more is an error, since they would all be late.",
    ),
    "retain": Key(
        "duration",
        '"0ms"; a recording that does not say it keeps all',
        "How much of its past its log keeps: rows of a new query begin there, unless --from says otherwise. "
        "Without it they begin now; the log of a recording keeps all of it, for windows and for --from.",
    ),
}
FILE: Mapping[str, Key] = {
    "path": Key("file", "", "A recording, relative to this file: .parquet, .csv with a header, .jsonl."),
    "format": Key('"parquet", "csv" or "jsonl"', "by the name", "How the file is written, if its name does not say."),
}
SPARK_STREAM: Mapping[str, Key] = {
    "spark": Key("table", "", "Instead of path: a source of Structured Streaming; its keys are below."),
    "where": Key("Spark SQL", "all rows", "Which rows are taken, decided in Spark at the site."),
    "select": Key("array of Spark SQL", "all columns", "What columns are made of them."),
    "trigger": Key('duration, or "available-now"', "tau", "When micro-batches begin; or take what there is and end."),
    "watermark": Key(
        '"data" or "clock"',
        '"data"',
        "What moves event time on: the newest tuple, or also the clock, if tuples are in the source at most the "
        "lateness after their event time.",
    ),
}
SPARK_SOURCE: Mapping[str, Key] = {
    "format": Key("text", "", "A source of Spark, such as kafka, json or rate."),
    "options": Key("table", "none", "Its options. A path is relative to this file."),
    "schema": Key("DDL", "the source's", 'Its columns, such as "id LONG, ts TIMESTAMP"; file sources need it.'),
}
STATS: Mapping[str, Key] = {
    "rate": Key("number", "measured", "Tuples in a second."),
    "distinct": Key("table", "measured", "How many different values a column has, such as { id = 5000 }."),
    "bytes": Key("table", "measured", "What a value of a column takes on the wire."),
}
LINK: Mapping[str, Key] = {
    "bandwidth": Key('"10 Mbit/s", "2.5 MB/s"', "measured", "What it carries."),
    "latency": Key("duration", "measured", "One way."),
    "price_per_gb": Key("number", "none", "What a gigabyte costs; explain then speaks of money."),
}
#: The tables in the order in which one writes them: heading, what it is, keys.
TABLES: tuple[tuple[str, str, Mapping[str, Key]], ...] = (
    ("", "The cluster as a whole.", CLUSTER),
    ("[planner]", "Plans that are chosen by cost.", PLANNER),
    ("[site.X]", "A site; there is a daemon for each.", SITE),
    ("[site.X.spark]", "The Spark of a site.", SPARK),
    ("[site.X.stream.S]", "A stream of a site. Names of streams are unique in the cluster.", STREAM),
    ("[site.X.stream.S], a recording", "Replayed when the first query reads it.", FILE),
    ("[site.X.stream.S], read by Spark", "Also at a site whose engine is native.", SPARK_STREAM),
    ("[site.X.stream.S.spark]", "The source.", SPARK_SOURCE),
    ("[site.X.stream.S.stats]", "What is declared of a stream, for planning; it wins over what is measured.", STATS),
    ("[link.A.B]", "What is declared of the way from A to B, and back unless [link.B.A] says more.", LINK),
)
