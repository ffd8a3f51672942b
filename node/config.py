"""cluster.toml, checked completely before anything starts.

A daemon that finds a wrong setting after an hour of replay has wasted the hour, and an operator who
is told one mistake at a time fixes a file with five mistakes in five rounds. So the whole file is
checked first and every problem is reported, each on one line that names the file, the dotted key,
what was required and what came.

Whether the streams' files exist is not asked here: every site reads the same cluster.toml, but only
has its own files. ``node.io.sources.check_sources`` asks that, for the sites that run on a machine.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from netsim.profiles import PROFILES, Change, Wan
from node import config_keys
from node.core.declared import DeclaredLink, DeclaredStream
from planner.errors import NarrowsError
from planner.model import TimeUnit

T = TypeVar("T")

SPARK, NATIVE = "spark", "native"
PARTITIONS_MAX = 1024
DAY_MS = 86_400_000
TAU_MAX_MS = DAY_MS
# In nanoseconds, the finest unit, this still stays below the 2**62 that event times stay below.
LATENESS_MAX_MS = 36_500 * DAY_MS
RETAIN_MAX_MS = 36_500 * DAY_MS
AVAILABLE_NOW = "available-now"
#: Options of Spark's sources, in lower case, by which a micro-batch is not all that there is.
BATCH_LIMITS = (
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
)

_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|s|min|h)")
_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_ENDPOINT = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<name>[A-Za-z0-9_.-]+)):(?P<port>[1-9][0-9]{0,4})")
_HOST_NAME = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
_BANDWIDTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(bit|kbit|Mbit|Gbit|B|kB|MB|GB)/s")
_BITS_PER_S = {"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "B": 8, "kB": 8e3, "MB": 8e6, "GB": 8e9}
LATENCY_MAX_MS = 3_600_000
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CLUSTER_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_SITE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_STREAM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SHOWN_CHARS = 80


def _printable(text: str) -> str:
    """One line that is safe on a terminal, whatever a file's name or content brought into it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class SourceFormat(StrEnum):
    """How the rows of a stream's file are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


_SUFFIXES = {
    ".parquet": SourceFormat.PARQUET,
    ".csv": SourceFormat.CSV,
    ".jsonl": SourceFormat.JSONL,
    ".ndjson": SourceFormat.JSONL,
    ".json": SourceFormat.JSONL,
}
_UNITS = {"ms": TimeUnit.MS, "us": TimeUnit.US, "ns": TimeUnit.NS}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the configuration; ``key`` is empty when the whole file is meant."""

    file: str
    key: str
    required: str
    got: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return _printable(f"{where}: required {self.required}; got {self.got}")


