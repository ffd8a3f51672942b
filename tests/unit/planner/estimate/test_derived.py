"""What is expected of a kept join, against what it is: of small streams everything can be counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from planner.estimate.derived import TIMES_STORED, KeptRows, inner_statistics, kept_rows, outer_statistics
from planner.estimate.estimator import Estimator
from planner.estimate.statistics import Statistics
from planner.model.constants import EVENT_TIME
from planner.model.kept import inner_query, outer_query
from planner.model.query import JoinQuery, KeptJoin
from tests.unit.streams import SPAN_S, Made, made, query_of, range_s, statistics_of

JOIN = KeptJoin("a_b", ("a", "b"), "a", ())
WINDOWS_S = {"a": 6.0, "b": 3.0, "c": 8.0}
EDGES = [("a.k", "b.k"), ("b.j", "c.j")]


def chain(domain: int = 40, seed: int = 1) -> tuple[dict[str, Made], JoinQuery]:
    random = np.random.default_rng(seed)
    streams = {
        "a": made(random, 2_000, {"k": (0, domain)}),
        "b": made(random, 1_000, {"k": (0, domain), "j": (0, 100)}),
        "c": made(random, 3_000, {"j": (50, 150)}),
    }
    return streams, query_of(streams, {alias: range_s(length) for alias, length in WINDOWS_S.items()}, EDGES)


def pairs(streams: dict[str, Made]) -> NDArray[np.int64]:
    """All rows of the kept join, found one by one: the places of their tuples of a and b."""
    a, b = streams["a"], streams["b"]
    later_b = (b.ts[None, :] >= a.ts[:, None]) & (a.ts[:, None] >= b.ts[None, :] - 1000 * WINDOWS_S["a"])
    later_a = (a.ts[:, None] > b.ts[None, :]) & (b.ts[None, :] >= a.ts[:, None] - 1000 * WINDOWS_S["b"])
    equal = a.keys["k"][:, None] == b.keys["k"][None, :]
    return np.argwhere(equal & (later_a | later_b))


def expected(streams: dict[str, Made], query: JoinQuery, join: KeptJoin = JOIN) -> tuple[KeptRows, Statistics]:
    """Of the kept join, and what the rest of the query is planned by."""
    statistics, outer = statistics_of(query, streams), outer_query(query, (join,))
    rows = kept_rows(Estimator(query, statistics), join, outer)
    return rows, outer_statistics(statistics, outer, {join.name: rows.profile})


@pytest.mark.parametrize("domain", [10, 40, 4_000])
def test_rows_a_second_are_those_counted(domain: int) -> None:
    streams, query = chain(domain)
    rows, _ = expected(streams, query)
    assert rows.profile.rate == pytest.approx(len(pairs(streams)) / SPAN_S, rel=0.15, abs=0.1)
    assert rows.window_s == WINDOWS_S["b"], "the shortest"


@pytest.mark.parametrize("domain", [1_000, 4_000])
def test_the_keys_by_which_others_look_into_it_are_those_counted(domain: int) -> None:
    """Of a key that its other stream does not know: rows have the keys of the tuples of b that are in them."""
    streams, query = chain(domain)
    outer = outer_query(query, (JOIN,))
    _, statistics = expected(streams, query)
    found = pairs(streams)
    newest = np.maximum(streams["a"].ts[found[:, 0]], streams["b"].ts[found[:, 1]])
    keys = streams["b"].keys["j"][found[:, 1]]
    moments = np.arange(10_000, 1000 * SPAN_S, 5_000)
    alive = [len(np.unique(keys[(newest <= at) & (newest > at - 1000 * WINDOWS_S["b"])])) for at in moments]
    estimator = Estimator(outer, statistics)
    assert estimator.keys(0, ("b.j",)).alive == pytest.approx(np.mean(alive), rel=0.2, abs=0.3)


@pytest.mark.parametrize("domain", [10, 40, 4_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_rest_of_the_query_has_as_many_rows_as_the_query(domain: int, seed: int) -> None:
    """Rows that c finds are fewer than there are pairs in the window: older parts of pairs are not seen any more."""
    streams, query = chain(domain, seed)
    asked = Estimator(query, statistics_of(query, streams))
    rows, statistics = expected(streams, query)
    outer = Estimator(outer_query(query, (JOIN,)), statistics)
    assert rows.profile.visible is not None
    assert 0.2 < rows.profile.visible < 0.9
    assert outer.rows(1, 0b11) == pytest.approx(asked.rows(2, 0b111), rel=0.15, abs=0.01)
    whole = sum(asked.rows(head, 0b111) for head in range(3))
    assert sum(outer.rows(head, 0b11) for head in range(2)) == pytest.approx(whole, rel=0.15, abs=0.02)


def test_batches_that_have_rows_are_those_counted() -> None:
    """All that a tuple finds comes at once."""
    random = np.random.default_rng(2)
    streams, query = chain(4_000)
    streams["a"] = made(random, 200, {"k": (0, 4_000)})
    streams["b"] = Made(streams["b"].ts, {**streams["b"].keys, "k": streams["b"].keys["k"] // 400 * 400})
    streams["a"] = Made(streams["a"].ts, {"k": streams["a"].keys["k"] // 400 * 400})
    found = pairs(streams)
    newest = np.maximum(streams["a"].ts[found[:, 0]], streams["b"].ts[found[:, 1]])
    _, statistics = expected(streams, query)
    outer = Estimator(outer_query(query, (JOIN,)), statistics)
    assert outer.carry(0, 0b01).batches * SPAN_S == pytest.approx(len(np.unique(newest // 1000)), rel=0.2)


def test_what_is_joined_by_one_key_is_known_key_by_key() -> None:
    """Things that a, b and c see within a moment, and much that each sees alone: independent they are not."""
    random = np.random.default_rng(8)
    seen = np.sort(random.integers(0, SPAN_S * 1000 - 1000, 400))
    streams = {}
    for number, name in enumerate("abc"):
        ts = np.concatenate([seen + random.integers(0, 500, len(seen)), random.integers(0, SPAN_S * 1000, 2_000)])
        own = 10_000 * (number + 1) + np.arange(2_000)
        order = np.argsort(ts, kind="stable")
        streams[name] = Made(ts[order], {"k": np.concatenate([np.arange(len(seen)), own])[order]})
    query = query_of(streams, dict.fromkeys("abc", range_s(3)), [("a.k", "b.k"), ("b.k", "c.k")])
    rows, statistics = expected(streams, query)
    assert rows.profile.rate * SPAN_S == pytest.approx(len(seen), rel=0.1)
    assert rows.profile.visible == pytest.approx(1.0, abs=0.25), "what is seen at once goes at once"
    outer = Estimator(outer_query(query, (JOIN,)), statistics)
    assert sum(outer.rows(head, 0b11) for head in range(2)) * SPAN_S == pytest.approx(len(seen), rel=0.25)
    assert outer.join(0, 0b01, 1).match == pytest.approx(2 / 3, abs=0.25), "the last of three is c as often as another"


def test_values_of_what_was_found_last_repeat_and_older_times_cost_more() -> None:
    streams, query = chain(10)
    rows, _ = expected(streams, query)
    sizes = rows.profile.column_bytes
    assert set(sizes) == {EVENT_TIME, *outer_query(query, (JOIN,)).ref("a_b").stream.schema.names}
    assert sizes["a.v"] < 20.0, "a tuple of a finds several of b at once"
    assert sizes[EVENT_TIME] < sizes["a@time"] <= 2.0, "any of six thousand milliseconds: 13 bits"
    alone, few = expected(*chain(40_000))[0].profile.column_bytes, sizes
    assert alone["a.v"] == pytest.approx(20.0, rel=0.05)
    assert alone["a.v"] > few["a.v"]


def test_what_it_takes_at_its_site_is_what_its_window_has_twice() -> None:
    streams, query = chain()
    rows, _ = expected(streams, query)
    # ts, two times of components, the key j; of two texts at least their compressed sizes.
    least, most = 4 * 8 + 2 * 8, 4 * 8 + 2 * 3 * 20
    kept = TIMES_STORED * rows.profile.rate * WINDOWS_S["b"]
    assert kept * least < rows.stored_bytes < 2.5 * kept * most


def test_a_join_that_finds_nothing_is_expected_to_find_little() -> None:
    streams, query = chain(40)
    streams["b"] = replace(streams["b"], keys={**streams["b"].keys, "k": streams["b"].keys["k"] + 10_000})
    rows, statistics = expected(streams, query)
    assert 0 < rows.profile.rate < 0.5
    outer = Estimator(outer_query(query, (JOIN,)), statistics)
    assert 0 <= outer.rows(1, 0b11) < 0.5


def test_what_makes_it_is_planned_by_what_is_known_of_its_streams() -> None:
    """Event times travel as columns too."""
    streams, query = chain()
    statistics, inner = statistics_of(query, streams), inner_query(query, JOIN)
    profiles = inner_statistics(statistics, inner).profiles
    assert sorted(profiles) == ["a", "b"]
    assert 0 < profiles["a"].column_bytes["ts"] <= profiles["a"].column_bytes[EVENT_TIME]
    asked, made_by = Estimator(query, statistics), Estimator(inner, inner_statistics(statistics, inner))
    for head in range(2):
        assert made_by.rows(head, 0b11) == pytest.approx(asked.rows(head, 0b011), rel=0.05)
