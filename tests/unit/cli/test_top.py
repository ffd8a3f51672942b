"""``narrows top``: rates are differences, a site that is gone is said to be, and all fits a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from cli.cluster_file import load_cluster
from cli.commands.top import top
from cli.show.look import Change, Look
from cli.show.screen import brief, drawn
from node.rpc import control_pb2 as pb

SITES = ("frankfurt", "virginia", "singapore")


def status(rows: int, sent: int, found: int, state: str = "up") -> pb.StatusReply:
    return pb.StatusReply(
        site="a",
        streams=[pb.StreamStatus(name="orders", state="reading", rows=rows)],
        links=[pb.LinkStatus(peer="b", state=state, trouble="[no] route", sent_bytes={"keys": sent})],
        queries=[pb.QueryBrief(query_id="b-1-1", state="running", rows=found, plan_brief="o p(SM-D1)")],
        views=[pb.ViewStatus(query_id="b-1-1", alias="o", ship_all_bytes=50_000)],
    )


def shown(change: Change, width: int = 160, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(width=width, file=file).print(drawn("narrows top: cluster shop", change, 100))
    file.seek(0)
    return file.read()


def test_rates_are_what_came_since_the_last_look() -> None:
    change = Change(Look(10.0, {"a": status(1_000, 4_000, 10)}), Look(12.0, {"a": status(3_000, 10_000, 50)}))
    line = brief(change)
    assert "read 3,000 (1,000/s)" in line
    assert "rows 50" in line
    assert "sent 10.0 kB (3.0 kB/s)" in line
    assert "shipping everything 50.0 kB" in line
    screen = shown(change)
    assert "o p(SM-D1)" in screen
    assert "3.0 kB/s" in screen
    assert "20.0 %" in screen


def test_what_a_link_would_carry_is_what_goes_to_the_querys_home() -> None:
    at_home = pb.ViewStatus(query_id="a-1-7", alias="o", ship_all_bytes=9)
    elsewhere = [pb.ViewStatus(query_id="b-1-1", alias="o", ship_all_bytes=size) for size in (30, 4)]
    look = Look(0.0, {"a": pb.StatusReply(site="a", views=[at_home, *elsewhere]), "b": "no daemon answers"})
    assert look.everything == {("a", "b"): 34}


def test_trouble_is_seen() -> None:
    before = Look(1.0, {"a": status(1, 1, 1), "b": "no daemon answers"})
    now = Look(2.0, {"a": status(1, 1, 1, state="down"), "b": "no daemon answers"})
    line = brief(Change(before, now))
    assert "1 of 2 sites  no answer from b" in line
    assert "down: a > b" in line
    screen = shown(Change(before, now))
    assert "no daemon answers" in screen
    assert "site b does not answer" in screen, "in words, too"


def test_a_site_that_comes_back_with_less_does_not_go_backwards() -> None:
    before, now = Look(1.0, {"a": status(9, 900, 9)}), Look(2.0, {"a": status(1, 1, 1)})
    assert "(0 B/s)" in brief(Change(before, now))


def test_a_cluster_that_nobody_answers_for_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('tau = "100ms"\n[site.a]\nlisten = "127.0.0.1:1"\n')
    assert top(load_cluster(path), every_s=0.01, times=2) == 1
    assert capsys.readouterr().out.count("0 of 1 sites  no answer from a") == 2


def test_a_switch_is_seen_with_its_reason_and_both_plans_each_on_its_own_line() -> None:
    under_way = pb.SwitchStatus(
        number=7, state="preparing", why="it is cheaper", before="o(SM-D1) " * 30, after="o(SP-S) " * 30, seconds=3.0
    )
    found = status(1, 1, 1)
    found.queries[0].last_switch.CopyFrom(under_way)
    look = Look(1.0, {"a": found})
    lines = shown(Change(look, look), width=80).splitlines()
    at = [line.strip() for line in lines].index("query b-1-1 prepares for another plan; for 3 s")
    assert lines[at + 1].strip() == "because it is cheaper"
    assert lines[at + 2].startswith("  from o(SM-D1) o(SM-D1)")
    assert lines[at + 3].startswith("  to   o(SP-S) o(SP-S)")
    assert not any("note:" in line for line in lines)
    (row,) = [line for line in lines if line.startswith("b-1-1 ")]
    assert "preparing" in row


def busy(site: str, times: int) -> pb.StatusReply:
    """A site with large figures."""
    peers = [peer for peer in SITES if peer != site]
    query = pb.QueryBrief(
        query_id="singapore-1mhqyjj-12", state="running", rows=123_456 * times, plan_brief="o p " * 40
    )
    return pb.StatusReply(
        site=site,
        streams=[pb.StreamStatus(name="payments", state="reading", rows=12_345_678 * times)],
        links=[
            pb.LinkStatus(
                peer=peer, state="up", rtt_us=214_000, sent_bytes={"keys": 987_600 * times}, backlog_bytes=123_400
            )
            for peer in peers
        ],
        windows=[pb.WindowStatus(nbytes=123_400_000)],
        engine=pb.EngineStatus(name="native"),
        rss_bytes=987_600_000,
        queries=[query] if site == "singapore" else [],
        views=[pb.ViewStatus(query_id="singapore-1mhqyjj-12", alias="p", ship_all_bytes=123_400_000 * times)],
    )


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_three_sites_and_a_query_fit_a_small_terminal(encoding: str) -> None:
    looks = [Look(float(times), {site: busy(site, times) for site in SITES}) for times in (1, 2)]
    lines = shown(Change(*looks), width=80, encoding=encoding).splitlines()
    assert len(lines) <= 24
    assert max(len(line.rstrip()) for line in lines) <= 80
    for site in SITES:
        for peer in SITES:
            assert site == peer or any(line.startswith(f"{site} > {peer} ") for line in lines)
    assert any("246.8 MB" in line and line.startswith("frankfurt > singapore") for line in lines)
