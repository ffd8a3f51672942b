"""Our cost model against what was measured on the wire (``bench/results/bytes.csv``), on the same data."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bench.bytes import _query, grid
from bench.planner.cases import wire_case
from bench.records import pair_of_streams, record_batch
from bench.sites import LEAD_MS, START_MS
from node.core.planning.profile import Sample, profile_of
from planner.algorithms.descriptions import CopyKind
from planner.algorithms.framing import SHIPMENT_BYTES
from planner.algorithms.http2 import WINDOW_UPDATE_BYTES
from planner.algorithms.kinds import Kind
from planner.algorithms.step_stats import CarryStats, JoinStats, KeysStats
from planner.algorithms.traffic import (
    MESSAGE_BYTES,
    Sizes,
    StepLoad,
    Traffic,
    in_messages,
    number_bytes,
    repeated_bytes,
)
from planner.cost.estimates import CopyKey, Objective
from planner.cost.wire_model import WireSpace
from planner.estimate.statistics import Statistics
from planner.model.copies import RunningCopy, copy_of
from planner.model.plans import forced_plan
from planner.model.query import (
    Algorithm,
    Call,
    ColumnRef,
    Expr,
    JoinQuery,
    Literal,
    RangeWindow,
    RowsWindow,
    StreamInfo,
    Window,
)
from planner.model.time_unit import TimeUnit
from planner.search.choice import estimate_plan
from planner.sql.parser import parse_query
from tests.places import ROOT
from tests.unit.streams import made, query_of, range_s, statistics_of

COPY_ALGORITHMS = (Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1)
MEASURED = ROOT / "bench" / "results" / "bytes.csv"


def _measured(width: int, match: float, distinct: int) -> tuple[Mapping[str, float], int]:
    """Bytes of each algorithm, and the tuples they were for."""
    found: dict[str, float] = {}
    tuples = 0
    with MEASURED.open() as file:
        for row in csv.DictReader(file):
            cell = (row["table"], int(row["width"]), float(row["match"]), int(row["distinct"]))
            if cell == ("grid", width, match, distinct):
                found[row["algorithm"]] = found.get(row["algorithm"], 0.0) + float(row["bytes"])
                tuples = int(row["tuples"])
    return found, tuples


@pytest.mark.parametrize(
    ("width", "match", "distinct"), [(142, 0.2, 100), (142, 0.05, 1_000_000), (500, 0.6, 10_000), (50, 0.95, 10_000)]
)
def test_expected_bytes_are_those_measured(width: int, match: float, distinct: int) -> None:
    """Within a factor of 1.3 in each case; where the sample of keys is lucky, much better."""
    measured, tuples = _measured(width, match, distinct)
    (cell,) = [
        cell for cell in grid(40) if (cell.width, cell.keys.rate, cell.keys.distinct) == (width, match, distinct)
    ]
    streams = pair_of_streams(cell.keys, cell.per_tick, cell.ticks, cell.tau_ms, cell.window_ms)
    data = {name: record_batch(stream, width, name, START_MS + LEAD_MS) for name, stream in streams.items()}
    catalogue = {name: StreamInfo(name, name, rows.schema, "ts", TimeUnit.MS) for name, rows in data.items()}
    query = parse_query(_query(cell, data["a"].schema), catalogue)
    profiles = {
        name: profile_of(query, name, cell.tau_ms, Sample(rows, rows.column("ts").to_numpy()))
        for name, rows in data.items()
    }
    statistics = Statistics(cell.tau_ms * 1000, profiles, {})
    seconds = cell.ticks_counted * cell.tau_ms / 1000
    assert tuples == 2 * cell.ticks_counted * cell.per_tick
    for algorithm in Algorithm:
        estimate = estimate_plan(forced_plan(query, "c", algorithm), statistics)
        between = sum(size for link, size in estimate.by_link.items() if "c" not in link) * seconds
        assert 1 / 1.3 < between / measured[algorithm.value] < 1.3, algorithm


def test_the_best_forced_algorithm_is_found_where_it_matters() -> None:
    """Rarely matching wide tuples: every semijoin beats shipping by far, and the model says so."""
    random = np.random.default_rng(3)
    streams = {"a": made(random, 4_000, {"k": (0, 5_000)}), "b": made(random, 4_000, {"k": (4_500, 9_500)})}
    query = query_of(streams, dict.fromkeys("ab", range_s(10)), [("a.k", "b.k")])
    statistics = statistics_of(query, streams, value_bytes=400.0)
    costs = {each: estimate_plan(forced_plan(query, "c", each), statistics).bytes_per_s for each in Algorithm}
    simple = min(costs[Algorithm.SP_S], costs[Algorithm.SP_D])
    assert all(cost < simple / 4 for each, cost in costs.items() if each not in (Algorithm.SP_S, Algorithm.SP_D))


def test_of_a_count_window_times_are_sent_to_copies_with_tuples_only() -> None:
    random = np.random.default_rng(3)
    streams = {name: made(random, 4_000, {"k": (0, 500)}) for name in "ab"}
    synced = {}
    for window in (range_s(10), RowsWindow(200)):
        query = query_of(streams, dict.fromkeys("ab", window), [("a.k", "b.k")])
        statistics = statistics_of(query, streams)
        for algorithm in COPY_ALGORITHMS:
            (copy, _) = estimate_plan(forced_plan(query, "c", algorithm), statistics).copies
            synced[algorithm, type(window)] = copy.bytes_per_s
    more = {each: synced[each, RowsWindow] - synced[each, RangeWindow] for each in COPY_ALGORITHMS}
    assert synced[Algorithm.SM_S1, RangeWindow] == 0
    # 20 tuples a second; a message a second comes with W', which is sent nothing else.
    times = 20 * statistics.profiles["a"].column_bytes["__ts"]
    assert times + MESSAGE_BYTES < more[Algorithm.SM_S1] <= times + MESSAGE_BYTES + SHIPMENT_BYTES + WINDOW_UPDATE_BYTES
    assert more[Algorithm.SM_S2] == pytest.approx(times)
    assert more[Algorithm.SM_D1] == pytest.approx(0)


def test_columns_that_nobody_needs_later_cost_nothing() -> None:
    case = wire_case(np.random.default_rng(2), "chain", 3)
    space = WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)
    sizes = case.statistics.profiles
    # After s0 and s1 the key between them is done with, the one to s2 is not.
    key = sizes["s1"].column_bytes["k1"]
    values = sizes["s0"].column_bytes["v"] + sizes["s1"].column_bytes["v"]
    assert space.sizes.row_bytes(0, 0b011)[0] == pytest.approx(values + key + sizes["s0"].column_bytes["__ts"])


# -- beside a full copy that runs -------------------------------------------------------------

_SHARED = {name: made(np.random.default_rng(6), 4_000, {"k": (0, 500)}) for name in "ab"}
_TUPLES_S = 20.0
#: As ``statistics_of`` says.
_KEY_BYTES, _VALUE_BYTES, _TIME_BYTES = 3.0, 20.0, 1.0


def _above(limit: int) -> Expr:
    return Call(">", (ColumnRef("b", "k"), Literal(limit, pa.int64())), pa.bool_())


def _query_above(limit: int | None, window: Window) -> JoinQuery:
    """a joined with what is above a limit in b, or all of it."""
    query = query_of(_SHARED, dict.fromkeys("ab", window), [("a.k", "b.k")])
    condition = None if limit is None else _above(limit)
    return replace(query, streams=(query.streams[0], replace(query.streams[1], where=condition)))


def _portion(
    limit: int | None, columns: tuple[str, ...] = ("k", "v"), share: float | None = None, window: Window | None = None
) -> RunningCopy:
    """Of a full copy of b at a: what is above a limit."""
    copy = copy_of(_query_above(limit, window or range_s(10)), CopyKind.FULL, "b", (), "a")
    return replace(copy, columns=columns, share=share)


def _kept(*copies: RunningCopy, limit: int | None = None, window: Window | None = None) -> float:
    """What is said to be sent to keep a full copy of b at a, beside copies that run."""
    query = _query_above(limit, window or range_s(10))
    statistics = replace(statistics_of(query, _SHARED), copies=copies)
    space = WireSpace(query, "c", statistics, Objective.BYTES)
    flows = space.syncs.flows(CopyKey(CopyKind.FULL, "b", (), "a"))
    assert all((flow.source, flow.target) == ("b", "a") for flow in flows)
    return sum(flow.bytes_per_s for flow in flows)


def test_a_full_copy_that_has_all_that_a_query_needs_costs_it_nothing_more() -> None:
    assert _kept() > _TUPLES_S * (_KEY_BYTES + _VALUE_BYTES)
    assert _kept(_portion(None)) == 0
    assert _kept(_portion(5), limit=5) == 0
    assert _kept(_portion(None), _portion(7, ("k",)), limit=5) == 0


def test_a_query_pays_of_a_full_copy_that_runs_for_the_columns_that_nobody_has() -> None:
    assert _kept(_portion(None, ("k",))) == pytest.approx(_TUPLES_S * _VALUE_BYTES)
    assert _kept(_portion(None, ("v",))) == pytest.approx(_TUPLES_S * _KEY_BYTES)
    # And that a tuple passes its filter, which is a bit.
    assert _kept(_portion(None, ("k",)), limit=5) == pytest.approx(_TUPLES_S * (_VALUE_BYTES + 1 / 8))


def test_a_query_pays_of_a_full_copy_that_runs_for_the_tuples_that_nobody_has() -> None:
    whole = _KEY_BYTES + _VALUE_BYTES + _TIME_BYTES
    assert _kept(_portion(9, share=0.25)) == pytest.approx(_TUPLES_S * 0.75 * whole)
    below = Call("<", (ColumnRef("b", "k"), Literal(5, pa.int64())), pa.bool_())
    other = replace(_portion(None, share=0.1), filter=below)
    assert _kept(_portion(9, share=0.25), other) == pytest.approx(_TUPLES_S * 0.75 * 0.9 * whole)
    # What is above 50 is above 9.
    assert _kept(_portion(9, share=0.25), _portion(50, share=0.1)) == pytest.approx(_TUPLES_S * 0.75 * whole)
    some = 0.9 * (_KEY_BYTES + _TIME_BYTES) + _VALUE_BYTES
    assert _kept(replace(other, columns=("k",)), limit=5) == pytest.approx(_TUPLES_S * (some + 1 / 8))
    # Of a third, which is taken to be above 5, a quarter of all is three quarters.
    part = 0.25 * (_KEY_BYTES + _TIME_BYTES) + _VALUE_BYTES
    assert _kept(_portion(9, ("k",), 0.25), limit=5) == pytest.approx(_TUPLES_S * (part + 1 / 8))
    # Of what was not measured, a third is taken to pass.
    assert _kept(_portion(9)) == pytest.approx(_TUPLES_S * 2 / 3 * whole)


def test_the_more_runs_already_the_less_a_query_pays() -> None:
    costs = [
        _kept(),
        _kept(_portion(9, ("k",), 0.25)),
        _kept(_portion(9, share=0.25)),
        _kept(_portion(9, share=0.5)),
        _kept(_portion(9, share=0.5), _portion(None, ("k",))),
        _kept(_portion(None)),
    ]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == len(costs)


def test_a_full_copy_that_cannot_grow_for_a_query_is_no_help() -> None:
    rows = RowsWindow(200)
    for other in (replace(_portion(None), holder="c"), _portion(None, window=rows), replace(_portion(9), stream="a")):
        assert _kept(other) == pytest.approx(_kept())
    own = _kept(window=rows)
    assert _kept(_portion(None), window=rows) == pytest.approx(own)
    assert _kept(_portion(9, window=rows), window=rows) == pytest.approx(own)
    assert _kept(_portion(None, ("k",), window=rows), window=rows) == pytest.approx(_TUPLES_S * _VALUE_BYTES)


def test_a_plan_that_lets_a_full_copy_grow_is_said_to_send_what_it_adds() -> None:
    query = _query_above(None, range_s(10))
    plan, statistics = forced_plan(query, "c", Algorithm.SP_S), statistics_of(query, _SHARED)
    alone = estimate_plan(plan, statistics)
    beside = estimate_plan(plan, replace(statistics, copies=(_portion(None, ("k",)),)))
    of_b = {each.copy.alias: each for each in beside.copies}["b"]
    assert not of_b.already_there
    assert of_b.bytes_per_s < {each.copy.alias: each for each in alone.copies}["b"].bytes_per_s
    assert beside.bytes_per_s < alone.bytes_per_s - _TUPLES_S * _KEY_BYTES


def test_what_a_full_copy_grows_by_leaves_in_messages_that_leave_anyway() -> None:
    query = _query_above(None, range_s(10))
    plan, statistics = forced_plan(query, "c", Algorithm.SP_S), statistics_of(query, _SHARED)
    beside = estimate_plan(plan, replace(statistics, copies=(_portion(None, ("k",)),)))
    grown, new = (next(each for each in beside.copies if each.copy.alias == alias) for alias in "ba")
    assert (grown.grows, new.grows) == (True, False)
    assert {flow.kind for flow in grown.flows} == {Kind.SYNC}
    assert {flow.kind for flow in new.flows} == {Kind.SYNC, Kind.FRAMING}
    assert grown.bytes_per_s == pytest.approx(_TUPLES_S * _VALUE_BYTES)
    assert grown.cost == pytest.approx(grown.bytes_per_s)


def test_each_algorithm_sends_what_its_messages_hold() -> None:
    """Ten batches a second of 5 rows: 40 keys, 10 of them new, half of the rows match."""
    stats = JoinStats(
        carry=CarryStats(50.0, 50.0, 10.0),
        keys=40.0,
        keys_new=10.0,
        keys_noted=30.0,
        match=0.5,
        match_kept=0.6,
        rows_out=60.0,
        reduced_share=0.2,
        mixed_share=0.3,
        fetched_keys=4.0,
    )
    sizes = Sizes(row_bytes=30.0, key_bytes=4.0, tuple_bytes=60.0, repeated_bytes=0.0, row_batch=5.0, tuple_batch=5.0)
    sent = {each: each.spec.traffic(StepLoad(stats, sizes, 100.0, KeysStats(200.0, 20.0), 0.1)) for each in Algorithm}
    messages = 10 * MESSAGE_BYTES

    def of(algorithm: Algorithm, kind: Kind) -> float:
        return sum(size for each, size in (*sent[algorithm].forward, *sent[algorithm].backward) if each is kind)

    assert sent[Algorithm.SP_S] == Traffic(hops_backward=1)
    assert of(Algorithm.SP_D, Kind.TUPLES) == pytest.approx(50 * 30 + messages)
    # Where no row matches there is no answer either: 25 matching rows a second leave a few of ten batches without.
    matching = 10 * -np.expm1(-2.5)
    assert of(Algorithm.SM_D2, Kind.KEY_ANSWERS) == pytest.approx((5 + messages) * matching / 10)
    assert sent[Algorithm.SM_D2].turns == pytest.approx((10, matching, matching))
    asked = 10 * 4.0 + 30 * number_bytes(3, 30) + messages
    for algorithm in (Algorithm.SM_S1, Algorithm.SM_D2):
        assert of(algorithm, Kind.KEYS) == pytest.approx(asked)
    assert of(Algorithm.SM_S1, Kind.TUPLES) == pytest.approx(in_messages(60.0, 20, 10, 5) + messages)
    # A copy of the keys knows some that have left the window already; whoever asks about keys is told what matches.
    assert of(Algorithm.SM_D2, Kind.TUPLES) < of(Algorithm.SM_D1, Kind.TUPLES) < of(Algorithm.SP_D, Kind.TUPLES)
    # 30 tuples of keys asked for: some fetched, the rest with the sync.
    both = of(Algorithm.SM_S2, Kind.TUPLES) + of(Algorithm.SM_S2, Kind.SYNC)
    assert 30 * 60 < both < 1.4 * 30 * 60 + messages
    assert of(Algorithm.SM_S2, Kind.KEYS) < messages


def test_repeated_rows_and_small_messages_and_dense_numbers() -> None:
    assert repeated_bytes(10, 10, 20) == 0
    assert repeated_bytes(10, 5, 20) == pytest.approx(5 * 20 * 0.85)
    assert in_messages(50, 300, 1, 300) == pytest.approx(300 * 50)
    assert in_messages(50, 2, 2, 2) < in_messages(50, 2, 2, 300) < 2 * (50 + 30)
    assert in_messages(50, 2, 2, 300) > in_messages(50, 2, 1, 300) > 1.2 * 2 * 50
    assert in_messages(50, 2, 1, 2) == pytest.approx(2 * 50)
    assert number_bytes(0, 100) == 0
    assert number_bytes(100, 100) < number_bytes(10, 100) < number_bytes(1, 100)
