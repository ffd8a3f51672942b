"""Checks of cluster.toml: what is accepted, and the text of every refusal."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cluster_file import load_cluster
from node.config import ConfigError, SourceFormat, SparkConfig, SparkSource, parse_duration_ms
from planner.model.declarations import DeclaredLink, DeclaredStream
from planner.model.errors import NarrowsError
from planner.model.time_unit import TimeUnit
from tests.examples import new_examples

GOOD = """
cluster = "demo"
tau = "100ms"
engine = "native"
late_dir = "behind"

[site.frankfurt]
listen = "127.0.0.1:7701"
address = "vpn-host:7701"

[site.frankfurt.stream.orders]
path = "orders.parquet"
ts = "ts"
unit = "us"
lateness = "1.5s"
retain = "10min"
max_ahead = "5min"

[site.paris]
listen = "[::1]:7702"
"""
MINIMAL = 'tau = "1s"\n[site.a]\nlisten = "h:1"\n'
TWO = f'{MINIMAL}[site.b]\nlisten = "h:2"\n'


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    """The lines of the refusal without the file's name, which every line must start with."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_cluster(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def stream(body: str, name: str = "orders") -> str:
    return f"{MINIMAL}[site.a.stream.{name}]\n{body}\n"


def test_every_key_of_a_full_file_is_read(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, GOOD))
    assert (config.name, config.tau_ms) == ("demo", 100)
    assert [site.engine for site in config.sites] == ["native", "native"]
    assert config.late_dir == tmp_path / "behind"
    frankfurt, paris = config.sites
    assert (frankfurt.listen, frankfurt.address) == ("127.0.0.1:7701", "vpn-host:7701")
    assert paris.listen == paris.address == "[::1]:7702"
    assert paris.streams == ()
    (orders,) = frankfurt.streams
    assert orders.key == "site.frankfurt.stream.orders"
    assert (orders.name, orders.site, orders.ts) == ("orders", "frankfurt", "ts")
    assert orders.path == tmp_path / "orders.parquet"
    assert orders.format is SourceFormat.PARQUET
    assert orders.unit is TimeUnit.US
    assert orders.lateness_ms == 1500
    assert orders.retain_ms == 600_000
    assert not orders.keep_whole
    assert orders.max_ahead_ms == 300_000


def test_every_key_of_a_stream_that_spark_reads_is_read(tmp_path: Path) -> None:
    text = """
spark = { format = "kafka", options = { subscribe = "o", maxOffsetsPerTrigger = 9, failOnDataLoss = false } }
select = ["cast(value AS STRING) v", "timestamp"]
where = "partition = 0"
trigger = "500ms"
watermark = "data"
ts = "timestamp"
"""
    config = load_cluster(write(tmp_path, f'state_dir = "kept"\nengine = "native"\n{stream(text)}'))
    (found,) = config.sites[0].streams
    assert found.path == tmp_path / "cluster.toml"
    assert found.spark == SparkSource(
        format="kafka",
        options=(("subscribe", "o"), ("maxOffsetsPerTrigger", "9"), ("failOnDataLoss", "false")),
        folder=tmp_path / "kept" / "a" / "orders",
        where="partition = 0",
        select=("cast(value AS STRING) v", "timestamp"),
        trigger_ms=500,
    )
    assert config.sites[0].needs_spark


@pytest.mark.parametrize(
    ("given", "resolved"),
    [("in", "{base}/in"), ("/data/in", "/data/in"), ("s3a://bucket/in", "s3a://bucket/in"), ("file:/in", "file:/in")],
)
def test_the_path_of_a_source_is_relative_to_the_file(tmp_path: Path, given: str, resolved: str) -> None:
    text = stream(
        f'spark = {{ format = "json", options = {{ PATH = "{given}" }}, schema = "a LONG" }}\n'
        'ts = "a"\ntrigger = "available-now"'
    )
    (found,) = load_cluster(write(tmp_path, text)).sites[0].streams
    assert found.spark is not None
    assert found.spark.options == (("PATH", resolved.format(base=tmp_path)),)
    assert (found.spark.schema, found.spark.available_now, found.spark.trigger_ms) == ("a LONG", True, None)


