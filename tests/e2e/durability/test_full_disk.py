"""A disk that is full: the site pauses, and goes on by itself when there is room, also one that is killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from node.storage.headroom import HEADROOM_NAME
from tests.e2e.durability.test_restart import ROWS, SITES, query, stream
from tests.e2e.harness import Background, Daemons, Join, assert_same_rows, eventually, issued, narrows, write_cluster
from tests.small_disk import small_disk as mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "state", "48m") as place:
        yield place


def fill(ballast: Path) -> None:
    """Leave no room on a disk, at once: streams go on meanwhile, and must not end first."""
    with ballast.open("ab", buffering=0) as file:
        for nbytes in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), nbytes)
        # The last page is full only when its last byte is taken.
        with suppress(OSError):
            while True:
                file.write(bytes(1 << 9))


def cluster(folder: Path) -> tuple[Join, Path]:
    """Two streams and their join, of which rows come all the time; and the configuration of their sites."""
    join = Join(stream("orders", "alpha", ROWS, 25, 300, 1), stream("payments", "beta", ROWS, 25, 300, 2))
    return join, write_cluster(folder, join.streams)


def test_on_a_full_disk_the_site_pauses_says_so_and_goes_on_by_itself(tmp_path: Path, small_disk: Path) -> None:
    join, config = cluster(tmp_path)
    out, ballast = tmp_path / "rows.parquet", small_disk / "ballast"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        command = Background(*query(config, join, "--out", out), name="query", folder=tmp_path)
        query_id = issued(command)
        fill(ballast)
        eventually("status says so", lambda: "the disk is full" in narrows("status", "--config", config).ok().out)
        assert command.process.poll() is None
        rows = daemons.query_info(query_id).rows
        ballast.unlink()
        eventually("it goes on", lambda: daemons.query_info(query_id).rows > rows)
        said = "".join(node.err for node in daemons.nodes.values())
        assert "the disk is full: the site pauses until there is room" in said
        assert "there is room on the disk again: the site goes on" in said
        daemons.hurry()
        command.end().ok()
        assert_same_rows(pq.read_table(out), join.expected())


def test_a_home_that_is_killed_on_a_full_disk_begins_again_or_waits_for_room(tmp_path: Path, small_disk: Path) -> None:
    join, config = cluster(tmp_path)
    out, ballast = tmp_path / "rows.parquet", small_disk / "ballast"
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        command = Background(*query(config, join, "--out", out), name="query", folder=tmp_path)
        query_id = issued(command)
        eventually("rows come", lambda: daemons.query_info(query_id).rows)
        fill(ballast)
        eventually("status says so", lambda: "the disk is full" in narrows("status", "--config", config).ok().out)
        daemons.nodes["alpha"].signal(signal.SIGKILL)
        daemons.nodes["alpha"].process.wait()
        daemons.start("alpha")
        assert "the disk is full: the site pauses until there is room" in daemons.nodes["alpha"].err
        # Without what was reserved, and with what it gave back as it ended, it has nothing.
        daemons.nodes["alpha"].signal(signal.SIGTERM)
        daemons.nodes["alpha"].end().ok()
        (small_disk / "alpha" / HEADROOM_NAME).unlink(missing_ok=True)
        fill(ballast)
        waits = "the disk is full: site alpha waits for room to begin: "
        daemons.launch("alpha")
        eventually("it says so", lambda: waits in daemons.nodes["alpha"].err)
        said = narrows("status", "--config", config).ok().out
        assert "site alpha is not ready: waiting for room, the disk is full" in said
        daemons.nodes["alpha"].signal(signal.SIGTERM)
        assert "site alpha was stopped before it was up" in daemons.nodes["alpha"].end().ok().err
        daemons.launch("alpha")
        eventually("it says so", lambda: waits in daemons.nodes["alpha"].err)
        assert daemons.nodes["alpha"].err.count(waits) == 1
        ballast.unlink()
        eventually("it begins", lambda: "site alpha is ready" in daemons.nodes["alpha"].err)
        daemons.linked().hurry()
        command.end().ok()
        assert_same_rows(pq.read_table(out), join.expected())
