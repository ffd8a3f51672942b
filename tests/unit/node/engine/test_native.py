"""The native engine: what every engine must do, and what its indexes promise."""

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
from hypothesis import given
from hypothesis import strategies as st

from node.core.effects import RunOp
from node.core.engine import KEY, POSITION, Append, CloseTable, Expire, Op, OpenIndex, OpenTable, Outcome
from node.core.events import EngineFailed, Event, ProbeFinished
from node.core.keys import hashing
from node.core.keys import keycodes as keys
from node.engine import fusion, native, orders, runs, shapes, tiers
from node.engine.native import NativeEngine
from node.io.threads.engine_thread import EngineThread
from tests.engines.conformance import *  # noqa: F403 - the cases
from tests.engines.conformance import (
    ARRIVALS,
    EXTREMES,
    SCHEMA,
    WORDS,
    append_of,
    check_any_order_of_arrival,
    check_any_program,
    check_extreme_positions,
    find_of,
    opened,
    probe_of,
    programs,
    reads,
)
from tests.engines.fused import check_any_calls, check_fused_and_alone
from tests.engines.judge import FINISHES, Engines, Judge, batch_of, bounded, done, rows_of, whole_probe
from tests.examples import new_examples


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

    def __init__(self, schema: pa.Schema, table_keys: tuple[str, ...]) -> None:
        super().__init__(NativeEngine, schema, table_keys)

    def runs(self) -> list[runs.Run]:
        return self.engine._tables["t"].runs


# --- random programs ---------------------------------------------------------------------------------


@given(program=programs())
@new_examples(120)
def test_any_program_gives_the_rows_of_the_definition(
    engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]
) -> None:
    check_any_program(engines, finish, program)