def test_every_key_of_a_sites_spark_is_read(tmp_path: Path) -> None:
    text = f"""{MINIMAL}[site.a.spark]
master = "spark://h:7077"
partitions = 8
job_timeout = "30s"
"spark.executor.memory" = "2g"
"spark.speculation" = true
"spark.executor.cores" = 3
"""
    options = (("spark.executor.memory", "2g"), ("spark.speculation", "true"), ("spark.executor.cores", "3"))
    assert load_cluster(write(tmp_path, text)).sites[0].spark == SparkConfig("spark://h:7077", 8, 30_000, options)
    assert load_cluster(write(tmp_path, MINIMAL)).sites[0].spark == SparkConfig("local[2]", None, 600_000, ())


def test_every_wrong_key_of_a_sites_spark_is_named(tmp_path: Path) -> None:
    text = f"""{MINIMAL}[site.a.spark]
master = "mesos"
partitions = 0
job_timeout = "10ms"
memory = "2g"
"spark.x" = []
"""
    assert problems(tmp_path, text) == [
        (
            "site.a.spark.memory: required master, partitions, job_timeout, or an option of Spark in quotes such as "
            '"spark.executor.memory"; got "memory"'
        ),
        'site.a.spark."spark.x": required text, a number, true or false; got an array',
        (
            'site.a.spark.master: required a master of Spark such as "local[2]", "spark://host:7077" or "k8s://..."; '
            'got "mesos"'
        ),
        "site.a.spark.partitions: required a whole number from 1 to 1024; got 0",
        'site.a.spark.job_timeout: required a duration from "1s" to "24h"; got "10ms"',
    ]


def test_a_site_without_spark_needs_none(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, 'engine = "native"\n' + stream('path = "x.csv"\nts = "t"')))
    assert not config.sites[0].needs_spark


def test_optional_keys_have_their_defaults(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, stream('path = "x.csv"\nts = "t"')))
    assert (config.name, config.late_dir) == ("narrows", tmp_path / "late")
    assert config.state_dir == tmp_path / "state"
    assert config.sites[0].engine == "spark"
    (found,) = config.sites[0].streams
    assert found.unit is None
    assert found.lateness_ms == 0
    assert found.retain_ms == 0
    assert found.keep_whole
    assert found.max_ahead_ms == 3_600_000


def test_a_recording_keeps_all_unless_something_is_said(tmp_path: Path) -> None:
    said = load_cluster(write(tmp_path, stream('path = "x.csv"\nts = "t"\nretain = "0ms"'))).sites[0].streams[0]
    assert (said.retain_ms, said.keep_whole) == (0, False)
    live = load_cluster(write(tmp_path, stream('spark = { format = "rate" }\nts = "timestamp"'))).sites[0].streams[0]
    assert (live.retain_ms, live.keep_whole) == (0, False)


def test_a_relative_config_path_gives_absolute_data_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, stream('path = "x.csv"\nts = "t"'))
    monkeypatch.chdir(tmp_path)
    config = load_cluster(Path("cluster.toml"))
    assert config.sites[0].streams[0].path == tmp_path / "x.csv"


def test_an_absolute_stream_path_stays_as_it_is(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, stream('path = "/data/x.csv"\nts = "t"')))
    assert config.sites[0].streams[0].path == Path("/data/x.csv")


def test_a_byte_order_mark_is_allowed(tmp_path: Path) -> None:
    assert load_cluster(write(tmp_path, b"\xef\xbb\xbf" + MINIMAL.encode())).tau_ms == 1000


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("a.parquet", SourceFormat.PARQUET),
        ("a.CSV", SourceFormat.CSV),
        ("a.jsonl", SourceFormat.JSONL),
        ("a.ndjson", SourceFormat.JSONL),
        ("a.json", SourceFormat.JSONL),
    ],
)
def test_the_end_of_the_name_gives_the_format(tmp_path: Path, file: str, expected: SourceFormat) -> None:
    config = load_cluster(write(tmp_path, stream(f'path = "{file}"\nts = "t"')))
    assert config.sites[0].streams[0].format is expected


def test_the_format_key_overrides_the_name(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, stream('path = "a.parquet"\nts = "t"\nformat = "csv"')))
    assert config.sites[0].streams[0].format is SourceFormat.CSV


