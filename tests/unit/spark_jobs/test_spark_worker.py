"""What a Python worker of Spark does with its partition, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from node.core.engine import (
    HIGH,
    LOW,
    POSITION,
    Append,
    CloseTable,
    Find,
    Op,
    OpenIndex,
    OpenTable,
    Probe,
)
from planner.model.query import Call, ColumnRef
from spark_jobs.engine.packing import (
    Numbered,
    pack_ops,
    pack_rows,
    together,
    unpack_ops,
    unpack_rows,
    with_rows,
    without_rows,
)
from spark_jobs.engine.partitions import split_by_key, split_table
from spark_jobs.engine.worker import Partition, perform
from spark_jobs.process import SparkError, SparkProcess, SparkSettings

SCHEMA = pa.schema([(POSITION, pa.int64()), ("k", pa.int64())])
OPEN: list[Op] = [OpenTable("t", SCHEMA), OpenIndex("t", ("k",))]
ROWS = Append("t", pa.record_batch([pa.array([1, 1]), pa.array([7, 7])], schema=SCHEMA))
CARRY = pa.record_batch({"c.k": pa.array([7]), LOW: pa.array([0]), HIGH: pa.array([5])})
PROBE = Probe("t", ("k",), CARRY, ("c.k",), "w", None, ("w.k",))
FIND = Find("t", ("k",), pa.record_batch({"k": pa.array([7])}), 0, 5, "w", None, ("k",))
#: It passes every check, and fails when it is computed.
BAD = Probe("t", ("k",), CARRY, ("c.k",), "w", Call("no such function", (ColumnRef("w", "k"),), pa.bool_()), ())


def outcome(part: Partition, *ops: Op) -> tuple[dict[int, int], dict[int, str], dict[str, tuple[int, int]]]:
    """Rows of the answers by the place of the question, those that failed, and sizes."""
    message = perform(part, [Numbered(place, op) for place, op in enumerate(ops)])
    content: Any = message.head
    numbers, failed, sizes = content
    rows = [unpack_rows(body).num_rows for body in message.bodies]
    return dict(zip(numbers, rows, strict=True)), failed, sizes


def test_a_question_that_fails_fails_alone() -> None:
    rows, failed, _ = outcome(Partition(), *OPEN, ROWS, PROBE, BAD, PROBE, FIND)
    assert rows == {3: 2, 5: 2, 6: 2}
    assert list(failed) == [4]
    assert "no such function" in failed[4]


def test_what_comes_after_a_failure_is_changed_all_the_same() -> None:
    rows, failed, sizes = outcome(Partition(), *OPEN, BAD, ROWS, BAD, PROBE)
    assert (rows, list(failed), sizes["t"][0]) == ({5: 2}, [2, 4], 2)


def test_a_table_that_lacks_rows_answers_nobody_until_it_is_opened_anew() -> None:
    part = Partition()
    odd = Append("t", pa.record_batch({"other": pa.array([1])}))
    rows, failed, _ = outcome(part, *OPEN, PROBE, odd, ROWS, PROBE)
    assert (rows, list(failed)) == ({2: 2}, [5])
    rows, failed, _ = outcome(part, PROBE)
    assert rows == {}
    assert "lacks rows" in failed[0]
    rows, failed, _ = outcome(part, CloseTable("t"), *OPEN, PROBE)
    assert (rows, failed) == ({3: 0}, {})


def test_operations_are_whole_again_after_their_journey() -> None:
    ops: list[Op] = [*OPEN, ROWS, PROBE, FIND, CloseTable("t")]
    packed: list[tuple[Numbered, memoryview | None]] = []
    for place, op in enumerate(ops):
        match op:
            case Append():
                packed.append((Numbered(place, Append("t", None)), pack_rows(op.rows)))
            case Probe():
                packed.append((Numbered(place, without_rows(op, "t")), pack_rows(op.rows)))
            case Find():
                packed.append((Numbered(place, without_rows(op, "t")), pack_rows(op.wanted)))
            case _:
                packed.append((Numbered(place, op), None))
    message = pack_ops(packed)
    back = unpack_ops(message.head, message.bodies)  # type: ignore[arg-type]
    assert [numbered.number for numbered in back] == list(range(len(ops)))
    assert [numbered.op for numbered in back] == ops
    assert without_rows(PROBE, "u").table == "u"
    with pytest.raises(ValueError, match="brings no rows"):
        with_rows(CloseTable("t"), ROWS.rows)


def test_batches_are_put_together_where_arrow_can() -> None:
    assert together([]) == []
    (one,) = together([ROWS.rows, ROWS.rows.slice(1)])
    assert one.num_rows == 3


def test_every_row_of_a_table_is_in_one_partition_and_equal_keys_are_in_the_same() -> None:
    count = 300
    keys = pa.array([None if number % 7 == 0 else number % 20 for number in range(count)], pa.int16())
    rows = pa.record_batch({POSITION: pa.array(range(count)), "k": keys, "none": pa.nulls(count, pa.int64())})
    asked = split_by_key([pa.array(range(20), pa.int64())], 3)
    for names in ([], ["k"], ["none"], ["k", "none"]):
        split = split_table(rows, names, 3)
        assert sorted(place for places in split for place in places) == list(range(count))
        assert all(len(places) > 10 for places in split)
    for places, wanted in zip(split_table(rows, ["k"], 3), asked, strict=True):
        assert {keys[place].as_py() for place in places.tolist()} - {None} == set(wanted.tolist())


def test_a_spark_that_cannot_be_started_again_is_given_up_for_a_while(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    process = SparkProcess(SparkSettings("here"), tmp_path)
    with pytest.raises(SparkError, match=r"did not come back in 3 tries: .*requires Java"):
        process.restart()
    with pytest.raises(SparkError, match="just now"):
        process.restart()
    process._given_up_s = -1e9
    with pytest.raises(SparkError, match="requires Java"):
        process.restart()
    process.stop()
    process._given_up_s = None
    with pytest.raises(SparkError, match="is stopped"):
        process.restart()