class ConfigError(NarrowsError):
    """The configuration is wrong; the text has one line per problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Watermark(StrEnum):
    """What moves the event time of a stream on that Spark reads."""

    #: The newest tuple that came, less the lateness; while nothing comes, nothing moves.
    DATA = "data"
    #: Also the clock: what was there when a micro-batch began is in it, so nothing older than that, less the
    #: lateness, comes later; provided that a tuple is in the source at most the lateness after its event time.
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A source of Structured Streaming, and what Spark makes of its rows at the site."""

    format: str
    options: tuple[tuple[str, str], ...]
    #: Where its checkpoint, the micro-batches that wait and the position in them are kept.
    folder: Path
    #: As DDL; None: the source knows it.
    schema: str | None = None
    where: str | None = None
    select: tuple[str, ...] = ()
    #: A micro-batch begins so long after the last one began; None: every tau.
    trigger_ms: int | None = None
    #: Take what there is, then end; there is no other trigger then.
    available_now: bool = False
    watermark: Watermark = Watermark.DATA


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One stream of a site; ``unit`` is None unless the file sets it."""

    key: str
    name: str
    site: str
    #: Its file. Of a stream that Spark reads: cluster.toml, the file that says from where.
    path: Path
    format: SourceFormat
    ts: str
    unit: TimeUnit | None
    lateness_ms: int
    #: How much event time of its past a new query may begin with.
    retain_ms: int = 0
    #: What is declared of it, for planning.
    stats: DeclaredStream = field(default_factory=DeclaredStream)
    #: None: it is a file that is replayed.
    spark: SparkSource | None = None


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """How a site's Spark is started: its master, and any option of Spark, as text."""

    master: str = "local[2]"
    #: Parts into which windows are cut by key; None: as many as Spark has cores.
    partitions: int | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """One site; ``address`` is what the others dial, ``listen`` what its daemon binds."""

    name: str
    listen: str
    address: str
    streams: tuple[StreamConfig, ...]
    engine: str = SPARK
    spark: SparkConfig = field(default_factory=SparkConfig)

    @property
    def needs_spark(self) -> bool:
        """For its joins, or to read a stream."""
        return self.engine == SPARK or any(stream.spark is not None for stream in self.streams)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster.toml that passed every check; paths in it are absolute, except its own."""

    path: Path
    name: str
    tau_ms: int
    late_dir: Path
    sites: tuple[SiteConfig, ...]
    #: What is declared of links, each direction on its own.
    links: tuple[DeclaredLink, ...] = ()
    #: The network that is emulated between the sites of this machine; None: links are what they are.
    wan: Wan | None = None

    def site(self, name: str) -> SiteConfig:
        """The site called ``name``; a ConfigError that lists the known ones when there is none."""
        for site in self.sites:
            if site.name == name:
                return site
        required = one_of([site.name for site in self.sites], name)
        raise ConfigError(Problem(str(self.path), "site", required, shown(name)))


class _RefusedError(ValueError):
    """A value that does not fit; the caller knows the key it belongs to."""

    def __init__(self, required: str, got: str) -> None:
        super().__init__(f"required {required}; got {got}")
        self.required = required
        self.got = got


def shown(value: object) -> str:
    """A TOML value as it appears in a message: on one line, and not longer than is useful."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else str(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def one_of(choices: Iterable[str], got: str) -> str:
    """The allowed words, and the one that was probably meant; of one or two letters nothing can be guessed."""
    known = sorted(choices)
    text = ("one of " if len(known) > 1 else "") + ", ".join(shown(choice) for choice in known)
    near = difflib.get_close_matches(got, known, n=1) if len(got) > 2 else []
    return f"{text} (did you mean {shown(near[0])}?)" if near else text


def dotted(*parts: str) -> str:
    """A key as TOML writes it; parts that are not bare words are quoted."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else shown(part) for part in parts)


def parse_duration_ms(text: str) -> int:
    """Whole milliseconds in a duration such as "100ms", "1.5s", "10min" or "2h"; ValueError otherwise.

    A fraction of a millisecond is refused, not rounded: tau cuts event time, and a cut somewhere other
    than where the operator wrote it would change which batch a tuple is in.
    """
    required = 'a duration in whole milliseconds such as "100ms", "1.5s", "10min" or "2h"'
    match = _DURATION.fullmatch(text)
    if match is None:
        raise _RefusedError(required, shown(text))
    length = Fraction(match[1]) * _DURATION_UNITS_MS[match[2]]
    if length.denominator != 1:
        raise _RefusedError(required, shown(text))
    return int(length)


def _duration_between(low_ms: int, high_ms: int, bounds: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        length = parse_duration_ms(text)
        if not low_ms <= length <= high_ms:
            raise _RefusedError(f"a duration {bounds}", shown(text))
        return length

    return parse


_tau = _duration_between(1, TAU_MAX_MS, 'from "1ms" to "24h"')
_lateness = _duration_between(0, LATENESS_MAX_MS, 'from "0ms" to "876000h"')
_retain = _duration_between(0, RETAIN_MAX_MS, 'from "0ms" to "876000h"')
_interval = _duration_between(0, DAY_MS, f'from "0ms" to "24h", or "{AVAILABLE_NOW}"')


def _latency(text: str) -> int:
    return _duration_between(0, LATENCY_MAX_MS, 'from "0ms" to "1h"')(text) * 1000


def parse_bandwidth(text: str) -> float:
    """Bytes in a second, of text such as "10 Mbit/s"; ValueError otherwise."""
    match = _BANDWIDTH.fullmatch(text)
    if match is None or not float(match[1]):
        raise _RefusedError('a bandwidth above 0 such as "10 Mbit/s", "800 kbit/s" or "2.5 MB/s"', shown(text))
    return float(match[1]) * _BITS_PER_S[match[2]] / 8


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise _RefusedError(f"a name that matches {pattern.pattern}", shown(text))
        return text

    return parse


def _choice(choices: dict[str, T]) -> Callable[[str], T]:
    def parse(text: str) -> T:
        if text not in choices:
            raise _RefusedError(one_of(choices, text), shown(text))
        return choices[text]

    return parse


_engine = _choice({SPARK: SPARK, NATIVE: NATIVE})
_MASTER = re.compile(r"local|local\[(\*|[1-9][0-9]*)(,[1-9][0-9]*)?\]|(spark|k8s)://\S+|yarn")


def _master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise _RefusedError('a master of Spark such as "local[2]", "spark://host:7077" or "k8s://..."', shown(text))
    return text


def _non_empty(what: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not text or "\0" in text:
            raise _RefusedError(what, shown(text))
        return text

    return parse


def _endpoint_parts(text: str) -> tuple[str, int]:
    """Host and port in one canonical spelling, so that two spellings of one endpoint compare equal."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(text)
    return _canonical_host(match["v6"], match["name"]), int(match["port"])


