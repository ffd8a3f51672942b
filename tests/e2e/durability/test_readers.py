"""Who reads rows lives through restarts of the query's home; rows that nobody took are there afterwards."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    NARROWS,
    PATIENCE_S,
    Background,
    Daemons,
    Join,
    assert_same_rows,
    environment,
    eventually,
    issued,
    narrows,
    write_cluster,
)

SITES = ("alpha", "beta")


def query(config: Path, join: Join, *arguments: str | Path) -> tuple[str | Path, ...]:
    return ("query", "--config", config, "--at", "alpha", join.text, *arguments)


def detached(config: Path, join: Join, *arguments: str | Path) -> str:
    return narrows(*query(config, join, "--detach", *arguments)).ok().out.strip()


def completed(daemons: Daemons, query_id: str) -> None:
    def ended() -> bool:
        info = daemons.query_info(query_id)
        assert info.state in ("planning", "starting", "running", "recovering", "completed"), info
        return info.state == "completed"

    eventually("the query has completed", ended)


def kill(daemons: Daemons, site: str, number: signal.Signals) -> None:
    daemons.nodes[site].signal(number)
    daemons.nodes[site].process.wait(PATIENCE_S)
    assert "Traceback" not in daemons.nodes[site].err, daemons.nodes[site].err


def pairs(rows: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_rows_that_nobody_took_outlive_the_daemon_and_every_reader_keeps_its_place(
    tmp_path: Path, number: signal.Signals
) -> None:
    join = steady(3)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons:
        query_id = detached(config, join)
        completed(daemons, query_id)
        first = narrows("follow", "--config", config, query_id, "--as", "one", "--out", tmp_path / "one.parquet").ok()
        assert "all that there are" in first.err
        kill(daemons, "alpha", number)
        daemons.start("alpha")
        info = daemons.query_info(query_id)
        assert (info.state, info.text) == ("completed", join.text)
        want = join.expected()
        assert {reader.name: reader.taken for reader in info.readers} == {"default": 0, "one": want.num_rows}
        listed = narrows("queries", "--config", config).ok().out
        assert f"one: {want.num_rows:,} of {want.num_rows:,} taken" in " ".join(listed.split())
        narrows("follow", "--config", config, query_id, "--out", tmp_path / "rows.parquet").ok()
        assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), want)
        assert_same_rows(pq.read_table(tmp_path / "one.parquet"), want)
        # Every row is taken: a follower is told so at once, and gets none.
        again = narrows("follow", "--config", config, query_id, "--format", "csv").ok()
        assert again.out.splitlines() == ["a,b,pad"] or again.out.splitlines() == ['"a","b","pad"']


def test_a_query_that_writes_a_file_waits_for_its_home_and_has_every_row_once(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    out = tmp_path / "rows.csv"
    out.write_text("whole\n")
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        command = Background(*query(config, join, "--out", out), name="first", folder=tmp_path)
        query_id = issued(command)
        eventually("some rows are stored", lambda: daemons.query_info(query_id).rows > 100)
        kill(daemons, "alpha", signal.SIGTERM)
        eventually("it says so", lambda: "site alpha is away since" in command.err)
        assert "waiting to go on with row" in command.err
        assert command.process.poll() is None
        daemons.start("alpha")
        eventually("it says that it is back", lambda: "back after" in command.err)
        assert out.read_text() == "whole\n"
        daemons.hurry()
        command.end().ok()
    assert pairs(pa.csv.read_csv(out)) == pairs(join.expected())


def test_who_has_waited_long_enough_ends_with_a_code_of_its_own(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        command = Background(*query(config, join, "--wait", "1s"), name="first", folder=tmp_path)
        query_id = issued(command)
        eventually("rows are printed", lambda: len(command.out.splitlines()) > 5)
        kill(daemons, "alpha", signal.SIGKILL)
        command.end().failed(3, "site alpha is away since", "longer than 1 s")
    refused = narrows("follow", "--config", config, query_id)
    refused.failed(1, "site alpha requires a running daemon")
    for arguments in ((), ("--forget", "default")):
        follow = ("follow", "--config", config, query_id, *arguments)
        narrows(*follow, "--wait", "1s").failed(3, "site alpha is away since")


def test_a_query_in_a_pipe_says_who_is_away_and_status_what_recovers_since_when_and_for_whom_it_waits(
    tmp_path: Path,
) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    good = tmp_path / "rows.csv"
    good.write_text("whole\n")
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        command = Background(*query(config, join), name="first", folder=tmp_path)
        filing = Background(*query(config, join, "--out", good), name="filing", folder=tmp_path)
        eventually("rows are printed", lambda: len(command.out.splitlines()) > 5)
        query_id, filed_id = issued(command), issued(filing)
        eventually("rows are filed", lambda: daemons.query_info(filed_id).rows > 5)
        kill(daemons, "beta", signal.SIGKILL)
        eventually("it says so", lambda: "narrows: site beta is away for" in command.err)
        hasty = narrows("follow", "--config", config, query_id, "--as", "hasty", "--wait", "1s")
        hasty.failed(3, "site beta is away for", "longer than 1 s", f"narrows follow {query_id} --as hasty takes them")
        kill(daemons, "alpha", signal.SIGTERM)
        daemons.start("alpha")
        eventually("it says that it is back", lambda: "narrows: site alpha is back after" in command.err)
        words = narrows("status", "--config", config).ok().out.partition("\n\n")[0]
        assert re.search(rf"query {query_id} recovers for \d+ s \(site alpha was restarted\): it waits for beta", words)
        assert "recovering: site alpha was restarted" in " ".join(
            narrows("queries", "--config", config).ok().out.split()
        )
        assert "site beta requires a running daemon" in narrows("walks", "--config", config).ok().out
        # A file that was there is as it was, and what came of this query is beside it.
        narrows("drop", "--config", config, filed_id).ok()
        filing.end().failed(1, f"query {filed_id} dropped", "are in", f"{good} is as it was")
        assert good.read_text() == "whole\n"
        assert (tmp_path / "rows.partial.csv").exists()
        before = len(command.out.splitlines())
        daemons.start("beta")
        eventually("rows go on coming", lambda: len(command.out.splitlines()) > before + 5)
        command.signal(signal.SIGTERM)
        command.end()
        kill(daemons, "alpha", signal.SIGTERM)


def test_who_follows_a_query_whose_rows_are_all_taken_gets_none_and_ends(tmp_path: Path) -> None:
    join = steady(4)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons:
        first = Background(*query(config, join, "--format", "csv"), name="first", folder=tmp_path)
        query_id = issued(first)
        first.end().ok()
        completed(daemons, query_id)
        for _ in range(2):
            said = narrows("follow", "--config", config, query_id, "--format", "csv").ok()
            assert len(said.out.splitlines()) == 1


def test_a_query_that_is_left_while_it_has_no_rows_to_give_goes_on_for_others(tmp_path: Path) -> None:
    """The stream of beta stops, so all rows are taken when Ctrl-C is pressed, and more come later."""
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        first = Background(*query(config, join, "--format", "csv"), name="first", folder=tmp_path)
        query_id = issued(first)
        eventually("rows are printed", lambda: len(first.out.splitlines()) > 200)
        daemons.nodes["beta"].signal(signal.SIGSTOP)
        eventually("all are taken", lambda: _all_taken(daemons, query_id))
        first.signal(signal.SIGINT)
        first.end().failed(130, "detached after")
        rest = Background(
            "follow", "--config", config, query_id, "--out", tmp_path / "rest.csv", name="r", folder=tmp_path
        )
        daemons.nodes["beta"].signal(signal.SIGCONT)
        eventually("somebody follows", lambda: daemons.query_info(query_id).followed)
        daemons.hurry()
        rest.end().ok()
        again = narrows("follow", "--config", config, query_id, "--format", "csv").ok()
        assert len(again.out.splitlines()) == 1
    (tmp_path / "printed.csv").write_text(first.out)
    printed, left = (pa.csv.read_csv(tmp_path / name) for name in ("printed.csv", "rest.csv"))
    assert pairs(printed) + pairs(left) == pairs(join.expected())


def _all_taken(daemons: Daemons, query_id: str) -> bool:
    info = daemons.query_info(query_id)
    return info.rows > 0 and all(reader.taken == info.rows for reader in info.readers)


def test_readers_with_names_get_every_row_each_and_one_that_is_forgotten_keeps_none(tmp_path: Path) -> None:
    join = steady(3)
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config).start(*SITES).linked() as daemons:
        query_id = detached(config, join, "--as", "one")
        second = Background(
            "follow",
            "--config",
            config,
            query_id,
            "--as",
            "two",
            "--out",
            tmp_path / "two.csv",
            name="two",
            folder=tmp_path,
        )
        eventually("both are known", lambda: len(daemons.query_info(query_id).readers) == 2)
        narrows("follow", "--config", config, query_id, "--as", "one", "--out", tmp_path / "one.csv").ok()
        second.end().ok()
        for name in ("one", "two"):
            assert pairs(pa.csv.read_csv(tmp_path / f"{name}.csv")) == pairs(join.expected())
        assert {reader.name for reader in daemons.query_info(query_id).readers} == {"one", "two"}
        narrows("follow", "--config", config, query_id, "--forget", "two").ok()
        assert {reader.name for reader in daemons.query_info(query_id).readers} == {"one"}
        narrows("follow", "--config", config, query_id, "--forget", "one").failed(2, "at least one reader")
        narrows("follow", "--config", config, query_id, "--as", "no/such").failed(2, "a reader's name requires")


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".csv":
        return pa.csv.read_csv(path)
    if path.suffix == ".jsonl":
        return pa.json.read_json(path)
    with pa.ipc.open_stream(path) as stream:
        return stream.read_all()


def test_files_that_a_site_writes_without_anybody_have_each_row_once_over_crashes(tmp_path: Path) -> None:
    join = lasting()
    join = replace(join, left=replace(join.left, retain="1h"), right=replace(join.right, retain="1h"))
    config = write_cluster(tmp_path, join.streams)
    files = [tmp_path / f"rows.{form}" for form in ("csv", "jsonl", "arrows", "parquet")]
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        names = {file: detached(config, join, "--to", file) for file in files}
        for size in (8_000, 20_000):
            eventually("rows are written", lambda size=size: _size(files[0]) > size)  # type: ignore[misc]
            kill(daemons, "alpha", signal.SIGKILL)
            daemons.start("alpha")
        daemons.hurry()
        for file, query_id in names.items():
            completed(daemons, query_id)
            eventually("all is written", lambda query_id=query_id: _all_taken(daemons, query_id))  # type: ignore[misc]
            eventually("it is let go", lambda query_id=query_id: not daemons.query_info(query_id).followed)  # type: ignore[misc]
            assert pairs(_read(file)) == pairs(join.expected())
        narrows(*query(config, join, "--detach", "--to", files[0])).failed(2, "a file that is not there yet")
    assert_same_rows(_read(files[3]), join.expected())


def test_a_query_whose_id_was_printed_outlives_a_crash_that_comes_at_once(tmp_path: Path) -> None:
    join = steady(4)
    join = replace(join, left=replace(join.left, retain="1h"), right=replace(join.right, retain="1h"))
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "4")).start(*SITES).linked() as daemons:
        for number in range(3):
            query_id = detached(config, join, "--to", tmp_path / f"rows-{number}.csv")
            kill(daemons, "alpha", signal.SIGKILL)
            daemons.start("alpha")
            daemons.linked()
            completed(daemons, query_id)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_reader_whose_pipe_is_closed_leaves_no_trace_in_the_daemon(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "2")).start(*SITES).linked() as daemons:
        command = [*NARROWS, *map(str, query(config, join, "--algorithm", "SP-D", "--format", "csv"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            process.wait(PATIENCE_S)
        kill(daemons, "alpha", signal.SIGTERM)
        kill(daemons, "beta", signal.SIGTERM)
