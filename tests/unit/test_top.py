"""``narrows top``: rates are differences, and a site that is gone is said to be."""

from __future__ import annotations

from rich.console import Console

from cli.top import Look, brief, drawn
from node.rpc import control_pb2 as pb


def status(rows: int, sent: int, found: int, state: str = "up") -> pb.StatusReply:
    return pb.StatusReply(
        site="a",
        streams=[pb.StreamStatus(name="orders", state="reading", rows=rows)],
        links=[pb.LinkStatus(peer="b", state=state, trouble="[no] route", sent_bytes={"keys": sent})],
        queries=[pb.QueryBrief(query_id="a-1", state="running", rows=found, plan_brief="o p(SM-D1)")],
        views=[pb.ViewStatus(query_id="a-1", alias="o", ship_all_bytes=50_000)],
    )


def shown(now: Look, before: Look) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(drawn("shop", now, before))
    return console.export_text()


def test_rates_are_what_came_since_the_last_look() -> None:
    before = Look(10.0, {"a": status(1_000, 4_000, 10)})
    now = Look(12.0, {"a": status(3_000, 10_000, 50)})
    line = brief(now, before)
    assert "read 3,000 (1,000/s)" in line
    assert "rows 50" in line
    assert "sent 10.0 kB (3.0 kB/s)" in line
    assert "shipping everything 50.0 kB" in line
    screen = shown(now, before)
    assert "o p(SM-D1)" in screen
    assert "3.0 kB/s" in screen


def test_trouble_is_seen() -> None:
    before = Look(1.0, {"a": status(1, 1, 1), "b": "no daemon answers"})
    now = Look(2.0, {"a": status(1, 1, 1, state="down"), "b": "no daemon answers"})
    assert "1 of 2 sites  no answer from b" in brief(now, before)
    screen = shown(now, before)
    assert "no daemon answers" in screen
    assert "down [no] route" in screen


def test_a_site_that_comes_back_with_less_does_not_go_backwards() -> None:
    before, now = Look(1.0, {"a": status(9, 900, 9)}), Look(2.0, {"a": status(1, 1, 1)})
    assert "(0 B/s)" in brief(now, before)
