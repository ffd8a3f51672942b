"""What a peer asks to be kept for it is checked before it is: a filter is computed at the stream's site."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.effects import QueryState
from node.core.events import MessageReceived, PeerStateLost
from node.core.limits import Limits
from node.core.links.messages import Drop, Fence, OpenCopy, Prepare, SetPortion, Start, Sync
from node.core.streams.ticks import TICK_MIN
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.query import Algorithm, Call, ColumnRef, Expr, Literal
from tests.unit.sites import QUERY, Cluster

KEY, N = ColumnRef("l", "key"), ColumnRef("l", "n")
TEN, TEXT = Literal(10, pa.int64()), Literal("x", pa.string())
GOOD = Call(">", (N, TEN), pa.bool_())
FULL = RunningCopy(CopyKind.FULL, "l", (), ("key", "n"), None, CopyAxis.TIME, "ash", "bow")
KEYS = replace(FULL, kind=CopyKind.KEYS, keys=("key",), columns=("key",))
#: Of l, in queries that need a copy of either stream at the other's site.
NEED = 1


def running() -> Cluster:
    """Query q1 runs at ash and bow without any copy. Query zz, which needed one of l at bow, is over at ash."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_D)
    cluster.settle()
    prepare(cluster, "zz")
    cluster.say("cam", "ash", Drop("zz"))
    return cluster


def prepare(cluster: Cluster, query_id: str) -> None:
    """A query that needs full copies is prepared at ash alone."""
    plan = cluster.plan("cam", Algorithm.SP_S)
    cluster.say("cam", "ash", Prepare(query_id, QUERY, "cam", plan.sequences, tuple(cluster.infos.values())))
    cluster.mail["ash", "cam"].clear()
    assert [claim.need.number for claim in cluster.sites["ash"].arrangements.owned.claims] == [NEED]


def nested(depth: int) -> Expr:
    expr: Expr = GOOD
    for _ in range(depth):
        expr = Call("not", (expr,), pa.bool_())
    return expr


WRONG_FILTERS: dict[str, Expr] = {
    "an unknown function": Call("drop_tables", (N, TEN), pa.bool_()),
    "a known function inside an unknown one": Call("and", (GOOD, Call("?", (), pa.bool_())), pa.bool_()),
    "types that do not fit": Call(">", (N, TEXT), pa.bool_()),
    "too few arguments": Call(">", (N,), pa.bool_()),
    "no arguments": Call(">", (), pa.bool_()),
    "a column that is not there": Call(">", (ColumnRef("l", "gone"), TEN), pa.bool_()),
    "a column of another stream": Call(">", (ColumnRef("r", "n"), TEN), pa.bool_()),
    "a number": Call("+", (N, TEN), pa.int64()),
    "a column alone": KEY,
    "a text alone": TEXT,
}


@pytest.mark.parametrize("wrong", list(WRONG_FILTERS))
@pytest.mark.parametrize("spec", [FULL, KEYS], ids=["full", "keys"])
def test_a_filter_that_cannot_be_computed_is_refused_without_harm(wrong: str, spec: RunningCopy) -> None:
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED, 0, replace(spec, filter=WRONG_FILTERS[wrong])))
    ((peer, reason),) = cluster.blamed
    assert peer == "bow"
    assert reason.startswith("a copy of l requires a filter")
    assert len(cluster.sites["ash"].arrangements.owned) == 0
    for stream in ("l", "r"):
        cluster.arrive(stream, 1, 2, ended=True)
    cluster.settle()
    assert cluster.states[-1] == ("q1", QueryState.COMPLETED, "")
    assert cluster.results() == cluster.oracle() != []


WRONG_COPIES: dict[str, tuple[RunningCopy, str]] = {
    "of no stream": (replace(FULL, stream="zz"), "requires a new number and a stream of this site; got 1 of zz"),
    "for somebody else": (replace(FULL, holder="cam"), "requires a new number and a stream of this site"),
    "of somebody else": (replace(FULL, owner="cam"), "a copy of l requires its columns"),
    "of columns that are not there": (replace(FULL, columns=("key", "x")), r"requires its columns.*got \['x'\]"),
    "of a column twice": (replace(FULL, columns=("key", "key")), "each once"),
    "with keys that are not in it": (replace(KEYS, keys=("n",)), "keys among them"),
    "by no keys": (replace(KEYS, keys=()), r"a keys copy of l requires keys; got \(\)"),
    "by keys that it has no use for": (replace(FULL, keys=("key",)), "a full copy of l requires no keys"),
    "by a key twice": (replace(KEYS, keys=("key", "key")), "each once"),
}


@pytest.mark.parametrize("wrong", list(WRONG_COPIES))
def test_a_copy_that_cannot_be_is_refused_without_harm(wrong: str) -> None:
    spec, text = WRONG_COPIES[wrong]
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED, 0, spec))
    ((_, reason),) = cluster.blamed
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(reason)
    assert len(cluster.sites["ash"].arrangements.owned) == 0
    assert cluster.state is QueryState.RUNNING


def test_a_second_copy_for_one_need_is_wrong_and_ends_its_query() -> None:
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_S)
    cluster.settle()
    cluster.say("bow", "ash", OpenCopy("q1", 2, NEED, 0, FULL))
    cluster.settle()
    required = "site ash requires one copy for each need of a query; got copy 2 for need 1 of query q1"
    assert cluster.reason == f"site bow broke the protocol: {required}"
    assert cluster.leftovers() == []


