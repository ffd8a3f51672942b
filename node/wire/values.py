"""Values that messages are made of, to protobuf and back: streams, sequences, policies; and numbers in their range."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from node.core.errors import PeerProtocolError
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.rpc import link_pb2 as pb
from planner.model.beginning import BeginAt, Beginning
from planner.model.query import Algorithm, KeptJoin, Policy, PolicyName, Sequence, Step, StreamInfo
from planner.model.time_unit import TimeUnit

#: Event times and durations lie within this of zero: sums of two of them do not overflow.
_TIME_MAX = 2**62


def tick_in(tick: int) -> int:
    """A tick that came. Raises PeerProtocolError if it is out of range, as all functions here do."""
    if not TICK_MIN <= tick <= TICK_END:
        raise PeerProtocolError(f"a tick requires a number within {TICK_END} of zero; got {tick}")
    return tick


def event_time_in(ts: int) -> int:
    """An event time."""
    if not -_TIME_MAX <= ts <= _TIME_MAX:
        raise PeerProtocolError(f"an event time requires a number within {_TIME_MAX} of zero; got {ts}")
    return ts


def duration_in(duration_us: int) -> int:
    """A duration; as protobuf has it, it is not negative."""
    if duration_us > _TIME_MAX:
        raise PeerProtocolError(f"a duration requires at most {_TIME_MAX} us; got {duration_us}")
    return duration_us


def count_in(count: int) -> int:
    """A count."""
    if count < 0:
        raise PeerProtocolError(f"a count requires a number from 0 on; got {count}")
    return count


def span_out(span: Span) -> tuple[int, int]:
    """The numbers that a span travels as: where it begins and how long it is."""
    return span.first, span.end - span.first


def span_in(first: int, end: int) -> Span:
    """Ticks of a batch or a walk."""
    if not tick_in(first) < tick_in(end):
        raise PeerProtocolError(f"a span requires its end after its first tick; got {first} to {end}")
    return Span(first, end)


def policy_in(policy: pb.Policy) -> Policy:
    """A policy that this version knows."""
    try:
        name = PolicyName(policy.name)
    except ValueError:
        raise PeerProtocolError(f"a policy requires a name that this version knows; got {policy.name!r}") from None
    return Policy(name, duration_in(policy.delta_us) if policy.HasField("delta_us") else None)


def beginning_in(begin: pb.Begin) -> Beginning:
    """Where a query begins, in a way that this version knows."""
    try:
        at = BeginAt(begin.at)
    except ValueError:
        raise PeerProtocolError(f"a query requires a beginning that this version knows; got {begin.at!r}") from None
    return Beginning(at, event_time_in(begin.time_ms), begin.looks_back)


def sequence_out(sequence: Sequence) -> pb.Sequence:
    """One head's steps."""
    steps = [pb.Step(alias=step.alias, algorithm=step.algorithm) for step in sequence.steps]
    return pb.Sequence(head=sequence.head, steps=steps, start=sequence.start or "")


def sequence_in(sequence: pb.Sequence) -> Sequence:
    """One head's steps, of algorithms that this version knows."""
    try:
        steps = tuple(Step(step.alias, Algorithm(step.algorithm)) for step in sequence.steps)
    except ValueError as error:
        raise PeerProtocolError(f"a step requires an algorithm that this version knows; got {error}") from None
    return Sequence(sequence.head, steps, sequence.start or None)


def kept_out(join: KeptJoin) -> pb.KeptJoin:
    """A join that is kept, and how its walks go."""
    sequences = [sequence_out(sequence) for sequence in join.sequences]
    return pb.KeptJoin(name=join.name, aliases=join.aliases, site=join.site, sequences=sequences)


def kept_in(join: pb.KeptJoin) -> KeptJoin:
    """A join that is kept."""
    return KeptJoin(join.name, tuple(join.aliases), join.site, tuple(map(sequence_in, join.sequences)))


def stream_out(info: StreamInfo) -> pb.Stream:
    """A stream, as others know it."""
    schema = info.schema.serialize().to_pybytes()
    return pb.Stream(name=info.name, site=info.site, schema=schema, ts=info.ts, unit=info.unit, ts_scale=info.ts_scale)


def streams_in(streams: Iterable[pb.Stream]) -> tuple[StreamInfo, ...]:
    """Streams that a peer speaks of, each with a schema that has its event time."""
    return tuple(_stream_in(stream) for stream in streams)


def _stream_in(stream: pb.Stream) -> StreamInfo:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(stream.schema))
        names = schema.names  # raises if one of them is not text
        info = StreamInfo(stream.name, stream.site, schema, stream.ts, TimeUnit(stream.unit), stream.ts_scale)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise PeerProtocolError(f"stream {stream.name!r} requires a schema and a time unit; got {error}") from error
    if info.ts not in names:
        raise PeerProtocolError(f"stream {info.name!r} requires its event time {info.ts!r} among {names}")
    return info
