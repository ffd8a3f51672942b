"""What whoever follows a query is told while rows do not come: once, and then rarely."""

from __future__ import annotations

import pytest

from cli.tasks.notices import Notices
from node.client import AwayTooLongError
from node.rpc import control_pb2 as pb


class Told:
    def __init__(self, wait_s: float | None = None) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.notices = Notices(self.lines.append, lambda: self.now_s, wait_s)

    def info(self, away_s: float | None, trouble: str = "", rows: int = 0) -> None:
        away = [] if away_s is None else [pb.AwaySite(site="bow", trouble="refused", seconds=away_s)]
        self.notices.note(pb.QueryInfo(query_id="ash-1", away=away, trouble=trouble), rows)


def test_a_site_that_is_away_is_named_once_and_then_rarely_and_again_when_it_is_back() -> None:
    told = Told()
    told.info(1.0)
    assert told.lines == [], "it may be back at once"
    for second in range(3, 203):
        told.now_s = second
        told.info(float(second))
    assert told.lines[0] == "site bow is away for 3 s (refused); query ash-1 waits for it, nothing is lost"
    assert len(told.lines) == 3
    told.info(None)
    told.info(None)
    assert told.lines[3:] == ["site bow is back: query ash-1 goes on"]


def test_a_site_is_waited_for_no_longer_than_was_asked_for() -> None:
    told = Told(wait_s=10)
    for second in range(10):
        told.now_s = second
        told.info(1000.0 + second)  # it was away long before anybody waited
    told.now_s = 10
    with pytest.raises(AwayTooLongError, match=r"bow is away for 1010 s \(refused\).*waited for it longer than 10 s"):
        told.info(1010.0)


def test_who_gets_rows_does_not_wait_nor_is_a_site_away_that_comes_and_goes() -> None:
    told = Told(wait_s=10)
    for second in range(100):
        told.now_s = second
        told.info(float(second), rows=second // 5)
    for second in range(100, 200):
        told.now_s = second
        told.info(None if second % 5 == 0 else float(second))
    for second in range(200, 300):
        told.now_s = second
        told.info(second % 5)  # it was back between two infos


def test_what_keeps_rows_from_being_stored_is_said_once_while_it_lasts_and_when_it_is_over() -> None:
    told = Told()
    for second in range(20):
        told.now_s = second
        told.info(None, "the disk is full" if second % 2 else "")
    assert told.lines == ["the disk is full"], "also if there is room for moments"
    for second in range(20, 30):
        told.now_s = second
        told.info(None)
    assert told.lines == ["the disk is full", "query ash-1 goes on"]
    told.info(None, "the disk is full")
    assert told.lines[2:] == ["the disk is full"]


def test_a_query_that_recovers_although_all_its_sites_answer_says_for_whom_it_waits() -> None:
    told = Told()
    recovery = pb.RecoveryStatus(reason="site bow: restarted", seconds=1.0)
    info = pb.QueryInfo(query_id="ash-1", state="recovering", recovery=recovery, waiting_for=["bow"])
    told.notices.note(info)
    assert told.lines == [], "it takes a moment"
    info.recovery.seconds = 5.0
    told.notices.note(info)
    told.notices.note(info)
    assert told.lines == ["query ash-1 recovers for 5 s (site bow: restarted): it waits for bow; nothing is lost"]
