"""What a Python worker of Spark does with its partition, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from node.core.engine import TS, Append, CloseWindow, Op, OpenWindow, Probe
from spark_jobs.packing import Numbered, pack_ops, pack_rows, unpack_ops, unpack_rows, with_rows, without_rows
from spark_jobs.process import SparkError, SparkProcess, SparkSettings
from spark_jobs.worker import Partition, perform

SCHEMA = pa.schema([(TS, pa.int64()), ("w.k", pa.int64())])
OPEN = OpenWindow("w", SCHEMA, ("w.k",))
ROWS = Append("w", pa.record_batch([pa.array([1, 1]), pa.array([7, 7])], schema=SCHEMA))


def probe(**options: Any) -> Probe:
    return Probe("w", pa.record_batch({TS: pa.array([5]), "c.k": pa.array([7])}), ("c.k",), 9, False, **options)


#: It passes every check, and fails when it is computed.
BAD = probe(columns=("no such column",))


def outcome(part: Partition, *ops: tuple[int, Op]) -> tuple[list[int], dict[int, str], dict[str, tuple[int, int]]]:
    """Rows of the answers, the groups that failed, and sizes."""
    message = perform(part, [Numbered(group, op) for group, op in ops])
    content: Any = message.head
    head, failed, sizes = content
    assert sum(count for _, count in head) == len(message.bodies)
    return [unpack_rows(body).num_rows for body in message.bodies], failed, sizes


def test_a_question_that_fails_is_the_failure_of_its_group_alone() -> None:
    rows, failed, _ = outcome(Partition(), (1, OPEN), (1, ROWS), (1, BAD), (1, probe()), (2, probe()))
    assert rows == [2]
    assert list(failed) == [1]


def test_what_a_failed_group_changes_is_changed_all_the_same() -> None:
    part = Partition()
    rows, failed, sizes = outcome(part, (1, OPEN), (1, BAD), (1, ROWS), (1, probe()), (2, probe()))
    assert (rows, list(failed), sizes["w"][0]) == ([2], [1], 2)


def test_a_window_that_lacks_rows_answers_nobody_until_it_is_opened_anew() -> None:
    part = Partition()
    odd = Append("w", pa.record_batch({"other": pa.array([1])}))
    outcome(part, (1, OPEN), (1, odd), (1, ROWS))
    rows, failed, _ = outcome(part, (2, probe()))
    assert rows == []
    assert "lacks rows" in failed[2]
    rows, failed, _ = outcome(part, (3, CloseWindow("w")), (3, OPEN), (3, probe()))
    assert (rows, failed) == ([0], {})


def test_operations_are_whole_again_after_their_journey() -> None:
    ops: list[Op] = [OPEN, ROWS, probe(low=3), CloseWindow("w")]
    packed = [
        (Numbered(place, without_rows(op, op.window)), pack_rows(op.rows) if isinstance(op, (Append, Probe)) else None)
        for place, op in enumerate(ops)
    ]
    message = pack_ops(packed)
    back = unpack_ops(message.head, message.bodies)  # type: ignore[arg-type]
    assert [numbered.group for numbered in back] == [0, 1, 2, 3]
    assert [numbered.op for numbered in back] == ops
    with pytest.raises(ValueError, match="brings no rows"):
        with_rows(CloseWindow("w"), ROWS.rows)


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