def test_a_config_error_is_a_narrows_error(tmp_path: Path) -> None:
    with pytest.raises(NarrowsError):
        load_cluster(tmp_path / "none.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigError) as caught:
        load_cluster(path)
    assert str(caught.value) == f"{path}: required a readable TOML file; got no such file"


def test_a_directory_is_not_a_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_cluster(tmp_path)
    assert str(caught.value) == f"{tmp_path}: required a readable TOML file; got a directory"


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert problems(tmp_path, MINIMAL) == ["required a readable TOML file; got Permission denied"]


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, 'tau = "1s"\nengine = native\n')
    assert line.startswith("required valid TOML; got ")
    assert "line 2" in line


def test_a_key_given_twice_is_a_syntax_error(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, 'tau = "1s"\ntau = "2s"\n')
    assert line.startswith("required valid TOML; got ")


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    assert problems(tmp_path, b'a="\xff"') == ["required UTF-8 text; got byte 0xff at offset 3"]


def test_deep_nesting_is_refused_not_a_crash(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, "a = " + "[" * 100_000)
    assert line.startswith("required valid TOML; got ")


ANY_DURATION = 'a duration in whole milliseconds such as "100ms", "1.5s", "10min" or "2h"'
ENDPOINT = '"host:port", port 1..65535, IPv6 as "[::1]:7701"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[site.a]\nlisten = "h:1"', 'tau: required a duration such as "100ms"; got nothing'),
        ('tau = 100\n[site.a]\nlisten = "h:1"', 'tau: required a duration such as "100ms"; got 100'),
        ('tau = "0ms"\n[site.a]\nlisten = "h:1"', 'tau: required a duration from "1ms" to "24h"; got "0ms"'),
        ('tau = "25h"\n[site.a]\nlisten = "h:1"', 'tau: required a duration from "1ms" to "24h"; got "25h"'),
        ('tau = "5 us"\n[site.a]\nlisten = "h:1"', f'tau: required {ANY_DURATION}; got "5 us"'),
        ('tau = "1s"', "site: required at least one [site.NAME] table; got none"),
        ('tau = "1s"\n[site]', "site: required at least one [site.NAME] table; got none"),
        ('tau = "1s"\nsite = 3', "site: required tables [site.NAME]; got 3"),
        ('tau = "1s"\n[[site]]\nlisten="h:1"', "site: required tables [site.NAME]; got an array"),
        ('tau = "1s"\nsite.a = true', "site.a: required a table; got true"),
        (f'engine = "flink"\n{MINIMAL}', 'engine: required one of "native", "spark"; got "flink"'),
        (f"engine = []\n{MINIMAL}", 'engine: required "spark" or "native"; got an array'),
        (f'cluster = "Ä"\n{MINIMAL}', 'cluster: required a name that matches [a-z0-9_-]{1,64}; got "Ä"'),
        (f"cluster = 1\n{MINIMAL}", "cluster: required a name in quotes; got 1"),
        (f'late_dir = ""\n{MINIMAL}', 'late_dir: required a directory; got ""'),
        (f'state_dir = ""\n{MINIMAL}', 'state_dir: required a directory; got ""'),
        (
            stream('spark = { format = "rate" }\npath = "x.csv"\nts = "t"'),
            (
                "site.a.stream.orders.path: required either spark or path, "
                "and spark has its own format: no path; got both"
            ),
        ),
        (
            stream('spark = { format = "rate" }\nformat = "csv"\nts = "t"'),
            (
                "site.a.stream.orders.format: required either spark or path, "
                "and spark has its own format: no format; got both"
            ),
        ),
        (stream('spark = "kafka"\nts = "t"'), 'site.a.stream.orders.spark: required a table; got "kafka"'),
        (
            stream('spark = {}\nts = "t"'),
            'site.a.stream.orders.spark.format: required a source of Spark such as "kafka"; got nothing',
        ),
        (
            stream('spark = { format = "rate", option = {} }\nts = "t"'),
            (
                'site.a.stream.orders.spark.option: required one of "format", "options", "schema" '
                '(did you mean "options"?); got the unknown key "option"'
            ),
        ),
        (
            stream('spark = { format = "rate", options = { a = [] } }\nts = "t"'),
            "site.a.stream.orders.spark.options.a: required text, a number, true or false; got an array",
        ),
        (
            stream('spark = { format = "rate", options = { Path = "a", path = "b" } }\nts = "t"'),
            'site.a.stream.orders.spark.options.path: required an option given once; Spark ignores case; got "path"',
        ),
        (
            stream('spark = { format = "rate", schema = "" }\nts = "t"'),
            'site.a.stream.orders.spark.schema: required columns such as "k LONG, v STRING"; got ""',
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nwhere = 1'),
            "site.a.stream.orders.where: required a condition in Spark SQL; got 1",
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nselect = "a"'),
            'site.a.stream.orders.select: required an array of expressions in Spark SQL; got "a"',
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nselect = []'),
            "site.a.stream.orders.select: required an array of expressions in Spark SQL; got an empty array",
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nselect = ["a", " "]'),
            'site.a.stream.orders.select: required an array of expressions in Spark SQL; got an array with " "',
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\ntrigger = "once"'),
            f'site.a.stream.orders.trigger: required {ANY_DURATION}; got "once"',
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\ntrigger = "25h"'),
            ('site.a.stream.orders.trigger: required a duration from "0ms" to "24h", or "available-now"; got "25h"'),
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nwatermark = "tick"'),
            'site.a.stream.orders.watermark: required one of "clock", "data"; got "tick"',
        ),
        (
            stream('spark = { format = "rate" }\nts = "t"\nwatermark = "clock"\ntrigger = "available-now"'),
            (
                'site.a.stream.orders.watermark: required "data" with trigger = "available-now", '
                'which ends the stream; got "clock"'
            ),
        ),
        (
            stream('spark = { format = "x", options = { maxFilesPerTrigger = 1 } }\nts = "t"\nwatermark = "clock"'),
            (
                'site.a.stream.orders.watermark: required "data" where a micro-batch may leave tuples behind; '
                'got "clock" beside spark.options.maxFilesPerTrigger'
            ),
        ),
        (
            stream('path = "x.csv"\nts = "t"\nwhere = "a"'),
            (
                "site.a.stream.orders.where: required a stream that Spark reads: spark = { format = ... }; "
                "got a stream without the key spark"
            ),
        ),
        (
            f'taw = "1s"\n{MINIMAL}',
            (
                'taw: required one of "cluster", "engine", "late_dir", "link", "log_quota", "planner", '
                '"results_quota", "site", "state_dir", "tau", "wan" '
                '(did you mean "tau"?); got the unknown key "taw"'
            ),
        ),
        (
            f'"a b" = 1\n{MINIMAL}',
            (
                '"a b": required one of "cluster", "engine", "late_dir", "link", "log_quota", "planner", '
                '"results_quota", "site", "state_dir", "tau", "wan"; '
                'got the unknown key "a b"'
            ),
        ),
        (
            f"{MINIMAL}lisen = 1",
            (
                'site.a.lisen: required one of "address", "engine", "listen", "spark", "stream" '
                '(did you mean "listen"?); got the unknown key "lisen"'
            ),
        ),
        ('tau = "1s"\n[site.a]', 'site.a.listen: required "host:port"; got nothing'),
        ('tau = "1s"\n[site.a]\nlisten = 7701', 'site.a.listen: required "host:port"; got 7701'),
        (f'{MINIMAL}address = "x"', f'site.a.address: required {ENDPOINT}; got "x"'),
        (
            'tau = "1s"\n[site.A]\nlisten = "h:1"',
            'site.A: required a name that matches [a-z0-9][a-z0-9_-]{0,63}; got "A"',
        ),
        (f"{MINIMAL}stream = 1", "site.a.stream: required tables [site.a.stream.NAME]; got 1"),
        (f"{MINIMAL}stream.o = 1", "site.a.stream.o: required a table; got 1"),
        (
            stream('path = "x.csv"\nts = "t"', "1st"),
            'site.a.stream.1st: required a name that matches [A-Za-z][A-Za-z0-9_]{0,63}; got "1st"',
        ),
        (stream('ts = "t"'), "site.a.stream.orders.path: required a file name; got nothing"),
        (stream('path = ""\nts = "t"'), 'site.a.stream.orders.path: required a file name; got ""'),
        (stream('path = 1\nts = "t"'), "site.a.stream.orders.path: required a file name; got 1"),
        (
            stream('path = "x.txt"\nts = "t"'),
            (
                "site.a.stream.orders.path: required a name that ends in "
                '.parquet, .csv, .jsonl, .ndjson, .json, or the key format; got "x.txt"'
            ),
        ),
        (
            stream('path = "x"\nts = "t"\nformat = "cvs"'),
            ('site.a.stream.orders.format: required one of "csv", "jsonl", "parquet" (did you mean "csv"?); got "cvs"'),
        ),
        (stream('path = "x.csv"'), "site.a.stream.orders.ts: required the name of the event-time column; got nothing"),
        (stream('path = "x.csv"\nts = ""'), 'site.a.stream.orders.ts: required a column name; got ""'),
        (
            stream('path = "x.csv"\nts = 1.5'),
            "site.a.stream.orders.ts: required the name of the event-time column; got 1.5",
        ),
        (
            stream('path = "x.csv"\nts = "t"\nunit = "m"'),
            'site.a.stream.orders.unit: required one of "ms", "ns", "s", "us"; got "m"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nunit = 1'),
            'site.a.stream.orders.unit: required one of "ms", "ns", "s", "us"; got 1',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nlateness = 5'),
            'site.a.stream.orders.lateness: required a duration such as "0ms"; got 5',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nlateness = "-1ms"'),
            f'site.a.stream.orders.lateness: required {ANY_DURATION}; got "-1ms"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nlateness = "999999h"'),
            'site.a.stream.orders.lateness: required a duration from "0ms" to "876000h"; got "999999h"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nretain = 600'),
            'site.a.stream.orders.retain: required a duration such as "10min"; got 600',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nretain = "always"'),
            f'site.a.stream.orders.retain: required {ANY_DURATION}; got "always"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nmax_ahead = "0ms"'),
            'site.a.stream.orders.max_ahead: required a duration from "1ms" to "876000h"; got "0ms"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nretain = "999999h"'),
            'site.a.stream.orders.retain: required a duration from "0ms" to "876000h"; got "999999h"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nlate = "1ms"'),
            (
                "site.a.stream.orders.late: required one of "
                '"format", "lateness", "max_ahead", "path", "retain", "select", "spark", "stats", "trigger", "ts", '
                '"unit", "watermark", "where" (did you mean "lateness"?); got the unknown key "late"'
            ),
        ),
        (
            f'{MINIMAL}[link.a.b]\nlatency = "40ms"',
            'link.a.b: required another site; got "b"',
        ),
        (
            f'{TWO}[link.a.c]\nlatency = "40ms"',
            'link.a.c: required another site: "b"; got "c"',
        ),
        (
            f'{TWO}[link.c.b]\nlatency = "40ms"',
            'link.c: required a site: one of "a", "b"; got "c"',
        ),
        (
            f'results_quota = "much"\n{MINIMAL}',
            'results_quota: required a size above 0 such as "500MB" or "4GiB"; got "much"',
        ),
        (f'log_quota = "0B"\n{MINIMAL}', 'log_quota: required a size above 0 such as "500MB" or "4GiB"; got "0B"'),
        (
            f'{TWO}[link.a.b]\nbandwidth = "fast"',
            (
                'link.a.b.bandwidth: required a bandwidth above 0 such as "10 Mbit/s", "800 kbit/s" or "2.5 MB/s"; '
                'got "fast"'
            ),
        ),
        (
            f'{TWO}[link.a.b]\nlatency = "2h"',
            'link.a.b.latency: required a duration from "0ms" to "1h"; got "2h"',
        ),
        (
            f"{TWO}[link.a.b]\nprice_per_gb = -1",
            "link.a.b.price_per_gb: required a price from 0 on; got -1",
        ),
        (f"{MINIMAL}[planner]\nadaptive = 1", "planner.adaptive: required true or false; got 1"),
        (f"{MINIMAL}[planner]\nepoch = 0", "planner.epoch: required a whole number from 1 to 1000000000; got 0"),
        (f"{MINIMAL}[planner]\npayback_windows = 0", "planner.payback_windows: required a number above 0; got 0"),
        (f"{MINIMAL}[planner]\nstorage = 5", 'planner.storage: required a size such as "256MB", or 0; got 5'),
        (
            f'{MINIMAL}[planner]\nstorage = "much"',
            'planner.storage: required a size above 0 such as "500MB" or "4GiB"; got "much"',
        ),
        (
            f"{TWO}[link.a.b]\nprice = 1",
            'link.a.b.price: required one of "bandwidth", "latency", "price_per_gb"; got the unknown key "price"',
        ),
        (
            stream('path = "x.csv"\nts = "t"\nstats = { rate = 0 }'),
            "site.a.stream.orders.stats.rate: required tuples per second, above 0; got 0",
        ),
        (
            stream('path = "x.csv"\nts = "t"\nstats = { distinct = { card = "many" } }'),
            (
                "site.a.stream.orders.stats.distinct.card: "
                'required how many different values the column has, above 0; got "many"'
            ),
        ),
        (
            stream('path = "x.csv"\nts = "t"\nstats = { bytes = 8 }'),
            "site.a.stream.orders.stats.bytes: required a table; got 8",
        ),
        (
            f'{MINIMAL}[site.b]\nlisten = "H:1"',
            'site.b.listen: required an endpoint that no other site has; got "H:1", which is also site.a.listen',
        ),
        (
            f'{MINIMAL}[site.b]\nlisten = "h:2"\naddress = "h:1"',
            'site.b.address: required an endpoint that no other site has; got "h:1", which is also site.a.listen',
        ),
        (
            f'{MINIMAL}address = "x:9"\n[site.b]\nlisten = "x:9"',
            'site.b.listen: required an endpoint that no other site has; got "x:9", which is also site.a.address',
        ),
        (
            f'{MINIMAL}[site.b]\nlisten = "0.0.0.0:1"',
            (
                'site.b.address: required "host:port" that the other '
                'sites can dial; got "0.0.0.0:1", which names no machine'
            ),
        ),
    ],
)
def test_a_wrong_setting_is_one_line_with_key_required_and_got(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text) == [expected]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = 'engine = 1\n[site.a]\nlisten = "x"\n[site.a.stream.s]\npath = "x.csv"\nunit = "h"\n'
    keys = [line.split(": ")[0] for line in problems(tmp_path, text)]
    assert sorted(keys) == ["engine", "site.a.listen", "site.a.stream.s.ts", "site.a.stream.s.unit", "tau"]


