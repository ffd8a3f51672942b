"""Messages of the core to bytes and back."""

from __future__ import annotations

from collections.abc import Iterable

from node.core.encoding.varint import signed
from node.core.errors import PeerProtocolError
from node.core.links.link_frames import Kind, Packed
from node.core.links.messages import (
    AskMatches,
    AskProfile,
    Carry,
    CloseCopy,
    CopyMessage,
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
    Profiles,
    Ready,
    Refused,
    Resumed,
    Resumption,
    Returned,
    RoundTrips,
    Rows,
    SetPortion,
    Start,
    Switch,
    Sync,
    Ticks,
    TupleAnswer,
)
from node.core.streams.ticks import TICK_END
from node.rpc import link_pb2 as pb
from node.wire.copies import copy_in, copy_out
from node.wire.packed import Numbers, pack, unpack
from node.wire.parse import parse
from node.wire.profiles import profiles_in, profiles_out
from node.wire.values import (
    beginning_in,
    count_in,
    duration_in,
    event_time_in,
    kept_in,
    kept_out,
    policy_in,
    sequence_in,
    sequence_out,
    span_in,
    span_out,
    stream_out,
    streams_in,
    tick_in,
)
from planner.model.beginning import DEFAULT_BEGINNING

_KINDS: dict[type[Message], Kind] = {
    AskMatches: Kind.KEYS,
    Fetch: Kind.KEYS,
    KeyAnswer: Kind.KEY_ANSWERS,
    Carry: Kind.TUPLES,
    TupleAnswer: Kind.TUPLES,
    Fetched: Kind.TUPLES,
    Sync: Kind.SYNC,
    Rows: Kind.RESULTS,
}


def kind_of(message: Message) -> Kind:
    """Under which heading the bytes of a message are counted."""
    return _KINDS.get(type(message), Kind.CONTROL)


