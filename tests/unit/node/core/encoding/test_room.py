"""Few bytes never become more memory than a message may take: each way to try it is refused before it is made."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.core.encoding.ints import decode_ints
from node.core.encoding.room import SENT_BYTES_MAX, Room
from node.core.encoding.rows import ROWS_MAX, VALUES_MAX, RowsReader, TooManyRowsError, decode_rows, encode_rows
from node.core.encoding.varint import encode_varint, zigzag
from node.core.errors import PeerProtocolError
from tests.examples import examples
from tests.unit.node.core.encoding.test_rows import VALUES, batches

MANY = encode_varint(ROWS_MAX)


def is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


ZEROS = b"\x02\x00\x00"
#: What the largest honest column takes beside the result while it is decoded: 16 million numbers of 64 bits, thrice.
WORKING_BYTES = 3 * 8 * ROWS_MAX


def taken(decode: Callable[[], object]) -> int:
    """The memory that a refusal takes at its highest."""
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with pytest.raises(PeerProtocolError, match=r"at most|not compressed|place for each"):
            decode()
        highest: int = tracemalloc.get_traced_memory()[1] + max(0, pa.total_allocated_bytes() - before)
        return highest
    finally:
        tracemalloc.stop()


def test_missing_values_of_a_wide_type_take_no_more_than_a_message_may() -> None:
    kind = pa.binary(4096)
    data = MANY + b"\x03" + bytes(ROWS_MAX // 8)
    assert taken(lambda: decode_rows(data, pa.schema([("b", kind)]))) < 2**20


def test_columns_of_text_that_repeats_share_one_bound() -> None:
    text, rows, columns = b"x" * 2**10, 2**19, 8
    column = b"\x04\x01\x00" + encode_varint(zigzag(len(text))) + text + b"\x00\x00"
    schema = pa.schema([(f"t{number}", pa.string()) for number in range(columns)])
    # Each alone would be half of what may be.
    decode_rows(encode_varint(rows) + column, pa.schema([schema.field(0)]))
    same = b"\x00\x00"
    for others in (column, same):
        data = encode_varint(rows) + column + others * (columns - 1)
        with pytest.raises(PeerProtocolError, match=r"rows of one message require at most 1073741824 bytes in memory"):
            decode_rows(data, schema)


def test_batches_of_one_message_share_one_bound() -> None:
    schema = pa.schema([(f"n{number}", pa.int64()) for number in range(VALUES_MAX // ROWS_MAX)])
    data = (MANY + ZEROS * len(schema)) * 2
    reader = RowsReader(data)
    first = reader.read(schema)
    assert first.nbytes == 8 * VALUES_MAX
    assert taken(lambda: reader.read(schema)) < 2**20


def test_rows_that_are_spread_among_many_are_charged_as_many() -> None:
    reader = RowsReader(b"\x01" + b"\x02" + bytes(4096))
    assert taken(lambda: reader.read(pa.schema([("b", pa.binary(4096))]), ROWS_MAX)) < 2**20


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.large_string())], ids=str)
def test_arrows_own_compression_is_refused_before_it_is_undone(kind: pa.DataType) -> None:
    if pa.types.is_dictionary(kind):
        column: pa.Array = pa.array(["x" * 2**24]).cast(kind)
    else:
        column = pa.array([list(np.zeros(2**20, np.int64))], kind)
    batch = pa.RecordBatch.from_arrays([column], schema=pa.schema([pa.field("", kind)]))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue()
    if not pa.types.is_dictionary(kind):
        whole = [*pa.ipc.MessageReader.open_stream(whole)][1].serialize()
    data = whole.to_pybytes()
    assert len(data) < 2**14
    bomb = b"\x01\x02" + encode_varint(len(data)) + data
    assert taken(lambda: decode_rows(bomb, pa.schema([("c", kind)]))) < 2**20


@pytest.mark.parametrize("nested", [False, True])
def test_views_of_the_same_bytes_are_charged_for_each_row(nested: bool) -> None:
    text, rows = b"y" * 2**20, 2**11
    view = np.zeros(4, "<i4")
    view[0], view[1] = len(text), int.from_bytes(text[:4], "little")
    views = np.tile(view, rows)
    buffers = [None, pa.py_buffer(views), pa.py_buffer(text)]
    column: pa.Array = pa.Array.from_buffers(pa.string_view(), rows, buffers)
    if nested:
        column = pa.StructArray.from_arrays([column], ["v"])
    data = b"".join(encode_piece(column))
    assert taken(lambda: decode_rows(data, pa.schema([("v", column.type)]))) < 2**23


def test_a_type_without_a_place_for_each_value_is_refused() -> None:
    column = pa.RunEndEncodedArray.from_arrays(pa.array([ROWS_MAX], pa.int32()), pa.array(["y" * 2**20]))
    data = b"".join(encode_piece(column))
    assert taken(lambda: decode_rows(data, pa.schema([("v", column.type)]))) < 2**23


def encode_piece(column: pa.Array) -> list[bytes]:
    """A column in Arrow's own format, as ``encode_rows`` would have it if it did not refuse."""
    batch = pa.RecordBatch.from_arrays([column], [""]).serialize().to_pybytes()
    return [encode_varint(len(column)), b"\x02", encode_varint(len(batch)), batch]


