"""The wire format: what goes in comes out, and nothing that comes in can do worse than be refused."""

from __future__ import annotations

import contextlib
import math
import random
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.encoding.rows import decode_rows, encode_rows
from node.core.encoding.varint import encode_varint
from node.core.errors import PeerProtocolError
from node.core.links.link_frames import Hello, Kind, Packed, Ping, Pong, Refuse
from node.core.links.messages import (
    AskMatches,
    Carry,
    CloseCopy,
    Cut,
    Delta,
    Done,
    Drop,
    DropPortion,
    Failed,
    Fence,
    Fetch,
    Fetched,
    Floor,
    GoOver,
    Held,
    Hold,
    KeyAnswer,
    LeaseCopy,
    Level,
    Lost,
    Message,
    OpenCopy,
    Prepare,
    Prepared,
    Ready,
    Refused,
    Resumption,
    Returned,
    RoundTrips,
    Rows,
    SetPortion,
    Start,
    Switch,
    Sync,
    TupleAnswer,
)
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.rpc import link_pb2 as pb
from node.wire import (
    RareFrame,
    decode_about,
    decode_frame,
    decode_message,
    encode_about,
    encode_frame,
    encode_message,
    kind_of,
)
from node.wire.copies import copy_in, copy_out
from planner.algorithms.descriptions import CopyKind
from planner.model.beginning import BeginAt, Beginning
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.query import Algorithm, Call, ColumnRef, Literal, Policy, PolicyName, Sequence, Step, StreamInfo
from planner.model.time_unit import TimeUnit
from tests.examples import examples
from tests.places import ROOT
from tests.unit import fuzz

T = TypeVar("T")


texts = st.text(st.characters(codec="utf-8"), max_size=20)
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
s64 = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(s64, max_size=6).map(tuple)
ticks = st.integers(TICK_MIN, TICK_END)
data = st.binary(max_size=50)
times = st.integers(-(2**62), 2**62)
durations = st.integers(0, 2**62)
frames = st.one_of(
    st.builds(Hello, u32, texts, u64, texts, texts, u64, u64, u64, u64, data),
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
starts = st.none() | texts.filter(bool)
sequences = st.builds(Sequence, texts, st.lists(steps, max_size=3).map(tuple), starts)
frontiers = st.lists(st.tuples(texts, ticks), max_size=3).map(tuple)
literals = st.one_of(
    st.builds(Literal, st.none() | st.booleans(), st.just(pa.bool_())),
    st.builds(Literal, st.integers(-(2**63), 2**63 - 1), st.just(pa.int64())),
    st.builds(Literal, st.floats(allow_nan=False), st.just(pa.float64())),
    st.builds(Literal, st.decimals(-(10**9), 10**9, places=2), st.just(pa.decimal128(12, 2))),
    st.builds(Literal, texts, st.just(pa.string())),
    st.builds(Literal, data, st.just(pa.binary())),
)


@st.composite
def running_copies_of(draw: st.DrawFn) -> RunningCopy:
    stream = draw(texts)
    leaves = st.builds(ColumnRef, st.just(stream), texts) | literals
    calls = st.recursive(
        leaves,
        lambda args: st.builds(
            Call, texts, st.lists(args, max_size=3).map(tuple), st.sampled_from([pa.bool_(), pa.int64(), pa.string()])
        ),
        max_leaves=6,
    )
    names = st.lists(texts, max_size=3).map(tuple)
    axis, kind = draw(st.sampled_from(CopyAxis)), draw(st.sampled_from(CopyKind))
    condition, share = draw(st.none() | calls), draw(st.none() | st.floats(0, 1))
    return RunningCopy(kind, stream, draw(names), draw(names), condition, axis, draw(texts), draw(texts), share)


running_copies = running_copies_of()
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Prepare,
        texts,
        texts,
        texts,
        st.lists(sequences, max_size=3).map(tuple),
        st.lists(streams(), max_size=3).map(tuple),
        st.builds(Policy, st.sampled_from(PolicyName), st.none() | durations),
        u64,
        st.none()
        | st.builds(
            Resumption, ticks, frontiers, ticks, st.booleans(), frontiers, st.none() | ticks, st.none() | ticks
        ),
        st.builds(Beginning, st.sampled_from(BeginAt), times, st.booleans()),
        owner=texts,
    ),
    st.builds(
        Prepared,
        texts,
        ticks,
        st.none() | s64,
        st.lists(st.tuples(texts, durations), max_size=3).map(tuple),
        frontiers,
        u64,
        frontiers,
    ),
    st.builds(Refused, texts, texts),
    st.builds(Start, texts, ticks, st.none() | s64, durations, frontiers),
    st.builds(Fence, texts, u64),
    st.builds(Lost, texts, u64, texts),
    st.builds(Returned, texts),
    st.builds(Ready, texts, u64),
    st.builds(RoundTrips, texts, st.lists(st.tuples(texts, durations), max_size=3).map(tuple)),
    st.builds(Delta, texts, durations),
    st.builds(Switch, texts, u64),
    st.builds(Cut, texts, u64, texts, ticks),
    st.builds(Hold, texts, u64),
    st.builds(Held, texts, u64, texts, ticks),
    st.builds(GoOver, texts, u64, ticks),
    st.builds(Floor, texts, u64),
    st.builds(Level, u32),
    st.builds(Drop, texts),
    st.builds(Failed, texts, texts),
    st.builds(Carry, texts, texts, spans(), u32, s64, data),
    st.builds(AskMatches, texts, texts, spans(), u32, s64, times, times, u32, data, data),
    st.builds(KeyAnswer, texts, texts, spans(), u32, data),
    st.builds(TupleAnswer, texts, texts, spans(), u32, u32, data),
    st.builds(Sync, u32, ticks, times, s64, data, data, data, data),
    st.builds(Fetch, u32, st.integers(0, 2**63 - 1), data),
    st.builds(Fetched, u32, data),
    st.builds(OpenCopy, texts, u32, u32, ticks, running_copies),
    st.builds(LeaseCopy, texts, u32, u32),
    st.builds(CloseCopy, u32),
    st.builds(SetPortion, u32, u32, running_copies),
    st.builds(DropPortion, u32, u32),
    st.builds(Rows, texts, texts, spans(), s64, data),
    st.builds(Done, texts, st.lists(st.tuples(texts, ticks), max_size=4).map(tuple)),
)


