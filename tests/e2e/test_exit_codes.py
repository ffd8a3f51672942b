"""Real commands, stopped or with nowhere to write: exit codes for scripts, no trace, nothing lost or left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from node.client.start import Start
from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    NARROWS,
    PATIENCE_S,
    TAG,
    Background,
    Daemons,
    Said,
    environment,
    eventually,
    is_ready,
    narrows,
    no_trace,
    none_left,
    write_cluster,
)

SITES = ("alpha", "beta")


def said_with(stdout: int | None, *arguments: str, **variables: str) -> Said:
    """What a command says on standard error when its standard output is this file, or closed."""
    done = subprocess.run(
        [*NARROWS, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment() | variables,
        timeout=PATIENCE_S,
        check=False,
        preexec_fn=None if stdout is not None else lambda: os.close(1),
    )
    return no_trace(Said(done.returncode, "", done.stderr.decode()))


def test_rows_that_cannot_be_printed_are_kept_for_the_next_follower(tmp_path: Path) -> None:
    join = steady(2)
    config = str(write_cluster(tmp_path, join.streams))
    with Daemons(Path(config)).start(*SITES).linked():
        query_id = narrows("query", "--config", config, "--detach", join.text).ok().out.strip()
        follow = ("follow", "--config", config, query_id)
        hint = f"narrows follow {query_id} takes them, narrows drop {query_id} ends it"
        with Path("/dev/full").open("wb") as full:
            for form in ("csv", "table"):
                said_with(full.fileno(), *follow, "--format", form).failed(1, "standard output: No space left", hint)
            said_with(full.fileno(), "status", "--config", config).failed(1, "No space left")
        said_with(None, *follow).failed(2, "rows require an open standard output, or --out FILE; got a closed one")
        said_with(None, "query", "--config", config, join.text).failed(2, "rows require an open standard output")
        reading, writing = os.pipe()
        os.close(reading)
        said_with(writing, *follow).failed(1, "nobody reads on", hint)
        assert said_with(writing, "status", "--config", config) == Said(1, "", "")
        os.close(writing)
        listed = json.loads(narrows("queries", "--config", config, "--json").ok().out)
        assert [query["query_id"] for query in listed["queries"]] == [query_id], "nothing was issued meanwhile"
        assert listed["silent"] == {}
        # A terminal without the letters we use gets them as escapes, and every row.
        plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
        out = tmp_path / "rows.txt"
        with out.open("wb") as file:
            said_with(file.fileno(), *follow, "--format", "table", **plain).ok()
        header, rule, *rows = out.read_text("ascii").splitlines()
        assert header.split() == list(join.expected().column_names)
        assert set(rule) == {"-", " "}
        assert len(rows) == join.expected().num_rows


def test_status_as_json_has_every_site_with_numbers_as_numbers(tmp_path: Path) -> None:
    join = steady(2)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons:
        narrows("query", "--config", config, join.text).ok()
        daemons.nodes["beta"].signal(signal.SIGTERM)
        daemons.nodes["beta"].end()
        found = json.loads(narrows("status", "--config", config, "--json").ok().out)
    alpha, beta = found["sites"]["alpha"], found["sites"]["beta"]
    assert (alpha["answers"], beta["answers"]) == (True, False)
    assert "nobody answers" in beta["reason"]
    (stream,) = alpha["streams"]
    assert stream["rows"] == join.left.table.num_rows
    assert alpha["engine"]["name"] == "native"
    assert alpha["engine"]["job_ms_last"] is None
    assert alpha["links"][0]["sent_bytes"]["control"] > 0
    assert any("beta" in line for line in found["going_on"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_run_that_is_stopped_says_by_its_code_how(tmp_path: Path, number: signal.Signals, code: int) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.parquet"
    run = Background("run", config, join.text, "--speed", "1", "--out", out, name="run", folder=tmp_path)
    eventually("rows are written", (tmp_path / "rows.parquet.part").exists)
    run.signal(number)
    said = run.end()
    assert said.code == code
    assert ("stopped by Ctrl-C before every row was delivered" in said.err) == (number == signal.SIGINT)
    none_left(os.environ[TAG])
    assert not list(tmp_path.glob("rows.parquet*"))


def test_ctrl_c_while_a_query_is_analyzed_shows_what_it_did(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        analyzing = Background("explain", "--config", config, "analyze", join.text, name="explain", folder=tmp_path)

        def rows() -> int:
            with daemons.client("alpha") as client:
                return sum(query.rows for query in client.queries())

        eventually("rows are there", lambda: rows() > 50)
        analyzing.signal(signal.SIGINT)
        said = analyzing.end().failed(130, "ended by Ctrl-C; what was measured until then")
        assert "measured" in said.out
        narrows("explain", "--config", config, "alpha-1-1").failed(2, "unknown query")


def test_ctrl_c_while_the_command_is_loaded_leaves_no_trace() -> None:
    """Imports take most of a second, in which impatient people change their minds."""
    slow = (
        "import builtins, sys, time\n"
        "from cli.main import main\n"
        "load = builtins.__import__\n"
        "def slowly(name, *rest):\n"
        "    if name == 'cli.dispatch':\n"
        "        print('loading', flush=True)\n"
        "        time.sleep(60)\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = slowly\n"
        "main(['status'])\n"
    )
    command = [sys.executable, "-c", slow]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
    assert process.returncode == -signal.SIGINT, "which a shell shows as 130"


def test_a_daemon_ends_with_its_terminal_unless_nohup_says_otherwise(tmp_path: Path) -> None:
    config = write_cluster(tmp_path, steady(1).streams)
    with Daemons(config).start("alpha") as daemons:
        daemons.nodes["alpha"].signal(signal.SIGHUP)
        assert daemons.nodes["alpha"].end().code == 0
    command = ["nohup", *NARROWS, "node", "--config", str(config), "--site", "beta"]
    log, start = tmp_path / "nohup.err", Start()
    with (
        daemons.client("beta") as client,
        log.open("wb") as err,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=err, stdout=err, env=start.environment(environment())
        ) as beta,
    ):
        eventually("beta is ready", lambda: is_ready(start, client))
        beta.send_signal(signal.SIGHUP)
        narrows("status", "--config", config).ok()
        assert beta.poll() is None
        beta.terminate()
        assert beta.wait(PATIENCE_S) == 0
