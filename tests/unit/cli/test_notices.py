"""What whoever follows a query is told while rows do not come: once, and then rarely."""

from __future__ import annotations

from cli.tasks.notices import Notices
from node.rpc import control_pb2 as pb


class Told:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.notices = Notices(self.lines.append, lambda: self.now_s)

    def info(self, away_s: float | None, trouble: str = "") -> None:
        away = [] if away_s is None else [pb.AwaySite(site="bow", trouble="refused", seconds=away_s)]
        self.notices.note(pb.QueryInfo(query_id="ash-1", away=away, trouble=trouble))


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
