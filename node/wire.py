"""Core values to protobuf bytes and back. The only translator, and pure: the simulator uses it too.

Every field that comes in is checked for presence and range here, so that the
core sees only values it could have made itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pyarrow as pa
from google.protobuf.message import DecodeError

from node.core import link as frames
from node.core.errors import LocalProtocolError, PeerProtocolError
from node.core.link import Frame, Kind
from node.core.messages import Carry, Done, Drop, Failed, Message, Prepare, Prepared, Refused, Rows, Start, Sync
from node.core.ticks import TICK_END, TICK_MIN, Span
from node.rpc import link_pb2 as pb
from planner.model import Algorithm, Sequence, Step, StreamInfo, TimeUnit

#: What follows every frame.
CHECKSUM_BYTES = 4

_KINDS: dict[type[Message], Kind] = {Carry: Kind.TUPLES, Sync: Kind.SYNC, Rows: Kind.RESULTS}


def kind_of(message: Message) -> Kind:
    """Under which heading the bytes of a message are counted."""
    return _KINDS.get(type(message), Kind.CONTROL)


# -- frames -----------------------------------------------------------------------------------


def sealed(body: bytes) -> bytes:
    """The body with its CRC-32 behind it: all of a frame is covered, numbers and acknowledgements too."""
    return body + zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little")


def _unsealed(data: bytes) -> bytes:
    body, seal = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") != seal:
        raise PeerProtocolError(f"a frame requires a checksum that fits; got {len(data)} bytes that are damaged")
    return body


def encode_frame(frame: Frame) -> bytes:
    """One frame as bytes."""
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
        case frames.Part():
            part = out.part
            part.seq, part.kind, part.more = frame.seq, frame.kind, frame.more
            part.payload, part.ack = frame.payload, frame.ack
        case frames.Ack():
            out.ack = frame.expects
        case frames.Ping():
            out.ping = frame.sent_at_us
        case frames.Pong():
            out.pong = frame.sent_at_us
        case frames.Refuse():
            out.refuse = frame.reason
    return sealed(out.SerializeToString())


def decode_frame(data: bytes) -> Frame:
    """One frame from bytes.

    Raises PeerProtocolError if they are not a frame.
    """
    frame = pb.Frame()
    _parse(frame, _unsealed(data), "a frame")
    match frame.WhichOneof("body"):
        case "hello":
            return _hello(frame.hello)
        case "part":
            return _part(frame.part)
        case "ack":
            return frames.Ack(frame.ack)
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


def _part(part: pb.Part) -> frames.Part:
    return frames.Part(part.seq, _kind(part.kind), part.more, part.payload, part.ack)


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise PeerProtocolError(f"a part requires a kind up to {max(Kind)}; got {number}") from None


# -- messages ---------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:  # noqa: C901 - a flat table reads best
    """One message as bytes."""
    out = pb.Message(query_id=message.query_id)
    match message:
        case Prepare():
            prepare = out.prepare
            prepare.text, prepare.sink = message.text, message.sink
            prepare.streams.extend(_stream_out(stream) for stream in message.streams)
            prepare.sequences.extend(_sequence_out(sequence) for sequence in message.sequences)
        case Prepared():
            out.prepared.CopyFrom(pb.Prepared(frontier=message.frontier, origin_ms=message.origin_ms))
        case Refused():
            out.refused = message.reason
        case Start():
            out.start.CopyFrom(pb.Start(tick=message.tick, origin_ms=message.origin_ms))
        case Drop():
            out.drop.SetInParent()
        case Failed():
            out.failed = message.reason
        case Sync():
            out.sync.alias, out.sync.rows = message.alias, message.rows
            _span_out(out.sync.span, message.span)
        case Carry():
            carry = out.carry
            carry.head, carry.step, carry.rows = message.head, message.step, message.rows
            carry.sealed_at_us = message.sealed_at_us
            _span_out(carry.span, message.span)
        case Rows():
            rows = out.rows
            rows.head, rows.rows, rows.sealed_at_us = message.head, message.rows, message.sealed_at_us
            _span_out(rows.span, message.span)
        case Done():
            out.done.frontiers.extend(pb.Frontier(head=head, tick=tick) for head, tick in message.frontiers)
            out.done.SetInParent()
    return out.SerializeToString()


def decode_message(data: bytes) -> Message:  # noqa: C901
    """One message from bytes.

    Raises PeerProtocolError if they are not a message.
    """
    message = pb.Message()
    _parse(message, data, "a message")
    query_id = message.query_id
    match message.WhichOneof("body"):
        case "prepare":
            return _prepare(query_id, message.prepare)
        case "prepared":
            prepared = message.prepared
            return Prepared(query_id, _tick(prepared.frontier), _origin(prepared))
        case "refused":
            return Refused(query_id, message.refused)
        case "start":
            return Start(query_id, _tick(message.start.tick), _origin(message.start))
        case "drop":
            return Drop(query_id)
        case "failed":
            return Failed(query_id, message.failed)
        case "sync":
            return Sync(query_id, message.sync.alias, _span(message.sync.span), message.sync.rows)
        case "carry":
            carry = message.carry
            return Carry(query_id, carry.head, _span(carry.span), carry.step, carry.sealed_at_us, carry.rows)
        case "rows":
            rows = message.rows
            return Rows(query_id, rows.head, _span(rows.span), rows.sealed_at_us, rows.rows)
        case "done":
            return Done(query_id, tuple((front.head, _tick(front.tick)) for front in message.done.frontiers))
    raise PeerProtocolError("a message requires a body that this version knows; got none")


def _prepare(query_id: str, prepare: pb.Prepare) -> Prepare:
    sequences = tuple(_sequence(sequence) for sequence in prepare.sequences)
    return Prepare(query_id, prepare.text, prepare.sink, sequences, _streams(prepare.streams))


def _origin(holder: pb.Prepared | pb.Start) -> int | None:
    return holder.origin_ms if holder.HasField("origin_ms") else None


def _tick(tick: int) -> int:
    if not TICK_MIN <= tick <= TICK_END:
        raise PeerProtocolError(f"a tick requires a number within {TICK_END} of zero; got {tick}")
    return tick


def _span_out(out: pb.Span, span: Span) -> None:
    out.first, out.end = span.first, span.end


def _span(span: pb.Span) -> Span:
    try:
        return Span(span.first, span.end)
    except LocalProtocolError as error:
        raise PeerProtocolError(str(error)) from None


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
    return pb.Sequence(head=sequence.head, steps=steps)


def _sequence(sequence: pb.Sequence) -> Sequence:
    try:
        steps = tuple(Step(step.alias, Algorithm(step.algorithm)) for step in sequence.steps)
    except ValueError as error:
        raise PeerProtocolError(f"a step requires an algorithm that this version knows; got {error}") from None
    return Sequence(sequence.head, steps)


def _parse(into: pb.Frame | pb.Message | pb.About, data: bytes, what: str) -> None:
    try:
        into.ParseFromString(data)
    except DecodeError:
        raise PeerProtocolError(f"the bytes received require {what}; got {len(data)} that are not") from None