def _canonical_host(v6: str | None, name: str | None) -> str:
    if v6 is not None:
        return str(ipaddress.IPv6Address(v6))
    assert name is not None
    if re.fullmatch(r"[0-9.]+", name):
        return str(ipaddress.IPv4Address(name))
    if len(name) > 253 or _HOST_NAME.fullmatch(name) is None:
        raise ValueError(name)
    return name.lower().removesuffix(".")


def _endpoint(text: str) -> str:
    try:
        _endpoint_parts(text)
    except ValueError:
        raise _RefusedError('"host:port", port 1..65535, IPv6 as "[::1]:7701"', shown(text)) from None
    return text


def _is_wildcard(endpoint: str) -> bool:
    return _endpoint_parts(endpoint)[0] in ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound)


class _Table:
    """One table of the file: reads its keys and notes what is wrong with them.

    Readers return a placeholder for a wrong value so that checking goes on; ``load_cluster`` raises
    when anything was noted, so no placeholder leaves this module.
    """

    def __init__(self, file: str, key: tuple[str, ...], values: dict[str, Any], problems: list[Problem]) -> None:
        self._file = file
        self._key = key
        self._values = values
        self._problems = problems

    @property
    def key(self) -> str:
        return dotted(*self._key)

    def has(self, name: str) -> bool:
        return name in self._values

    def is_table(self, name: str) -> bool:
        """Whether what stands under ``name`` is a table."""
        return isinstance(self._values.get(name), dict)

    def is_empty(self, name: str) -> bool:
        """Whether nothing stands under ``name``, not even something wrong."""
        return bool(self._values.get(name, {}) == {})

    def note(self, name: str, required: str, got: str) -> None:
        """Record a problem of one key of this table."""
        self._problems.append(Problem(self._file, dotted(*self._key, name), required, got))

    def check_name(self, parse: Callable[[str], str]) -> None:
        """Check the last part of this table's own key."""
        try:
            parse(self._key[-1])
        except _RefusedError as error:
            self._problems.append(Problem(self._file, self.key, error.required, error.got))

    def only(self, *known: str) -> None:
        """Refuse every key that is not in ``known``: a misspelt option must not be ignored."""
        for name in self._values:
            if name not in known:
                self.note(name, one_of(known, name), f"the unknown key {shown(name)}")

    def text(self, name: str, what: str, parse: Callable[[str], T], default: T, *, required: bool = False) -> T:
        """The parsed value of a text key; ``what`` says in messages what the key is for."""
        if name not in self._values:
            if required:
                self.note(name, what, "nothing")
            return default
        value = self._values[name]
        if not isinstance(value, str):
            self.note(name, what, shown(value))
            return default
        try:
            return parse(value)
        except _RefusedError as error:
            self.note(name, error.required, error.got)
            return default

    def number(self, name: str, what: str, *, zero: bool = False) -> float | None:
        """A number above 0, or from 0 on; None when the key is not there."""
        if name not in self._values:
            return None
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not (0 if zero else 1e-9) <= value < 1e15:
            self.note(name, what, shown(value))
            return None
        return float(value)

    def whole(self, name: str, most: int) -> int | None:
        """A whole number from 1 on; None when the key is not there."""
        if name not in self._values:
            return None
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.note(name, f"a whole number from 1 to {most}", shown(value))
            return None
        return value

    def scalar(self, name: str, what: str) -> str | None:
        """A value that is no table or array, as text the way Spark writes it."""
        value = self._values[name]
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        self.note(name, what, shown(value))
        return None

    def texts(self, name: str, what: str) -> tuple[str, ...]:
        """An array of texts, none of them empty; empty when the key is not there."""
        if name not in self._values:
            return ()
        values = self._values[name]
        if not isinstance(values, list) or not values:
            self.note(name, what, "an empty array" if values == [] else shown(values))
            return ()
        for value in values:
            if not isinstance(value, str) or not value.strip():
                self.note(name, what, f"an array with {shown(value)}")
                return ()
        return tuple(values)

    def names(self) -> list[str]:
        """The keys of this table, in the order of the file."""
        return list(self._values)

    def table(self, name: str) -> _Table:
        """The table under ``name``, empty when there is none."""
        values = self._values.get(name, {})
        if not isinstance(values, dict):
            self.note(name, "a table", shown(values))
            values = {}
        return _Table(self._file, (*self._key, name), values, self._problems)

    def tables(self, name: str) -> list[tuple[str, _Table]]:
        """The tables under ``name``; wrong types are noted and left out."""
        group = self._values.get(name, {})
        if not isinstance(group, dict):
            self.note(name, f"tables [{dotted(*self._key, name)}.NAME]", shown(group))
            return []
        inner = _Table(self._file, (*self._key, name), group, self._problems)
        found = []
        for child, values in group.items():
            if isinstance(values, dict):
                found.append((child, _Table(self._file, (*inner._key, child), values, self._problems)))
            else:
                inner.note(child, "a table", shown(values))
        return found


