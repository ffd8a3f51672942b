"""Queries that go over to another plan while they run, by hand and on real daemons: every row comes, once."""

from __future__ import annotations

import itertools
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from node.client import NotNowError
from node.rpc import control_pb2 as pb
from tests.e2e.cases import lasting, steady
from tests.e2e.harness import (
    ALGORITHMS,
    SM_D1,
    SM_S1,
    SM_S2,
    SP_D,
    SP_S,
    Background,
    Daemons,
    Join,
    Said,
    assert_same_rows,
    eventually,
    issued,
    narrows,
    write_cluster,
)
from tests.e2e.proxy import Proxy, behind_proxy

SITES = ("alpha", "beta")


class Watched:
    """A query whose rows go to a file, as it is seen by those who change its plan."""

    def __init__(self, config: Path, join: Join, algorithm: str = SP_D) -> None:
        self.config = config
        self.join = join
        self.out = config.parent / "rows.parquet"
        arguments = ("query", "--config", config, "--at", "alpha", join.text, "--from", "start")
        options = ("--algorithm", algorithm, "--out", self.out)
        self.following = Background(*arguments, *options, name="query", folder=config.parent)
        self.query_id = issued(self.following)

    def replan(self, *options: str) -> Said:
        return narrows("replan", self.query_id, "--config", self.config, *options)

    def replanning(self, algorithm: str, name: str) -> Background:
        arguments = ("replan", self.query_id, "--config", self.config, "--algorithm", algorithm)
        return Background(*arguments, name=name, folder=self.config.parent)

    def info(self, daemons: Daemons) -> pb.QueryInfo:
        return daemons.query_info(self.query_id)

    def rows_arrive(self, daemons: Daemons) -> None:
        before = self.info(daemons).rows
        eventually("rows arrive", lambda: self.info(daemons).rows > before)

    def history(self) -> list[dict[str, Any]]:
        said = narrows("explain", self.query_id, "--config", self.config, "--json").ok()
        found: list[dict[str, Any]] = json.loads(said.out)["switches"]
        return found

    def went_over(self, daemons: Daemons, number: int) -> bool:
        status = self.info(daemons).last_switch
        return (status.number, status.state) == (number, "switched")

    def check_rows(self, daemons: Daemons, *paced: str) -> None:
        """The streams come to their end, and every row has come once. ``paced``: sites that play by the clock."""
        daemons.hurry(*paced)
        self.following.end().ok()
        assert_same_rows(pq.read_table(self.out), self.join.expected())


def test_a_query_goes_over_to_every_plan_under_load_and_explain_tells_when_why_and_what_it_took(tmp_path: Path) -> None:
    join = lasting()
    config = write_cluster(tmp_path, join.streams)
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked() as daemons:
        watched = Watched(config, join)
        watched.rows_arrive(daemons)
        plans = [algorithms for algorithms in ALGORITHMS if algorithms != SP_D]
        said = watched.replan("--algorithm", plans[0]).ok()
        assert "runs by the other plan, after" in said.err
        with daemons.client("alpha") as client:
            for algorithms in plans[1:]:
                watched.rows_arrive(daemons)
                asked = pb.ReplanRequest(query_id=watched.query_id, plan=pb.IssueRequest(algorithm=algorithms))
                number = client.replan(asked).number
                eventually("it went over", lambda number=number: watched.went_over(daemons, number))  # type: ignore[misc]
        same = watched.replan("--algorithm", plans[-1]).ok()
        assert "that is the plan that was asked for: nothing is to be done" in same.out
        dry = json.loads(watched.replan("--dry-run", "--json").ok().out)
        assert dry["from"]["expected_bytes_per_s"] > 0
        assert dry["to"]["expected_bytes_per_s"] > 0
        told = narrows("status", "--config", config).ok().out
        assert f"query {watched.query_id} went over to another plan" in told
        assert "because: asked for by a user" in told
        history = watched.history()
        assert [(each["state"], each["why"]) for each in history] == [("switched", "asked for by a user")] * len(plans)
        assert all(before["to"] == after["from"] for before, after in itertools.pairwise(history))
        assert [each["rows"]["to"] for each in history] == sorted(each["rows"]["to"] for each in history)
        assert history[0]["measured_bytes_per_s"]["to"] > 0
        watched.check_rows(daemons)


def held_up(watched: Watched, daemons: Daemons, proxy: Proxy) -> Background:
    """Somebody has the query go over, and the link is cut while that is prepared: so it stays."""
    proxy.delay_s = 0.5
    for number, algorithm in enumerate(itertools.cycle((SM_S2, SM_S1))):
        before = watched.info(daemons).last_switch.number
        replanning = watched.replanning(algorithm, f"held-up-{number}")
        eventually("it was asked", lambda before=before: watched.info(daemons).last_switch.number > before)  # type: ignore[misc]
        proxy.cut()
        if watched.info(daemons).last_switch.state == "preparing":
            break
        # It was too quick for a slow test.
        proxy.restore()
        replanning.end().ok()
    proxy.delay_s = 0.0
    return replanning