# -- round trips ------------------------------------------------------------------------------


@given(frames)
@examples(300)
def test_a_frame_comes_back_as_it_was(frame: RareFrame) -> None:
    assert decode_frame(encode_frame(frame)) == frame


@given(messages)
@examples(400)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@given(running_copies)
@examples()
def test_the_share_of_a_copy_comes_back_as_it_was(copy: RunningCopy) -> None:
    # Copies are equal whatever their shares, so messages that come back do not say it.
    assert copy_in(copy_out(copy)).share == copy.share
    for message in (SetPortion(1, 2, copy), OpenCopy("q", 1, 0, 0, copy)):
        back = decode_message(encode_message(message))
        assert isinstance(back, SetPortion | OpenCopy)
        assert back.spec.share == copy.share


@given(st.lists(streams(), max_size=4))
@examples()
def test_what_a_site_says_about_itself_comes_back_as_it_was(infos: list[StreamInfo]) -> None:
    assert decode_about(encode_about(infos)) == tuple(infos)


def test_bytes_are_counted_under_the_right_heading() -> None:
    span = Span(0, 1)
    headings: dict[Kind, list[Message]] = {
        Kind.KEYS: [AskMatches("q", "a", span, 0, 0, 0, 0, 0, b"", b""), Fetch(0, 0, b"")],
        Kind.KEY_ANSWERS: [KeyAnswer("q", "a", span, 0, b"")],
        Kind.TUPLES: [
            Carry("q", "a", span, 0, 0, b""),
            TupleAnswer("q", "a", span, 0, 0, b""),
            Fetched(0, b""),
        ],
        Kind.SYNC: [Sync(0, 0, 0, 0, b"", b"", b"", b"")],
        Kind.RESULTS: [Rows("q", "a", span, 0, b"")],
        Kind.CONTROL: [
            Prepare("q", "", "", (), ()),
            Prepared("q", 0, None),
            Refused("q", ""),
            Start("q", 0, None),
            Ready("q", 1),
            RoundTrips("q", ()),
            Delta("q", 1),
            Switch("q", 1),
            Cut("q", 1, "a", 0),
            Hold("q", 1),
            Held("q", 1, "s", 0),
            GoOver("q", 1, 0),
            Floor("q", 1),
            Level(1),
            Drop("q"),
            Failed("q", ""),
            Done("q", ()),
            OpenCopy("q", 1, 0, 0, RunningCopy(CopyKind.FULL, "s", (), ("x",), None, CopyAxis.TIME, "ash", "bow")),
            LeaseCopy("q", 1, 0),
            CloseCopy(1),
            SetPortion(1, 2, RunningCopy(CopyKind.FULL, "s", (), ("x",), None, CopyAxis.TIME, "ash", "bow")),
            DropPortion(1, 2),
        ],
    }
    assert {kind: {kind_of(message) for message in under} for kind, under in headings.items()} == {
        kind: {kind} for kind in Kind
    }