def encode_message(message: Message) -> Packed:  # noqa: C901, PLR0912, PLR0915 - a flat table reads best
    """One message as a link carries it."""
    out = pb.Message()
    if not isinstance(message, CopyMessage):
        out.query_id = message.query_id
    numbers: tuple[int, ...] = ()
    blobs: tuple[bytes, ...] = ()
    match message:
        case AskProfile():
            out.ask_profile.text = message.text
            out.ask_profile.streams.extend(stream_out(stream) for stream in message.streams)
            out.ask_profile.running = message.running
            out.ask_profile.counts_only = message.counts_only
            out.ask_profile.past_us = message.past_us
        case Profiles():
            out.profiles.CopyFrom(profiles_out(message))
        case Prepare():
            prepare = out.prepare
            prepare.text, prepare.sink = message.text, message.sink
            prepare.streams.extend(stream_out(stream) for stream in message.streams)
            prepare.sequences.extend(sequence_out(sequence) for sequence in message.sequences)
            prepare.policy.CopyFrom(pb.Policy(name=message.policy.name, delta_us=message.policy.delta_us))
            prepare.generation = message.generation
            if message.resumed is not None:
                prepare.resumed.first_tick = message.resumed.first_tick
                prepare.resumed.done.extend(_ticks_out(message.resumed.done))
                prepare.resumed.stored_to = message.resumed.stored_to
                prepare.resumed.is_alone = message.resumed.is_alone
                if message.resumed.since is not None:
                    prepare.resumed.since = message.resumed.since
                if message.resumed.walks_from is not None:
                    prepare.resumed.walks_from = message.resumed.walks_from
                prepare.resumed.begins.extend(_ticks_out(message.resumed.begins))
            if message.beginning != DEFAULT_BEGINNING:
                begin = message.beginning
                prepare.begin.CopyFrom(pb.Begin(at=begin.at, time_ms=begin.time_ms, looks_back=begin.looks_back))
            prepare.kept.extend(kept_out(join) for join in message.kept)
            prepare.part, prepare.owner = message.part, message.owner
        case Prepared():
            round_trips = _round_trips_out(message.rtt_us)
            prepared = pb.Prepared(earliest=message.earliest, origin_ms=message.origin_ms, round_trips=round_trips)
            prepared.frontiers.extend(_ticks_out(message.frontiers))
            prepared.generation = message.generation
            prepared.begins.extend(_ticks_out(message.begins))
            out.prepared.CopyFrom(prepared)
        case Refused():
            out.refused = message.reason
        case Start():
            out.start.CopyFrom(pb.Start(tick=message.tick, origin_ms=message.origin_ms, delta_us=message.delta_us))
            out.start.frontiers.extend(_ticks_out(message.frontiers))
            out.start.generation = message.generation
            if message.resumed is not None:
                out.start.resumed.CopyFrom(_resumed_out(message.resumed))
        case Fence():
            out.fence = message.generation
        case Lost():
            out.lost.generation, out.lost.reason = message.generation, message.reason
            out.lost.SetInParent()
        case Returned():
            out.returned.SetInParent()
        case Ready():
            out.ready = message.generation
        case RoundTrips():
            out.round_trips.round_trips.extend(_round_trips_out(message.rtt_us))
            out.round_trips.SetInParent()
        case Delta():
            out.delta = message.delta_us
        case Switch():
            out.switch = message.generation
        case Cut():
            out.cut.CopyFrom(pb.Cut(generation=message.generation, head=message.head, tick=message.tick))
        case Hold():
            out.hold = message.generation
        case Held():
            out.held.CopyFrom(pb.Held(generation=message.generation, stream=message.stream, tick=message.tick))
        case GoOver():
            out.go_over.CopyFrom(pb.GoOver(generation=message.generation, tick=message.tick))
        case Floor():
            out.floor = message.generation
        case Drop():
            out.drop.SetInParent()
        case Failed():
            out.failed = message.reason
        case Sync():
            out.sync = message.copy
            numbers = (message.frontier, message.before, message.sealed_at_us)
            blobs = (message.times, message.born, message.dead, message.rows)
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
        case Fetch():
            out.fetch = message.copy
            numbers, blobs = (message.seen,), (message.slots,)
        case Fetched():
            out.fetched = message.copy
            blobs = (message.rows,)
        case OpenCopy():
            opened = pb.OpenCopy(copy=message.copy, need=message.need, tick=message.tick, spec=copy_out(message.spec))
            out.open_copy.CopyFrom(opened)
        case LeaseCopy():
            out.lease_copy.CopyFrom(pb.LeaseCopy(copy=message.copy, need=message.need))
        case CloseCopy():
            out.close_copy = message.copy
        case Level():
            out.level = message.copy
        case SetPortion():
            portion = pb.SetPortion(copy=message.copy, portion=message.portion, spec=copy_out(message.spec))
            out.set_portion.CopyFrom(portion)
        case DropPortion():
            out.drop_portion.CopyFrom(pb.DropPortion(copy=message.copy, portion=message.portion))
        case Rows():
            out.rows = message.head
            numbers, blobs = (*span_out(message.span), message.sealed_at_us), (message.rows,)
        case Done():
            out.done.heads.extend(head for head, _ in message.frontiers)
            out.done.SetInParent()
            out.done.taken = bool(message.taken)
            taken = dict(message.taken)
            numbers = tuple(tick for _, tick in message.frontiers)
            if taken:
                numbers += tuple(taken[head] for head, _ in message.frontiers)
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
            found: Message = _ask_profile(query_id, message.ask_profile)
        case "profiles":
            found = profiles_in(query_id, message.profiles)
        case "prepare":
            found = _prepare(query_id, message.prepare)
        case "prepared":
            found = _prepared(query_id, message.prepared)
        case "refused":
            found = Refused(query_id, message.refused)
        case "start":
            found = _start(query_id, message.start)
        case "fence":
            found = Fence(query_id, message.fence)
        case "lost":
            found = Lost(query_id, message.lost.generation, message.lost.reason)
        case "returned":
            found = Returned(query_id)
        case "ready":
            found = Ready(query_id, message.ready)
        case "round_trips":
            found = RoundTrips(query_id, _round_trips(message.round_trips.round_trips))
        case "delta":
            found = Delta(query_id, duration_in(message.delta))
        case "switch":
            found = Switch(query_id, message.switch)
        case "cut":
            found = Cut(query_id, message.cut.generation, message.cut.head, tick_in(message.cut.tick))
        case "hold":
            found = Hold(query_id, message.hold)
        case "held":
            found = Held(query_id, message.held.generation, message.held.stream, tick_in(message.held.tick))
        case "go_over":
            found = GoOver(query_id, message.go_over.generation, tick_in(message.go_over.tick))
        case "floor":
            found = Floor(query_id, message.floor)
        case "drop":
            found = Drop(query_id)
        case "failed":
            found = Failed(query_id, message.failed)
        case "sync":
            frontier, before = tick_in(numbers.take()), event_time_in(numbers.take())
            found = Sync(message.sync, frontier, before, numbers.take(), *rest.blobs(4))
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
            found = TupleAnswer(query_id, place.head, numbers.span(), place.step, place.copy, rest.blob())
        case "fetch":
            found = Fetch(message.fetch, count_in(numbers.take()), rest.blob())
        case "fetched":
            found = Fetched(message.fetched, rest.blob())
        case "open_copy":
            opened = message.open_copy
            found = OpenCopy(query_id, opened.copy, opened.need, tick_in(opened.tick), copy_in(opened.spec))
        case "lease_copy":
            found = LeaseCopy(query_id, message.lease_copy.copy, message.lease_copy.need)
        case "close_copy":
            found = CloseCopy(message.close_copy)
        case "level":
            found = Level(message.level)
        case "set_portion":
            portion = message.set_portion
            found = SetPortion(portion.copy, portion.portion, copy_in(portion.spec))
        case "drop_portion":
            found = DropPortion(message.drop_portion.copy, message.drop_portion.portion)
        case "rows":
            found = Rows(query_id, message.rows, numbers.span(), numbers.take(), rest.blob())
        case "done":
            done = tuple((head, tick_in(numbers.take())) for head in message.done.heads)
            heads = message.done.heads if message.done.taken else ()
            found = Done(query_id, done, tuple((head, tick_in(numbers.take())) for head in heads))
        case _:
            raise PeerProtocolError("a message requires a body that this version knows; got none")
    numbers.check_empty()
    rest.check_empty()
    return found


