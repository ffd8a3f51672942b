"""Mistakes one makes on the command line: each is answered with one clear text, the right exit code, and nothing done.

Scripts rely on the codes: 0 done, 1 something failed while running, 2 something asked for is not right.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.exit_codes import DONE, EXIT_CODES, EXIT_CODES_SHORT, FAILED, INTERRUPTED, NOT_RIGHT, STILL_AWAY
from cli.main import main
from tests.e2e.harness import free_port

JOIN = (
    "SELECT o.id, p.cents FROM orders [RANGE 5 SECONDS] AS o JOIN payments [RANGE 5 SECONDS] AS p ON o.id = p.order_id"
)
LISTED = (
    "init, run, explain, node, status, top, backup, restore, query, follow, queries, replan, walks, drop, wan, "
    "completion, help"
)

#: What is typed, in a folder with a cluster.toml whose daemons do not run; the exit code; words of the answer.
TYPED = [
    # Commands and options.
    ((), 2, ("a command is required; got none", "Usage: narrows COMMAND")),
    (("statsu",), 2, (f"narrows: command: required one of {LISTED} (did you mean status?); got 'statsu'",)),
    (("help", "statsu"), 2, ("narrows help: COMMAND: required one of", "(did you mean status?)")),
    (("status", "--confg", "x.toml"), 2, ("narrows status: unknown: --confg (did you mean --config?)",)),
    (("status", "--conf", "x.toml"), 2, ("narrows status: unknown: --conf (did you mean --config?)",)),
    (("status", "--config"), 2, ("narrows status: option '--config' requires an argument; narrows status --help",)),
    (("drop", "a-1", "b-2"), 2, ("narrows drop: got unexpected extra argument (b-2); narrows drop --help says more",)),
    (("wan",), 2, ("narrows wan: missing command; narrows wan --help says more",)),
    (("wan", "cutt"), 2, ("narrows wan: ", "(did you mean cut?)")),
    (("wan", "show", "--jsn"), 2, ("narrows wan show: unknown: --jsn",)),
    (("node",), 2, ("narrows node: required --site; got none; narrows node --help says more",)),
    (("query", "SELECT", "*", "FROM", "orders"), 2, ("required the query as one text in quotes; got also '* FROM",)),
    (("run", "SELECT", "*", "FROM", "orders"), 2, ("requires the query as one text in quotes; got 'SELECT * FROM",)),
    (("query",), 2, ("narrows query: required QUERY; got none; narrows query --help says more",)),
    (("run", JOIN, "--speed", "0"), 2, ("--speed: required a number above 0, such as 1 or 0.5; got '0'",)),
    (("run", JOIN, "--speed", "fast"), 2, ("--speed: required a number above 0", "got 'fast'")),
    (("run", JOIN, "--engine", "nativ"), 2, ("--engine: required one of spark, native (did you mean native?)",)),
    (("top", "--every", "soon"), 2, ("--every: required a duration above 0 such as 30s or 2min; got 'soon'",)),
    (("top", "--times", "0"), 2, ("--times: required a whole number above 0; got '0'",)),
    (("completion",), 2, ("narrows completion: required SHELL, one of bash, zsh, fish",)),
    (("explain",), 2, ("narrows explain: required QUERY; got none",)),
    (("explain", "analyze"), 2, ("narrows explain analyze requires a query; got none",)),
    (("explain", "--for", "3s", JOIN), 2, ("--for requires narrows explain analyze",)),
    # Which configuration.
    (("status", "--config", "nope.toml"), 2, ("nope.toml: required a readable TOML file; got no such file",)),
    (("status", "--config", "."), 2, (".: required a readable TOML file; got a directory",)),
    (("status", "--config", "orders.csv"), 2, ("orders.csv: required valid TOML",)),
    (("run",), 2, ('narrows run requires one query, as in narrows run "SELECT ..."; got none',)),
    (("run", "cluster.toml"), 2, ("requires one query", "got none")),
    (("run", "cluster.toml", "--engine", "native", JOIN, "--out", "."), 2, ("got the folder '.'",)),
    (("run", "--engine", "native", JOIN, "--out", "."), 2, ("got the folder '.'",)),
    (("run", JOIN, "--query", JOIN), 2, ("requires one query", " and ")),
    (("run", "a.toml", "--config", "b.toml", JOIN), 2, ("narrows run requires one configuration; got a.toml and b",)),
    (("run", "nope.toml", "--query", JOIN), 2, ("nope.toml: required a readable TOML file; got no such file",)),
    (("node", "--site", "frankfrut"), 2, ('required one of "frankfurt", "virginia" (did you mean "frankfurt"?)',)),
    (("query", "--at", "berlin", JOIN), 2, ('required one of "frankfurt", "virginia"; got "berlin"',)),
    (("run", "--at", "berlin", JOIN), 2, ('required one of "frankfurt", "virginia"; got "berlin"',)),
    # Where rows go.
    (("run", JOIN, "--out", "no/rows.csv"), 2, ("--out requires an existing folder; got 'no/rows.csv'",)),
    (("run", JOIN, "--out", "rows.xls"), 2, ("--out requires a name ending in .parquet, .csv",)),
    (("run", JOIN, "--out", "."), 2, ("--out requires a file; got the folder '.'",)),
    (("run", JOIN, "--out", "/proc/rows.csv"), 2, ("--out requires a folder that may be written to",)),
    (("run", JOIN, "--stats", "/proc/stats.json"), 2, ("--stats requires a folder that may be written to",)),
    (("query", JOIN, "--out", "rows.csv", "--format", "table"), 2, ("--format table is for a terminal",)),
    (("query", JOIN, "--detach", "--out", "rows.csv"), 2, ("--detach: required no --out",)),
    (("explain", JOIN, "--picture", "plan.png"), 2, ("--picture requires a file that ends in .svg or .dot",)),
    (("init",), 2, ("narrows init requires a file that is not there yet; got cluster.toml",)),
    (("init", "no/cluster.toml"), 2, ("requires a file that can be written; got no/cluster.toml: No such file",)),
    # Queries.
    (("run", ""), 2, ("the query is empty",)),
    (("run", "SELECT \udcff"), 2, ("the query requires text in utf-8", "'SELECT ?'")),
    (("run", JOIN.replace("orders [RANGE 5 SECONDS]", "orders")), 2, ('stream "orders" has no window',)),
    (("follow", "foo"), 2, ("a query id requires the form SITE-LIFE-NUMBER", "got 'foo'")),
    (("drop", "berlin-1-1"), 2, ("a query id requires the form SITE-LIFE-NUMBER", "got 'berlin-1-1'")),
    # Nobody is there: the command is right, and fails.
    (("query", JOIN), 1, ("site frankfurt requires a running daemon", "narrows node --site frankfurt starts it")),
    (("query", "--at", "virginia", JOIN), 1, ("narrows node --site virginia starts it",)),
    (("explain", JOIN), 1, ("site frankfurt requires a running daemon",)),
    (("explain", "virginia-1mhqyjj-3"), 1, ("site virginia requires a running daemon",)),
    (("follow", "frankfurt-1mhqyjj-1"), 1, ("site frankfurt requires a running daemon",)),
    (("drop", "frankfurt-1mhqyjj-1"), 1, ("site frankfurt requires a running daemon",)),
    (("queries",), 1, ("site frankfurt requires", "site virginia requires")),
    (("queries", "--json"), 1, ("site frankfurt requires",)),
    # What goes well.
    (("help",), 0, ()),
    (("help", "run"), 0, ()),
    (("init", "mine.toml"), 0, ()),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands are typed: a configuration and its two files; no daemon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARROWS_CONFIG", raising=False)
    (tmp_path / "orders.csv").write_text("id,ts,item\n1,0,espresso beans\n")
    (tmp_path / "payments.csv").write_text("order_id,ts,cents\n1,1800,1890\n")
    assert main(["init", "--engine", "native"]) == 0
    config = tmp_path / "cluster.toml"
    for port in ("7701", "7702"):
        config.write_text(config.read_text().replace(port, str(free_port())))
    return tmp_path


def typed(*arguments: str) -> int:
    """The exit code."""
    return main(list(arguments))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    TYPED,
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, tuple) else None,
)
def test_what_is_typed_is_answered(
    arguments: tuple[str, ...], code: int, words: tuple[str, ...], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    capsys.readouterr()
    assert typed(*arguments) == code
    said = capsys.readouterr()
    assert [word for word in words if word not in said.err] == [], said.err
    assert "Traceback" not in said.err
    if code:
        assert said.err.startswith("narrows")
        assert sorted(path.name for path in folder.iterdir()) == before


def test_status_of_a_cluster_that_does_not_run_is_a_status_and_the_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert typed("status") == 1
    assert "site frankfurt does not answer" in capsys.readouterr().out
    assert typed("status", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["cluster"], found["tau_ms"]) == ("narrows", 500)
    assert {name: site["answers"] for name, site in found["sites"].items()} == {"frankfurt": False, "virginia": False}
    assert "nobody answers" in found["sites"]["virginia"]["reason"]


def test_the_configuration_is_the_one_given_or_of_the_variable_or_of_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def which() -> str:
        assert typed("status", "--json") == 1
        return str(json.loads(capsys.readouterr().out)["cluster"])

    here = (folder / "cluster.toml").read_text()
    there = folder / "other" / "there.toml"
    there.parent.mkdir()
    there.write_text(here.replace('cluster = "narrows"', 'cluster = "there"'))
    capsys.readouterr()
    assert which() == "narrows"
    monkeypatch.setenv("NARROWS_CONFIG", str(there))
    assert which() == "there"
    assert typed("status", "--json", "--config", "cluster.toml") == 1
    assert json.loads(capsys.readouterr().out)["cluster"] == "narrows"
    monkeypatch.setenv("NARROWS_CONFIG", "gone.toml")
    assert typed("status") == 2
    assert "the variable NARROWS_CONFIG requires a file that is there; got 'gone.toml'" in capsys.readouterr().err
    monkeypatch.delenv("NARROWS_CONFIG")
    monkeypatch.chdir(there.parent)
    for command in (("status",), ("run", JOIN), ("wan", "show"), ("node", "--site", "frankfurt")):
        assert typed(*command) == 2
        assert "a cluster's configuration is required: --config FILE" in capsys.readouterr().err


def test_the_help_fits_a_small_terminal_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert typed("help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= 80
    named = [line[9:].split()[0] for line in lines if len(line) > 21 and line[9:10].isalpha() and line[20:21] == " "]
    assert set(LISTED.split(", ")) <= set(named)


def test_both_helps_name_every_exit_code() -> None:
    codes = (DONE, FAILED, NOT_RIGHT, STILL_AWAY, INTERRUPTED)
    for text in (EXIT_CODES, EXIT_CODES_SHORT):
        assert [int(number) for number in sorted(re.findall(r"\b\d+\b", text), key=int)] == sorted(codes)


@pytest.mark.parametrize("command", LISTED.split(", ")[:11])
def test_the_help_of_a_command_has_an_example_and_the_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert typed(command, "--help") == 0
    by_option = capsys.readouterr().out
    assert f"  narrows {command}" in by_option
    assert "exit codes:" in by_option
    assert typed("help", command) == 0
    assert capsys.readouterr().out == by_option
