"""Streams that Spark reads: rows equal the oracle's over new files, a dead JVM, a killed daemon; errors are clear."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from node.config import ConfigError, SourceFormat, SparkSource, StreamConfig, Watermark
from node.core.events import RowsArrived
from node.core.streams.position import Position
from spark_jobs.process import SparkProcess, SparkSettings
from spark_jobs.source.reading import WAITING_BATCHES_MAX
from spark_jobs.source.spark_stream import SparkStream, open_streams
from spark_jobs.source.state import StateFolder
from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    issued,
    narrows,
    new_tag,
    none_left,
    tagged,
    write_cluster,
)

#: A Spark that has to start on a busy machine.
SPARK_S = 240.0
#: Of every cluster and join here.
TAU_MS, WINDOW_MS = 100, 1_000
COLUMNS = "id LONG, k LONG, ts LONG, amount LONG"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """One Spark for all that needs no daemon."""
    spark = SparkProcess(SparkSettings("a"), tmp_path_factory.mktemp("spark"))
    spark.start()
    yield spark
    spark.stop()


# -- with daemons ------------------------------------------------------------------------------


def orders(count: int, first: int) -> list[dict[str, int]]:
    """In order of event time, so that none is late however they are cut into micro-batches."""
    draw = random.Random(first)
    return [
        {"id": n, "k": draw.randrange(8), "ts": 40 * n, "amount": draw.randrange(-20, 100)}
        for n in range(first, first + count)
    ]


def payments(count: int) -> pa.Table:
    draw = random.Random(0)
    times = sorted(draw.randrange(40 * 700) for _ in range(count))
    return pa.table({"k": [draw.randrange(8) for _ in range(count)], "ts": times, "n": list(range(count))})


def put(folder: Path, name: str, rows: list[dict[str, int]]) -> None:
    """A file that appears at once, as Spark wants them; it reads them in order of their times, so those differ."""
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(hidden, (1_700_000_000 + int(name),) * 2)
    hidden.rename(folder / f"{name}.json")


def as_selected(rows: list[dict[str, int]]) -> Stream:
    """What where and select make of the rows, said a second time."""
    taken = [row for row in rows if row["amount"] > 0]
    columns = {name: [row[name] for row in taken] for name in ("id", "k", "ts")}
    return Stream("orders", pa.table({**columns, "label": [f"o{row['id']}" for row in taken]}))


def cluster(folder: Path) -> tuple[Path, Stream]:
    """Files that Spark reads at alpha, with the Spark that also joins there; a recording at beta, without Spark."""
    pay = Stream("pay", payments(600), site="beta", retain="1h")
    config = write_cluster(folder, [pay])
    (folder / "in").mkdir()
    text = f"""
engine = "spark"