# -- what must be refused ---------------------------------------------------------------------


def packed(body: pb.Message, *numbers: int, blobs: bytes = b"") -> Packed:
    data = body.SerializeToString()
    return Packed(encode_varint(len(data)) + data + blobs, numbers)


def refuses(decode: Callable[[T], object], taken: T, text: str) -> None:
    with pytest.raises(PeerProtocolError, match=text):
        decode(taken)


def test_a_frame_without_a_known_body_is_refused() -> None:
    refuses(decode_frame, b"", "a frame requires a body that this version knows")
    refuses(decode_frame, b"\x7a\x00", "a frame requires a body that this version knows")  # field 15


def test_a_message_without_a_known_body_is_refused() -> None:
    refuses(decode_message, packed(pb.Message(query_id="q")), "a message requires a body")


def test_bytes_that_are_no_protobuf_are_refused_with_their_size() -> None:
    refuses(decode_frame, b"\xff\xff\xff", "the bytes received require a frame; got 3 that are not")
    refuses(decode_message, Packed(b"\3\xff\xff\xff"), "require a message; got 3")
    refuses(decode_about, b"\xff\xff\xff", "require an about; got 3")


def test_text_that_is_not_utf8_is_refused() -> None:
    refuses(decode_frame, b"\x32\x01\xff", "require a frame")


@pytest.mark.parametrize("tick", [TICK_END + 1, TICK_MIN - 1, 2**63 - 1, -(2**63)])
def test_ticks_beyond_the_axis_are_refused(tick: int) -> None:
    for message in (
        packed(pb.Message(prepared=pb.Prepared(earliest=tick))),
        packed(pb.Message(start=pb.Start(tick=tick))),
        packed(pb.Message(done=pb.Done(heads=["a"])), tick),
        packed(pb.Message(sync=1), tick, 0, 0, blobs=b"\0\0\0"),
        packed(pb.Message(open_copy=pb.OpenCopy(tick=tick, spec=pb.RunningCopy(kind="full", axis="time")))),
    ):
        refuses(decode_message, message, f"a tick requires a number .* got {tick}")


@pytest.mark.parametrize("ts", [2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)])
def test_event_times_beyond_their_range_are_refused(ts: int) -> None:
    ask = pb.Message(ask_matches=pb.Place(head="a"))
    for message in (
        packed(pb.Message(sync=1), 0, ts, 0, blobs=b"\0\0\0"),
        packed(ask, 0, 1, 0, ts, 0, blobs=b"\0"),
        packed(ask, 0, 1, 0, 0, ts, blobs=b"\0"),
    ):
        refuses(decode_message, message, f"an event time requires a number .* got {ts}")


def test_durations_and_counts_beyond_their_range_are_refused() -> None:
    long = 2**62 + 1
    for body in (
        pb.Message(start=pb.Start(delta_us=long)),
        pb.Message(prepared=pb.Prepared(round_trips=[pb.RoundTrip(site="a", rtt_us=long)])),
        pb.Message(prepare=pb.Prepare(policy=pb.Policy(name="delta", delta_us=long))),
    ):
        refuses(decode_message, packed(body), f"a duration requires at most .* got {long}")
    refuses(decode_message, packed(pb.Message(fetch=1), -1), "a count requires a number from 0 on; got -1")


@pytest.mark.parametrize("name", ["", "hope"])
def test_an_unknown_policy_is_refused(name: str) -> None:
    body = pb.Message(prepare=pb.Prepare(policy=pb.Policy(name=name)))
    refuses(decode_message, packed(body), f"a policy requires a name that this version knows; got {name!r}")


def test_an_unknown_beginning_is_refused() -> None:
    def of(begin: pb.Begin) -> Packed:
        return packed(pb.Message(prepare=pb.Prepare(policy=pb.Policy(name="frontier"), begin=begin)))

    refuses(decode_message, of(pb.Begin(at="dawn")), "a query requires a beginning that this version knows; got 'dawn'")
    refuses(decode_message, of(pb.Begin(at="time", time_ms=2**62 + 1)), "an event time requires a number within")


