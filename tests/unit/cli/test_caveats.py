"""Whatever is not right with a query's rows is said on standard error, and nothing else."""

from __future__ import annotations

import pytest

from cli.tasks.caveats import caveats, say
from node.rpc import control_pb2 as pb

QUERY = pb.QueryInfo(query_id="ash-1", streams=["orders"])


def status(aside: dict[str, int], file: str = "") -> pb.StatusReply:
    stream = pb.StreamStatus(name="orders", rows=945, aside=sum(aside.values()), aside_by_reason=aside, aside_file=file)
    # Also one that was restarted since, and knows nothing of the query.
    return pb.StatusReply(streams=[stream])


def test_tuples_that_took_no_part_are_said_with_stream_count_reason_and_file() -> None:
    assert caveats(QUERY, {"ash": status({"late": 930, "no event time": 3}, "/data/late/orders.arrows")}) == [
        (
            "933 tuples of orders at ash, of 945, took no part: 930 late, 3 no event time; they are in "
            "/data/late/orders.arrows; a longer lateness takes those that are late"
        )
    ]
    assert caveats(QUERY, {"ash": status({"ahead of the clock": 1}, "f")}) == [
        "1 tuple of orders at ash, of 945, took no part: 1 ahead of the clock; they are in f"
    ]


def test_streams_of_other_queries_are_left_out() -> None:
    assert caveats(pb.QueryInfo(query_id="ash-2", streams=["clicks"]), {"ash": status({"late": 930})}) == []
    assert caveats(QUERY, {"ash": status({})}) == []


def test_rows_that_policy_delta_may_have_got_wrong_are_said() -> None:
    def probes(early: int, late: int) -> pb.StatusReply:
        return pb.StatusReply(probes=[pb.ProbeStatus(query_id="q", delta_us=250_000, early=early, late=late)])

    assert caveats(pb.QueryInfo(query_id="q"), {"ash": probes(1, 2), "bow": probes(1_000, 0)}) == [
        (
            "policy delta: rows may be wrong. A delay was longer than delta, 250 ms: 1,001 probes came too early, "
            "2 too late; a larger delta, or --policy frontier, which never is wrong"
        )
    ]
    assert caveats(pb.QueryInfo(query_id="q"), {"ash": probes(0, 0)}) == []
    assert caveats(pb.QueryInfo(query_id="other"), {"ash": probes(1, 2)}) == []


def test_they_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say(["a", "b"])
    assert capsys.readouterr() == ("", "narrows: a\nnarrows: b\n")