[site.alpha.stream.orders]
spark = {{ format = "json", options = {{ path = "in", maxFilesPerTrigger = 1 }}, schema = "{COLUMNS}" }}
where = "amount > 0"
select = ["id", "k", "ts", "concat('o', id) AS label"]
ts = "ts"
trigger = "100ms"
retain = "1h"
"""
    lines = config.read_text().partition("[site.beta]")
    config.write_text(f"{lines[0]}{text.lstrip()}\n{lines[1]}{lines[2]}")
    return config, pay


def arrived(daemons: Daemons) -> int:
    status = daemons.status("alpha")
    return 0 if status is None else next(stream.rows for stream in status.streams if stream.name == "orders")


def kill_jvm(tag: str) -> None:
    (jvm,) = [pid for pid in tagged(tag) if _command(pid) == "java"]
    os.kill(jvm, signal.SIGKILL)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended meanwhile
        return ""


def lines_of(query: Background) -> list[str]:
    """Those that are whole: the last one may just be written."""
    return query.out.rpartition("\n")[0].splitlines()


def same_as_oracle(daemons: Daemons, query: Background, join: Join) -> None:
    """Every row is there, and no other. The streams go on, so it is followed until no tick with rows is undone."""
    want = join.expected()
    assert want.num_rows > 50
    query_id, site = issued(query), "beta"
    last_ms = max(join.right.table["ts"].to_pylist()) + WINDOW_MS

    def rows() -> int:
        """How many there are, once that is known."""
        status = daemons.status(site)
        briefs = [] if status is None else [each for each in status.queries if each.query_id == query_id]
        return sum(each.rows for each in briefs if each.done_tick > last_ms // TAU_MS)

    stored = eventually("all that can have rows is done", rows, SPARK_S)
    eventually("all rows are printed", lambda: len(lines_of(query)) >= stored, SPARK_S)
    got = pa.Table.from_pylist([json.loads(line) for line in lines_of(query)], want.schema)
    assert_same_rows(got, want)


@pytest.fixture
def tag() -> Iterator[str]:
    """Marks every process of a test; none may be left."""
    mark = new_tag()
    yield mark
    none_left(mark)


@pytest.mark.timeout(900)
def test_rows_are_exact_over_new_files_a_dead_jvm_and_a_killed_daemon(tmp_path: Path, tag: str) -> None:
    config, pay = cluster(tmp_path)
    select = (("l", "id", "id"), ("l", "label", "label"), ("r", "n", "n"))
    files = [orders(100, first) for first in range(0, 700, 100)]
    # Beyond all payments: it lets the ticks before it be sealed.
    last = [{"id": -1, "k": -1, "ts": 10**9, "amount": 1}]
    query: list[str | Path] = ["query", "--config", config, "--at", "beta", "--format", "jsonl"]
    join = Join(as_selected([row for file in files for row in file] + last), pay, select=select)
    with Daemons(config, ready_s=SPARK_S) as daemons:
        put(tmp_path / "in", "0", files[0])
        daemons.start("alpha", "beta").linked()
        first = Background(*query, join.text, name="first", folder=tmp_path)
        put(tmp_path / "in", "1", files[1])
        both = as_selected(files[0] + files[1]).table.num_rows
        eventually("two files are read", lambda: arrived(daemons) >= both, SPARK_S)
        kill_jvm(tag)
        for name in (2, 3, 4):
            put(tmp_path / "in", str(name), files[name])
        five = as_selected([row for file in files[:5] for row in file]).table.num_rows
        eventually("five files are read", lambda: arrived(daemons) >= five, SPARK_S)
        eventually("rows come", lambda: len(lines_of(first)) > 50, SPARK_S)
        assert "it is started again" in daemons.nodes["alpha"].err
        first.kill()

        # Nobody reads it now. What comes waits, and a daemon that is killed leaves it to the next one, with the tuples
        # of the tick that was not over.
        narrows("drop", "--config", config, daemons.query_id("beta")).ok()
        for name in (5, 6):
            put(tmp_path / "in", str(name), files[name])
        folder = StateFolder(tmp_path / "state" / "alpha" / "orders")
        eventually("both wait", lambda: folder.waiting()[-2:] == [5, 6], SPARK_S)
        for node in daemons.nodes.values():
            node.signal(signal.SIGKILL)
            node.process.wait()
        assert folder.handed.part == 4
        daemons.start("alpha", "beta").linked()
        assert "stream orders goes on after micro-batch 3" in daemons.nodes["alpha"].err
        put(tmp_path / "in", "7", last)
        # It begins where the streams began, and so sees both lives.
        second = Background(*query, join.text, name="second", folder=tmp_path)
        same_as_oracle(daemons, second, join)
        second.kill()
        assert folder.handed == Position(7, 0), "the last tuple is in no batch yet"


# -- Spark alone -------------------------------------------------------------------------------


def stream(folder: Path, name: str, ts: str = "ts", lateness_ms: int = 0, **spark: Any) -> StreamConfig:
    source = SparkSource(**{"format": "json", "options": (), "folder": folder / "state" / name, **spark})
    key = f"site.a.stream.{name}"
    return StreamConfig(key, name, "a", folder / "c.toml", SourceFormat.PARQUET, ts, None, lateness_ms, spark=source)


def read_all(source: SparkStream) -> pa.Table:
    batches, ended = [], False
    while not ended:
        answer = source.read(None)
        assert isinstance(answer, RowsArrived), answer
        ended = answer.ended
        batches.append(answer.rows)
    return pa.Table.from_batches(batches)


def test_whatever_is_wrong_is_said_at_once_and_nothing_is_begun(tmp_path: Path, process: SparkProcess) -> None:
    files: dict[str, Any] = {"options": (("path", str(tmp_path)),), "schema": "k LONG, ts LONG, v STRING"}
    wrong = [
        stream(tmp_path, "format", format="nosuch"),
        stream(tmp_path, "ddl", **{**files, "schema": "k LNG"}),
        stream(tmp_path, "none", options=files["options"]),
        stream(tmp_path, "where", where="no_such = 1", **files),
        stream(tmp_path, "syntax", where="k >", **files),
        stream(tmp_path, "select", select=("k", "nofunction(k) AS x", "ts"), **files),
        stream(tmp_path, "time", select=("k", "v"), **files),
        stream(tmp_path, "text", ts="v", **files),
        stream(tmp_path, "doubles", select=("k", "ts", "v AS K"), **files),
        stream(tmp_path, "fine", **files),
    ]
    with pytest.raises(ConfigError) as caught:
        open_streams(wrong, 100, process)
    lines = {problem.key.removeprefix("site.a.stream."): problem for problem in caught.value.problems}
    assert list(lines) == [
        "format.spark",
        "ddl.spark.schema",
        "none.spark",
        "where.where",
        "syntax.where",
        "select.select",
        "time.ts",
        "text.ts",
        "doubles.select",
    ]
    assert all(problem.file == str(tmp_path / "c.toml") for problem in lines.values())
    assert "nosuch" in lines["format.spark"].got
    assert "LNG" in lines["ddl.spark.schema"].got
    assert "schema" in lines["none.spark"].got.lower()
    assert "no_such" in lines["where.where"].got
    assert "nofunction" in lines["select.select"].got
    assert lines["time.ts"].got == '"ts"; the stream has "k", "v"'
    assert lines["text.ts"].got == '"v" of type string'
    assert not any((tmp_path / "state" / name / "checkpoint").exists() for name in ("format", "where", "fine"))


def test_what_needs_state_in_spark_is_refused(tmp_path: Path, process: SparkProcess) -> None:
    counted = stream(tmp_path, "c", format="rate", select=("count(*) AS n", "max(timestamp) AS ts"))
    with pytest.raises(ConfigError, match=r"site\.a\.stream\.c\.spark: required a source that Spark can read"):
        open_streams([counted], 100, process)


KINDS = (
    "ts",
    "cast(n AS INT) AS i",
    "cast(n AS DECIMAL(20, 3)) AS d",
    "cast(n AS DOUBLE) / 3 AS f",
    "if(n % 2 = 0, NULL, concat('ü', n)) AS s",
    "cast('x' AS BINARY) AS b",
    "n > 2 AS yes",
    "timestamp_millis(ts) AS at",
    "cast('2024-02-29 01:02:03.000004' AS TIMESTAMP_NTZ) AS local",
    "DATE'1999-12-31' AS day",
    "array(n, NULL) AS many",
    "named_struct('a', n, 'b', array('x')) AS pair",
    "map('k', n) AS m",
)


@pytest.mark.parametrize("local", [True, False], ids=["by the executor", "by the driver"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_type_arrives_sorted_by_time_and_only_once(
    tmp_path: Path, process: SparkProcess, form: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not local:
        monkeypatch.setattr(SparkSettings, "is_local", property(lambda _: False))
    (tmp_path / "in").mkdir()

    def write(name: str, times: list[int | None]) -> None:
        table = pa.table({"n": pa.array(range(len(times)), pa.int64()), "ts": pa.array(times, pa.int64())})
        if form == "csv":
            pa.csv.write_csv(table, tmp_path / "in" / f"{name}.csv", pa.csv.WriteOptions(include_header=False))
        else:
            pq.write_table(table, tmp_path / "in" / f"{name}.parquet")

    name = f"types_{form}_{local}"
    options = (("path", str(tmp_path / "in")),)
    spark = SparkSource(form, options, tmp_path / "state", "n LONG, ts LONG", select=KINDS, available_now=True)
    config = replace(stream(tmp_path, name), spark=spark)
    write("a", [5, 3, None, 4, 1])
    opened = open_streams([config], 100, process)[name]
    assert opened.local.first_ts == 1
    assert opened.peek().ts.tolist() == [1, 3, 4, 5]
    rows = read_all(opened)
    assert rows.schema.equals(opened.local.info.schema)
    assert rows["ts"].to_pylist() == [None, 1, 3, 4, 5]
    assert rows["i"].to_pylist() == [2, 4, 1, 3, 0]
    assert rows["s"].to_pylist() == [None, None, "ü1", "ü3", None]
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert rows["at"].cast(pa.int64()).to_pylist() == [None, 1000, 3000, 4000, 5000]
    assert rows.schema.field("d").type == pa.decimal128(20, 3)
    assert rows["pair"].to_pylist()[1] == {"a": 4, "b": ["x"]}
    assert rows["many"].to_pylist()[1] == [4, None]
    opened.close()

    # As if Spark had died before it noted that the micro-batch is done: it runs it again, and that changes nothing.
    for note in ("0", ".0.crc"):
        (tmp_path / "state" / "checkpoint" / "commits" / note).unlink()
    # The next daemon: only what is new; and no other source may go on from here.
    write("b", [9, 8])
    again = open_streams([config], 100, process)[name]
    assert read_all(again)["ts"].to_pylist() == [8, 9]
    with pytest.raises(ConfigError, match="a state_dir of its own"):
        open_streams([config], 100, process)
    again.close()
    changed = replace(config, spark=replace(spark, where="n > 0"))
    with pytest.raises(ConfigError, match=f"another where: put it back, or remove {tmp_path}"):
        open_streams([changed], 100, process)


def test_spark_stops_when_nobody_reads_and_goes_on_when_somebody_does(tmp_path: Path, process: SparkProcess) -> None:
    options = (("rowsPerBatch", "10"), ("startTimestamp", "0"))
    config = stream(tmp_path, "fast", "timestamp", format="rate-micro-batch", options=options, trigger_ms=0)
    source = open_streams([config], 100, process)["fast"]
    folder = StateFolder(tmp_path / "state" / "fast")
    full = list(range(WAITING_BATCHES_MAX))
    eventually("as many wait as may", lambda: folder.waiting() == full, SPARK_S)
    time.sleep(1.0)
    assert folder.waiting() == full
    answer = source.read(None)
    assert isinstance(answer, RowsArrived)
    assert sorted(answer.rows["value"].to_pylist()) == list(range(10))
    eventually("one more", lambda: folder.waiting() == [*full[1:], WAITING_BATCHES_MAX], SPARK_S)
    source.close()


def test_by_the_clock_time_moves_on_and_no_tuple_is_behind_it(tmp_path: Path, process: SparkProcess) -> None:
    """The rate source has a second's tuples ready when the second is over, so two are allowed."""
    options = (("rowsPerSecond", "50"),)
    clock = stream(
        tmp_path, "beats", "timestamp", 2000, format="rate", options=options, watermark=Watermark.CLOCK, trigger_ms=100
    )
    silent = stream(
        tmp_path,
        "silent",
        "timestamp",
        2000,
        format="rate",
        where="value < 0",
        watermark=Watermark.CLOCK,
        trigger_ms=100,
    )
    opened = open_streams([clock, silent], 100, process)
    marks: dict[str, set[int]] = {"beats": set(), "silent": set()}
    rows = dict.fromkeys(marks, 0)
    deadline = time.monotonic() + SPARK_S
    while not (rows["beats"] >= 150 and all(len(seen) >= 5 for seen in marks.values())):
        assert time.monotonic() < deadline, (marks, rows)
        for name, source in opened.items():
            answer = source.read(None)
            assert isinstance(answer, RowsArrived), answer
            times = answer.ts.to_pylist()
            assert min(times, default=2**62) >= max(marks[name], default=0)
            rows[name] += len(times)
            if answer.watermark is not None:
                marks[name].add(answer.watermark)
    assert rows["silent"] == 0
    for source in opened.values():
        source.close()