def _ask_profile(query_id: str, asked: pb.AskProfile) -> AskProfile:
    if asked.past_us >= TICK_END:
        raise PeerProtocolError(f"a question requires a past below {TICK_END} us; got {asked.past_us}")
    return AskProfile(query_id, asked.text, streams_in(asked.streams), asked.running, asked.counts_only, asked.past_us)


def _prepare(query_id: str, prepare: pb.Prepare) -> Prepare:
    sequences = tuple(sequence_in(sequence) for sequence in prepare.sequences)
    streams, policy = streams_in(prepare.streams), policy_in(prepare.policy)
    resumed = None
    if prepare.HasField("resumed"):
        said = prepare.resumed
        stored_to, begins = tick_in(said.stored_to), _ticks(said.begins)
        since = tick_in(said.since) if said.HasField("since") else None
        walks_from = tick_in(said.walks_from) if said.HasField("walks_from") else None
        told = tick_in(said.first_tick), _ticks(said.done), stored_to, said.is_alone, begins
        resumed = Resumption(*told, since, walks_from)
    beginning = beginning_in(prepare.begin) if prepare.HasField("begin") else DEFAULT_BEGINNING
    place, kept = (query_id, prepare.text, prepare.sink), tuple(map(kept_in, prepare.kept))
    names = prepare.part, prepare.owner
    return Prepare(*place, sequences, streams, policy, prepare.generation, resumed, beginning, kept, *names)


def _prepared(query_id: str, prepared: pb.Prepared) -> Prepared:
    rtt_us = _round_trips(prepared.round_trips)
    frontiers, begins = _ticks(prepared.frontiers), _ticks(prepared.begins)
    earliest, origin_ms = tick_in(prepared.earliest), _origin(prepared)
    return Prepared(query_id, earliest, origin_ms, rtt_us, frontiers, prepared.generation, begins)


def _start(query_id: str, start: pb.Start) -> Start:
    resumed = None
    if start.HasField("resumed"):
        islands = tuple((island.head, span_in(island.first, island.end)) for island in start.resumed.islands)
        resumed = Resumed(_ticks(start.resumed.done), _ticks(start.resumed.begins), islands)
    delta_us, frontiers = duration_in(start.delta_us), _ticks(start.frontiers)
    return Start(query_id, tick_in(start.tick), _origin(start), delta_us, frontiers, start.generation, resumed)


def _resumed_out(resumed: Resumed) -> pb.Resumed:
    islands = [pb.Island(head=head, first=span.first, end=span.end) for head, span in resumed.islands]
    return pb.Resumed(done=_ticks_out(resumed.done), begins=_ticks_out(resumed.begins), islands=islands)


def _ask_matches(query_id: str, place: pb.Place, numbers: Numbers, known: bytes, keys: bytes) -> AskMatches:
    span, sealed_at_us, low_ts = numbers.span(), numbers.take(), event_time_in(numbers.take())
    high_ts = event_time_in(signed(low_ts + numbers.take()))
    return AskMatches(query_id, place.head, span, place.step, sealed_at_us, low_ts, high_ts, place.copy, keys, known)


def _place_out(out: pb.Place, message: Carry | AskMatches | KeyAnswer | TupleAnswer) -> None:
    out.head, out.step = message.head, message.step
    if isinstance(message, AskMatches | TupleAnswer):
        out.copy = message.copy


def _round_trips_out(rtt_us: Iterable[tuple[str, int]]) -> list[pb.RoundTrip]:
    return [pb.RoundTrip(site=site, rtt_us=measured_us) for site, measured_us in rtt_us]


def _round_trips(round_trips: Iterable[pb.RoundTrip]) -> tuple[tuple[str, int], ...]:
    return tuple((trip.site, duration_in(trip.rtt_us)) for trip in round_trips)


def _ticks_out(ticks: Ticks) -> list[pb.Frontier]:
    return [pb.Frontier(alias=alias, tick=tick) for alias, tick in ticks]


def _ticks(frontiers: Iterable[pb.Frontier]) -> Ticks:
    return tuple((frontier.alias, tick_in(frontier.tick)) for frontier in frontiers)


def _origin(holder: pb.Prepared | pb.Start) -> int | None:
    return holder.origin_ms if holder.HasField("origin_ms") else None
