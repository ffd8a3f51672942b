"""Bugs that no other test noticed when they were planted (``tests.mutants``): one test for each."""

from __future__ import annotations

import numpy as np

from node.core.arrangements.ordinals import Passing
from node.core.events import DropRequested
from node.core.limits import Limits
from node.core.link import Frame, Identity, Kind, Link
from node.core.messages import Drop, TupleAnswer
from planner.model import Algorithm
from tests.unit.sites import Cluster

# -- links ------------------------------------------------------------------------------------


def test_what_the_peer_has_is_not_sent_again_after_a_cut() -> None:
    limits = Limits(ack_bytes=1_000)
    ash, bow = (
        Link(Identity("c", 100, site, session, b""), peer, limits)
        for site, session, peer in (("ash", 1, "bow"), ("bow", 2, "ash"))
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
