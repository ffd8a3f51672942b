"""Estimates against counts: of small streams everything can be counted by brute force."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from planner.estimate.estimator import Estimator
from planner.estimate.statistics import Statistics, StreamProfile
from planner.model.query import Call, ColumnRef, Literal, RowsWindow
from planner.model.selectivity import selectivity
from tests.unit.streams import SPAN_S, Made, made, query_of, range_s, statistics_of


def _seen(head: Made, other: Made, key: str, other_key: str, window_s: float) -> list[list[int]]:
    """For each tuple of the head, the tuples of the other stream in the window before it with the same key."""
    found = []
    for at, value in zip(head.ts, head.keys[key], strict=True):
        inside = (other.ts <= at) & (other.ts >= at - window_s * 1000) & (other.keys[other_key] == value)
        found.append(np.flatnonzero(inside).tolist())
    return found


def _steady(head: Made, window_s: float) -> slice:
    """Without the beginning, when windows are not yet full."""
    return slice(int(np.searchsorted(head.ts, window_s * 1000)), None)


@pytest.mark.parametrize("domain", [10, 300, 20_000])
@pytest.mark.parametrize("timed", [True, False])
def test_rows_and_matches_of_even_keys_are_those_counted(domain: int, timed: bool) -> None:
    random = np.random.default_rng(domain)
    streams = {
        "a": made(random, 4_000, {"k": (0, domain)}),
        "b": made(random, 6_000, {"k": (domain // 2, domain + domain // 2)}),
    }
    query = query_of(streams, {"a": range_s(10), "b": range_s(5)}, [("a.k", "b.k")])
    estimator = Estimator(query, statistics_of(query, streams, timed=timed))
    seen = _seen(streams["a"], streams["b"], "k", "k", 5)[_steady(streams["a"], 5)]
    counted_rows, matching = sum(map(len, seen)), sum(map(bool, seen))
    join = estimator.join(0, 0b01, 1)
    seconds = SPAN_S - 5
    assert join.rows_out * seconds == pytest.approx(counted_rows, rel=0.15, abs=20)
    assert join.match == pytest.approx(matching / len(seen), rel=0.15, abs=0.005)
    assert estimator.carry(0, 0b11).heads * seconds == pytest.approx(matching, rel=0.15, abs=20)


@pytest.mark.parametrize(("domain", "window_s"), [(50, 5), (3_000, 20), (100_000, 20)])
def test_keys_that_come_to_a_window_are_those_counted(domain: int, window_s: int) -> None:
    random = np.random.default_rng(domain)
    streams = {name: made(random, 5_000, {"k": (0, domain)}) for name in "ab"}
    query = query_of(streams, dict.fromkeys("ab", range_s(window_s)), [("a.k", "b.k")])
    estimator = Estimator(query, statistics_of(query, streams))
    last: dict[int, int] = {}
    born = 0
    for at, key in zip(streams["b"].ts.tolist(), streams["b"].keys["k"].tolist(), strict=True):
        if at >= window_s * 1000:
            born += key not in last or at - last[key] > window_s * 1000
        last[key] = at
    assert estimator.keys(1, ("k",)).born * (SPAN_S - window_s) == pytest.approx(born, rel=0.2, abs=30)
    alive = len(set(streams["b"].keys["k"][streams["b"].ts > (SPAN_S - window_s) * 1000].tolist()))
    assert estimator.keys(1, ("k",)).alive == pytest.approx(alive, rel=0.15)


@pytest.mark.parametrize("domain", [300, 20_000])
def test_a_copy_of_keys_lets_pass_what_left_the_window_a_little_while_ago(domain: int) -> None:
    """Keys stay in a copy until it is known that nobody looks: for a second and two batches of a second."""
    random = np.random.default_rng(domain)
    streams = {name: made(random, 6_000, {"k": (0, domain)}) for name in "ab"}
    query = query_of(streams, {"a": range_s(10), "b": range_s(2)}, [("a.k", "b.k")])
    estimator = Estimator(query, statistics_of(query, streams))
    seen = _seen(streams["a"], streams["b"], "k", "k", 2 + 3)[_steady(streams["a"], 5)]
    join = estimator.join(0, 0b01, 1)
    assert join.match_kept == pytest.approx(sum(map(bool, seen)) / len(seen), rel=0.15, abs=0.005)
    assert join.match < 0.75 * join.match_kept
    longer = Estimator(query_of(streams, {"a": range_s(10), "b": range_s(5)}, [("a.k", "b.k")]), estimator.statistics)
    assert estimator.kept_keys(1, ("k",)) == longer.keys(1, ("k",)) != estimator.keys(1, ("k",))


@pytest.mark.parametrize("domain", [40, 2_000])
def test_different_keys_of_batches_and_tuples_asked_for_are_those_counted(domain: int) -> None:
    random = np.random.default_rng(domain)
    streams = {"a": made(random, 4_000, {"k": (0, domain)}), "b": made(random, 3_000, {"k": (0, 2 * domain)})}
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    join = Estimator(query, statistics_of(query, streams)).join(0, 0b01, 1)
    batches = streams["a"].ts // 1000
    asked = len(set(zip(batches.tolist(), streams["a"].keys["k"].tolist(), strict=True)))
    assert join.keys * SPAN_S == pytest.approx(asked, rel=0.1)
    sent = {place for found in _seen(streams["a"], streams["b"], "k", "k", 10) for place in found}
    assert join.reduced_share == pytest.approx(len(sent) / 3_000, rel=0.15)
    assert join.reduced_share <= join.mixed_share <= 1


def test_keys_that_live_for_a_moment_are_not_taken_for_rare() -> None:
    """Four gateways hear the same frames, each frame once and within a second: independent they are not."""
    random = np.random.default_rng(8)
    frames = np.sort(random.integers(0, SPAN_S * 1000 - 1000, 3_000))
    streams = {}
    for name, share in zip("abcd", (1.0, 0.6, 0.5, 0.3), strict=True):
        heard = np.flatnonzero(random.random(len(frames)) < share)
        ts = frames[heard] + random.integers(0, 1000, len(heard))
        order = np.argsort(ts, kind="stable")
        streams[name] = Made(ts[order], {"k": heard[order]})
    query = query_of(streams, dict.fromkeys("abcd", range_s(3)), [("a.k", "b.k"), ("b.k", "c.k"), ("c.k", "d.k")])
    estimator = Estimator(query, statistics_of(query, streams))
    # Heard by all four: whichever came last found the other three.
    everywhere = set.intersection(*(set(stream.keys["k"].tolist()) for stream in streams.values()))
    rows = sum(estimator.rows(head, 0b1111) for head in range(4)) * SPAN_S
    assert rows == pytest.approx(len(everywhere), rel=0.1)
    # Independence would say that a share of 0.3 of 0.5 of 0.6 of all pairs of frames and windows match.
    uniform = Estimator(query, statistics_of(query, streams, timed=False))
    assert sum(uniform.rows(head, 0b1111) for head in range(4)) * SPAN_S < 0.1 * len(everywhere)


def test_a_chain_over_different_keys_multiplies() -> None:
    random = np.random.default_rng(5)
    streams = {
        "a": made(random, 1_000, {"x": (0, 50)}),
        "b": made(random, 1_500, {"x": (0, 50), "y": (0, 30)}),
        "c": made(random, 2_000, {"y": (0, 60)}),
    }
    query = query_of(streams, dict.fromkeys("abc", range_s(10)), [("a.x", "b.x"), ("b.y", "c.y")])
    estimator = Estimator(query, statistics_of(query, streams))
    seen = _seen(streams["a"], streams["b"], "x", "x", 10)
    rows = 0
    for at, places in list(zip(streams["a"].ts, seen, strict=True))[_steady(streams["a"], 10)]:
        inside = (streams["c"].ts <= at) & (streams["c"].ts >= at - 10_000)
        keys = streams["c"].keys["y"][inside]
        rows += sum(int((keys == streams["b"].keys["y"][place]).sum()) for place in places)
    assert estimator.rows(0, 0b111) * (SPAN_S - 10) == pytest.approx(rows, rel=0.1)


def test_what_is_expected_depends_on_the_set_and_not_on_the_order() -> None:
    random = np.random.default_rng(6)
    streams = {name: made(random, 1_000, {"k": (0, 100)}) for name in "abcd"}
    query = query_of(streams, dict.fromkeys("abcd", range_s(10)), [("a.k", "b.k"), ("a.k", "c.k"), ("a.k", "d.k")])
    statistics = statistics_of(query, streams)
    forward, backward = Estimator(query, statistics), Estimator(query, statistics)
    for joined, following in ((0b0001, 1), (0b0011, 2), (0b0111, 3)):
        forward.join(0, joined, following)
    for joined, following in ((0b0001, 3), (0b1001, 2), (0b1101, 1)):
        backward.join(0, joined, following)
    assert forward.carry(0, 0b1111) == backward.carry(0, 0b1111)


def test_a_key_of_two_columns_that_go_together_is_not_two_independent_ones() -> None:
    random = np.random.default_rng(9)
    streams = {}
    for name in "ab":
        stream = made(random, 3_000, {"x": (0, 40)})
        streams[name] = Made(stream.ts, {"x": stream.keys["x"], "y": stream.keys["x"] * 7})
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.x", "b.x"), ("a.y", "b.y")])
    statistics = statistics_of(query, streams)
    rows = sum(map(len, _seen(streams["a"], streams["b"], "x", "x", 10)[_steady(streams["a"], 10)]))
    assert Estimator(query, statistics).rows(0, 0b11) * (SPAN_S - 10) == pytest.approx(rows, rel=0.1)
    single = {
        alias: StreamProfile(
            profile.rows,
            profile.span_us,
            profile.batch_rows,
            profile.column_bytes,
            {names: sketch for names, sketch in profile.keys.items() if len(names) == 1},
        )
        for alias, profile in statistics.profiles.items()
    }
    alone = Estimator(query, Statistics(statistics.tau_us, single, {}))
    assert alone.rows(0, 0b11) < Estimator(query, statistics).rows(0, 0b11) / 10


def test_a_count_window_is_as_long_as_its_tuples_take() -> None:
    random = np.random.default_rng(2)
    streams = {name: made(random, 2_000, {"k": (0, 100)}) for name in "ab"}
    timed = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    counted = query_of(streams, dict.fromkeys("ab", RowsWindow(100)), [("a.k", "b.k")])
    rows = [Estimator(query, statistics_of(query, streams)).rows(0, 0b11) for query in (timed, counted)]
    assert rows[1] == pytest.approx(rows[0], rel=0.01)


def test_nothing_in_common_is_not_taken_for_nothing_at_all() -> None:
    random = np.random.default_rng(2)
    streams = {"a": made(random, 1_000, {"k": (0, 100)}), "b": made(random, 1_000, {"k": (500, 600)})}
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    join = Estimator(query, statistics_of(query, streams)).join(0, 0b01, 1)
    assert 0 < join.rows_out <= 2 / SPAN_S * 5
    assert 0 < join.match < 0.01


def test_a_residual_is_guessed_where_its_streams_meet() -> None:
    random = np.random.default_rng(2)
    streams = {name: made(random, 1_000, {"k": (0, 100)}) for name in "abc"}
    less = Call("<", (ColumnRef("a", "k"), ColumnRef("c", "k")), pa.bool_())
    windows = dict.fromkeys("abc", range_s(10))
    edges = [("a.k", "b.k"), ("b.k", "c.k")]
    plain, asked = (query_of(streams, windows, edges, residuals=residuals) for residuals in ((), (less,)))
    without, with_it = (Estimator(query, statistics_of(query, streams)) for query in (plain, asked))
    assert with_it.rows(0, 0b011) == without.rows(0, 0b011)
    assert with_it.rows(0, 0b111) == pytest.approx(without.rows(0, 0b111) / 3)
    # A match is by keys: what the predicate drops is dropped after tuples were sent.
    assert with_it.join(0, 0b011, 2).match == pytest.approx(without.join(0, 0b011, 2).match)


def test_streams_of_which_no_keys_are_known_are_estimated_all_the_same() -> None:
    random = np.random.default_rng(2)
    streams = {name: made(random, 1_000, {"k": (0, 100)}) for name in "ab"}
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    known = statistics_of(query, streams)
    bare = {
        alias: StreamProfile(profile.rows, profile.span_us, profile.batch_rows, profile.column_bytes, {})
        for alias, profile in known.profiles.items()
    }
    join = Estimator(query, Statistics(known.tau_us, bare, {})).join(0, 0b01, 1)
    assert 0 < join.match <= 1
    assert 0 < join.rows_out < 5 * 50


def test_guesses_follow_the_logic_of_a_predicate() -> None:
    less = Call("<", (ColumnRef("a", "k"), ColumnRef("b", "k")), pa.bool_())
    like = Call("like", (ColumnRef("a", "v"), Literal("x%", pa.string())), pa.bool_())
    assert selectivity(less) == pytest.approx(1 / 3)
    assert selectivity(Call("and", (less, like), pa.bool_())) == pytest.approx(1 / 30)
    assert selectivity(Call("or", (less, like), pa.bool_())) == pytest.approx(1 - 2 / 3 * 0.9)
    assert selectivity(Call("not", (like,), pa.bool_())) == pytest.approx(0.9)
    values = tuple(Literal(value, pa.int64()) for value in range(3))
    assert selectivity(Call("in", (ColumnRef("a", "k"), *values), pa.bool_())) == pytest.approx(0.3)
    assert selectivity(Call("is null", (ColumnRef("a", "k"),), pa.bool_())) == pytest.approx(0.05)
