"""What people and programs see: rows in every form, figures, and help."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli.main import main
from tests.e2e.cases import every_type, text_files
from tests.e2e.harness import (
    KINDS,
    NARROWS,
    PATIENCE_S,
    SIX,
    SP_S,
    Daemons,
    Join,
    assert_same_rows,
    environment,
    narrows,
    planned,
    run,
    write_cluster,
)
from tests.e2e.test_run import numbered

SITES = ("alpha", "beta")


def csv_rows(text: str, want: pa.Schema) -> pa.Table:
    """CSV read back with the types that were written."""
    options = pa.csv.ConvertOptions(
        column_types=want, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(pa.py_buffer(text.encode()), convert_options=options, parse_options=parse)


def jsonl_rows(text: str, want: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([json.loads(line) for line in text.splitlines()], want)


def test_rows_are_the_same_in_every_form_printed_or_in_a_file(tmp_path: Path) -> None:
    base = text_files()
    joins = [numbered(base, f"_{number}") for number in range(6)]
    config = write_cluster(tmp_path, [stream for join in joins for stream in join.streams])
    want = base.expected()

    def ask(join: Join, *arguments: str | Path) -> str:
        said = narrows("query", "--config", config, "--at", "beta", join.text, *arguments).ok()
        assert f"{want.num_rows} rows, all that there are" in said.err
        return said.out

    with Daemons(config).start(*SITES).linked():
        assert_same_rows(csv_rows(ask(joins[0]), want.schema), want)
        assert_same_rows(jsonl_rows(ask(joins[1], "--format", "jsonl"), want.schema), want)
        assert ask(joins[2], "--out", tmp_path / "rows.csv") == ""
        assert_same_rows(csv_rows((tmp_path / "rows.csv").read_text(), want.schema), want)
        assert ask(joins[3], "--out", tmp_path / "rows.jsonl") == ""
        assert_same_rows(jsonl_rows((tmp_path / "rows.jsonl").read_text(), want.schema), want)
        assert ask(joins[4], "--out", tmp_path / "rows.parquet") == ""
        assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), want)
        on_terminal = terminal_output("query", "--config", config, "--at", "beta", joins[5].text)
    header, rule, *lines = on_terminal.splitlines()
    assert header.split() == want.column_names
    assert set(rule) == {"─", " "}
    assert len(lines) == want.num_rows


def terminal_output(*arguments: str | Path) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [*NARROWS, *planned(*arguments)], stdout=theirs, stderr=subprocess.DEVNULL, env=environment()
    )
    os.close(theirs)
    data = bytearray()
    try:
        while piece := os.read(ours, 1 << 16):
            data += piece
    except OSError:
        pass  # this is how the end of a terminal reads
    finally:
        os.close(ours)
    assert command.wait(PATIENCE_S) == 0
    return data.decode().replace("\r\n", "\n")


def test_values_of_every_type_can_be_printed(tmp_path: Path) -> None:
    joins = {form: numbered(every_type(), f"_{form}") for form in ("table", "csv", "jsonl")}
    want = every_type().expected()
    config = write_cluster(tmp_path, [stream for join in joins.values() for stream in join.streams])
    with Daemons(config).start(*SITES).linked():
        out = {
            form: narrows("query", "--config", config, "--at", "alpha", join.text, "--format", form).ok().out
            for form, join in joins.items()
        }
    assert len(out["table"].splitlines()) == want.num_rows + 2

    names = ["l_i64", "l_u64", "l_b", "r_dec", "r_d32", "r_t_ns", "l_s"]
    schema = pa.schema([want.schema.field(name) for name in names])
    assert_same_rows(csv_rows(out["csv"], schema).select(names), want.select(names))

    rows = [json.loads(line, parse_constant=not_json) for line in out["jsonl"].splitlines()]
    assert {row["l_f64"] for row in rows} >= {None, "NaN", "Infinity", -0.0}
    assert all(row["l_t_ns"] is None or row["l_t_ns"].startswith("2023-11-14 22:13:20.0000000") for row in rows)
    names = ["l_i64", "l_u64", "l_b", "l_s", "r_list", "r_point", "r_f16"]
    schema = pa.schema([want.schema.field(name) for name in names])
    picked = [{name: row[name] for name in names} for row in rows]
    assert_same_rows(pa.Table.from_pylist(picked, schema), want.select(names))


def not_json(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def test_stats_hold_the_plan_the_rows_and_where_the_bytes_went(tmp_path: Path) -> None:
    join = text_files()
    stats = run(write_cluster(tmp_path, join.streams), join.text, "--algorithm", SP_S, "--at", "beta").stats
    assert stats["plan"]["sink"] == "beta"
    assert [step["algorithm"] for sequence in stats["plan"]["sequences"] for step in sequence["steps"]] == [SP_S, SP_S]
    assert stats["rows"] == join.expected().num_rows
    assert set(stats["emit_latency_ms"]) == {"p50", "p90", "p99", "max"}
    assert all(site["processing_seconds"] > 0 for site in stats["sites"].values())
    assert {name: stream["rows"] for name, stream in stats["streams"].items()} == {"text_l": 120, "text_r": 120}
    assert {(link["from"], link["to"]) for link in stats["links"]} == {SITES, SITES[::-1]}
    assert all(set(link["bytes_by_kind"]) == KINDS for link in stats["links"])
    assert all(link["bytes"] == sum(link["bytes_by_kind"].values()) > 0 for link in stats["links"])


#: What each command's help must mention.
HELP = {
    "": ("node", "query", "follow", "queries", "drop", "status", "run"),
    "node": ("--config", "--site", "--speed"),
    "query": ("--at", "--algorithm", *SIX, "--policy", "delta=250ms", "--format", "csv", "--out", "[RANGE 10 SECONDS]"),
    "follow": ("ID", "--format", "--out"),
    "drop": ("ID",),
    "run": ("--query", "--at", "--algorithm", "--policy", "--out", "--stats", "--speed", "waits until every row"),
}


def test_help_says_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    assert narrows("--help").ok().out
    for command, words in HELP.items():
        assert main([*([command] if command else []), "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        missing = [word for word in words if word not in text]
        assert not missing, (command, text)