def load_cluster(path: Path) -> ClusterConfig:
    """Read and check a cluster.toml; one ConfigError with every problem when something is wrong."""
    path = Path(path)
    problems: list[Problem] = []
    table = _Table(str(path), (), _read_toml(path), problems)
    config = _cluster(table, path)
    _check_stream_names(config, problems)
    _check_endpoints(config, problems)
    if problems:
        raise ConfigError(*problems)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """The parsed file; a byte order mark is allowed because editors add it unasked."""
    file = str(path)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(Problem(file, "", "a readable TOML file", "no such file")) from None
    except IsADirectoryError:
        raise ConfigError(Problem(file, "", "a readable TOML file", "a directory")) from None
    except OSError as error:
        raise ConfigError(Problem(file, "", "a readable TOML file", error.strerror or str(error))) from None
    except UnicodeDecodeError as error:
        got = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise ConfigError(Problem(file, "", "UTF-8 text", got)) from None
    except RecursionError:
        raise ConfigError(Problem(file, "", "valid TOML", "values nested too deeply")) from None
    except ValueError as error:
        raise ConfigError(Problem(file, "", "valid TOML", str(error))) from None


def _cluster(table: _Table, path: Path) -> ClusterConfig:
    table.only(*config_keys.CLUSTER, "site", "link", "wan")
    base = path.parent.absolute()
    engine = table.text("engine", '"spark" or "native"', _engine, SPARK)
    state_dir = base / table.text("state_dir", "a directory", _non_empty("a directory"), "state")
    places = _Places(path, base, state_dir)
    sites = tuple(_site(name, site, places, engine) for name, site in table.tables("site"))
    config = ClusterConfig(
        path=path,
        name=table.text("cluster", "a name in quotes", _matching(_CLUSTER_NAME), "narrows"),
        tau_ms=table.text("tau", 'a duration such as "100ms"', _tau, 1, required=True),
        late_dir=base / table.text("late_dir", "a directory", _non_empty("a directory"), "late"),
        sites=sites,
        links=_links(table.table("link"), [site.name for site in sites]),
        wan=_wan(table.table("wan"), [site.name for site in sites]) if table.has("wan") else None,
    )
    for key, folder in (("late_dir", config.late_dir), ("state_dir", state_dir)):
        if _is_file(folder):
            table.note(key, "a directory", f"the file {folder}")
    if table.is_empty("site"):
        table.note("site", "at least one [site.NAME] table", "none")
    return config


