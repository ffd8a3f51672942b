"""Messages of the core to bytes and back."""

from __future__ import annotations

from node.core.errors import PeerProtocolError
from node.core.link import Kind, Packed
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
from node.core.varint import signed
from node.rpc import link_pb2 as pb
from node.wire.packed import Numbers, pack, unpack
from node.wire.parse import parse
from node.wire.profiles import profiles_in, profiles_out
from node.wire.values import (
    count_in,
    duration_in,
    event_time_in,
    policy_in,
    sequence_in,
    sequence_out,
    span_out,
    stream_out,
    streams_in,
    tick_in,
)

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


def kind_of(message: Message) -> Kind:
    """Under which heading the bytes of a message are counted."""
    return _KINDS.get(type(message), Kind.CONTROL)


def encode_message(message: Message) -> Packed:  # noqa: C901, PLR0912, PLR0915 - a flat table reads best
    """One message as a link carries it."""
    out = pb.Message(query_id=message.query_id)
    numbers: tuple[int, ...] = ()
    blobs: tuple[bytes, ...] = ()
    match message:
        case AskProfile():
            out.ask_profile.text = message.text
            out.ask_profile.streams.extend(stream_out(stream) for stream in message.streams)
        case Profiles():
            out.profiles.CopyFrom(profiles_out(message))
        case Prepare():
            prepare = out.prepare
            prepare.text, prepare.sink = message.text, message.sink
            prepare.streams.extend(stream_out(stream) for stream in message.streams)
            prepare.sequences.extend(sequence_out(sequence) for sequence in message.sequences)
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
            numbers, blobs = (*span_out(message.span), message.sealed_at_us), (message.rows,)
        case Carry():
            _place_out(out.carry, message)
            numbers, blobs = (*span_out(message.span), message.sealed_at_us), (message.rows,)
        case AskMatches():
            _place_out(out.ask_matches, message)
            times = (message.sealed_at_us, message.low_ts, message.high_ts - message.low_ts)
            numbers, blobs = (*span_out(message.span), *times), (message.known, message.keys)
        case KeyAnswer():
            _place_out(out.key_answer, message)
            numbers, blobs = span_out(message.span), (message.matches,)
        case TupleAnswer():
            _place_out(out.tuple_answer, message)
            numbers, blobs = span_out(message.span), (message.rows,)
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
            numbers, blobs = (*span_out(message.span), message.sealed_at_us), (message.rows,)
        case Done():
            out.done.heads.extend(head for head, _ in message.frontiers)
            out.done.SetInParent()
            numbers = tuple(tick for _, tick in message.frontiers)
    return pack(numbers, out.SerializeToString(), blobs)


def decode_message(packed: Packed) -> Message:  # noqa: C901, PLR0912, PLR0915
    """One message that came.

    Raises PeerProtocolError if it is none.
    """
    numbers, body, rest = unpack(packed)
    message = pb.Message()
    parse(message, body, "a message")
    query_id = message.query_id
    match message.WhichOneof("body"):
        case "ask_profile":
            found: Message = AskProfile(query_id, message.ask_profile.text, streams_in(message.ask_profile.streams))
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
            found = Start(query_id, tick_in(start.tick), _origin(start), duration_in(start.delta_us))
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
            frontier, before = tick_in(numbers.take()), event_time_in(numbers.take())
            found = ReplicaSync(query_id, message.replica_sync, frontier, before, *rest.blobs(4))
        case "fetch":
            found = Fetch(query_id, message.fetch, count_in(numbers.take()), rest.blob())
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
            found = Done(query_id, tuple((head, tick_in(numbers.take())) for head in message.done.heads))
        case _:
            raise PeerProtocolError("a message requires a body that this version knows; got none")
    numbers.check_empty()
    rest.check_empty()
    return found


def _prepare(query_id: str, prepare: pb.Prepare) -> Prepare:
    sequences = tuple(sequence_in(sequence) for sequence in prepare.sequences)
    streams, policy = streams_in(prepare.streams), policy_in(prepare.policy)
    return Prepare(query_id, prepare.text, prepare.sink, sequences, streams, policy)


def _prepared(query_id: str, prepared: pb.Prepared) -> Prepared:
    rtt_us = tuple((trip.site, duration_in(trip.rtt_us)) for trip in prepared.round_trips)
    return Prepared(query_id, tick_in(prepared.earliest), _origin(prepared), rtt_us)


def _ask_matches(query_id: str, place: pb.Place, numbers: Numbers, known: bytes, keys: bytes) -> AskMatches:
    span, sealed_at_us, low_ts = numbers.span(), numbers.take(), event_time_in(numbers.take())
    high_ts = event_time_in(signed(low_ts + numbers.take()))
    return AskMatches(query_id, place.head, span, place.step, sealed_at_us, low_ts, high_ts, keys, known)


def _place_out(out: pb.Place, message: Carry | AskMatches | KeyAnswer | TupleAnswer) -> None:
    out.head, out.step = message.head, message.step


def _origin(holder: pb.Prepared | pb.Start) -> int | None:
    return holder.origin_ms if holder.HasField("origin_ms") else None
