"""Records of queries to bytes and back, as a site keeps them over a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from node.core.effects import QueryState
from node.core.errors import PeerProtocolError
from node.core.links.link_frames import Packed
from node.core.links.messages import Prepare, Ticks
from node.core.query_records import KINDS, DoneRecord, HomeRecord, PinRecord, Record, RecordKind, Recovered
from node.core.records import Put, RecordChange
from node.core.streams.ticks import TICK_END, TICK_MIN, Span
from node.rpc import link_pb2
from node.rpc import records_pb2 as pb
from node.wire.messages import decode_message, encode_message
from node.wire.parse import parse
from node.wire.values import tick_in


def record_out(record: Record) -> Put:
    """One record as it is kept."""
    match record:
        case HomeRecord():
            prepare = encode_message(record.prepare).payload
            message: pb.HomeRecord | pb.DoneRecord | pb.PinRecord = pb.HomeRecord(
                prepare=prepare,
                state=record.state,
                reason=record.reason,
                first_tick=record.first_tick,
                limited_by=record.limited_by,
                begins=_ticks_out(record.begins),
                walks_from=record.walks_from,
            )
        case DoneRecord():
            message = pb.DoneRecord(done=_ticks_out(record.done))
        case PinRecord():
            restored = _ticks_out(record.restored)
            message = pb.PinRecord(home=record.home, streams=record.streams, restored=restored)
    return Put(KINDS[type(record)], record.query_id, message.SerializeToString())


def _ticks_out(ticks: Ticks) -> list[link_pb2.Frontier]:
    return [link_pb2.Frontier(alias=alias, tick=tick) for alias, tick in ticks]


def _ticks(ticks: Iterable[link_pb2.Frontier]) -> Ticks:
    return tuple((one.alias, tick_in(one.tick)) for one in ticks)


def recovered(
    records: Mapping[str, Mapping[str, bytes]], stored: Mapping[str, Sequence[tuple[str, Span]]]
) -> Recovered:
    """What a daemon found when it started: records by kind and query, and which walks its results store has.

    Raises PeerProtocolError for what is no record.
    """
    homes = [_home(query_id, data) for query_id, data in records.get(RecordKind.HOME, {}).items()]
    done = [_done(query_id, data) for query_id, data in records.get(RecordKind.DONE, {}).items()]
    pins = [_pin(query_id, data) for query_id, data in records.get(RecordKind.PIN, {}).items()]
    spans = {query_id: tuple(walks) for query_id, walks in stored.items()}
    return Recovered(tuple(homes), tuple(done), tuple(pins), spans)


def failed_home(query_id: str, data: bytes, reason: str) -> Put | None:
    """The record of a query that was issued here, which failed; None if it had ended before."""
    record = _home(query_id, data)
    return None if record.state.ended else record_out(replace(record, state=QueryState.FAILED, reason=reason))


def restored_pin(query_id: str, data: bytes, ends: Mapping[str, int]) -> Put:
    """The record of a pin after its site was restored with logs that end at these ticks; those of others are empty."""
    record = _pin(query_id, data)
    earlier = dict(record.restored)
    # Restored twice before the query went on: the lower end counts.
    restored = [(name, min(ends.get(name, TICK_MIN), earlier.get(name, TICK_END))) for name in record.streams]
    return record_out(replace(record, restored=tuple(restored)))


def done_ticks(query_id: str, data: bytes) -> Ticks:
    """How far a query issued here was done."""
    return _done(query_id, data).done


def done_in(changes: Iterable[RecordChange]) -> Iterator[tuple[str, dict[str, int]]]:
    """Queries of which changed records say how far they are done, and how far."""
    for change in changes:
        if isinstance(change, Put) and change.kind == RecordKind.DONE:
            yield change.key, dict(_done(change.key, change.value).done)


def _home(query_id: str, data: bytes) -> HomeRecord:
    record = pb.HomeRecord()
    parse(record, data, "the record of a query")
    prepare = decode_message(Packed(record.prepare))
    if not isinstance(prepare, Prepare):
        raise PeerProtocolError(f"the record of query {query_id} requires its plan; got {type(prepare).__name__}")
    first_tick = tick_in(record.first_tick) if record.HasField("first_tick") else None
    limited_by, begins = tuple(record.limited_by), _ticks(record.begins)
    walks_from = tick_in(record.walks_from) if record.HasField("walks_from") else None
    told = QueryState(record.state), record.reason, first_tick, limited_by, begins, walks_from
    return HomeRecord(query_id, prepare, *told)


def _done(query_id: str, data: bytes) -> DoneRecord:
    record = pb.DoneRecord()
    parse(record, data, "the record of what is done")
    return DoneRecord(query_id, _ticks(record.done))


def _pin(query_id: str, data: bytes) -> PinRecord:
    record = pb.PinRecord()
    parse(record, data, "the record of a pin")
    return PinRecord(query_id, record.home, tuple(record.streams), _ticks(record.restored))
