"""Promises wait for the records before them; what only this site sees does not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from node.barrier import Barrier
from node.codec import cut
from node.core.effects import (
    AppendBatch,
    OpenLog,
    QueryState,
    ReadSource,
    RemoveLog,
    ReportQuery,
    StoreRows,
    TrimLog,
    WriteRecords,
)
from node.core.records import Delete
from node.core.streams.sealer import Batch
from node.core.streams.ticks import Span
from node.stack import CloseConnection, Output, SendFrame
from tests.examples import examples

FRAME = SendFrame("bow", 1, cut(b"x"))
CLOSE = CloseConnection("bow", 1, "why not")
TRIM = TrimLog("l", 3)
REPORT = ReportQuery("q1", QueryState.RUNNING, "")
READ = ReadSource("l", None)


def record(number: int) -> WriteRecords:
    return WriteRecords((Delete("home", f"q{number}"),))


class Outside:
    """Who performs and who writes."""

    def __init__(self) -> None:
        self.done: list[Output] = []
        self.writing: list[WriteRecords] = []
        self.barrier = Barrier(self.done.append, self.writing.append)


def test_promises_wait_for_the_records_before_them_and_nothing_else_does() -> None:
    outside = Outside()
    outside.barrier.put([FRAME, record(1), CLOSE, READ, TRIM, record(2), REPORT, FRAME])
    assert outside.writing == [record(1), record(2)], "handed over at once"
    assert outside.done == [FRAME, READ]
    outside.barrier.written(1)
    assert outside.done == [FRAME, READ, CLOSE, TRIM]
    outside.barrier.put([FRAME])
    assert len(outside.done) == 4
    outside.barrier.written(1)
    assert outside.done[4:] == [REPORT, FRAME, FRAME]
    assert outside.barrier.held == 0


def test_rows_wait_for_the_record_of_where_their_query_began() -> None:
    """They outlive a crash, and without that home would begin it elsewhere and store them again."""
    store = StoreRows("q1", "a", Span(0, 1), 0, pa.RecordBatch.from_pydict({"n": [1]}))
    outside = Outside()
    outside.barrier.put([record(1), store])
    assert outside.done == []
    outside.barrier.written(1)
    assert outside.done == [store]


def test_the_log_of_a_kept_join_waits_for_records_and_that_of_a_stream_does_not() -> None:
    """What is in it outlives a crash: without the record of where its join began, that would begin behind it."""
    batch = Batch(Span(0, 1), pa.RecordBatch.from_pydict({"n": [1]}), np.array([5]), 0)
    kept: list[Output] = [OpenLog("q-1-1.pairs"), AppendBatch("q-1-1.pairs", batch), RemoveLog("q-1-1.pairs")]
    own = AppendBatch("l", batch)
    outside = Outside()
    outside.barrier.put([record(1), *kept, own])
    assert outside.done == [own]
    outside.barrier.written(1)
    assert outside.done == [own, *kept]


def test_without_a_disk_nothing_waits() -> None:
    done: list[Output] = []
    Barrier(done.append, None).put([record(1), FRAME])
    assert done == [FRAME]


def test_what_waits_for_a_connection_goes_with_it() -> None:
    """Each that is dialled while records cannot be written begins with all that the one before had in flight."""
    outside = Outside()
    other, refusal = SendFrame("cam", 2, cut(b"x")), SendFrame("bow", 3, cut(b"no"))
    outside.barrier.put([record(1), FRAME, other, TRIM, CLOSE, record(2), FRAME, refusal, REPORT])
    outside.barrier.closed(1)
    outside.barrier.closed(3)
    assert outside.barrier.held == 5
    outside.barrier.written(1)
    assert outside.done == [other, TRIM]
    outside.barrier.written(1)
    assert outside.done == [other, TRIM, REPORT]


def test_a_connection_that_ends_with_what_waits_in_it_does_not_wait() -> None:
    outside = Outside()
    at_once = CloseConnection("bow", 1, "silent", at_once=True)
    outside.barrier.put([record(1), FRAME, TRIM, at_once])
    assert outside.done == [at_once]
    outside.barrier.written(1)
    assert outside.done == [at_once, TRIM]


@given(st.lists(st.sampled_from(["frame", "record", "read", "written", "trim"]), max_size=40))
@examples()
def test_each_output_is_done_once_in_order_and_no_promise_before_its_records(steps: list[str]) -> None:
    outside = Outside()
    put: list[Output] = []
    #: How many records were asked for before each promise.
    needs: list[tuple[Output, int]] = []
    asked = written = 0
    for number, step in enumerate(steps):
        if step == "written":
            if written < asked:
                written += 1
                outside.barrier.written(1)
        elif step == "record":
            asked += 1
            outside.barrier.put([record(number)])
        else:
            made: dict[str, Output] = {"frame": FRAME, "read": READ, "trim": TrimLog("l", number)}
            output = made[step]
            put.append(output)
            if step != "read":
                needs.append((output, asked))
            outside.barrier.put([output])
        promises = [output for output in outside.done if output != READ]
        assert promises == [output for output, _ in needs[: len(promises)]]
        assert [need <= written for _, need in needs] == [True] * len(promises) + [False] * (len(needs) - len(promises))
        assert outside.done.count(READ) == put.count(READ)
