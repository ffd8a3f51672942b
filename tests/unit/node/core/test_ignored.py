"""Whatever is set aside is counted under a reason; and walks that wait say who they are and what for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.core.effects import IgnoreReason, NoteIgnored, QueryState
from node.core.events import DropRequested, PeerStateLost, ProbeFinished
from node.core.limits import Limits
from node.core.links.messages import Carry, Rows, Start
from node.core.queries.waiting import Stage, Waiting
from node.core.streams.ticks import TICK_MIN, Span
from planner.model.query import Algorithm
from tests.unit.sites import Cluster

EVERY = pytest.mark.parametrize("algorithm", list(Algorithm))


def running(algorithm: Algorithm = Algorithm.SP_D, limits: Limits | None = None) -> Cluster:
    cluster = Cluster(limits)
    cluster.issue("cam", algorithm)
    cluster.settle()
    return cluster


def unknown_query() -> Cluster:
    cluster = running()
    cluster.say("cam", "ash", Start("zz", 0, None))
    return cluster


def unknown_copy() -> Cluster:
    cluster = running(Algorithm.SP_S)
    cluster.arrive("l", 1, 25)  # a sync is under way ...
    cluster.give("cam", DropRequested("q1"))
    while cluster.mail["cam", "bow"]:
        cluster.deliver("cam", "bow")  # ... to a copy that is closed
    cluster.settle()
    return cluster


def unknown_question() -> Cluster:
    cluster = running(Algorithm.SP_S)
    cluster.arrive("l", 1, 25)
    cluster.arrive("r", 2, 26)
    cluster.settle_mail()
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    return cluster


def walk_over() -> Cluster:
    # Two walks wait for the same batch; the first to go on is too large for a link, which ends the query.
    cluster = running(Algorithm.SM_D1, Limits(shipment_bytes_max=11, news_us=0))
    for ts in ((0, 1, 3, 4, 8, 9, 10), (11, 12, 17, 19, 20), (21, 22, 27, 29, 30)):
        cluster.arrive("l", *ts)
    cluster.settle_mail()
    cluster.arrive("r", 5, 40)
    cluster.settle()
    assert "Carry requires at most 11 bytes" in cluster.reason
    return cluster


def query_ended() -> Cluster:
    cluster = Cluster()
    cluster.issue("cam")
    cluster.deliver("cam", "ash")
    cluster.give("cam", DropRequested("q1"))
    cluster.settle()
    return cluster


def duplicate_walk() -> Cluster:
    cluster = running()
    for _ in range(2):
        cluster.say("ash", "cam", Rows("q1", "a", Span(TICK_MIN, 3), 0, b""))
    return cluster


def other_generation() -> Cluster:
    cluster = running()
    cluster.arrive("l", 1, 25)
    cluster.give("cam", PeerStateLost("ash", "gone"))  # a carry of ash is under way to bow, which is prepared before
    while cluster.mail["cam", "bow"]:
        cluster.deliver("cam", "bow")
    assert isinstance(cluster.mail["ash", "bow"][0], Carry)
    cluster.settle()
    assert cluster.state is QueryState.RUNNING
    return cluster


def unknown_site() -> Cluster:
    cluster = running()
    cluster.sites["ash"].watch_links(["bow"], lambda _: 0)  # cam is not in the configuration any more
    cluster.give("ash", PeerStateLost("bow", "gone"))
    return cluster


CASES: dict[IgnoreReason, Callable[[], Cluster]] = {
    IgnoreReason.UNKNOWN_QUERY: unknown_query,
    IgnoreReason.UNKNOWN_COPY: unknown_copy,
    IgnoreReason.UNKNOWN_QUESTION: unknown_question,
    IgnoreReason.WALK_OVER: walk_over,
    IgnoreReason.QUERY_ENDED: query_ended,
    IgnoreReason.DUPLICATE_WALK: duplicate_walk,
    IgnoreReason.OTHER_GENERATION: other_generation,
    IgnoreReason.UNKNOWN_SITE: unknown_site,
}


@pytest.mark.parametrize("reason", IgnoreReason)
def test_each_reason_is_reached_and_harms_nothing(reason: IgnoreReason) -> None:
    cluster = CASES[reason]()
    assert reason in cluster.ignored
    assert cluster.blamed == []
    notes = [effect for _, effect in cluster.effects if isinstance(effect, NoteIgnored)]
    assert all(note.detail for note in notes)


def test_an_answer_is_taken_once() -> None:
    cluster = running(Algorithm.SP_S)
    cluster.arrive("l", 1, 25)
    cluster.arrive("r", 2, 26)
    cluster.settle_mail()
    site = next(site for site, answers in cluster.answers.items() if answers)
    answer = cluster.answers[site][0]
    assert isinstance(answer, ProbeFinished)
    cluster.settle()
    cluster.give(site, answer)
    assert cluster.ignored == [IgnoreReason.UNKNOWN_QUESTION]


# -- walks that wait --------------------------------------------------------------------------


def waiting_now(cluster: Cluster) -> list[Waiting]:
    return [waiting for site in cluster.sites.values() for waiting in site.waiting()]


@EVERY
def test_a_walk_that_waits_says_which_it_is_and_what_for_in_every_stage(algorithm: Algorithm) -> None:
    cluster = running(algorithm)
    seen: dict[Stage, str] = {}
    cluster.arrive("l", 1, 2, 15, 47, key=1)
    cluster.arrive("r", 3, 16, 35, key=1)
    while any(cluster.mail.values()) or any(cluster.answers.values()):
        for waiting in waiting_now(cluster):
            seen.setdefault(waiting.stage, str(waiting))
            assert str(waiting).startswith(f"q1/0 {waiting.walk.head} {waiting.walk.span} step 0, ")
            assert waiting.cause
            assert waiting.cause in str(waiting)
            assert waiting.since_us == cluster.now_us
        pair = next((pair for pair, mail in cluster.mail.items() if mail), None)
        if pair is not None:
            cluster.deliver(*pair)
        else:
            cluster.answer(next(site for site, answers in cluster.answers.items() if answers))
    expected = {
        Algorithm.SP_S: {Stage.GATE, Stage.ENGINE},
        Algorithm.SP_D: {Stage.GATE, Stage.ENGINE},
        Algorithm.SM_S1: {Stage.GATE, Stage.FIND, Stage.ANSWER, Stage.ENGINE},
        Algorithm.SM_S2: {Stage.GATE, Stage.FETCH, Stage.ENGINE},
        Algorithm.SM_D1: {Stage.GATE, Stage.ENGINE},
        Algorithm.SM_D2: {Stage.GATE, Stage.FIND, Stage.ANSWER, Stage.ENGINE},
    }
    assert set(seen) >= expected[algorithm] - {Stage.GATE}
    cluster.arrive("l", 60, key=1)  # l is ahead of r now, so its walk waits
    cluster.settle()
    for waiting in waiting_now(cluster):
        seen.setdefault(waiting.stage, str(waiting))
    assert set(seen) == expected[algorithm]
    assert "to be sealed" in seen[Stage.GATE]
    assert ": engine " in seen[Stage.ENGINE]
