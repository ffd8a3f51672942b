"""Core messages to bytes and back. The only translator, and pure: the simulator uses it too.

Every field that comes in is checked for presence and range here, so that the
core sees only values it could have made itself.

A message is laid out for the compressor and for ``node.codec``:

    count, numbers (8 bytes each)   ticks and times: what differs from message to message
    length, protobuf                whose query, which walk: what is mostly the same
    blobs, lengths before all but the last    rows, keys, answers: encoded already
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa
from google.protobuf.message import DecodeError

from node.core import link as frames
from node.core.errors import LocalProtocolError, PeerProtocolError
from node.core.link import Frame, Kind
from node.core.messages import (
    AskMatches,
    AskProfile,
    Attach,
    Carry,
    Detach,
    Done,
    Drop,
    Failed,
    Fetch,
    Fetched,
    KeyAnswer,
    Message,
    Prepare,
    Prepared,
    Profiles,
    Refused,
    ReplicaSync,
    Rows,
    Start,
    Sync,
    TupleAnswer,
)
from node.core.ticks import TICK_END, TICK_MIN, Span
from node.core.varint import decode_varint, encode_varint, signed
from node.rpc import link_pb2 as pb
from node.wire_profiles import profiles_in, profiles_out
from planner.model import Algorithm, Policy, PolicyName, Sequence, Step, StreamInfo, TimeUnit

_KINDS: dict[type[Message], Kind] = {
    AskMatches: Kind.KEYS,
    Fetch: Kind.KEYS,
    KeyAnswer: Kind.KEY_ANSWERS,
    Carry: Kind.TUPLES,
    TupleAnswer: Kind.TUPLES,
    Fetched: Kind.TUPLES,
    Sync: Kind.SYNC,
    ReplicaSync: Kind.SYNC,
    Rows: Kind.RESULTS,
}

#: Event times and durations lie within this of zero: sums of two of them do not overflow.
_TIME_MAX = 2**62
_MASK = 2**64 - 1


def kind_of(message: Message) -> Kind:
    """Under which heading the bytes of a message are counted."""
    return _KINDS.get(type(message), Kind.CONTROL)


# -- frames -----------------------------------------------------------------------------------

RareFrame = frames.Hello | frames.Ping | frames.Pong | frames.Refuse


def encode_frame(frame: RareFrame) -> bytes:
    """One frame that is neither a part nor an acknowledgement (those are ``node.codec``'s) as bytes."""
    out = pb.Frame()
    match frame:
        case frames.Hello():
            out.hello.CopyFrom(
                pb.Hello(
                    version=frame.version,
                    cluster=frame.cluster,
                    tau_ms=frame.tau_ms,
                    site=frame.site,
                    peer=frame.peer,
                    session=frame.session,
                    peer_session=frame.peer_session,
                    expects=frame.expects,
                    about=frame.about,
                )
            )
        case frames.Ping():
            out.ping = frame.sent_at_us
        case frames.Pong():
            out.pong = frame.sent_at_us
        case frames.Refuse():
            out.refuse = frame.reason
    return out.SerializeToString()


def decode_frame(data: bytes) -> Frame:
    """One such frame from bytes.

    Raises PeerProtocolError if they are none.
    """
    frame = pb.Frame()
    _parse(frame, data, "a frame")
    match frame.WhichOneof("body"):
        case "hello":
            return _hello(frame.hello)
        case "ping":
            return frames.Ping(frame.ping)
        case "pong":
            return frames.Pong(frame.pong)
        case "refuse":
            return frames.Refuse(frame.refuse[:1000])
    raise PeerProtocolError("a frame requires a body that this version knows; got none")


def _hello(hello: pb.Hello) -> frames.Hello:
    return frames.Hello(
        hello.version,
        hello.cluster,
        hello.tau_ms,
        hello.site,
        hello.peer,
        hello.session,
        hello.peer_session,
        hello.expects,
        hello.about,
    )


# -- messages ---------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:  # noqa: C901, PLR0912, PLR0915 - a flat table reads best
    """One message as bytes."""
    out = pb.Message(query_id=message.query_id)
    numbers: tuple[int, ...] = ()
    blobs: tuple[bytes, ...] = ()
    match message:
        case AskProfile():
            out.ask_profile.text = message.text
            out.ask_profile.streams.extend(_stream_out(stream) for stream in message.streams)
        case Profiles():
            out.profiles.CopyFrom(profiles_out(message))
        case Prepare():
            prepare = out.prepare
            prepare.text, prepare.sink = message.text, message.sink
            prepare.streams.extend(_stream_out(stream) for stream in message.streams)
            prepare.sequences.extend(_sequence_out(sequence) for sequence in message.sequences)
            prepare.policy.CopyFrom(pb.Policy(name=message.policy.name, delta_us=message.policy.delta_us))
        case Prepared():
            round_trips = [pb.RoundTrip(site=site, rtt_us=rtt_us) for site, rtt_us in message.rtt_us]
            prepared = pb.Prepared(earliest=message.earliest, origin_ms=message.origin_ms, round_trips=round_trips)
            out.prepared.CopyFrom(prepared)
        case Refused():
            out.refused = message.reason
        case Start():
            out.start.CopyFrom(pb.Start(tick=message.tick, origin_ms=message.origin_ms, delta_us=message.delta_us))
        case Drop():
            out.drop.SetInParent()
        case Failed():
            out.failed = message.reason
        case Sync():
            out.sync = message.alias
            numbers, blobs = (*_span_out(message.span), message.sealed_at_us), (message.rows,)
        case Carry():
            _place_out(out.carry, message)
            numbers, blobs = (*_span_out(message.span), message.sealed_at_us), (message.rows,)
        case AskMatches():
            _place_out(out.ask_matches, message)
            times = (message.sealed_at_us, message.low_ts, message.high_ts - message.low_ts)
            numbers, blobs = (*_span_out(message.span), *times), (message.known, message.keys)
        case KeyAnswer():
            _place_out(out.key_answer, message)
            numbers, blobs = _span_out(message.span), (message.matches,)
        case TupleAnswer():
            _place_out(out.tuple_answer, message)
            numbers, blobs = _span_out(message.span), (message.rows,)
        case ReplicaSync():
            out.replica_sync = message.replica
            numbers = (message.frontier, message.before)
            blobs = (message.times, message.born, message.dead, message.full)
        case Fetch():
            out.fetch = message.replica
            numbers, blobs = (message.seen,), (message.slots,)
        case Fetched():
            out.fetched = message.replica
            blobs = (message.rows,)
        case Attach():
            attach = pb.Attach(replica=message.replica, host=message.host, host_replica=message.host_replica)
            out.attach.CopyFrom(attach)
        case Detach():
            out.detach = message.replica
        case Rows():
            out.rows = message.head
            numbers, blobs = (*_span_out(message.span), message.sealed_at_us), (message.rows,)
        case Done():
            out.done.heads.extend(head for head, _ in message.frontiers)
            out.done.SetInParent()
            numbers = tuple(tick for _, tick in message.frontiers)
    return _pack(numbers, out.SerializeToString(), blobs)


def _pack(numbers: tuple[int, ...], body: bytes, blobs: tuple[bytes, ...]) -> bytes:
    head = encode_varint(len(numbers)) + struct.pack(f"<{len(numbers)}Q", *(number & _MASK for number in numbers))
    lengths = (encode_varint(len(blob)) for blob in blobs[:-1])
    return b"".join((head, encode_varint(len(body)), body, *lengths, *blobs))


def decode_message(data: bytes) -> Message:  # noqa: C901, PLR0912, PLR0915
    """One message from bytes.

    Raises PeerProtocolError if they are not a message.
    """
    numbers, body, rest = _unpack(data)
    message = pb.Message()
    _parse(message, body, "a message")
    query_id = message.query_id
    match message.WhichOneof("body"):
        case "ask_profile":
            found: Message = AskProfile(query_id, message.ask_profile.text, _streams(message.ask_profile.streams))
        case "profiles":
            found = profiles_in(query_id, message.profiles)
        case "prepare":
            found = _prepare(query_id, message.prepare)
        case "prepared":
            found = _prepared(query_id, message.prepared)
        case "refused":
            found = Refused(query_id, message.refused)
        case "start":
            start = message.start
            found = Start(query_id, _tick(start.tick), _origin(start), _duration(start.delta_us))
        case "drop":
            found = Drop(query_id)
        case "failed":
            found = Failed(query_id, message.failed)
        case "sync":
            found = Sync(query_id, message.sync, numbers.span(), numbers.take(), rest.blob())
        case "carry":
            place = message.carry
            found = Carry(query_id, place.head, numbers.span(), place.step, numbers.take(), rest.blob())
        case "ask_matches":
            found = _ask_matches(query_id, message.ask_matches, numbers, *rest.blobs(2))
        case "key_answer":
            place = message.key_answer
            found = KeyAnswer(query_id, place.head, numbers.span(), place.step, rest.blob())
        case "tuple_answer":
            place = message.tuple_answer
            found = TupleAnswer(query_id, place.head, numbers.span(), place.step, rest.blob())
        case "replica_sync":
            frontier, before = _tick(numbers.take()), _event_time(numbers.take())
            found = ReplicaSync(query_id, message.replica_sync, frontier, before, *rest.blobs(4))
        case "fetch":
            found = Fetch(query_id, message.fetch, _count(numbers.take()), rest.blob())
        case "fetched":
            found = Fetched(query_id, message.fetched, rest.blob())
        case "attach":
            attach = message.attach
            found = Attach(query_id, attach.replica, attach.host, attach.host_replica)
        case "detach":
            found = Detach(query_id, message.detach)
        case "rows":
            found = Rows(query_id, message.rows, numbers.span(), numbers.take(), rest.blob())
        case "done":
            found = Done(query_id, tuple((head, _tick(numbers.take())) for head in message.done.heads))
        case _:
            raise PeerProtocolError("a message requires a body that this version knows; got none")
    numbers.check_empty()
    rest.check_empty()
    return found


class _Numbers:
    """The numbers of a message, taken one by one."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._numbers = numbers
        self._next = 0

    def take(self) -> int:
        if self._next == len(self._numbers):
            raise PeerProtocolError(f"a message requires more numbers than {self._next}; got no more")
        self._next += 1
        return self._numbers[self._next - 1]

    def span(self) -> Span:
        first = self.take()
        try:
            return Span(first, signed(first + self.take()))
        except LocalProtocolError as error:
            raise PeerProtocolError(str(error)) from None

    def check_empty(self) -> None:
        if self._next != len(self._numbers):
            raise PeerProtocolError(f"a message requires {self._next} numbers; got {len(self._numbers)}")


class _Blobs:
    """What is behind a message's protobuf."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def blob(self) -> bytes:
        """The only one, or the last."""
        at, self._at = self._at, len(self._data)
        return self._data[at:]

    def blobs(self, count: int) -> tuple[bytes, ...]:
        """All of them: the lengths of all but the last come first."""
        lengths = []
        for _ in range(count - 1):
            length, self._at = decode_varint(self._data, self._at)
            lengths.append(length)
        if sum(lengths) > len(self._data) - self._at:
            raise PeerProtocolError(f"a message requires blobs of {lengths} bytes; got {len(self._data) - self._at}")
        out = []
        for length in lengths:
            out.append(self._data[self._at : self._at + length])
            self._at += length
        return (*out, self.blob())

    def check_empty(self) -> None:
        if self._at != len(self._data):
            raise PeerProtocolError(f"a message requires no blob; got one of {len(self._data) - self._at} bytes")


def _unpack(data: bytes) -> tuple[_Numbers, bytes, _Blobs]:
    count, at = decode_varint(data, 0)
    if count > (len(data) - at) // 8:
        raise PeerProtocolError(f"a message requires {count} numbers; got {len(data)} bytes")
    numbers = struct.unpack_from(f"<{count}q", data, at)
    length, at = decode_varint(data, at + 8 * count)
    if length > len(data) - at:
        raise PeerProtocolError(f"a message requires a body of {length} bytes; got {len(data) - at}")
    return _Numbers(numbers), data[at : at + length], _Blobs(data, at + length)


def _prepare(query_id: str, prepare: pb.Prepare) -> Prepare:
    sequences = tuple(_sequence(sequence) for sequence in prepare.sequences)
    streams, policy = _streams(prepare.streams), _policy(prepare.policy)
    return Prepare(query_id, prepare.text, prepare.sink, sequences, streams, policy)


def _prepared(query_id: str, prepared: pb.Prepared) -> Prepared:
    rtt_us = tuple((trip.site, _duration(trip.rtt_us)) for trip in prepared.round_trips)
    return Prepared(query_id, _tick(prepared.earliest), _origin(prepared), rtt_us)


def _policy(policy: pb.Policy) -> Policy:
    try:
        name = PolicyName(policy.name)
    except ValueError:
        raise PeerProtocolError(f"a policy requires a name that this version knows; got {policy.name!r}") from None
    return Policy(name, _duration(policy.delta_us) if policy.HasField("delta_us") else None)


def _ask_matches(query_id: str, place: pb.Place, numbers: _Numbers, known: bytes, keys: bytes) -> AskMatches:
    span, sealed_at_us, low_ts = numbers.span(), numbers.take(), _event_time(numbers.take())
    high_ts = _event_time(signed(low_ts + numbers.take()))
    return AskMatches(query_id, place.head, span, place.step, sealed_at_us, low_ts, high_ts, keys, known)


def _place_out(out: pb.Place, message: Carry | AskMatches | KeyAnswer | TupleAnswer) -> None:
    out.head, out.step = message.head, message.step


def _origin(holder: pb.Prepared | pb.Start) -> int | None:
    return holder.origin_ms if holder.HasField("origin_ms") else None


def _tick(tick: int) -> int:
    if not TICK_MIN <= tick <= TICK_END:
        raise PeerProtocolError(f"a tick requires a number within {TICK_END} of zero; got {tick}")
    return tick


def _event_time(ts: int) -> int:
    if not -_TIME_MAX <= ts <= _TIME_MAX:
        raise PeerProtocolError(f"an event time requires a number within {_TIME_MAX} of zero; got {ts}")
    return ts


def _duration(duration_us: int) -> int:
    if duration_us > _TIME_MAX:
        raise PeerProtocolError(f"a duration requires at most {_TIME_MAX} us; got {duration_us}")
    return duration_us


def _count(count: int) -> int:
    if count < 0:
        raise PeerProtocolError(f"a count requires a number from 0 on; got {count}")
    return count


def _span_out(span: Span) -> tuple[int, int]:
    return span.first, span.end - span.first


# -- what sites say about themselves ----------------------------------------------------------


def encode_about(streams: Iterable[StreamInfo]) -> bytes:
    """A site's streams, for Hello."""
    return pb.About(streams=[_stream_out(stream) for stream in streams]).SerializeToString()


def decode_about(data: bytes) -> tuple[StreamInfo, ...]:
    """A peer's streams.

    Raises PeerProtocolError if the bytes are not that.
    """
    about = pb.About()
    _parse(about, data, "an about")
    return _streams(about.streams)


def _streams(streams: Iterable[pb.Stream]) -> tuple[StreamInfo, ...]:
    return tuple(_stream(stream) for stream in streams)


def _stream_out(info: StreamInfo) -> pb.Stream:
    schema = info.schema.serialize().to_pybytes()
    return pb.Stream(name=info.name, site=info.site, schema=schema, ts=info.ts, unit=info.unit)


def _stream(stream: pb.Stream) -> StreamInfo:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(stream.schema))
        names = schema.names  # raises if one of them is not text
        info = StreamInfo(stream.name, stream.site, schema, stream.ts, TimeUnit(stream.unit))
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise PeerProtocolError(f"stream {stream.name!r} requires a schema and a time unit; got {error}") from error
    if info.ts not in names:
        raise PeerProtocolError(f"stream {info.name!r} requires its event time {info.ts!r} among {names}")
    return info


def _sequence_out(sequence: Sequence) -> pb.Sequence:
    steps = [pb.Step(alias=step.alias, algorithm=step.algorithm) for step in sequence.steps]
    return pb.Sequence(head=sequence.head, steps=steps, start=sequence.start or "")


def _sequence(sequence: pb.Sequence) -> Sequence:
    try:
        steps = tuple(Step(step.alias, Algorithm(step.algorithm)) for step in sequence.steps)
    except ValueError as error:
        raise PeerProtocolError(f"a step requires an algorithm that this version knows; got {error}") from None
    return Sequence(sequence.head, steps, sequence.start or None)


def _parse(into: pb.Frame | pb.Message | pb.About, data: bytes, what: str) -> None:
    try:
        into.ParseFromString(data)
    except DecodeError:
        raise PeerProtocolError(f"the bytes received require {what}; got {len(data)} that are not") from None
