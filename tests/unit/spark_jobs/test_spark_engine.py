"""The Spark engine with its exchange and its workers, but without Spark: tasks are called here, one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.engine import POSITION, Append, CloseIndex, CloseTable, Expire, OpenIndex
from node.core.keys import hashing
from node.core.keys import keycodes as keys
from spark_jobs.engine import append_log, packing, stores, worker
from spark_jobs.engine import spark_engine as engines_module
from spark_jobs.engine.channel import Address
from spark_jobs.process import SparkError, SparkProcess, SparkSettings
from tests.engines.conformance import *  # noqa: F403 - the cases
from tests.engines.conformance import (
    ARRIVALS,
    EXTREMES,
    append_of,
    check_any_order_of_arrival,
    check_any_program,
    check_extreme_positions,
    find_of,
    opened,
    probe_of,
    programs,
)
from tests.engines.fused import check_any_calls, check_fused_and_alone
from tests.engines.judge import Engines, done
from tests.engines.on_spark import SparkEngines
from tests.engines.script import Pair, Script, cut
from tests.examples import new_examples

PARTITIONS = 3


class TasksHere:
    """As much of Spark's process as the engine needs: a job is its tasks, called in this process."""

    settings = SparkSettings("here")

    def __init__(self) -> None:
        self._task: worker.Task | None = None
        #: So many of the next tasks lose what their worker holds, before they begin.
        self.deaths = 0

    def serve_jobs(self, address: Address, secret: bytes, partitions: int) -> None:
        self._task = worker.Task(address, secret)
        self._partitions = partitions

    def run_job(self) -> None:
        assert self._task is not None
        for _ in range(self._partitions):
            if self.deaths:
                self.deaths -= 1
                worker._forget()
            list(self._task(()))


@pytest.fixture(scope="module")
def tasks() -> TasksHere:
    return TasksHere()


@pytest.fixture(scope="module")
def engines(tasks: TasksHere, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngines]:
    made = SparkEngines(cast("SparkProcess", tasks), tmp_path_factory.mktemp("spark"), partitions=PARTITIONS)
    yield made
    made.close()
    worker._forget()


@pytest.fixture(scope="module")
def finishes() -> Sequence[keys.Finish]:
    return [hashing.scramble]


@pytest.fixture(scope="module")
def finish() -> keys.Finish:
    return hashing.scramble


# --- random programs ---------------------------------------------------------------------------------


@given(program=programs())
@new_examples(40)
def test_any_program_gives_the_rows_of_the_definition(
    engines: Engines, finish: keys.Finish, program: list[tuple[str, Any]]
) -> None:
    check_any_program(engines, finish, program)