def test_what_the_other_end_would_not_take_is_not_sent() -> None:
    offsets = np.arange(2**14 + 2, dtype=np.int64) * 2**16
    data = pa.py_buffer(np.zeros(int(offsets[-1]), np.uint8))
    column = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(offsets), data])
    assert column.nbytes > SENT_BYTES_MAX
    with pytest.raises(TooManyRowsError, match="smaller tau or window"):
        encode_rows(pa.RecordBatch.from_arrays([column], ["t"]))


@pytest.mark.parametrize("kind", [kind for kind in VALUES if not is_view(kind)], ids=str)
@examples(20)
@given(data=st.data())
def test_nothing_is_charged_that_the_sender_does_not_count(kind: pa.DataType, data: st.DataObject) -> None:
    """Or an honest site would be blamed. Arrow's own format has some bytes for each column beside its values."""
    rows = data.draw(batches(kind))
    room = Room(rows.nbytes + 1024 * rows.num_columns)
    reader = RowsReader(encode_rows(rows))
    reader._room = room
    assert reader.read(rows.schema).equals(rows) or pa.types.is_floating(kind)


def test_a_message_says_what_was_required_and_what_came() -> None:
    room = Room(100)
    room.charge(60, "a")
    with pytest.raises(PeerProtocolError, match=r"require at most 100 bytes in memory; got 120 up to b$"):
        room.charge(60, "b")


KINDS = [
    pa.int64(),
    pa.bool_(),
    pa.float32(),
    pa.string(),
    pa.large_binary(),
    pa.binary(64),
    pa.decimal256(60, 0),
    pa.list_(pa.int8()),
    pa.string_view(),
]
COUNTS = st.sampled_from([1, 2**10, 2**20, ROWS_MAX, ROWS_MAX + 1, 2**31, 2**60])
#: Pieces of what columns are made of, so that some of what is drawn is nearly right.
PIECES = st.sampled_from(
    [b"\x00", b"\x02", b"\x03", b"\x04", b"\x05", ZEROS, b"\x80\x00\x02", b"\x40", MANY, b"x" * 99]
)


@examples(150)
@given(
    count=COUNTS,
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=9),
    noise=st.lists(PIECES | st.binary(max_size=9)),
)
@example(ROWS_MAX, [pa.binary(64)] * 8, [b"\x03" + bytes(ROWS_MAX // 8)] + [b"\x00\x00"] * 7)
@example(ROWS_MAX, [pa.int64()] * 8, [ZEROS] * 8)
def test_whatever_comes_takes_no_more_than_a_message_may(
    count: int, kinds: list[pa.DataType], noise: list[bytes]
) -> None:
    schema = pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)])
    data = encode_varint(count) + b"".join(noise)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with contextlib.suppress(PeerProtocolError):
            decode_rows(data, schema)
        assert tracemalloc.get_traced_memory()[1] < 2**30 + WORKING_BYTES + 2**27
        assert pa.total_allocated_bytes() - before < 2**30
    finally:
        tracemalloc.stop()


@examples(150)
@given(count_max=st.integers(0, 2**20), count=COUNTS, noise=PIECES | st.binary(max_size=30))
def test_numbers_take_no_more_than_was_allowed(count_max: int, count: int, noise: bytes) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(PeerProtocolError):
            assert len(decode_ints(encode_varint(count) + noise, count_max)) <= count_max
        assert tracemalloc.get_traced_memory()[1] < 3 * 8 * count_max + 2**16
    finally:
        tracemalloc.stop()
