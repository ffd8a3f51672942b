"""A site is backed up, goes on, loses its disk and is restored; another is moved."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from tests.e2e.cases import lasting
from tests.e2e.harness import (
    PATIENCE_S,
    Daemons,
    assert_same_rows,
    eventually,
    free_port,
    narrows,
    write_cluster,
)

SITES = ("alpha", "beta")


def stop(daemons: Daemons, site: str, number: signal.Signals) -> None:
    daemons.nodes[site].signal(number)
    daemons.nodes[site].process.wait(PATIENCE_S)


def trouble(daemons: Daemons, site: str) -> str:
    status = daemons.status(site)
    return "" if status is None else " ".join(link.trouble for link in status.links)


def test_a_site_is_restored_and_what_was_found_with_lost_ticks_ends_with_data_loss(tmp_path: Path) -> None:
    join = lasting()
    join = replace(join, left=replace(join.left, retain="1h"), right=replace(join.right, retain="1h"))
    config = write_cluster(tmp_path, join.streams)
    folder, backup = tmp_path / "state" / "beta", tmp_path / "backup"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        file = tmp_path / "rows.csv"
        ids = {
            site: narrows("query", "--config", config, "--at", site, join.text, "--detach", *to).ok().out.strip()
            for site, to in (("alpha", ()), ("beta", ("--to", file)))
        }
        eventually("rows are stored", lambda: all(daemons.query_info(one).rows > 50 for one in ids.values()))
        said = narrows("backup", "--config", config, "--site", "beta", "--to", backup)
        said.failed(1, "required a state_dir that no other daemon uses")
        stop(daemons, "beta", signal.SIGTERM)
        narrows("backup", "--config", config, "--site", "beta", "--to", backup).ok()
        daemons.start("beta").linked()
        rows = {site: daemons.query_info(ids[site]).rows for site in SITES}
        eventually("it goes on", lambda: daemons.query_info(ids["alpha"]).rows > rows["alpha"] + 50)
        eventually("rows are written", lambda: file.read_text().count("\n") > rows["beta"] + 50)
        stop(daemons, "beta", signal.SIGKILL)
        written = file.read_bytes()

        # Put in its place and just started, an old copy is refused, and told how.
        folder.rename(tmp_path / "lost")
        shutil.copytree(backup, folder)
        daemons.start("beta")
        eventually("it is refused", lambda: "an old copy of the folder (narrows restore" in trouble(daemons, "beta"))
        assert daemons.query_info(ids["alpha"]).state in ("running", "recovering"), "its queries wait"

        def said_of_file() -> str:
            return " ".join(reader.trouble for reader in daemons.query_info(ids["beta"]).readers)

        eventually("the file is left", lambda: "is the site's folder an old copy?" in said_of_file())
        stop(daemons, "beta", signal.SIGTERM)
        narrows("restore", "--config", config, "--site", "beta", backup).failed(1, "required an empty folder")
        shutil.rmtree(folder)

        said = narrows("restore", "--config", config, "--site", "beta", backup).ok()
        assert f"query {ids['beta']} was issued here and ends" in said.err
        assert f"query {ids['beta']} does not write {file} any more, which stays as it is" in said.err
        daemons.start("beta").linked()
        for site, words in (
            ("alpha", "since its site was restored from a backup"),
            ("beta", "data loss: site beta was restored from a backup"),
        ):
            eventually("it ends", lambda site=site: daemons.query_info(ids[site]).state == "failed")  # type: ignore[misc]
            reason = daemons.query_info(ids[site]).reason
            assert words in reason
            assert "data loss" in reason
            assert "tick" in reason
        assert f"and {file} may have rows that are not in it" in said_of_file()
        assert file.read_bytes() == written
        # A new one begins where the streams began, with what the backup had and what was read again since.
        again = narrows("query", "--config", config, "--at", "beta", join.text, "--detach").ok().out.strip()
        assert again not in ids.values()
        eventually("it goes on", lambda: daemons.query_info(again).rows > rows["alpha"])
        daemons.hurry()
        narrows("follow", "--config", config, again, "--out", tmp_path / "rows.parquet").ok()
    assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), join.expected())


def test_a_site_is_moved_by_copying_its_folder_as_it_is(tmp_path: Path) -> None:
    join = lasting()
    ports = {site: free_port() for site in SITES}
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    config = write_cluster(first, join.streams, ports=ports)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        query_id = narrows("query", "--config", config, "--at", "beta", join.text, "--detach").ok().out.strip()
        eventually("rows are stored", lambda: daemons.query_info(query_id).rows > 50)
        assert daemons.query_info(query_id).state == "running"
        for site in SITES:
            stop(daemons, site, signal.SIGTERM)
    second.mkdir()
    moved = write_cluster(second, join.streams, ports=ports | {"beta": free_port()})
    shutil.copytree(first / "state" / "beta", second / "state" / "beta")
    shutil.copytree(first / "state" / "alpha", second / "state" / "alpha")
    with Daemons(moved).start(*SITES).linked():
        narrows("follow", "--config", moved, query_id, "--out", tmp_path / "rows.parquet").ok()
    assert_same_rows(pq.read_table(tmp_path / "rows.parquet"), join.expected())
