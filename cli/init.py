"""``narrows init``: a cluster.toml to start from, with what can be set and why."""

from __future__ import annotations

from pathlib import Path

from planner.errors import NarrowsError

TEMPLATE = """\
# A cluster of Narrows: every daemon and every command reads this file. Paths are relative to it.
# Try it:  narrows run {name} --query "SELECT * FROM orders [RANGE 10 SECONDS] AS o
#              JOIN payments [RANGE 10 SECONDS] AS p ON o.id = p.order_id"
#
# Streams are cut into ticks of this length; a join is computed tick by tick. Longer: fewer, larger messages.
tau = "500ms"
# Daemons of different clusters refuse each other.
cluster = "narrows"
# Who runs a site's joins: "spark" needs Java 17, "native" runs in the daemon. Each site may have its own.
engine = "spark"
# Tuples that came too late for their tick are kept here.
late_dir = "late"

[site.frankfurt]
# Where its daemon listens. If the others reach it elsewhere (a container, a tunnel): address = "host:port"
listen = "127.0.0.1:7701"

[site.frankfurt.stream.orders]
# A recording: .parquet, .csv (with a header line) or .jsonl. It is replayed when a query first asks for it.
path = "orders.csv"
# The column with the event time. Integers are milliseconds unless unit = "us" or "ns" says otherwise.
ts = "ts"
# How much later than its neighbours a tuple may come and still be taken.
lateness = "0ms"
# How much of its past is kept for queries that come later: retain = "10min"

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


class InitError(NarrowsError):
    """The file cannot be written."""


def init(path: Path) -> int:
    """Write the file, unless there is one."""
    try:
        with path.open("x") as file:
            file.write(TEMPLATE.format(name=path.name))
    except FileExistsError:
        raise InitError(f"narrows init requires a file that is not there yet; got {path}, which is") from None
    except OSError as error:
        raise InitError(f"cannot write {path}: {error.strerror or error}") from None
    print(f"wrote {path}: put in your sites and streams, then try narrows run {path} --query ...")
    return 0