@given(data=st.data())
@new_examples(200)
def test_any_calls_give_the_rows_of_the_reference(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_any_calls(engines, finish, data)


@given(data=st.data())
@new_examples(150)
def test_questions_get_together_what_they_get_alone(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_fused_and_alone(engines, finish, data)


@given(**ARRIVALS)
@new_examples()
def test_answers_do_not_depend_on_the_order_of_arrival(
    engines: Engines, rows: list[tuple[int, str]], cuts: list[int]
) -> None:
    check_any_order_of_arrival(engines, rows, cuts)


@given(**EXTREMES)
@new_examples(150)
def test_extreme_positions_do_not_wrap_around(
    engines: Engines, positions: list[int], bounds: list[tuple[int, int]]
) -> None:
    check_extreme_positions(engines, positions, bounds)


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
@new_examples()
def test_stable_order_is_a_stable_sort(values: list[int]) -> None:
    codes = np.array(values, dtype=np.int64)
    assert orders.stable_order(codes).tolist() == np.argsort(codes, kind="stable").tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
@new_examples()
def test_a_filter_knows_every_code_of_its_order(values: list[int]) -> None:
    codes = np.array(values, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "_FILTERED_ROWS", 1)
        seen = orders._make_filter(codes)
    assert seen is not None
    assert 4 * codes.size <= seen.size < 8 * codes.size
    assert seen[orders._places(orders.spread(codes), seen)].all()


# --- runs --------------------------------------------------------------------------------------------


def test_a_hot_key_expands_only_the_pairs_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = NativeJudge(SCHEMA, ("k",))
    count = 20_000
    judge.append(pa.record_batch({POSITION: range(count), "k": ["hot"] * count, "id": range(count)}, schema=SCHEMA))
    expanded = []
    original = orders._expand

    def spy(hits: Any, first: Any, counts: Any) -> Any:
        expanded.append(int(counts.sum()))
        return original(hits, first, counts)

    monkeypatch.setattr(orders, "_expand", spy)
    carry = bounded(batch_of([100, 19_000], **{"c.k": pa.array(["hot", "hot"])}), 3, False)
    (answer,) = judge.run(whole_probe(carry, ("c.k",), SCHEMA, ("k",)))
    assert expanded == [6] == [answer.num_rows]
    (answer,) = judge.run(find_of(["hot"], low=500, high=507))
    assert expanded == [6, 7]
    assert answer.num_rows == 7


def check_invariants(judge: NativeJudge, in_order: bool) -> None:
    held = judge.runs()
    for run in held:
        assert set(run.orders) <= {("k",), ("id",), ()}
        for keys_, order in run.orders.items():
            sorted_ = list(zip(order.codes.tolist(), order.positions.tolist(), order.rows.tolist(), strict=True))
            assert sorted_ == sorted(sorted_)
            found = [place for place, key in enumerate(run.payload["k"].to_pylist()) if key or keys_ != ("k",)]
            assert sorted(order.rows.tolist()) == found
            assert order.positions.tolist() == run.positions[order.rows].tolist()
        assert run.positions.size == run.payload.num_rows
        assert (run.least, run.greatest) == (min(run.positions), max(run.positions))
        assert run.nbytes > run.payload.nbytes
    assert all(older.greatest <= newer.least for older, newer in itertools.pairwise(held)) or not in_order
    ids = [i for run in held for i in run.payload["id"].to_pylist()]
    assert ids == sorted(ids)


def slide(judge: NativeJudge, ticks: int, disorder: int, length: int) -> Iterator[tuple[int, int]]:
    """A table of rows each up to ``disorder`` late, a unit of time apart: after each tick, it and the live rows."""
    rng = random.Random(0)
    now = 0
    times: list[int] = []
    for tick in range(ticks):
        size = rng.choice([1, 5, 40])
        ts = [now + place - rng.randint(0, disorder) for place in range(size)]
        columns = {POSITION: ts, "k": rng.choices(["a", "b", "c", "d", None], k=size), "id": range(now, now + size)}
        judge.run(Append("t", pa.record_batch(columns, schema=SCHEMA)), Expire("t", now - length))
        times = [time for time in [*times, *ts] if time >= now - length]
        now += size
        yield tick, len(times)


@pytest.mark.parametrize("disorder", [0, 3, 300, 1500, 3000])
def test_runs_stay_few_ordered_and_expire(disorder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    judge = NativeJudge(SCHEMA, ("k",))
    for tick, live in slide(judge, 400, disorder, 1500):
        assert judge.engine.rows("t") == live
        held = sum(run.payload.num_rows for run in judge.runs())
        assert held <= live * (2 if disorder > 300 else 1.4) + 40
        assert len(judge.runs()) <= 40
        if tick in (100, 200):
            judge.run(OpenIndex("t", ("id",) if tick == 100 else ()))
        if tick % 40 == 39:
            check_invariants(judge, disorder == 0)


def test_rows_far_ahead_do_not_keep_the_rows_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    judge = NativeJudge(SCHEMA, ("k",))
    for tick in range(300):
        positions = [*range(20 * tick, 20 * tick + 20), 10**9]
        judge.run(append_of(*positions), Expire("t", 20 * tick - 200))
    live = judge.engine.rows("t")
    assert live == 300 + 220
    assert sum(run.payload.num_rows for run in judge.runs()) <= 2 * live


def test_expiry_drops_a_run_that_came_after_one_still_needed() -> None:
    judge = NativeJudge(SCHEMA, ("k",))
    for position, count in ((100, 40), (1, 10), (101, 2)):
        judge.append(append_of(*[position] * count).rows)
    before = judge.engine.nbytes("t")
    judge.run(Expire("t", 50))
    assert [run.greatest for run in judge.runs()] == [100, 101]
    assert judge.engine.nbytes("t") < before
    assert judge.engine.rows("t") == 42


def test_merging_leaves_out_what_has_expired() -> None:
    judge = NativeJudge(SCHEMA, ("k",))
    judge.append(append_of(*range(9, -1, -1)).rows)
    judge.run(Expire("t", 4))
    (run,) = judge.runs()
    assert run.payload.num_rows == 10
    for position in range(10, 40, 5):
        judge.append(append_of(*range(position, position + 5)).rows)
    first = judge.runs()[0]
    assert (first.least, len(first.positions)) == (4, first.payload.num_rows)
    assert first.payload["id"].to_pylist()[:7] == [0, 1, 2, 3, 4, 5, 0]
    assert judge.engine.rows("t") == 36
    judge.check([batch_of([40, 12], **{"c.k": pa.array(["a", "a"])})], ("c.k",), 8, True)


def test_rows_that_arrive_when_they_have_expired_are_not_kept() -> None:
    engine = NativeEngine()
    done(engine.run([*opened(), Expire("t", 50), Expire("t", 20), append_of(49), append_of(10, 60, 50)]))
    (run,) = engine._tables["t"].runs
    assert run.payload["id"].to_pylist() == [1, 2]
    assert engine.rows("t") == 2


def test_rows_in_order_are_never_sorted_by_position_nor_copied_to_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(tiers, "_FLOOR", 1000)
    monkeypatch.setattr(orders, "_in_position", refuse)
    monkeypatch.setattr(orders, "live", refuse)
    judge = NativeJudge(SCHEMA, ("k",))
    for tick in range(200):
        judge.run(append_of(tick // 2, tick // 2, tick // 2 + tick % 2), Expire("t", max(0, tick // 2 - 30)))
    assert 90 <= judge.engine.rows("t") <= 200
    with pytest.raises(AssertionError):
        judge.run(append_of(101, 100))


def test_a_table_with_two_indexes_has_its_rows_once() -> None:
    judge = NativeJudge(SCHEMA, ("k",))
    for tick in range(30):
        judge.append(append_of(*range(tick, tick + 10)).rows)
    rows = sum(run.payload.num_rows for run in judge.runs())
    judge.run(OpenIndex("t", ("id",)), append_of(50))
    assert sum(run.payload.num_rows for run in judge.runs()) == rows + 1
    assert all(set(run.orders) == {("k",), ("id",)} for run in judge.runs())


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=100))
@new_examples()
def test_order_by_code_becomes_order_by_code_and_position(rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in rows], dtype=np.int64)
    positions = np.array([position for _, position in rows], dtype=np.int64)
    order = orders._in_position(np.argsort(codes, kind="stable"), codes, positions)
    assert order.tolist() == np.lexsort((positions, codes)).tolist()


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
    judge = NativeJudge(SCHEMA, ("k",))
    large = append_of(*[0] * 10**5).rows
    judge.append(large.slice(500, 10))
    (run,) = judge.runs()
    assert run.payload.get_total_buffer_size() < 5000
    assert run.positions.base is None


def test_the_same_operations_give_the_same_rows_in_the_same_order() -> None:
    rng = random.Random(5)
    rows = rows_of(range(300), k=pa.array(rng.choices("abc", k=300)), id=pa.array(range(300))).cast(SCHEMA)
    carry = bounded(batch_of([300] * 3, **{"c.k": pa.array(["a", "b", "a"])}), 200, False)
    probe = whole_probe(carry, ("c.k",), SCHEMA, ("k",))
    ops: list[Op] = [*opened(), Append("t", rows), probe, find_of(["b"]), probe]
    one, other = done(NativeEngine().run(ops)), done(NativeEngine().run(ops))
    assert all(answer.equals(same) for answer, same in zip(one, other, strict=True))


# --- fusing ------------------------------------------------------------------------------------------


def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes how many questions are answered at a time."""
    counts = []
    original = fusion.answer

    def spy(table: Any, asked: Any) -> Any:
        counts.append(len(asked))
        return original(table, asked)

    monkeypatch.setattr(fusion, "answer", spy)
    return counts


def test_questions_of_one_kind_to_one_index_are_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = searches(monkeypatch)
    by_id = find_of([1], keys=("id",))
    different = probe_of(alias="u", condition=reads("u.id"), columns=("u.id",))
    ops: list[Op] = [*opened(("k",), ("id",)), append_of(0, 0), probe_of(), find_of(["a"]), by_id, different]
    answers = done(NativeEngine().run([*ops, append_of(0), find_of(["b"]), probe_of(key="c.z"), by_id]))
    assert [answer.num_rows for answer in answers] == [3, 3, 1, 1, 0, 3, 1]
    assert counts == [3, 2, 2]


def test_questions_are_not_answered_together_beyond_what_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = searches(monkeypatch)
    monkeypatch.setattr(native, "_FUSED_ROWS", 3)
    assert len(done(NativeEngine().run([*opened(), *[probe_of() for _ in range(8)]]))) == 8
    assert counts == [3, 3, 2]


def test_what_fails_together_is_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = searches(monkeypatch)
    rows = probe_of().rows
    bad = probe_of(rows=rows.set_column(2, rows.schema.field(2), pa.nulls(1, pa.int64())))
    outcomes = NativeEngine().run([*opened(), append_of(0), probe_of(), bad, probe_of()])
    assert [type(outcome).__name__ for outcome in outcomes[3:]] == ["RecordBatch", "ValueError", "RecordBatch"]
    assert counts == [3, 1, 1, 1]


def test_shapes_are_kept_while_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_KEPT", 3)
    kept = shapes.Shapes(SCHEMA)
    condition = reads("t.id")
    probe = probe_of(condition=condition)
    shape = kept.of(probe)
    assert kept.of(probe_of(condition=condition)) is shape
    assert kept.of(probe_of()) is not shape
    assert kept.of(find_of(["a"], columns=("k",))) is not shape
    assert kept.of(probe) is shape
    assert kept.of(probe_of(alias="u", columns=("u.k",))) is not shape
    assert kept.of(probe) is not shape


# --- the engine's thread -----------------------------------------------------------------------------


def delivered_by_thread(engine: Any, ops: Sequence[Op], last: int) -> list[Event]:
    """What an engine's thread delivers for operations, up to what it says of number ``last``."""
    delivered: queue.SimpleQueue[list[Event]] = queue.SimpleQueue()
    thread = EngineThread(engine, delivered.put)
    for number, op in enumerate(ops):
        thread.put(RunOp(number, op))
    thread.start()
    found: list[Event] = []
    while not any(isinstance(event, ProbeFinished | EngineFailed) and event.op_id == last for event in found):
        found += delivered.get(timeout=60)
    thread.stop()
    return found


def test_the_engine_thread_gives_every_question_its_answer() -> None:
    ops: list[Op] = [*opened(), append_of(0, 0), probe_of(), find_of(["a"]), Expire("t", 0), find_of(["b"]), probe_of()]
    delivered = delivered_by_thread(NativeEngine(), ops, 7)
    finished = [event for event in delivered if isinstance(event, ProbeFinished)]
    assert delivered == finished
    assert [(event.op_id, event.rows.num_rows) for event in finished] == [(3, 2), (4, 2), (6, 0), (7, 2)]
    assert [KEY in event.rows.schema.names for event in finished] == [False, True, True, False]


def test_the_engine_thread_says_which_operation_failed_and_of_which_table() -> None:
    ops: list[Op] = [*opened(), append_of(None), probe_of(), probe_of("v"), CloseTable("t"), probe_of()]
    delivered = delivered_by_thread(NativeEngine(), ops, 6)
    failed = [(event.op_id, event.table) for event in delivered if isinstance(event, EngineFailed)]
    assert failed == [(2, "t"), (4, "v"), (6, "t")]
    assert [event.op_id for event in delivered if isinstance(event, ProbeFinished)] == [3]


def test_when_the_engine_itself_fails_so_does_everything_it_was_asked() -> None:
    class Broken(NativeEngine):
        def run(self, ops: Sequence[Op]) -> list[Outcome]:
            raise MemoryError("no room")

    delivered = delivered_by_thread(Broken(), [OpenTable("t", SCHEMA), probe_of()], 1)
    assert delivered == [EngineFailed(number, "t", "the engine failed: no room") for number in range(2)]


def test_an_engine_that_does_not_answer_each_question_fails_and_its_thread_goes_on() -> None:
    class Forgetful(NativeEngine):
        def run(self, ops: Sequence[Op]) -> list[Outcome]:
            return super().run(ops)[1:]

    delivered = delivered_by_thread(Forgetful(), [OpenTable("t", SCHEMA), probe_of()], 1)
    assert [event.op_id for event in delivered if isinstance(event, EngineFailed)] == [0, 1]


def test_batches_of_one_call_are_one_run_and_a_bad_one_among_them_fails_alone() -> None:
    engine = NativeEngine()
    ops = [*opened(), append_of(0, 1), append_of(None), append_of(2), find_of(["a"])]
    outcomes = engine.run(ops)
    assert [isinstance(each, Exception) for each in outcomes] == [False, False, False, True, False, False]
    assert [answer.num_rows for answer in outcomes if isinstance(answer, pa.RecordBatch)] == [3]
    assert len(engine._tables["t"].runs) == 1
    # What expires was there before; what comes after it is another run.
    engine.run([append_of(3), Expire("t", 3), append_of(4)])
    assert engine.rows("t") == 2
    assert done(engine.run([find_of(["a"])]))[0].num_rows == 2


def test_what_comes_together_and_is_too_large_for_a_run_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_APPENDED_BYTES", 1)
    monkeypatch.setattr(tiers, "next_merge", lambda *_: None)
    engine = NativeEngine()
    done(engine.run([*opened(), append_of(0), append_of(1), append_of(2)]))
    assert len(engine._tables["t"].runs) == 3
