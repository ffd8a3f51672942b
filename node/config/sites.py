"""[site.X] and [site.X.spark]: a site, and the Spark that runs its joins."""

from __future__ import annotations

import re

from node.config import keys
from node.config.endpoints import endpoint
from node.config.places import Places
from node.config.problems import RefusedError, shown
from node.config.streams import read_stream
from node.config.table import Table
from node.config.texts import choice, matching
from node.config.units import DAY_MS, duration_between
from node.config.values import JOB_TIMEOUT_MS, NATIVE, SPARK, SiteConfig, SparkConfig

PARTITIONS_MAX = 1024
_SITE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MASTER = re.compile(r"local|local\[(\*|[1-9][0-9]*)(,[1-9][0-9]*)?\]|(spark|k8s)://\S+|yarn")
#: As they stand in the reference; what is in quotes there is Spark's.
_OWN_KEYS = tuple(key for key in keys.SPARK if not key.startswith('"'))
_job_timeout = duration_between(1_000, DAY_MS, 'from "1s" to "24h"')
engine_name = choice({SPARK: SPARK, NATIVE: NATIVE})


def read_site(name: str, table: Table, places: Places, engine: str) -> SiteConfig:
    """A site with its streams; ``engine`` is that of the cluster."""
    table.check_name(matching(_SITE_NAME))
    table.only(*keys.SITE, "stream", "spark")
    listen = table.text("listen", '"host:port"', endpoint, "", required=True)
    address = table.text("address", '"host:port"', endpoint, "" if table.has("address") else listen)
    streams = tuple(read_stream(child, name, stream, places) for child, stream in table.tables("stream"))
    engine = table.text("engine", '"spark" or "native"', engine_name, engine)
    return SiteConfig(name, listen, address, streams, engine, _spark(table.table("spark")))


def _spark(table: Table) -> SparkConfig:
    """Our own keys, and options of Spark under their full names, in quotes."""
    options = []
    for name in table.names():
        if name in _OWN_KEYS:
            continue
        if not name.startswith("spark."):
            own = ", ".join(_OWN_KEYS)
            table.note(name, f'{own}, or an option of Spark in quotes such as "spark.executor.memory"', shown(name))
        elif (value := table.scalar(name, "text, a number, true or false")) is not None:
            options.append((name, value))
    return SparkConfig(
        table.text("master", 'a master of Spark such as "local[2]"', _master, "local[2]"),
        table.whole("partitions", PARTITIONS_MAX),
        table.text("job_timeout", 'a duration such as "10min"', _job_timeout, JOB_TIMEOUT_MS),
        tuple(options),
    )


def _master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise RefusedError('a master of Spark such as "local[2]", "spark://host:7077" or "k8s://..."', shown(text))
    return text