@pytest.mark.parametrize(("first", "end"), [(0, 0), (3, 2), (0, TICK_END + 1), (TICK_MIN - 1, 0)])
def test_spans_that_are_none_are_refused(first: int, end: int) -> None:
    place = pb.Place(head="a")
    for body, more in (
        (pb.Message(carry=place), 1),
        (pb.Message(rows="a"), 1),
        (pb.Message(ask_matches=place), 3),
        (pb.Message(key_answer=place), 0),
        (pb.Message(tuple_answer=place), 0),
    ):
        blobs = b"\0" if body.HasField("ask_matches") else b""
        refuses(decode_message, packed(body, first, end - first, *[0] * more, blobs=blobs), "span requires first < end")


def test_a_message_with_too_few_or_too_many_numbers_is_refused() -> None:
    refuses(decode_message, packed(pb.Message(sync=1)), "a message requires more numbers than 0")
    refuses(
        decode_message, packed(pb.Message(carry=pb.Place(head="a")), 0, 1, 2, 3), "a message requires 3 numbers; got 4"
    )
    refuses(decode_message, packed(pb.Message(drop=pb.Nothing()), 1), "a message requires 0 numbers; got 1")
    refuses(decode_message, packed(pb.Message(done=pb.Done(heads=["a", "b"])), 1), "more numbers than 1")


def test_a_message_that_is_cut_or_goes_on_is_refused() -> None:
    refuses(decode_message, Packed(b""), "a number requires")
    refuses(decode_message, Packed(b"\7\1"), "a message requires a body of 7 bytes; got 1")
    refuses(decode_message, packed(pb.Message(drop=pb.Nothing()), blobs=b"x"), "no blob; got one of 1 bytes")
    refuses(decode_message, packed(pb.Message(sync=1), 0, 0, 0, blobs=b"\2\2\2abc"), r"blobs of \[2, 2, 2\] bytes")
    refuses(decode_message, packed(pb.Message(sync=1), 0, 0, 0, blobs=b"\2\2"), "a number requires")


@pytest.mark.parametrize("share", [-1e-9, 1.000001, -math.inf, math.inf, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    spec = pb.RunningCopy(kind="full", axis="time", share=share)
    for body in (
        pb.Message(set_portion=pb.SetPortion(copy=1, portion=0, spec=spec)),
        pb.Message(open_copy=pb.OpenCopy(spec=spec)),
    ):
        refuses(decode_message, packed(body), f"a copy requires a share from 0 to 1; got {share}")


def test_an_unknown_algorithm_is_refused() -> None:
    prepare = pb.Prepare(sequences=[pb.Sequence(head="a", steps=[pb.Step(alias="b", algorithm="SM-X")])])
    refuses(decode_message, packed(pb.Message(prepare=prepare)), "a step requires an algorithm .*SM-X")


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


# -- noise ------------------------------------------------------------------------------------


def survives(decode: Callable[[T], object], taken: T) -> None:
    with contextlib.suppress(PeerProtocolError):
        decode(taken)


@given(st.binary(max_size=200), numbers)
@examples(500)
def test_random_bytes_are_refused_or_taken_and_nothing_else(noise: bytes, numbers: tuple[int, ...]) -> None:
    survives(decode_frame, noise)
    survives(decode_message, Packed(noise, numbers))
    survives(decode_about, noise)


@given(frames, st.integers(0, 2**32))
@examples(400)
def test_damaged_frames_are_refused_or_taken_and_nothing_else(frame: RareFrame, seed: int) -> None:
    survives(decode_frame, fuzz.mutate(random.Random(seed), encode_frame(frame)))


@given(messages.filter(lambda message: not isinstance(message, Prepare)), st.integers(0, 2**32), numbers)
@examples(400)
def test_damaged_messages_are_refused_or_taken_and_nothing_else(
    message: Message, seed: int, others: tuple[int, ...]
) -> None:
    rng, (payload, numbers) = random.Random(seed), encode_message(message)
    survives(decode_message, Packed(fuzz.mutate(rng, payload), numbers))
    survives(decode_message, Packed(payload, others))


@pytest.mark.parametrize(
    ("subject", "count"), [("rows", 2_000), ("about", 3_000), ("prepare", 3_000), ("copies", 3_000), ("open", 1_500)]
)
def test_damaged_arrow_bytes_crash_nothing(subject: str, count: int) -> None:
    """In a process of its own: Arrow's readers are C++, where damage can end the process instead of raising."""
    command = [sys.executable, "-m", "tests.unit.fuzz", subject, str(count)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "'refused'" in result.stdout
    assert "'taken'" in result.stdout