@given(data=st.data())
@new_examples(60)
def test_any_calls_give_the_rows_of_the_reference(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_any_calls(engines, finish, data)


@given(data=st.data())
@new_examples(30)
def test_questions_get_together_what_they_get_alone(engines: Engines, finish: keys.Finish, data: st.DataObject) -> None:
    check_fused_and_alone(engines, finish, data)


@given(**ARRIVALS)
@new_examples(20)
def test_answers_do_not_depend_on_the_order_of_arrival(
    engines: Engines, rows: list[tuple[int, str]], cuts: list[int]
) -> None:
    check_any_order_of_arrival(engines, rows, cuts)


@given(**EXTREMES)
@new_examples(40)
def test_extreme_positions_do_not_wrap_around(
    engines: Engines, positions: list[int], bounds: list[tuple[int, int]]
) -> None:
    check_extreme_positions(engines, positions, bounds)


@pytest.mark.parametrize("seed", range(6))
def test_workers_that_lose_what_they_hold_change_no_row(engines: SparkEngines, tasks: TasksHere, seed: int) -> None:
    rng, script, pair = random.Random(seed), Script(seed), Pair(engines())
    for _ in range(15):
        for ops in cut(script.step(), rng.randint(1, 3), rng):
            tasks.deaths = rng.choice([0, 0, 1, PARTITIONS])
            pair.run(ops)
    assert pair.rows
    assert engines.engine.catch_ups["rebuilt"]


# --- stores ------------------------------------------------------------------------------------------


def stores_of(engines: SparkEngines) -> list[tuple[str, ...]]:
    return list(engines.engine._tables["t"].stores)


def test_a_table_has_a_store_for_each_index_and_one_if_there_is_none(engines: SparkEngines) -> None:
    engine = engines()
    done(engine.run(opened()))
    assert stores_of(engines) == [("k",)]
    done(engine.run([CloseTable("t"), *opened()[:1]]))
    assert stores_of(engines) == []
    done(engine.run([append_of(0, 0)]))
    assert stores_of(engines) == [()]
    done(engine.run([OpenIndex("t", ("k",))]))
    assert stores_of(engines) == [("k",)]
    done(engine.run([OpenIndex("t", ("id",)), OpenIndex("t", ())]))
    assert stores_of(engines) == [("k",), ("id",), ()]
    done(engine.run([CloseIndex("t", ("k",)), CloseIndex("t", ())]))
    assert stores_of(engines) == [("id",)]
    done(engine.run([CloseIndex("t", ("id",)), append_of(0)]))
    assert stores_of(engines) == [("id",)]
    (found,) = done(engine.run([OpenIndex("t", ("k",)), probe_of()]))
    assert stores_of(engines) == [("k",)]
    assert found.num_rows == 3
    assert engine.rows("t") == 3


def test_logs_of_stores_that_are_closed_are_removed(engines: SparkEngines) -> None:
    engine = engines()
    done(engine.run([*opened(("k",), ("id",)), append_of(*range(50)), find_of(["a"])]))
    folder = engines.engine._folder
    assert len(list(folder.glob("store-*"))) == 2
    done(engine.run([CloseIndex("t", ("id",)), find_of(["a"])]))
    assert len(list(folder.glob("store-*"))) == 1
    done(engine.run([find_of(["a"]), CloseTable("t")]))
    engines.engine.flush()
    assert list(folder.glob("store-*")) == []


def test_a_large_table_is_given_another_index_in_several_jobs(
    engines: SparkEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines_module, "PENDING_BYTES_MAX", 20_000)
    monkeypatch.setattr(stores, "CHUNK_BYTES", 5_000)
    engine = engines()
    done(engine.run(opened()))
    for first in range(0, 4000, 100):
        done(engine.run([append_of(*range(first, first + 100))]))
    done(engine.run([Expire("t", 1000), append_of(4000)]))
    jobs = engines.engine.jobs
    wanted = pa.record_batch({"id": pa.array([7, 99])})
    by_id = find_of([], wanted=wanted, keys=("id",), low=1000, high=10**6)
    before, _, after = engine.run([find_of(["a"], low=1000, high=10**6), OpenIndex("t", ("id",)), by_id])
    assert engines.engine.jobs > jobs + 3
    found, again = done([before, after])
    assert sorted(found[POSITION].to_pylist()) == list(range(1000, 4001))
    assert again.num_rows == 60


def test_an_index_is_filled_from_a_log_of_which_much_has_just_expired(
    engines: SparkEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a job, of another table, fills it in the middle: then files are removed that were to be read."""
    monkeypatch.setattr(stores, "CHUNK_BYTES", 100)
    monkeypatch.setattr(append_log, "SEGMENT_BYTES", 100)
    engine = engines()
    open_table, _ = opened()
    done(engine.run([*opened(), replace(open_table, table="u")]))
    for first in range(0, 1000, 100):
        done(engine.run([append_of(*range(first, first + 100))]))
    engines.engine.flush()
    size = engines.engine._tables["t"].stores["k",].log.nbytes
    monkeypatch.setattr(engines_module, "PENDING_BYTES_MAX", size + 1)
    done(engine.run([Expire("t", 900), Append("u", append_of(*range(900)).rows)]))
    by_id = find_of([], wanted=pa.record_batch({"id": pa.array([7])}), keys=("id",), low=900, high=10**6)
    (found,) = done(engine.run([OpenIndex("t", ("id",)), by_id]))
    assert found.num_rows == 1


def test_an_index_that_could_not_be_filled_is_filled_anew_and_not_taken_for_whole(
    engines: SparkEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "CHUNK_BYTES", 100)
    engine = engines()
    done(engine.run(opened()))
    for first in range(0, 400, 100):
        done(engine.run([append_of(*range(first, first + 100))]))
    together = packing.together
    left = [1]

    def read_once(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not left.pop():
            raise OSError("Input/output error")
        left.append(len(left))
        yield from together(batches)

    wanted = pa.record_batch({"id": pa.array([7])})
    by_id = find_of([], wanted=wanted, keys=("id",), low=0, high=10**6)
    with monkeypatch.context() as broken:
        broken.setattr(stores, "together", read_once)
        (refused,) = engine.run([OpenIndex("t", ("id",))])
    assert isinstance(refused, OSError)
    (asked,) = engine.run([by_id])
    assert isinstance(asked, ValueError)
    (found,) = done(engine.run([OpenIndex("t", ("id",)), by_id]))
    assert found.num_rows == 4
    engines.engine.flush()
    assert len(list(engines.engine._folder.glob("store-*"))) == 2, "what was begun is not left behind"


def test_a_log_that_cannot_be_written_breaks_its_table_and_no_other(
    engines: SparkEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines()
    done(engine.run([*opened(), append_of(0), probe_of()]))
    log = engines.engine._tables["t"].stores["k",].log

    def refuse(*_: object) -> None:
        raise OSError("No space left")

    for part in log.partitions:
        monkeypatch.setattr(part, "append", refuse)
    appended, asked, indexed, closed = engine.run([append_of(0), probe_of(), OpenIndex("t", ()), CloseTable("t")])
    assert isinstance(appended, OSError)
    assert isinstance(asked, SparkError)
    assert "lacks some" in str(asked)
    assert isinstance(indexed, SparkError)
    assert closed is None
    (answer,) = done(engine.run([*opened(), append_of(0), probe_of()]))
    assert answer.num_rows == 1


def test_changes_wait_for_a_question_unless_they_are_many(
    engines: SparkEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines()
    done(engine.run([*opened(), append_of(0), probe_of()]))
    jobs = engines.engine.jobs
    rows = append_of(*range(100)).rows
    done(engine.run([Append("t", rows), Expire("t", 0)]))
    assert engines.engine.jobs == jobs
    monkeypatch.setattr(engines_module, "PENDING_BYTES_MAX", 1000)
    done(engine.run([Append("t", rows)]))
    assert engines.engine.jobs == jobs + 1
    assert engines.engine.rows("t") == 201
