"""Daemons that a command starts: what it says while they start, and what if one does not come up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.cluster import ClusterError, LocalCluster
from cli.cluster_file import load_cluster
from node.client.start import Start
from node.config import ClusterConfig
from node.rpc import control_pb2 as pb
from tests.e2e.cases import steady
from tests.e2e.harness import free_port, write_cluster


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    return load_cluster(write_cluster(tmp_path, steady(1).streams, ports={"alpha": free_port(), "beta": free_port()}))


def python_that(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every daemon that is started does this instead."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'narrows: no luck'; echo bye; exit 3", r"ended \(3\): no luck$"),
        ("echo hello; echo 'the last word'; exit 4", r"ended \(4\): the last word$"),
        ("exit 5", r"ended \(5\): it said nothing$"),
    ],
)
def test_a_daemon_that_dies_while_it_starts_is_reported_with_its_last_words(
    tmp_path: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    python_that(tmp_path, script, monkeypatch)
    with pytest.raises(ClusterError, match=f"the daemon of site (alpha|beta) {said}"), LocalCluster(config, None):
        pass


def test_daemons_that_do_not_come_up_in_time_are_named_and_ended(
    tmp_path: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_that(tmp_path, "exec sleep 600", monkeypatch)
    monkeypatch.setattr("cli.cluster.READY_S_MAX", 0.2)
    with pytest.raises(ClusterError, match="alpha, beta did not come up"), LocalCluster(config, None) as cluster:
        assert cluster.clients == {}


def test_of_daemons_that_do_not_come_up_in_time_it_is_said_what_they_wait_for(
    tmp_path: Path, config: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_that(tmp_path, "exec sleep 600", monkeypatch)
    monkeypatch.setattr("cli.cluster.READY_S_MAX", 0.2)
    monkeypatch.setattr(Start, "readiness", lambda *_: pb.ReadyReply(steps=["reading", "waiting for room"]))
    said = r"alpha \(waiting for room\), beta \(waiting for room\) did not come up"
    with pytest.raises(ClusterError, match=said), LocalCluster(config, None):
        pass


def test_steps_are_told_once_and_one_that_takes_long_again_now_and_then(config: ClusterConfig) -> None:
    told: list[str] = []
    cluster = LocalCluster(config, None, told.append)
    one, two = "starting Spark, master local[2]", "Spark is up"
    for said in (
        pb.ReadyReply(),
        pb.ReadyReply(steps=[one], step_seconds=1),
        pb.ReadyReply(steps=[one], step_seconds=31),
        pb.ReadyReply(steps=[one], step_seconds=59),
        pb.ReadyReply(steps=[one], step_seconds=61),
        pb.ReadyReply(steps=[one, two], step_seconds=3),
    ):
        cluster._tell("alpha", said)
    assert told == [
        f"site alpha: {one}",
        f"site alpha: {one}, since 30 s",
        f"site alpha: {one}, since 60 s",
        f"site alpha: {two}",
    ]
    cluster._tell("alpha", pb.ReadyReply(ready=True, steps=[one, two]))
    assert told[4].startswith("site alpha: ready after ")
    cluster._tell("beta", pb.ReadyReply(ready=True))
    assert len(told) == 5, "a daemon that was ready at once is not worth a word"
    cluster.stop()