def _is_file(path: Path) -> bool:
    """Whether something other than a directory is there; what cannot be looked at is not judged here."""
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Places:
    """Where things are: the cluster file, what its paths are relative to, and the state of streams."""

    file: Path
    base: Path
    state_dir: Path


def _site(name: str, table: _Table, places: _Places, engine: str) -> SiteConfig:
    table.check_name(_matching(_SITE_NAME))
    table.only(*config_keys.SITE, "stream", "spark")
    listen = table.text("listen", '"host:port"', _endpoint, "", required=True)
    address = table.text("address", '"host:port"', _endpoint, "" if table.has("address") else listen)
    streams = tuple(_stream(child, name, stream, places) for child, stream in table.tables("stream"))
    engine = table.text("engine", '"spark" or "native"', _engine, engine)
    return SiteConfig(name, listen, address, streams, engine, _spark(table.table("spark")))


def _spark(table: _Table) -> SparkConfig:
    """``master``, ``partitions``, and options of Spark under their full names, in quotes."""
    options = []
    for name in table.names():
        if name in ("master", "partitions"):
            continue
        if not name.startswith("spark."):
            table.note(
                name, 'master, partitions, or an option of Spark in quotes such as "spark.executor.memory"', shown(name)
            )
        elif (value := table.scalar(name, "text, a number, true or false")) is not None:
            options.append((name, value))
    return SparkConfig(
        table.text("master", 'a master of Spark such as "local[2]"', _master, "local[2]"),
        table.whole("partitions", PARTITIONS_MAX),
        tuple(options),
    )


def _stream(name: str, site: str, table: _Table, places: _Places) -> StreamConfig:
    table.check_name(_matching(_STREAM_NAME))
    table.only(*config_keys.STREAM, *config_keys.FILE, *config_keys.SPARK_STREAM, "stats")
    spark = _spark_source(name, site, table, places) if table.has("spark") else None
    if spark is None:
        for key in config_keys.SPARK_STREAM:
            if table.has(key):
                table.note(key, "a stream that Spark reads: spark = { format = ... }", "a stream without the key spark")
    path = "" if spark else table.text("path", "a file name", _non_empty("a file name"), "", required=True)
    return StreamConfig(
        key=table.key,
        name=name,
        site=site,
        path=places.file if spark else places.base / path,
        format=SourceFormat.PARQUET if spark else _format(table, path),
        ts=table.text("ts", "the name of the event-time column", _non_empty("a column name"), "", required=True),
        unit=_unit(table),
        lateness_ms=table.text("lateness", 'a duration such as "0ms"', _lateness, 0),
        retain_ms=table.text("retain", 'a duration such as "10min"', _retain, 0),
        stats=_stats(table.table("stats")),
        spark=spark,
    )


def _spark_source(name: str, site: str, table: _Table, places: _Places) -> SparkSource:
    """What can be known of it without Spark; the rest is asked of Spark when the site's daemon starts."""
    for key in config_keys.FILE:
        if table.has(key):
            table.note(key, f"either spark or path, and spark has its own format: no {key}", "both")
    inner = table.table("spark")
    inner.only(*config_keys.SPARK_SOURCE)
    trigger = table.text("trigger", f'a duration such as "500ms", or "{AVAILABLE_NOW}"', _trigger, -1)
    watermarks = {mark.value: mark for mark in Watermark}
    source = SparkSource(
        format=inner.text(
            "format",
            'a source of Spark such as "kafka"',
            _non_empty("a source"),
            "",
            required=table.is_table("spark"),
        ),
        options=_source_options(inner.table("options"), places.base),
        folder=places.state_dir / site / name,
        schema=inner.text("schema", "columns as DDL", _non_empty('columns such as "k LONG, v STRING"'), "") or None,
        where=table.text("where", "a condition in Spark SQL", _non_empty("a condition in Spark SQL"), "") or None,
        select=table.texts("select", "an array of expressions in Spark SQL"),
        trigger_ms=None if trigger < 0 else trigger,
        available_now=trigger == _ALL_THERE_IS,
        watermark=table.text("watermark", one_of(watermarks, ""), _choice(watermarks), Watermark.DATA),
    )
    if source.watermark is Watermark.CLOCK:
        _check_clock(source, table)
    return source


