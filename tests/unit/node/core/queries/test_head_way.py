"""Which ticks of a head walk after something was lost."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from node.core.engine import TS
from node.core.queries.head_way import HeadWay
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from tests.examples import examples

TAU = 10


def test_what_is_before_the_first_tick_or_stored_does_not_walk() -> None:
    way = HeadWay(5, (Span(7, 9), Span(12, 13)), TAU)
    assert way.spans(Span(0, 5)) == []
    assert way.spans(Span(0, 6)) == [Span(5, 6)]
    assert way.spans(Span(6, 15)) == [Span(6, 7), Span(9, 12), Span(13, 15)]
    assert way.spans(Span(7, 9)) == []
    assert way.spans(Span(8, 10)) == [Span(9, 10)]
    assert way.spans(Span(13, TICK_END)) == [Span(13, TICK_END)]


def test_a_head_that_begins_with_its_stream_walks_all() -> None:
    assert HeadWay(TICK_MIN, (), TAU).spans(Span(TICK_MIN, TICK_END)) == [Span(TICK_MIN, TICK_END)]


def test_the_rows_of_a_part_are_those_of_its_ticks() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([50, 59, 60, 69, 70], pa.int64())], names=[TS])
    way = HeadWay(0, (), TAU)
    assert way.part(rows, Span(6, 7)).column(TS).to_pylist() == [60, 69]
    assert way.part(rows, Span(TICK_MIN, TICK_END)).equals(rows)
    assert way.part(rows, Span(5, 6)).column(TS).to_pylist() == [50, 59]
    assert way.part(rows, Span(8, 9)).num_rows == 0


@examples()
@given(st.data())
def test_each_tick_walks_once_unless_it_is_stored_however_batches_are_cut(data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 10))
    cuts = sorted(data.draw(st.sets(st.integers(first, 30), max_size=8)))
    islands = tuple(Span(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False))
    ends = sorted({*data.draw(st.sets(st.integers(1, 29), max_size=6)), 0, 30})
    way = HeadWay(first, islands, TAU)
    walked = [
        tick
        for begin, end in itertools.pairwise(ends)
        for span in way.spans(Span(begin, end))
        for tick in range(span.first, span.end)
    ]
    stored = {tick for island in islands for tick in range(island.first, island.end)}
    assert walked == [tick for tick in range(first, 30) if tick not in stored]
    rows = pa.RecordBatch.from_arrays([pa.array(np.arange(0, 300, 3), pa.int64())], names=[TS])
    parts = [way.part(rows, span).column(TS).to_pylist() for span in way.spans(Span(0, 30))]
    assert [ts for part in parts for ts in part] == [
        ts for ts in range(0, 300, 3) if ts // TAU >= first and ts // TAU not in stored
    ]
