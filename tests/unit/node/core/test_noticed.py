"""Bugs that no other test noticed when they were planted (``tests.mutants``): one test for each."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from node.core.arrangements.ordinals import Passing
from node.core.effects import QueryState
from node.core.events import BatchLogged, DropRequested, QueryIssued
from node.core.limits import Limits
from node.core.links.link import Identity, Link
from node.core.links.link_frames import Frame, Kind
from node.core.links.messages import Drop, Message, OpenCopy, Sync, TupleAnswer
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy, looseness, serves, serving
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, Call, ColumnRef, Literal, Policy, PolicyName
from planner.sql.parser import parse_query
from tests.unit.sites import QUERY, TAU_MS, WINDOW_MS, Cluster

# -- links ------------------------------------------------------------------------------------


def test_what_the_peer_has_is_not_sent_again_after_a_cut() -> None:
    limits = Limits(ack_bytes=1_000)
    ash, bow = (
        Link(Identity("c", 100, site, life, b""), peer, limits)
        for site, life, peer in (("ash", 1, "bow"), ("bow", 2, "ash"))
    )

    def meet() -> None:
        theirs, ours = ash.opened(0).frames, bow.opened(0).frames
        exchange(bow, theirs)
        exchange(ash, ours)

    def exchange(receiver: Link, frames: list[Frame]) -> None:
        other = ash if receiver is bow else bow
        for frame in frames:
            exchange(other, receiver.received(frame, 0).frames)

    meet()
    exchange(bow, ash.send(Kind.TUPLES, b"one").frames)
    ash.closed("cut")
    bow.closed("cut")
    meet()
    assert ash.backlog_bytes == 0  # bow said that it has it
    assert bow.duplicates == 0


# -- windows that count -----------------------------------------------------------------------


def test_a_count_behind_a_filter_knows_when_it_cannot_count_that_far() -> None:
    passing = Passing(0)
    passing.append(np.array([2, 4, 6, 8]))
    assert not passing.lacks(5, 3)  # there are two before 5, and there never were more
    passing.forget_before(4)
    assert passing.lacks(5, 2)
    assert not passing.lacks(5, 1)
    assert not passing.lacks(9, 3)


# -- copies that queries share ----------------------------------------------------------------


def test_tuples_that_come_for_a_dropped_query_are_there_for_the_others() -> None:
    #  q1 and q2 share W' of r at ash; bow ships a tuple once, with the answer to q1, which ash has dropped by then
    cluster = Cluster()
    for query_id in ("q1", "q2"):
        cluster.issue("cam", Algorithm.SM_S1, query_id)
        cluster.settle()
    cluster.arrive("r", 5, watermark=20)
    cluster.settle()
    cluster.arrive("l", 15, watermark=20)
    while not cluster.mail["bow", "ash"]:
        cluster.deliver("ash", "bow", len(cluster.mail["ash", "bow"]))
        cluster.answer("bow")
    cluster.answer("bow")
    answers = [message for message in cluster.mail["bow", "ash"] if isinstance(message, TupleAnswer)]
    assert [(answer.query_id, bool(answer.rows)) for answer in answers] == [("q1", True), ("q2", False)]
    cluster.give("cam", DropRequested("q1"))
    while not isinstance(cluster.deliver("cam", "ash"), Drop):
        pass
    cluster.settle()
    assert cluster.results("q1") == []
    assert cluster.results("q2") == [(0, 0)]


def test_what_comes_after_a_sync_that_was_too_large_is_not_sent() -> None:
    #  two batches of r are logged at once: without the first, ash would take the second for all up to its end
    cluster = Cluster(limits=Limits(news_us=0, shipment_bytes_max=100))
    cluster.issue("cam", Algorithm.SP_S)
    cluster.settle()
    cluster.hold_logs = True
    cluster.arrive("r", *range(100), watermark=100, keys=[7919**4 * n % 1_000_003 for n in range(100)])
    cluster.arrive("r", 105, watermark=110)
    logged = [news for news in cluster.log_news["bow"] if isinstance(news, BatchLogged)]
    cluster.log_news["bow"].clear()
    cluster.give("bow", logged[-1])
    assert cluster.sent(Sync, site="bow") == []
    cluster.settle()
    assert cluster.state is QueryState.FAILED


# -- logs -------------------------------------------------------------------------------------


def test_a_log_keeps_what_a_query_may_begin_with_until_it_starts() -> None:
    #  q2 is prepared at bow, which promised what it retains; home hears of that when bow would retain less
    cluster = Cluster(retain_ms=(40, 40))
    cluster.issue("ash", Algorithm.SP_D, "q1")
    cluster.settle()
    for ts in range(0, 100, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, ts, watermark=ts + 10)
            cluster.settle()
    cluster.issue("cam", Algorithm.SP_D, "q2")
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
    promised = cluster.sites["bow"].streams["r"].earliest
    held, cluster.mail["bow", "cam"] = cluster.mail["bow", "cam"], deque()
    for ts in range(100, 200, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, ts, watermark=ts + 10)
            cluster.settle()
    assert cluster.sites["bow"].streams["r"].earliest > promised
    cluster.mail["bow", "cam"] = held
    cluster.settle()
    for stream in ("l", "r"):
        cluster.arrive(stream, 200, ended=True)
        cluster.settle()
    assert ("q2", QueryState.COMPLETED, "") in cluster.states
    assert cluster.results("q2") == cluster.oracle(promised * TAU_MS)


def test_a_log_keeps_what_a_copy_begins_with_until_its_holder_has_opened_it() -> None:
    #  ash -- OpenCopy --> bow  is late: meanwhile the walks of r, which go to ash, are done
    cluster = Cluster()
    query = parse_query(QUERY, cluster.sites["cam"].catalogue)
    plan = forced_plan(query, "cam", {"a": Algorithm.SP_S, "b": Algorithm.SP_D})
    cluster.give("cam", QueryIssued("q1", plan))
    late: deque[Message] = deque()
    for ts in range(-10, 100, 10):
        for stream in ("l", "r"):
            if ts >= 0:
                cluster.arrive(stream, ts, watermark=ts + 10)
            while pair := next((pair for pair, mail in cluster.mail.items() if mail), None):
                if pair == ("ash", "bow"):
                    late.append(cluster.mail[pair].popleft())
                else:
                    cluster.deliver(*pair)
                while any(cluster.answers.values()):
                    cluster.answer(next(site for site, answers in cluster.answers.items() if answers))
    assert isinstance(late[0], OpenCopy)
    cluster.mail["ash", "bow"] = late
    cluster.settle()
    for stream in ("l", "r"):
        cluster.arrive(stream, 100, ended=True)
        cluster.settle()
    assert cluster.state is QueryState.COMPLETED, cluster.reason
    assert cluster.results() == cluster.oracle()


# -- policy delta -----------------------------------------------------------------------------


def test_delta_lets_a_tuple_go_twice_delta_after_it_left_its_window() -> None:
    #  rows look at V after delta, are shipped, and look at the stream's table up to delta later
    cluster = Cluster(policy=Policy(PolicyName.DELTA, 40_000))
    cluster.issue("cam", Algorithm.SM_D1)
    cluster.settle()
    cluster.arrive("r", 5, watermark=120)
    cluster.settle()
    (table,) = cluster.sites["bow"].arrangements.local.of("r")
    # It left the windows of rows from 36 on; the oldest row of a walk is a tick older than the end of its batch.
    assert table.kept_from == 0
    cluster.arrive("r", watermark=130)
    cluster.settle()
    assert table.kept_from == 1


# -- what is done -----------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [Algorithm.SM_D1, Algorithm.SM_S2])
def test_keys_that_nobody_can_ask_for_die_while_the_query_runs(algorithm: Algorithm) -> None:
    cluster = Cluster()
    cluster.issue("cam", algorithm)
    cluster.settle()
    for ts in range(0, 300, 10):
        for stream in ("l", "r"):
            cluster.arrive(stream, ts, watermark=ts + 10, key=ts)
            cluster.settle()
    keys = [copy.keys for site in ("ash", "bow") for copy in cluster.sites[site].copy_statuses()]
    assert len(keys) == 4
    assert max(keys) <= WINDOW_MS // TAU_MS + 2


# -- which copy serves ------------------------------------------------------------------------


def test_of_several_copies_of_keys_that_serve_the_one_that_lets_pass_least_is_used() -> None:
    few = Call("<", (ColumnRef("r", "key"), Literal(5, pa.int64())), pa.bool_())
    exact = RunningCopy(CopyKind.KEYS, "r", ("key",), ("key",), few, CopyAxis.TIME, "bow", "ash")
    wide = replace(exact, filter=None)
    assert serves(wide, exact)
    assert looseness(wide, exact) > 1
    assert serving([wide, exact], exact) == exact
    assert serving([wide], exact) == wide