def test_a_stream_name_belongs_to_one_site(tmp_path: Path) -> None:
    text = f"""{MINIMAL}stream.orders = {{path = "x.csv", ts = "t"}}
[site.b]
listen = "h:2"
stream.orders = {{path = "y.csv", ts = "t"}}"""
    assert problems(tmp_path, text) == [
        (
            "site.b.stream.orders: required a stream name used once in the cluster; "
            'got "orders", which is also site.a.stream.orders'
        )
    ]


def test_wildcard_listeners_may_share_a_port_when_their_addresses_differ(tmp_path: Path) -> None:
    sites = "\n".join(f'[site.{name}]\nlisten = "0.0.0.0:7700"\naddress = "{name}:7700"' for name in "ab")
    assert len(load_cluster(write(tmp_path, f'tau = "1s"\n{sites}')).sites) == 2


def test_a_single_site_may_listen_on_a_wildcard(tmp_path: Path) -> None:
    assert load_cluster(write(tmp_path, 'tau = "1s"\n[site.a]\nlisten = "[::]:1"')).sites[0].address == "[::]:1"


def test_late_dir_must_not_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "late").touch()
    assert problems(tmp_path, MINIMAL) == [f"late_dir: required a directory; got the file {tmp_path / 'late'}"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "h",
        "h:",
        ":1",
        "h:0",
        "h:65536",
        "h:99999",
        "h:01",
        "h: 1",
        "h:1 ",
        "::1:7701",
        "[::1]",
        "[::g]:1",
        "[h]:1",
        "256.0.0.1:1",
        "1.2.3:1",
        "http://h:1",
        "-h:1",
        "h..x:1",
        "h:１",
        "h:1\\n",
    ],
)
def test_a_malformed_endpoint_is_refused(tmp_path: Path, endpoint: str) -> None:
    (line,) = problems(tmp_path, f'tau = "1s"\n[site.a]\nlisten = "{endpoint}"')
    assert line.startswith(f'site.a.listen: required {ENDPOINT}; got "')


