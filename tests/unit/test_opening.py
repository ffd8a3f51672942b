"""What a peer asks to be kept for it is checked before it is: a filter is computed at the stream's site."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.effects import QueryState
from node.core.messages import Failed, OpenCopy, Prepare, SetPortion, Start, Sync
from node.core.ticks import TICK_MIN
from planner.algorithms import CopyKind
from planner.copies import CopyAxis, RunningCopy
from planner.model import Algorithm, Call, ColumnRef, Expr, Literal
from tests.unit.sites import QUERY, Cluster

KEY, N = ColumnRef("l", "key"), ColumnRef("l", "n")
TEN, TEXT = Literal(10, pa.int64()), Literal("x", pa.string())
GOOD = Call(">", (N, TEN), pa.bool_())
FULL = RunningCopy(CopyKind.FULL, "l", (), ("key", "n"), None, CopyAxis.TIME, "ash", "bow")
KEYS = replace(FULL, kind=CopyKind.KEYS, keys=("key",), columns=("key",))


def running() -> Cluster:
    """Query q1 runs at ash and bow without any copy."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_D)
    cluster.settle()
    return cluster


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
    cluster.say("bow", "ash", OpenCopy("zz", 1, 0, 0, replace(spec, filter=WRONG_FILTERS[wrong])))
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
    cluster.say("bow", "ash", OpenCopy("zz", 1, 0, 0, spec))
    ((_, reason),) = cluster.blamed
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(reason)
    assert len(cluster.sites["ash"].arrangements.owned) == 0
    assert cluster.state is QueryState.RUNNING


def test_the_same_number_twice_is_wrong_and_ends_the_query_it_is_for() -> None:
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_S)
    cluster.settle()
    cluster.say("bow", "ash", OpenCopy("q1", 1, 0, 0, FULL))
    cluster.settle()
    assert "site bow broke the protocol: a copy requires a new number" in cluster.reason
    assert cluster.leftovers() == []


@pytest.mark.parametrize("depth", [0, 1, 200])
def test_a_filter_that_can_be_computed_is_taken_however_deep(depth: int) -> None:
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, 0, 0, replace(KEYS, filter=nested(depth))))
    assert cluster.blamed == []
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    cluster.arrive("l", 7, 8, 30, keys=[3, 4, 5])
    assert copy.frontier == 3
    assert copy.status().keys == (2 if depth == 1 else 0)  # n is 0 and 1, and not above ten


def test_a_full_copy_for_which_no_query_is_known_is_sent_nothing_but_how_far_its_stream_is() -> None:
    cluster = running()
    cluster.say("bow", "ash", OpenCopy("zz", 1, 0, 0, FULL))
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    cluster.arrive("l", 7, 8, 30)
    assert (copy.frontier, copy.tuples) == (3, 0)
    assert cluster.sent(SetPortion, Sync) == [Sync(1, 3, 0, cluster.now_us, b"", b"", b"", b"")]


def prepared(algorithm: Algorithm) -> tuple[Cluster, int]:
    """Query q1 runs without any copy, q2 is claimed to have begun at ash; and the number of what q2 needs of l."""
    cluster = Cluster()
    cluster.issue("cam", Algorithm.SP_D)
    plan = cluster.plan("cam", algorithm)
    cluster.settle()
    cluster.say("cam", "ash", Prepare("q2", QUERY, "cam", plan.sequences, tuple(cluster.infos.values())))
    cluster.say("cam", "ash", Start("q2", TICK_MIN, None))
    cluster.mail["ash", "cam"].clear()
    (need,) = [claim.need.number for claim in cluster.sites["ash"].arrangements.owned.claims]
    return cluster, need


#: Claimed to fit in a byte, which it does for the first two tuples.
PRODUCT = Call("*", (N, Literal(100, pa.int64())), pa.int8())
FRAGILE = Call("is null", (PRODUCT,), pa.bool_())


def test_a_full_copy_is_sent_what_its_queries_need_whatever_filter_it_was_opened_with() -> None:
    cluster, need = prepared(Algorithm.SP_S)
    cluster.say("bow", "ash", OpenCopy("q2", 7, need, TICK_MIN, replace(FULL, filter=FRAGILE)))
    assert cluster.sent(SetPortion) == [SetPortion(7, 0, FULL)]
    cluster.arrive("l", 1, 2, 30)
    cluster.arrive("l", 40)
    cluster.arrive("l", 50)
    (copy,) = cluster.sites["ash"].arrangements.owned.all
    assert copy.tuples == 4
    assert "q2" in cluster.sites["ash"].runs


def test_a_filter_that_some_tuples_are_too_much_for_ends_those_who_use_its_copy_and_nobody_else() -> None:
    cluster, need = prepared(Algorithm.SM_D1)
    cluster.say("bow", "ash", OpenCopy("q2", 7, need, TICK_MIN, replace(KEYS, filter=FRAGILE)))
    cluster.arrive("l", 1, 2, 30)
    assert "q2" in cluster.sites["ash"].runs
    cluster.arrive("l", 40)
    assert "q2" not in cluster.sites["ash"].runs
    (failed,) = [message for message in cluster.mail["ash", "cam"] if isinstance(message, Failed)]
    assert "the filter of keys copy 7 of l at bow cannot be computed" in failed.reason
    assert cluster.blamed == []
    assert "q1" in cluster.sites["ash"].runs
    before = len(cluster.sent(Sync))
    cluster.arrive("l", 50, 60)  # nothing after a gap
    assert len(cluster.sent(Sync)) == before