_ALL_THERE_IS = -2


def _trigger(text: str) -> int:
    return _ALL_THERE_IS if text == AVAILABLE_NOW else _interval(text)


def _check_clock(source: SparkSource, table: _Table) -> None:
    """By the clock only if a micro-batch has all that was there when it began."""
    if source.available_now:
        table.note("watermark", f'"data" with trigger = "{AVAILABLE_NOW}", which ends the stream', '"clock"')
    for name, _ in source.options:
        if name.lower() in BATCH_LIMITS:
            required = '"data" where a micro-batch may leave tuples behind'
            table.note("watermark", required, f'"clock" beside spark.options.{dotted(name)}')


def _source_options(table: _Table, base: Path) -> tuple[tuple[str, str], ...]:
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


def _stats(table: _Table) -> DeclaredStream:
    """What is declared of a stream. Whether it has these columns is known only to the site that has the file."""
    table.only(*config_keys.STATS)
    distinct, sizes = table.table("distinct"), table.table("bytes")
    return DeclaredStream(
        table.number("rate", "tuples per second, above 0"),
        _by_column(distinct, "how many different values the column has, above 0"),
        _by_column(sizes, "how many bytes a value takes on the wire, above 0"),
    )


def _by_column(table: _Table, what: str) -> dict[str, float]:
    found = {name: table.number(name, what) for name in table.names()}
    return {name: value for name, value in found.items() if value is not None}


def _links(table: _Table, sites: list[str]) -> tuple[DeclaredLink, ...]:
    """Both directions of every declared link: what is said of one holds for the other, unless that says more."""
    found: dict[tuple[str, str], DeclaredLink] = {}
    for source in table.names():
        if source not in sites:
            table.note(source, f"a site: {one_of(sites, source)}", shown(source))
        for target, link in table.tables(source):
            if target not in sites or target == source:
                others = [site for site in sites if site != source]
                required = f"another site: {one_of(others, target)}" if others else "another site"
                table.table(source).note(target, required, shown(target))
            found[source, target] = _link(source, target, link)
    both = list(found)
    both += [way[::-1] for way in both if way[::-1] not in found]
    return tuple(_either(found.get(way), found.get(way[::-1]), *way) for way in both)


def _link(source: str, target: str, table: _Table) -> DeclaredLink:
    table.only(*config_keys.LINK)
    bandwidth = table.text("bandwidth", 'a bandwidth such as "10 Mbit/s"', parse_bandwidth, 0.0)
    latency = table.text("latency", 'a duration such as "40ms"', _latency, -1)
    price = table.number("price_per_gb", "a price from 0 on", zero=True)
    return DeclaredLink(source, target, bandwidth or None, None if latency < 0 else latency, price)


def _wan(table: _Table, sites: list[str]) -> Wan:
    """A profile, what holds for every link, and [wan.A.B] for the way from A to B, or both ways without [wan.B.A]."""
    own = tuple(config_keys.WAN)
    for name in table.names():
        if name not in own and name not in sites:
            table.note(name, f"{one_of(own, name)}, or a site: {one_of(sites, name)}", shown(name))
    said: dict[tuple[str, str], Change] = {}
    for source in [name for name in table.names() if name in sites]:
        for target, way in table.tables(source):
            if target not in sites or target == source:
                others = [site for site in sites if site != source]
                table.table(source).note(target, f"another site: {one_of(others, target)}", shown(target))
            way.only(*config_keys.WAN_LINK)
            said[source, target] = _change(way)
    both = {way[::-1]: change for way, change in said.items()} | said
    profile = table.text("profile", one_of(PROFILES, ""), _choice({name: name for name in PROFILES}), "none")
    return Wan(profile, _change(table), both)