@pytest.mark.parametrize(
    "endpoint", ["h:1", "127.0.0.1:65535", "[2001:db8::1]:7701", "[fe80::1%eth0]:1", "a-b.example.org:80", "my_host:1"]
)
def test_a_usual_endpoint_is_accepted_as_written(tmp_path: Path, endpoint: str) -> None:
    assert load_cluster(write(tmp_path, f'tau = "1s"\n[site.a]\nlisten = "{endpoint}"')).sites[0].listen == endpoint


def test_a_message_stays_on_one_line_whatever_the_value_holds(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, 'tau = "a\\nb\\u001b[31m\\u2028"\n[site.a]\nlisten = "h:1"')
    assert line.isprintable()


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, f'tau = "{"x" * 10_000}"\n[site.a]\nlisten = "h:1"')
    assert len(line) < 250


def test_an_unknown_site_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    config = load_cluster(write(tmp_path, GOOD))
    assert config.site("paris") is config.sites[1]
    with pytest.raises(ConfigError) as caught:
        config.site("pariss")
    assert str(caught.value) == (
        f'{config.path}: site: required one of "frankfurt", "paris" (did you mean "paris"?); got "pariss"'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0ms", 0), ("100ms", 100), ("1.5s", 1500), ("0.001s", 1), ("10min", 600_000), ("2h", 7_200_000), ("1.0ms", 1)],
)
def test_a_duration_is_whole_milliseconds(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "ms",
        "1us",
        "1m",
        "1d",
        "1 ms",
        " 1ms",
        "1ms\n",
        "-1ms",
        "+1ms",
        "1e3ms",
        ".5s",
        "1.s",
        "1MS",
        "0.5ms",
        "0.0001s",
        "１ms",
        "9" * 5000 + "h",
    ],
)
def test_anything_else_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="required a duration in whole milliseconds"):
        parse_duration_ms(text)


