"""A query goes over to a better plan by itself when what it was planned by is not true any more; rows stay exact."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from node.rpc import control_pb2 as pb
from tests.e2e.cases import table
from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    assert_same_rows,
    eventually,
    issued,
    narrows,
    write_cluster,
)
from tests.e2e.proxy import behind_proxy

SITES = ("alpha", "beta")
RATE, FLIP_S, LENGTH_S = 200, 15, 150


def flipping(flip_s: float = FLIP_S) -> Join:
    """Each tuple of one stream finds one of the other, for a while; from then on next to none does."""
    random = np.random.default_rng(15)
    rows = RATE * LENGTH_S
    ts = np.arange(rows) * 1000 // RATE
    notes = ["".join(map(chr, random.integers(97, 123, 80))) for _ in range(rows)]
    strange = (ts >= 1000 * flip_s) & (np.arange(rows) % 50 > 0)
    left = Stream("flip_l", table(ts.tolist(), np.arange(rows), note=notes), "alpha")
    right = Stream("flip_r", table(ts.tolist(), np.arange(rows) + strange * 10**9, note=notes[::-1]), "beta")
    select = [("l", "seq", "a"), ("r", "seq", "b"), ("l", "note", "c"), ("r", "note", "d")]
    return Join(left, right, windows=("1 SECONDS", "1 SECONDS"), select=select)


def fallen(switch: pb.SwitchStatus) -> pb.SwitchStatus | None:
    """The switch, if it was made because fewer tuples match than before."""
    told = re.match(r"flip_[lr] now matches ([0-9.]+) % of flip_[lr], ([0-9.]+) % when planned: ", switch.why)
    return switch if told and float(told[1]) < float(told[2]) and switch.state == "switched" else None


def test_a_query_whose_match_rate_falls_goes_over_to_another_plan_by_itself(tmp_path: Path) -> None:
    join = flipping()
    config = write_cluster(tmp_path, join.streams, planner={"epoch": "20"})
    out = tmp_path / "rows.parquet"
    with Daemons(config, arguments=("--speed", "2")).start(*SITES).linked() as daemons:
        asked = ("query", "--config", config, "--at", "alpha", join.text, "--plan", "auto", "--from", "start")
        following = Background(*asked, "--out", out, name="query", folder=tmp_path)
        query_id = issued(following)
        # What it was planned by is the recording's beginning, of both phases: so it may have gone over before.
        switch = eventually("it goes over to another plan", lambda: fallen(daemons.query_info(query_id).last_switch))
        assert switch is not None
        explained = json.loads(narrows("explain", query_id, "--config", config, "--json").ok().out)
        (change,) = [each for each in explained["switches"] if each["number"] == switch.number]
        assert change["expected_bytes_per_s"]["to"] < change["expected_bytes_per_s"]["from"]
        assert "a better plan is looked for every 2 s" in explained["adaptive"]
        daemons.hurry()
        following.end().ok()
    assert_same_rows(pq.read_table(out), join.expected())


def links(daemons: Daemons, query_id: str) -> list[str]:
    """Those that the plan of a query of gamma uses."""
    status = daemons.status("gamma")
    assert status is not None
    return [link for brief in status.queries if brief.query_id == query_id for link in brief.links]


def test_a_link_between_two_sites_that_is_cut_for_long_is_avoided_and_no_row_waits_for_it(tmp_path: Path) -> None:
    """Few tuples match, so those of alpha and beta meet at one of these; by gamma they can meet too."""
    join, epoch = flipping(flip_s=0), {"epoch": "20"}
    with behind_proxy(tmp_path, join.streams, "--speed", "1", sites=(*SITES, "gamma"), planner=epoch) as behind:
        daemons, proxy = behind
        asked = ("query", "--config", daemons.config, "--at", "gamma", join.text, "--plan", "auto", "--from", "start")
        out = tmp_path / "rows.parquet"
        following = Background(*asked, "--out", out, name="query", folder=tmp_path)
        query_id = issued(following)
        eventually("rows come", lambda: daemons.query_info(query_id).rows)
        assert "alpha-beta" in links(daemons, query_id)
        proxy.cut()
        why = "the link alpha-beta is cut"
        eventually("it goes on without", lambda: why in daemons.query_info(query_id).last_switch.why)
        before = daemons.query_info(query_id).rows
        eventually("rows come", lambda: daemons.query_info(query_id).rows > before)
        assert "alpha-beta" not in links(daemons, query_id)
        assert "link alpha-beta is down" in narrows("status", "--config", daemons.config).ok().out
        proxy.restore()
        daemons.linked().hurry()
        following.end().ok()
    assert_same_rows(pq.read_table(out), join.expected())


def test_a_plan_that_is_named_stays(tmp_path: Path) -> None:
    join = flipping()
    config = write_cluster(tmp_path, join.streams, planner={"epoch": "20"})
    with Daemons(config, arguments=("--speed", "1")).start(*SITES).linked():
        query = ("query", "--config", config, "--at", "alpha", join.text, "--detach")
        for options, adaptive in ((("--algorithm", "SP-D"), False), (("--plan", "auto"), True)):
            query_id = narrows(*query, *options).ok().out.strip()
            document = json.loads(narrows("explain", query_id, "--config", config, "--json").ok().out)
            assert (document["adaptive"] != "no, this plan stays") == adaptive
        for option, adaptive in (("--adaptive", True), ("--no-adaptive", False)):
            query_id = narrows(*query, "--plan", "ship-all" if adaptive else "auto", option).ok().out.strip()
            document = json.loads(narrows("explain", query_id, "--config", config, "--json").ok().out)
            assert (document["adaptive"] != "no, this plan stays") == adaptive
        replan = ("replan", query_id, "--config", config)
        for words, adaptive in (("--algorithm SP-D", False), ("--algorithm SM-S1 --adaptive", True)):
            narrows(*replan, *words.split()).ok()
            document = json.loads(narrows("explain", query_id, "--config", config, "--json").ok().out)
            assert (document["adaptive"] != "no, this plan stays") == adaptive