def test_a_copy_is_opened_for_a_query_that_is_over_here_once_and_by_its_holder() -> None:
    """The holder may not have heard of the end, and have lent the copy to others already."""
    cluster = running()
    owned = cluster.sites["ash"].arrangements.owned
    cluster.say("cam", "ash", OpenCopy("zz", 1, NEED, 0, replace(FULL, holder="cam")))
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED + 1, 0, FULL))
    cluster.say("bow", "ash", OpenCopy("nobody's", 1, NEED, 0, FULL))
    assert len(owned) == 0
    assert [peer for peer, _ in cluster.blamed] == ["cam", "bow", "bow"]
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED, 0, FULL))
    assert len(owned) == 1
    cluster.say("bow", "ash", OpenCopy("zz", 2, NEED, 0, FULL))
    assert len(owned) == 1
    assert len(cluster.blamed) == 4
    assert cluster.state is QueryState.RUNNING


@pytest.mark.parametrize("end", ["drop", "lost home"])
def test_a_query_that_is_over_before_its_copy_is_opened_leaves_the_copy_to_its_holder(end: str) -> None:
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_D1)
    for site in ("ash", "bow"):
        cluster.deliver("cam", site)
        cluster.deliver(site, "cam")
    cluster.deliver("cam", "bow")  # the start, and with it an opening is under way
    cluster.give("ash", PeerStateLost("cam", "gone") if end == "lost home" else MessageReceived("cam", Drop("q1")))
    assert isinstance(cluster.deliver("bow", "ash"), OpenCopy)
    assert cluster.blamed == []
    assert len(cluster.sites["ash"].arrangements.owned) == 1


def test_a_copy_is_opened_for_a_later_generation_that_is_over_here() -> None:
    """Seed 122: the fence that says which generation it is for was forgotten with the query, and bow was blamed."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SM_D1)
    cluster.settle()
    cluster.lose_session("cam", "ash")
    cluster.settle_but(("bow", "ash"))
    heard = []
    while not isinstance(cluster.mail["bow", "ash"][0], OpenCopy):
        heard.append(type(cluster.deliver("bow", "ash")))
    assert Fence in heard
    cluster.give("ash", MessageReceived("cam", Drop("q1")))
    assert isinstance(cluster.deliver("bow", "ash"), OpenCopy)
    assert cluster.blamed == []


def test_of_queries_that_are_over_only_so_many_copies_may_be_opened() -> None:
    cluster = Cluster(Limits(news_us=0, unopened_copies_max=2))
    for number in range(4):
        prepare(cluster, f"q{number}")
        cluster.say("cam", "ash", Drop(f"q{number}"))
    for number in range(4):
        cluster.say("bow", "ash", OpenCopy(f"q{number}", number + 1, NEED, 0, FULL))
    assert [copy.number for copy in cluster.sites["ash"].arrangements.owned.all] == [3, 4]
    prepare(cluster, "q4")
    cluster.say("cam", "ash", Drop("q4"))
    cluster.give("ash", PeerStateLost("bow", "restarted"))
    cluster.say("bow", "ash", OpenCopy("q4", 1, NEED, 0, FULL))
    assert len(cluster.sites["ash"].arrangements.owned) == 0, "it cannot know that query"


@pytest.mark.parametrize("depth", [0, 1, 200])
def test_a_filter_that_can_be_computed_is_taken_however_deep(depth: int) -> None:
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED, 0, replace(KEYS, filter=nested(depth))))
    assert cluster.blamed == []
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    cluster.arrive("l", 7, 8, 30, keys=[3, 4, 5])
    assert copy.frontier == 3
    assert copy.status().keys == (2 if depth == 1 else 0)  # n is 0 and 1, and not above ten


def test_a_full_copy_for_which_no_query_is_known_is_sent_nothing_but_how_far_its_stream_is() -> None:
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, NEED, 0, FULL))
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    cluster.arrive("l", 7, 8, 30)
    assert (copy.frontier, copy.tuples) == (3, 0)
    assert cluster.sent(SetPortion, Sync) == [Sync(1, 3, 0, cluster.now_us, b"", b"", b"", b"")]


#: Claimed to fit in a byte, which it does for the first two tuples.
PRODUCT = Call("*", (N, Literal(100, pa.int64())), pa.int8())
FRAGILE = Call("is null", (PRODUCT,), pa.bool_())


def test_a_full_copy_is_sent_what_its_queries_need_whatever_filter_it_was_opened_with() -> None:
    cluster = running()
    prepare(cluster, "q2")
    cluster.say("cam", "ash", Start("q2", TICK_MIN, None))
    cluster.say("bow", "ash", OpenCopy("q2", 7, NEED, TICK_MIN, replace(FULL, filter=FRAGILE)))
    assert cluster.sent(SetPortion) == [SetPortion(7, 0, FULL)]
    cluster.arrive("l", 1, 2, 30)
    cluster.arrive("l", 40)
    cluster.arrive("l", 50)
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    assert copy.tuples == 4
    assert "q2" in cluster.sites["ash"].runs