@given(st.integers(0, 10**15))
@new_examples()
def test_every_count_of_milliseconds_survives_the_units(count: int) -> None:
    assert parse_duration_ms(f"{count}ms") == count
    assert parse_duration_ms(f"{count // 1000}.{count % 1000:03}s") == count


@given(st.text(max_size=60))
@new_examples()
def test_any_text_is_either_loaded_or_refused_with_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError):
        load_cluster(path)


# What is declared for planning.


def test_a_declared_link_holds_for_both_directions_unless_one_says_more(tmp_path: Path) -> None:
    text = f"""{TWO}
[link.a.b]
bandwidth = "10 Mbit/s"
latency = "40ms"
price_per_gb = 0.05
[link.b.a]
bandwidth = "2.5 MB/s"
"""
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    there, back = load_cluster(path).links
    assert there == DeclaredLink("a", "b", 1_250_000.0, 40_000, 0.05)
    assert back == DeclaredLink("b", "a", 2_500_000.0, 40_000, 0.05)


def test_the_planner_looks_every_ten_seconds_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    planner = load_cluster(write(tmp_path, MINIMAL)).planner
    assert planner.adaptive
    assert [planner.epoch(tau_ms) for tau_ms in (1, 100, 1_000, 60_000)] == [10_000, 100, 10, 10]
    text = f"{MINIMAL}[planner]\nadaptive = false\nepoch = 7\npayback_windows = 2.5"
    planner = load_cluster(write(tmp_path, text)).planner
    assert (planner.adaptive, planner.epoch(100), planner.payback_windows) == (False, 7, 2.5)