@pytest.mark.parametrize("killed", SITES)
def test_a_daemon_that_is_killed_amid_it_loses_no_row_and_brings_none_twice(tmp_path: Path, killed: str) -> None:
    with behind_proxy(tmp_path, (join := lasting()).streams, "--speed", "1") as (daemons, proxy):
        watched = Watched(daemons.config, join)
        watched.rows_arrive(daemons)
        replanning = held_up(watched, daemons, proxy)
        number = watched.info(daemons).last_switch.number
        kill(daemons, killed)
        proxy.restore()
        daemons.start(killed).linked()
        replanning.end().failed(1, f"goes on by the plan that it had: site {killed}", "restarted")
        watched.rows_arrive(daemons)
        proxy.delay_s = 0.2
        replanning = watched.replanning(SM_D1, "replan")
        eventually("it goes over", lambda: "goes over to another" in replanning.err or replanning.process.poll())
        kill(daemons, killed)
        proxy.delay_s = 0.0
        daemons.start(killed).linked()
        # Either plan is right; what became of it is told all the same.
        assert replanning.end().code in (0, 1)
        watched.rows_arrive(daemons)
        told = {each["number"]: each["state"] for each in watched.history()}
        assert told[number] == "given up"
        assert all(state in ("switched", "given up") for state in told.values())
        watched.check_rows(daemons)


def kill(daemons: Daemons, site: str) -> None:
    daemons.nodes[site].signal(signal.SIGKILL)
    daemons.nodes[site].process.wait()


def test_what_cannot_be_is_refused_and_a_cut_link_or_ctrl_c_does_not_stop_what_is_under_way(tmp_path: Path) -> None:
    with behind_proxy(tmp_path, (join := lasting()).streams, "--speed", "1") as (daemons, proxy):
        config = daemons.config
        narrows("replan", "alpha-1-99", "--config", config).failed(2, "unknown query 'alpha-1-99' at site alpha")
        narrows("replan", "gamma-1-99", "--config", config).failed(2, "SITE-LIFE-NUMBER")
        with daemons.client("beta") as client:
            by_clock = client.issue(join.text, SP_D, "delta=50ms").query_id
            narrows("replan", by_clock, "--config", config).failed(2, "policy frontier", "got delta")
            client.drop(by_clock)
        watched = Watched(config, join)
        watched.rows_arrive(daemons)
        watched.replan("--algorithm", "SM-X").failed(2, "SM-X")
        replanning = held_up(watched, daemons, proxy)
        status = watched.info(daemons).last_switch
        assert "beta" in status.waiting_for
        eventually("who watches is told", lambda: "beta is away" in replanning.err)
        replanning.signal(signal.SIGINT)
        replanning.end().failed(130, "goes on, and to the other plan too", "narrows status shows how far")
        asked = pb.ReplanRequest(query_id=watched.query_id, plan=pb.IssueRequest(algorithm=SP_S))
        with daemons.client("alpha") as client, pytest.raises(NotNowError, match="it cannot be reached now"):
            client.replan(asked)
        proxy.restore()
        eventually("it went over", lambda: watched.went_over(daemons, status.number))
        watched.check_rows(daemons)
        narrows("replan", watched.query_id, "--config", config).failed(1, "requires for another plan that it runs")


def test_a_query_goes_over_to_copies_in_spark_and_away_from_them(tmp_path: Path) -> None:
    """Only its home has Spark, so what plays by the clock is hurried without starting that again."""
    short = steady(120, 50)
    join = replace(short, left=replace(short.left, site="beta"), right=replace(short.right, site="gamma"))
    config = write_cluster(tmp_path, join.streams, sites=("alpha", "beta", "gamma"), tau="2s")
    spark = ["[site.alpha.spark]", 'master = "local[2]"', "partitions = 2"]
    text = config.read_text().replace("[site.alpha]", '[site.alpha]\nengine = "spark"', 1)
    config.write_text("\n".join([text, *spark, ""]))
    with Daemons(config, arguments=("--speed", "1"), ready_s=240.0).start("alpha", "beta", "gamma").linked() as daemons:
        watched = Watched(config, join, SM_S1)
        watched.rows_arrive(daemons)
        for options in (("--plan", "ship-all"), ("--algorithm", SP_D)):
            assert "runs by the other plan, after" in watched.replan(*options).ok().err
            watched.rows_arrive(daemons)
        status = daemons.status("alpha")
        assert status is not None
        assert status.engine.jobs > 0
        watched.check_rows(daemons, "beta", "gamma")
