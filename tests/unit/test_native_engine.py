"""The native engine: what every engine must do, and what its index promises."""

from __future__ import annotations

import itertools
import queue
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core import hashing
from node.core import keycodes as keys
from node.core.effects import RunOp
from node.core.engine import KEY, TS, Append, CloseWindow, Expire, Find, Op, OpenWindow, Probe
from node.core.events import Event, ProbeFinished
from node.engine import runs, tiers
from node.engine import window as windows
from node.engine.native import NativeEngine
from node.io.engine_thread import EngineThread
from tests.engines.conformance import *  # noqa: F403 - the cases
from tests.engines.conformance import (
    ARRIVALS,
    EXTREMES,
    FINISHES,
    KEYED,
    SCHEMA,
    WORDS,
    Engines,
    Judge,
    append_of,
    batch_of,
    check_any_order_of_arrival,
    check_any_order_of_time,
    check_any_program,
    check_extreme_times,
    find_of,
    probe_of,
    programs,
)


@pytest.fixture(scope="module")
def engines() -> Engines:
    return NativeEngine


@pytest.fixture(scope="module")
def finishes() -> Sequence[keys.Finish]:
    return FINISHES


@pytest.fixture(params=FINISHES, scope="module")
def finish(request: pytest.FixtureRequest) -> Any:
    return request.param


class NativeJudge(Judge):
    """One that looks inside."""

    engine: NativeEngine

    def __init__(self, schema: pa.Schema, window_keys: tuple[str, ...]) -> None:
        super().__init__(NativeEngine, schema, window_keys)

    def runs(self) -> list[runs.Run]:
        return self.engine._windows["w"].runs


# --- random programs ---------------------------------------------------------------------------------


@given(program=programs())
@settings(max_examples=120, deadline=None)
def test_any_program_gives_the_rows_of_the_definition(
    engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]
) -> None:
    check_any_program(engines, finish, program)


@pytest.mark.parametrize("keyed", KEYED)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_any_order_of_time_gives_the_rows_of_the_reference(
    engines: Engines, keyed: str, finish: keys.Finish, data: st.DataObject
) -> None:
    check_any_order_of_time(engines, keyed, finish, data)


@given(**ARRIVALS)
@settings(deadline=None)
def test_answers_do_not_depend_on_the_order_of_arrival(
    engines: Engines, rows: list[tuple[int, str]], cuts: list[int]
) -> None:
    check_any_order_of_arrival(engines, rows, cuts)


@given(**EXTREMES)
@settings(max_examples=150, deadline=None)
def test_extreme_times_do_not_wrap_around(
    engines: Engines, window: list[int], carry: list[int], reach: int, ties: bool
) -> None:
    check_extreme_times(engines, window, carry, reach, ties)


# --- codes -------------------------------------------------------------------------------------------


def test_hashes_of_words_that_look_alike_differ() -> None:
    codes = keys.codes([pa.array(WORDS)])
    assert len(set(codes.tolist())) == len(WORDS)