@pytest.mark.parametrize(("said", "nbytes"), [("", 256_000_000), ("storage = 0", 0), ('storage = "1.5MiB"', 1_572_864)])
def test_so_much_may_be_kept_at_a_site_as_the_file_says(tmp_path: Path, said: str, nbytes: int) -> None:
    planner = load_cluster(write(tmp_path, f"{MINIMAL}[planner]\n{said}")).planner
    assert planner.storage_bytes == nbytes


def test_declared_statistics_of_a_stream_are_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(stream('path = "x.csv"\nts = "t"\nstats = { rate = 100, distinct = { card = 5000 } }'))
    (found,) = load_cluster(path).sites[0].streams
    assert found.stats == DeclaredStream(100.0, {"card": 5000.0}, {})


@pytest.mark.parametrize(("text", "nbytes"), [("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("7B", 7)])
def test_a_quota_is_a_size(tmp_path: Path, text: str, nbytes: int) -> None:
    assert load_cluster(write(tmp_path, f'results_quota = "{text}"\n{MINIMAL}')).results_quota_bytes == nbytes
    assert load_cluster(write(tmp_path, f'log_quota = "{text}"\n{MINIMAL}')).log_quota_bytes == nbytes
    assert load_cluster(write(tmp_path, MINIMAL)).results_quota_bytes == 4 << 30
    assert load_cluster(write(tmp_path, MINIMAL)).log_quota_bytes == 16 << 30