def _change(table: _Table) -> Change:
    duration = _duration_between(0, LATENCY_MAX_MS, 'from "0ms" to "1h"')
    latency = table.text("latency", 'a duration such as "40ms"', duration, -1)
    jitter = table.text("jitter", 'a duration such as "2ms"', duration, -1)
    rate = table.text("bandwidth", 'a bandwidth such as "256 kbit/s", or "unlimited"', _rate_or_unlimited, 0.0)
    return Change(
        None if latency < 0 else latency,
        None if jitter < 0 else jitter,
        rate if 0 < rate < inf else None,
        unlimited=rate == inf,
    )


def _rate_or_unlimited(text: str) -> float:
    return inf if text == "unlimited" else parse_bandwidth(text)


def _either(own: DeclaredLink | None, other: DeclaredLink | None, source: str, target: str) -> DeclaredLink:
    ways = [link for link in (own, other) if link is not None]
    return DeclaredLink(
        source,
        target,
        next((link.bytes_per_s for link in ways if link.bytes_per_s is not None), None),
        next((link.latency_us for link in ways if link.latency_us is not None), None),
        next((link.price_per_gb for link in ways if link.price_per_gb is not None), None),
    )


def _unit(table: _Table) -> TimeUnit | None:
    if not table.has("unit"):
        return None
    return table.text("unit", one_of(_UNITS, ""), _choice(_UNITS), TimeUnit.MS)


def _format(table: _Table, path: str) -> SourceFormat:
    """The format key decides, else the end of the file's name."""
    if table.has("format"):
        formats = {name.value: name for name in SourceFormat}
        return table.text("format", one_of(formats, ""), _choice(formats), SourceFormat.PARQUET)
    suffix = Path(path).suffix.lower()
    if path and suffix not in _SUFFIXES:
        table.note("path", f"a name that ends in {', '.join(_SUFFIXES)}, or the key format", shown(path))
    return _SUFFIXES.get(suffix, SourceFormat.PARQUET)


def _check_stream_names(config: ClusterConfig, problems: list[Problem]) -> None:
    """A query names streams without their sites, so a name must mean one stream in the whole cluster."""
    seen: dict[str, str] = {}
    for stream in (stream for site in config.sites for stream in site.streams):
        if stream.name in seen:
            got = f"{shown(stream.name)}, which is also {seen[stream.name]}"
            problems.append(Problem(str(config.path), stream.key, "a stream name used once in the cluster", got))
        seen.setdefault(stream.name, stream.key)


def _check_endpoints(config: ClusterConfig, problems: list[Problem]) -> None:
    """No two sites behind one endpoint.

    One exception: on different machines every daemon may listen on 0.0.0.0 and the same port, as
    long as the others are told an address to dial. A wildcard is never such an address.
    """
    listening = _Claims(str(config.path), problems)
    dialled = _Claims(str(config.path), problems)
    for site in config.sites:
        listen_key, address_key = (dotted("site", site.name, name) for name in ("listen", "address"))
        clash = bool(site.listen) and not _is_wildcard(site.listen) and not listening.claim(listen_key, site.listen)
        if not site.address or (clash and site.address == site.listen):
            continue
        if not _is_wildcard(site.address):
            dialled.claim(listen_key if site.address == site.listen else address_key, site.address)
        elif len(config.sites) > 1:
            got = f"{shown(site.address)}, which names no machine"
            problems.append(Problem(str(config.path), address_key, '"host:port" that the other sites can dial', got))


class _Claims:
    """Endpoints that are taken, and by which key."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems
        self._taken: dict[tuple[str, int], str] = {}

    def claim(self, key: str, endpoint: str) -> bool:
        """Take an endpoint; False, with a note, when another key has it."""
        owner = self._taken.setdefault(_endpoint_parts(endpoint), key)
        if owner != key:
            got = f"{shown(endpoint)}, which is also {owner}"
            self._problems.append(Problem(self._file, key, "an endpoint that no other site has", got))
        return owner == key