@pytest.mark.parametrize("width", [1, 2, 4096])
def test_hash_does_not_depend_on_how_words_are_grouped(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = keys.codes([pa.array(WORDS)])
    monkeypatch.setattr(hashing, "_BLOCK", width)
    monkeypatch.setattr(hashing, "_NARROW", 0)
    short = [word for word in WORDS if len(word) < 100] if width < 100 else WORDS
    assert keys.codes([pa.array(short)]).tolist() == [expected[WORDS.index(word)] for word in short]


def test_a_million_hashes_of_numbered_names_hardly_collide() -> None:
    names = pc.binary_join_element_wise("sensor-", pa.array(range(1_000_000)).cast(pa.string()), "")
    assert len(np.unique(keys.codes([names]))) == 1_000_000


@given(st.lists(st.integers(-4, 4), max_size=200))
def test_stable_order_is_a_stable_sort(values: list[int]) -> None:
    codes = np.array(values, dtype=np.int64)
    assert runs.stable_order(codes).tolist() == np.argsort(codes, kind="stable").tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_a_filter_knows_every_code_of_its_run(values: list[int]) -> None:
    codes = np.array(values, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_FILTERED_ROWS", 1)
        seen = runs._make_filter(codes)
    assert seen is not None
    assert 4 * codes.size <= seen.size < 8 * codes.size
    assert seen[runs._places(runs.spread(codes), seen)].all()


# --- runs --------------------------------------------------------------------------------------------


def test_a_hot_key_expands_only_the_pairs_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = NativeJudge(SCHEMA, ("w.k",))
    count = 20_000
    judge.append(pa.record_batch({TS: range(count), "w.k": ["hot"] * count, "w.id": range(count)}, schema=SCHEMA))
    expanded = []
    original = runs._expand

    def spy(hits: Any, first: Any, counts: Any) -> Any:
        expanded.append(int(counts.sum()))
        return original(hits, first, counts)

    monkeypatch.setattr(runs, "_expand", spy)
    carry = batch_of([100, 19_000], **{"c.k": pa.array(["hot", "hot"])})
    (answer,) = judge.engine.run([Probe("w", carry, ("c.k",), 3, False)])
    assert expanded == [6] == [answer.num_rows]
    (answer,) = judge.engine.run([Find("w", pa.record_batch({"k": ["hot"]}), 500, 507)])
    assert expanded == [6, 7]
    assert answer.num_rows == 7


def check_invariants(judge: NativeJudge, in_order: bool) -> None:
    held = judge.runs()
    for run in held:
        order = list(zip(run.codes.tolist(), run.ts.tolist(), run.rows.tolist(), strict=True))
        assert order == sorted(order)
        assert sorted(run.rows.tolist()) == list(range(run.payload.num_rows))
        assert (run.min_ts, run.max_ts) == (min(run.ts), max(run.ts))
    assert all(older.max_ts <= newer.min_ts for older, newer in itertools.pairwise(held)) or not in_order
    ids = [i for run in held for i in run.payload["w.id"].to_pylist()]
    assert ids == sorted(ids)


def slide(judge: NativeJudge, ticks: int, disorder: int, length: int) -> Iterator[tuple[int, int]]:
    """A window over rows each up to ``disorder`` late, a unit of time apart: after each tick, it and the live rows."""
    rng = random.Random(0)
    now = 0
    times: list[int] = []
    for tick in range(ticks):
        size = rng.choice([1, 5, 40])
        ts = [now + place - rng.randint(0, disorder) for place in range(size)]
        columns = {TS: ts, "w.k": rng.choices("abcdefgh", k=size), "w.id": range(now, now + size)}
        judge.engine.run([Append("w", pa.record_batch(columns, schema=SCHEMA)), Expire("w", now - length)])
        times = [time for time in [*times, *ts] if time >= now - length]
        now += size
        yield tick, len(times)


@pytest.mark.parametrize("disorder", [0, 3, 300, 1500, 3000])
def test_runs_stay_few_ordered_and_expire(disorder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    judge = NativeJudge(SCHEMA, ("w.k",))
    for tick, live in slide(judge, 400, disorder, 1500):
        assert judge.engine.rows("w") == live
        held = sum(run.payload.num_rows for run in judge.runs())
        assert held <= live * (2 if disorder > 300 else 1.4) + 40
        assert len(judge.runs()) <= 40
        if tick % 40 == 39:
            check_invariants(judge, disorder == 0)


def test_rows_far_ahead_do_not_keep_the_rows_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    judge = NativeJudge(SCHEMA, ("w.k",))
    for tick in range(300):
        ts = [*range(20 * tick, 20 * tick + 20), 10**9]
        columns = {TS: ts, "w.k": ["a"] * 21, "w.id": range(21)}
        judge.engine.run([Append("w", pa.record_batch(columns, schema=SCHEMA)), Expire("w", 20 * tick - 200)])
    live = judge.engine.rows("w")
    assert live == 300 + 220
    assert sum(run.payload.num_rows for run in judge.runs()) <= 2 * live


def test_expiry_drops_a_run_that_came_after_one_still_needed() -> None:
    judge = NativeJudge(SCHEMA, ("w.k",))
    for ts, count in ((100, 40), (1, 10), (101, 2)):
        judge.append(pa.record_batch({TS: [ts] * count, "w.k": ["a"] * count, "w.id": range(count)}, schema=SCHEMA))
    before = judge.engine.nbytes("w")
    judge.engine.run([Expire("w", 50)])
    assert [run.max_ts for run in judge.runs()] == [100, 101]
    assert judge.engine.nbytes("w") < before
    assert judge.engine.rows("w") == 42


def test_merging_leaves_out_what_has_expired() -> None:
    judge = NativeJudge(SCHEMA, ("w.k",))
    judge.append(append_of(*range(9, -1, -1)).rows)
    judge.engine.run([Expire("w", 4)])
    (run,) = judge.runs()
    assert run.payload.num_rows == 10
    for ts in range(10, 40, 5):
        judge.append(append_of(*range(ts, ts + 5)).rows)
    first = judge.runs()[0]
    assert (first.min_ts, len(first.ts)) == (4, first.payload.num_rows)
    assert first.payload["w.id"].to_pylist()[:7] == [0, 1, 2, 3, 4, 5, 0]
    assert judge.engine.rows("w") == 36
    judge.check([batch_of([40, 12], **{"c.k": pa.array(["a", "a"])})], ("c.k",), 8, True)


def test_rows_that_arrive_when_they_have_expired_are_not_kept() -> None:
    engine = NativeEngine()
    engine.run(
        [OpenWindow("w", SCHEMA, ("w.k",)), Expire("w", 50), Expire("w", 20), append_of(49), append_of(10, 60, 50)]
    )
    (run,) = engine._windows["w"].runs
    assert run.payload["w.id"].to_pylist() == [1, 2]
    assert engine.rows("w") == 2


def test_rows_in_order_of_time_are_never_sorted_by_it_nor_copied_to_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    monkeypatch.setattr(runs, "_in_time", refuse)
    monkeypatch.setattr(windows, "trim", refuse)
    judge = NativeJudge(SCHEMA, ("w.k",))
    for tick in range(200):
        ts = [tick // 2, tick // 2, tick // 2 + tick % 2]
        judge.engine.run([append_of(*ts), Expire("w", tick // 2 - 30)])
    assert 90 <= judge.engine.rows("w") <= 200
    with pytest.raises(AssertionError):
        judge.engine.run([append_of(101, 100)])


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=100))
def test_order_by_code_becomes_order_by_code_and_time(rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in rows], dtype=np.int64)
    ts = np.array([time for _, time in rows], dtype=np.int64)
    order = runs._in_time(np.argsort(codes, kind="stable"), codes, ts)
    assert order.tolist() == np.lexsort((ts, codes)).tolist()


@pytest.mark.parametrize(
    "batch", [lambda _: 1000, lambda r: r.randint(1, 2000), lambda r: int(1000 / (r.random() + 0.001))]
)
@pytest.mark.parametrize("window", [10**5, 3 * 10**6, 10**12])
def test_number_of_runs_and_bytes_copied_are_logarithmic(
    batch: Callable[[random.Random], int], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy alone, on sizes: a window that grows, then slides (or grows for ever)."""
    monkeypatch.setattr(tiers, "_FLOOR", 20_000)
    rng = random.Random(1)
    sizes: list[int] = []
    added = copied = most = 0
    for _ in range(10_000):
        sizes.append(batch(rng))
        added += sizes[-1]
        limit = tiers.cap(sum(sizes))
        while (due := tiers.next_merge(sizes, limit)) is not None:
            merged = sum(sizes[slice(*due)])
            assert merged <= limit
            assert due[1] - due[0] > 1
            copied += merged
            sizes[slice(*due)] = [merged]
        while sum(sizes) - sizes[0] > window:
            del sizes[0]
        most = max(most, len(sizes))
    assert most <= 45
    assert copied <= added * 8


def test_a_small_slice_does_not_keep_its_large_batch_alive() -> None:
    judge = NativeJudge(SCHEMA, ("w.k",))
    large = pa.record_batch({TS: [0] * 10**5, "w.k": ["k"] * 10**5, "w.id": range(10**5)}, schema=SCHEMA)
    judge.append(large.slice(500, 10))
    (run,) = judge.runs()
    assert run.payload.get_total_buffer_size() < 5000


def test_the_same_operations_give_the_same_rows_in_the_same_order() -> None:
    rng = random.Random(5)
    key = [rng.choice("abc") for _ in range(300)]
    ops: list[Op] = [
        OpenWindow("w", SCHEMA, ("w.k",)),
        Append("w", pa.record_batch({TS: range(300), "w.k": key, "w.id": range(300)}, schema=SCHEMA)),
        Probe("w", batch_of([300] * 3, **{"c.k": pa.array(["a", "b", "a"])}), ("c.k",), 200, False),
    ]
    assert NativeEngine().run(ops)[0].equals(NativeEngine().run(ops)[0])


def delivered_by_thread(effects: Sequence[RunOp], last: int) -> list[Event]:
    """What an engine's thread delivers for the effects, up to the answer of the question ``last``."""
    delivered: queue.SimpleQueue[list[Event]] = queue.SimpleQueue()
    thread = EngineThread(NativeEngine(), delivered.put)
    for effect in effects:
        thread.put(effect)
    thread.start()
    found: list[Event] = []
    while not any(isinstance(event, ProbeFinished) and event.op_id == last for event in found):
        found += delivered.get(timeout=60)
    thread.stop()
    return found


def test_the_engine_thread_gives_every_question_its_answer() -> None:
    ops: list[Op] = [OpenWindow("w", SCHEMA, ("w.k",)), append_of(0, 0), probe_of(), find_of(["a"]), Expire("w", 0)]
    effects = [RunOp(number, "q", op) for number, op in enumerate([*ops, find_of(["b"]), probe_of()])]
    delivered = delivered_by_thread(effects, 6)
    finished = [event for event in delivered if isinstance(event, ProbeFinished)]
    assert [(event.op_id, event.rows.num_rows) for event in finished] == [(2, 2), (3, 2), (5, 0), (6, 2)]
    assert [KEY in event.rows.schema.names for event in finished] == [False, True, True, False]


def test_the_engine_thread_keeps_the_order_of_different_queries() -> None:
    # A query may probe a window that another one fills.
    effects = [
        RunOp(0, "user", OpenWindow("own", SCHEMA, ("w.k",))),
        RunOp(1, "host", OpenWindow("w", SCHEMA, ("w.k",))),
        RunOp(2, "host", append_of(0, 0)),
        RunOp(3, "user", probe_of()),
        RunOp(4, "host", CloseWindow("w")),
    ]
    delivered = delivered_by_thread(effects, 3)
    assert [(type(event).__name__, getattr(event, "op_id", None)) for event in delivered] == [("ProbeFinished", 3)]
