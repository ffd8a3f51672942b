"""The wire format: what goes in comes out, and nothing that comes in can do worse than be refused."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.errors import PeerProtocolError
from node.core.link import Ack, Frame, Hello, Kind, Part, Ping, Pong, Refuse
from node.core.messages import Carry, Done, Drop, Failed, Message, Prepare, Prepared, Refused, Rows, Start, Sync
from node.core.rows import decode_rows, encode_rows, encoded_size
from node.core.ticks import TICK_END, TICK_MIN, Span
from node.rpc import link_pb2 as pb
from node.wire import (
    decode_about,
    decode_frame,
    decode_message,
    encode_about,
    encode_frame,
    encode_message,
    kind_of,
    sealed,
)
from planner.model import Algorithm, Sequence, Step, StreamInfo, TimeUnit
from tests.unit import fuzz

ROOT = Path(__file__).resolve().parents[2]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
s64 = st.integers(-(2**63), 2**63 - 1)
ticks = st.integers(TICK_MIN, TICK_END)
data = st.binary(max_size=50)
frames = st.one_of(
    st.builds(Hello, u32, texts, u64, texts, texts, u64, u64, u64, data),
    st.builds(Part, u64, st.sampled_from(Kind), st.booleans(), data, u64),
    st.builds(Ack, u64),
    st.builds(Ping, s64),
    st.builds(Pong, s64),
    st.builds(Refuse, texts),
)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    first, end = sorted(draw(st.lists(ticks, min_size=2, max_size=2, unique=True)))
    return Span(first, end)


@st.composite
def streams(draw: st.DrawFn) -> StreamInfo:
    kinds = st.sampled_from(
        [pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.list_(pa.struct([("x", pa.bool_())]))]
    )
    names = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    schema = pa.schema([pa.field(name, draw(kinds), nullable=draw(st.booleans())) for name in names])
    return StreamInfo(draw(texts), draw(texts), schema, draw(st.sampled_from(names)), draw(st.sampled_from(TimeUnit)))


steps = st.builds(Step, texts, st.sampled_from(Algorithm))
sequences = st.builds(Sequence, texts, st.lists(steps, max_size=3).map(tuple))
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Prepare,
        texts,
        texts,
        texts,
        st.lists(sequences, max_size=3).map(tuple),
        st.lists(streams(), max_size=3).map(tuple),
    ),
    st.builds(Prepared, texts, ticks, st.none() | s64),
    st.builds(Refused, texts, texts),
    st.builds(Start, texts, ticks, st.none() | s64),
    st.builds(Drop, texts),
    st.builds(Failed, texts, texts),
    st.builds(Sync, texts, texts, spans(), data),
    st.builds(Carry, texts, texts, spans(), u32, s64, data),
    st.builds(Rows, texts, texts, spans(), s64, data),
    st.builds(Done, texts, st.lists(st.tuples(texts, ticks), max_size=4).map(tuple)),
)


# -- round trips ------------------------------------------------------------------------------


@given(frames)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)) == frame


@given(messages)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@given(st.lists(streams(), max_size=4))
@settings(derandomize=True, deadline=None)
def test_what_a_site_says_about_itself_comes_back_as_it_was(infos: list[StreamInfo]) -> None:
    assert decode_about(encode_about(infos)) == tuple(infos)


def test_rows_come_back_as_they_were() -> None:
    rows = fuzz.some_rows()
    assert decode_rows(encode_rows(rows), rows.schema).equals(rows)
    assert encoded_size(rows) == len(encode_rows(rows))


def test_a_slice_of_rows_is_sent_without_the_rest() -> None:
    rows = pa.RecordBatch.from_pydict({"n": list(range(10_000))})
    part = rows.slice(5_000, 3)
    assert len(encode_rows(part)) < 500
    assert encoded_size(part) == len(encode_rows(part))
    assert decode_rows(encode_rows(part), rows.schema).equals(part)


def test_no_rows_are_no_bytes() -> None:
    none = fuzz.some_rows().slice(0, 0)
    assert encode_rows(none) == b""
    assert encoded_size(none) == 0
    assert decode_rows(b"", none.schema).schema == none.schema


def test_bytes_are_counted_under_the_right_heading() -> None:
    span = Span(0, 1)
    assert kind_of(Sync("q", "a", span, b"")) is Kind.SYNC
    assert kind_of(Carry("q", "a", span, 0, 0, b"")) is Kind.TUPLES
    assert kind_of(Rows("q", "a", span, 0, b"")) is Kind.RESULTS
    for message in (Drop("q"), Done("q", ()), Start("q", 0, None), Failed("q", "")):
        assert kind_of(message) is Kind.CONTROL


# -- what must be refused ---------------------------------------------------------------------


def refuses(decode: Callable[[bytes], object], bytes_in: bytes, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        decode(bytes_in)


def test_a_frame_without_a_known_body_is_refused() -> None:
    refuses(decode_frame, sealed(b""), "a frame requires a body that this version knows")
    refuses(decode_frame, sealed(b"\x7a\x00"), "a frame requires a body that this version knows")  # field 15


def test_a_message_without_a_known_body_is_refused() -> None:
    refuses(decode_message, pb.Message(query_id="q").SerializeToString(), "a message requires a body")


def test_an_unknown_kind_is_refused() -> None:
    frame = pb.Frame(part=pb.Part(seq=1, kind=4)).SerializeToString()
    refuses(decode_frame, sealed(frame), "a part requires a kind up to 3; got 4")


def test_bytes_that_are_no_protobuf_are_refused_with_their_size() -> None:
    refuses(decode_frame, sealed(b"\xff\xff\xff"), "the bytes received require a frame; got 3 that are not")
    refuses(decode_message, b"\xff\xff\xff", "require a message; got 3")
    refuses(decode_about, b"\xff\xff\xff", "require an about; got 3")


def test_text_that_is_not_utf8_is_refused() -> None:
    refuses(decode_frame, sealed(b"\x32\x01\xff"), "require a frame")


@settings(derandomize=True, deadline=None, max_examples=100)
@given(frames, st.data())
def test_no_flipped_bit_and_no_missing_byte_passes(frame: Frame, data: st.DataObject) -> None:
    whole = encode_frame(frame)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    refuses(decode_frame, bytes(damaged), "a checksum that fits")
    refuses(decode_frame, whole[:-1], "a checksum that fits")


def test_bytes_too_short_for_a_checksum_are_refused() -> None:
    for size in range(1, 4):
        refuses(decode_frame, b"\0" * size, "a checksum that fits")


@pytest.mark.parametrize("tick", [TICK_END + 1, TICK_MIN - 1, 2**63 - 1, -(2**63)])
def test_ticks_beyond_the_axis_are_refused(tick: int) -> None:
    for body in (
        pb.Message(prepared=pb.Prepared(frontier=tick)),
        pb.Message(start=pb.Start(tick=tick)),
        pb.Message(done=pb.Done(frontiers=[pb.Frontier(head="a", tick=tick)])),
    ):
        refuses(decode_message, body.SerializeToString(), f"a tick requires a number .* got {tick}")


@pytest.mark.parametrize(("first", "end"), [(0, 0), (3, 2), (0, TICK_END + 1), (TICK_MIN - 1, 0)])
def test_spans_that_are_none_are_refused(first: int, end: int) -> None:
    span = pb.Span(first=first, end=end)
    for body in (
        pb.Message(sync=pb.Sync(span=span)),
        pb.Message(carry=pb.Carry(span=span)),
        pb.Message(rows=pb.Rows(span=span)),
    ):
        refuses(decode_message, body.SerializeToString(), "span requires first < end")


def test_a_shipment_without_a_span_is_refused() -> None:
    refuses(decode_message, pb.Message(sync=pb.Sync(alias="a")).SerializeToString(), "span requires")


def test_an_unknown_algorithm_is_refused() -> None:
    prepare = pb.Prepare(sequences=[pb.Sequence(head="a", steps=[pb.Step(alias="b", algorithm="SM-X")])])
    refuses(decode_message, pb.Message(prepare=prepare).SerializeToString(), "a step requires an algorithm .*SM-X")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": b""}, "stream 's' requires a schema and a time unit"),
        ({"schema": b"\xff\xff\xff\xff\x00\x00\x00\x00"}, "stream 's' requires a schema and a time unit"),
        ({"unit": 7}, "stream 's' requires a schema and a time unit; got 7"),
        ({"ts": "gone"}, r"stream 's' requires its event time 'gone' among \['ts'\]"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(change: dict[str, object], text: str) -> None:
    schema = pa.schema([("ts", pa.int64())]).serialize().to_pybytes()
    good: dict[str, object] = {"name": "s", "site": "ash", "schema": schema, "ts": "ts", "unit": 1}
    about = pb.About(streams=[pb.Stream(**{**good, **change})])  # type: ignore[arg-type]
    refuses(decode_about, about.SerializeToString(), text)


def test_a_column_name_that_is_not_text_is_refused() -> None:
    schema = pa.schema([("ts", pa.int64()), ("zzzz", pa.int64())]).serialize().to_pybytes()
    about = pb.About(streams=[pb.Stream(name="s", schema=schema.replace(b"zzzz", b"z\xffzz"), ts="ts", unit=1)])
    refuses(decode_about, about.SerializeToString(), "stream 's' requires a schema")


def test_rows_of_another_schema_are_refused() -> None:
    ours, theirs = pa.schema([("n", pa.int64()), ("t", pa.string())]), pa.schema([("n", pa.int64())])
    rows = encode_rows(pa.RecordBatch.from_pylist([{"n": 1}], schema=theirs))
    refuses(lambda bytes_in: decode_rows(bytes_in, ours), rows, r"rows require columns \['n', 't'\]; got bytes")


def test_encoded_rows_must_be_some() -> None:
    rows = fuzz.some_rows().slice(0, 0)
    refuses(
        lambda bytes_in: decode_rows(bytes_in, rows.schema), rows.serialize().to_pybytes(), "requires? at least one row"
    )


@pytest.mark.parametrize("ending", [b"\xff\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00"])
def test_an_end_of_stream_mark_is_not_rows(ending: bytes) -> None:
    refuses(lambda bytes_in: decode_rows(bytes_in, pa.schema([("n", pa.int64())])), ending, "rows require columns")


# -- noise ------------------------------------------------------------------------------------


def survives(decode: Callable[[bytes], object], bytes_in: bytes) -> None:
    with contextlib.suppress(PeerProtocolError):
        decode(bytes_in)


@given(st.binary(max_size=200))
@settings(derandomize=True, deadline=None, max_examples=500)
def test_random_bytes_are_refused_or_taken_and_nothing_else(noise: bytes) -> None:
    survives(decode_frame, noise)
    survives(decode_message, noise)
    survives(decode_about, noise)


@given(frames, st.integers(0, 2**32))
@settings(derandomize=True, deadline=None, max_examples=400)
def test_damaged_frames_are_refused_or_taken_and_nothing_else(frame: Frame, seed: int) -> None:
    survives(decode_frame, fuzz.mutate(random.Random(seed), encode_frame(frame)))


@given(messages.filter(lambda message: not isinstance(message, Prepare)), st.integers(0, 2**32))
@settings(derandomize=True, deadline=None, max_examples=400)
def test_damaged_messages_are_refused_or_taken_and_nothing_else(message: Message, seed: int) -> None:
    survives(decode_message, fuzz.mutate(random.Random(seed), encode_message(message)))


@pytest.mark.parametrize(("subject", "count"), [("rows", 2_000), ("about", 3_000), ("prepare", 3_000)])
def test_damaged_arrow_bytes_crash_nothing(subject: str, count: int) -> None:
    """In a process of its own: Arrow's readers are C++, where damage can end the process instead of raising."""
    command = [sys.executable, "-m", "tests.unit.fuzz", subject, str(count)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "'refused'" in result.stdout
    assert "'taken'" in result.stdout
