"""``narrows init``: a cluster.toml to start from, with what can be set and why."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from cli.command import narrows_command
from cli.errors import CommandError
from cli.options.config import DEFAULT
from cli.options.engine import engine_option
from cli.options.values import FILE
from node.config import NATIVE, SPARK
from spark_jobs.java import NoJavaError, check_java

TEMPLATE = """\
# A cluster of Narrows: every daemon and every command reads this file. Paths are relative to it.
# Try it, once the two files below are there:
#   narrows run {where}"SELECT * FROM orders [RANGE 10 SECONDS] AS o
#     JOIN payments [RANGE 10 SECONDS] AS p ON o.id = p.order_id"
#
# Streams are cut into ticks of this length; a join is computed tick by tick. Longer: fewer, larger messages.
tau = "500ms"
# Daemons of different clusters refuse each other.
cluster = "narrows"
# Who runs a site's joins: "spark" needs Java 17, "native" runs in the daemon. Each site may have its own.
engine = "{engine}"
# Tuples that came too late for their tick are kept here.
late_dir = "late"
# What a daemon has to keep is here: logs of its streams, and how far Spark has read.
state_dir = "state"

[site.frankfurt]
# Where its daemon listens. If the others reach it elsewhere (a container, a tunnel): address = "host:port"
listen = "127.0.0.1:7701"

[site.frankfurt.stream.orders]
# A recording: .parquet, .csv (with a header line) or .jsonl. It is replayed, once, when a query first asks for it.
path = "orders.csv"
# The column with the event time, in order: dates with times, or integers, which are milliseconds since 1970
# unless unit = "s", "us" or "ns" says otherwise.
ts = "ts"
# How much later than its neighbours a tuple may come and still be taken.
lateness = "0ms"
# How much of its past queries that come later see at once. Without it they see what is read from then on; but all of
# a recording is kept for query --from start, unless this says less: "0ms" keeps nothing.
# retain = "10min"

[site.virginia]
listen = "127.0.0.1:7702"

[site.virginia.stream.payments]
path = "payments.csv"
ts = "ts"

# Spark of a site: local, or a cluster; any of its options under its full name.
# [site.frankfurt.spark]
# master = "local[2]"
# "spark.driver.memory" = "1g"

# What a link is like, for planning; what is not said is measured.
# [link.frankfurt.virginia]
# bandwidth = "10 Mbit/s"
# latency = "45ms"
# price_per_gb = 0.08

# A wide area network emulated between daemons of one machine (narrows wan --help).
# [wan]
# profile = "regions"
"""

_EXAMPLES = """\
examples:
  narrows init
  narrows init try/cluster.toml --engine native      without Spark, and so without Java
"""


@narrows_command("init", _EXAMPLES)
@click.argument(
    "path",
    type=FILE,
    default=DEFAULT,
    metavar="[FILE]",
    help=f"what to write (default: {DEFAULT}); never one that exists",
)
@engine_option("what runs the joins (default: spark where there is Java for it, else native)")
def command(path: Path, engine: str | None) -> int:
    """Writes a configuration with two sites and a comment for each setting, to be filled in with your own. A file
    that is there is left alone.
    """
    chosen, why = (engine, "") if engine else _engine_here()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(where=_named(path.name), engine=chosen))
    except FileExistsError:
        raise CommandError(f"narrows init requires a file that is not there yet; got {path}, which is") from None
    except OSError as error:
        raise CommandError(f"narrows init requires a file that can be written; got {path}: {error.strerror}") from None
    print(f"wrote {path}: two sites, engine {chosen}{why}. Put in your sites, streams and files; then")
    print(f'  narrows run {_named(str(path))}"SELECT ..."')
    return 0


def _named(path: str) -> str:
    """What narrows run needs before a query to find the file."""
    return "" if path == str(DEFAULT) else f"--config {shlex.quote(path)} "


def _engine_here() -> tuple[str, str]:
    """Spark, unless it cannot run on this machine; and why not."""
    try:
        check_java("frankfurt")
    except NoJavaError:
        return NATIVE, ", since there is no PySpark with Java 17 here"
    return SPARK, ""
