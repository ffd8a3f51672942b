"""Our cost model against what was measured on the wire (``bench/results/bytes.csv``), on the same data."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bench.bytes import _query, grid
from bench.planner_cases import wire_case
from bench.records import pair_of_streams, record_batch
from bench.sites import LEAD_MS, START_MS
from node.core.profile import Sample, profile_of
from planner.choose import estimate_plan
from planner.cost import Objective
from planner.cost_wire import WireSpace
from planner.framing import SHIPMENT_BYTES, UPDATE_BYTES
from planner.kinds import Kind
from planner.model import Algorithm, RangeWindow, RowsWindow, StreamInfo, TimeUnit
from planner.plans import forced_plan
from planner.sql import parse_query
from planner.stats import Statistics
from planner.step_stats import CarryStats, JoinStats, KeysStats
from planner.traffic import (
    MESSAGE_BYTES,
    Sizes,
    StepLoad,
    Traffic,
    in_messages,
    number_bytes,
    repeated_bytes,
)
from tests.unit.streams import made, query_of, range_s, statistics_of

REPLICA_ALGORITHMS = (Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1)
MEASURED = Path(__file__).parents[2] / "bench" / "results" / "bytes.csv"


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
        for algorithm in REPLICA_ALGORITHMS:
            (replica, _) = estimate_plan(forced_plan(query, "c", algorithm), statistics).replicas
            synced[algorithm, type(window)] = replica.bytes_per_s
    more = {each: synced[each, RowsWindow] - synced[each, RangeWindow] for each in REPLICA_ALGORITHMS}
    assert synced[Algorithm.SM_S1, RangeWindow] == 0
    # 20 tuples a second; a message a second comes with W', which is sent nothing else.
    times = 20 * statistics.profiles["a"].column_bytes["__ts"]
    assert times + MESSAGE_BYTES < more[Algorithm.SM_S1] <= times + MESSAGE_BYTES + SHIPMENT_BYTES + UPDATE_BYTES
    assert more[Algorithm.SM_S2] == pytest.approx(times)
    assert more[Algorithm.SM_D1] == pytest.approx(0)


def test_columns_that_nobody_needs_later_cost_nothing() -> None:
    case = wire_case(np.random.default_rng(2), "chain", 3)
    space = WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)
    sizes = case.statistics.profiles
    # After s0 and s1 the key between them is done with, the one to s2 is not.
    key = sizes["s1"].column_bytes["k1"]
    values = sizes["s0"].column_bytes["v"] + sizes["s1"].column_bytes["v"]
    assert space.row_bytes(0, 0b011)[0] == pytest.approx(values + key + sizes["s0"].column_bytes["__ts"])


def test_each_algorithm_sends_what_its_messages_hold() -> None:
    """Ten batches a second of 5 rows: 40 keys, 10 of them new, half of the rows match."""
    stats = JoinStats(CarryStats(50.0, 50.0, 10.0), 40.0, 10.0, 30.0, 0.5, 0.6, 60.0, 0.2, 0.3, 4.0)
    sizes = Sizes(row=30.0, key=4.0, tuple=60.0, repeated=0.0, row_batch=5.0, tuple_batch=5.0)
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
