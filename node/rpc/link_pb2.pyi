from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("hello", "part", "ack", "ping", "pong", "refuse")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    REFUSE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    part: Part
    ack: int
    ping: int
    pong: int
    refuse: str
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., part: _Optional[_Union[Part, _Mapping]] = ..., ack: _Optional[int] = ..., ping: _Optional[int] = ..., pong: _Optional[int] = ..., refuse: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "cluster", "tau_ms", "site", "peer", "session", "peer_session", "expects", "about")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAU_MS_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PEER_SESSION_FIELD_NUMBER: _ClassVar[int]
    EXPECTS_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    version: int
    cluster: str
    tau_ms: int
    site: str
    peer: str
    session: int
    peer_session: int
    expects: int
    about: bytes
    def __init__(self, version: _Optional[int] = ..., cluster: _Optional[str] = ..., tau_ms: _Optional[int] = ..., site: _Optional[str] = ..., peer: _Optional[str] = ..., session: _Optional[int] = ..., peer_session: _Optional[int] = ..., expects: _Optional[int] = ..., about: _Optional[bytes] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("seq", "kind", "more", "payload", "ack")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    seq: int
    kind: int
    more: bool
    payload: bytes
    ack: int
    def __init__(self, seq: _Optional[int] = ..., kind: _Optional[int] = ..., more: _Optional[bool] = ..., payload: _Optional[bytes] = ..., ack: _Optional[int] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("name", "site", "schema", "ts", "unit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    schema: bytes
    ts: str
    unit: int
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., schema: _Optional[bytes] = ..., ts: _Optional[str] = ..., unit: _Optional[int] = ...) -> None: ...

class About(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("query_id", "prepare", "prepared", "refused", "start", "drop", "failed", "sync", "carry", "rows", "done")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    CARRY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    prepare: Prepare
    prepared: Prepared
    refused: str
    start: Start
    drop: Nothing
    failed: str
    sync: Sync
    carry: Carry
    rows: Rows
    done: Done
    def __init__(self, query_id: _Optional[str] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., refused: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., drop: _Optional[_Union[Nothing, _Mapping]] = ..., failed: _Optional[str] = ..., sync: _Optional[_Union[Sync, _Mapping]] = ..., carry: _Optional[_Union[Carry, _Mapping]] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Step(_message.Message):
    __slots__ = ("alias", "algorithm")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    alias: str
    algorithm: str
    def __init__(self, alias: _Optional[str] = ..., algorithm: _Optional[str] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ("head", "steps")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    head: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    def __init__(self, head: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("text", "sink", "sequences", "streams")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    text: str
    sink: str
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, text: _Optional[str] = ..., sink: _Optional[str] = ..., sequences: _Optional[_Iterable[_Union[Sequence, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("frontier", "origin_ms")
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_MS_FIELD_NUMBER: _ClassVar[int]
    frontier: int
    origin_ms: int
    def __init__(self, frontier: _Optional[int] = ..., origin_ms: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("tick", "origin_ms")
    TICK_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_MS_FIELD_NUMBER: _ClassVar[int]
    tick: int
    origin_ms: int
    def __init__(self, tick: _Optional[int] = ..., origin_ms: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("first", "end")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Sync(_message.Message):
    __slots__ = ("alias", "span", "rows")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    alias: str
    span: Span
    rows: bytes
    def __init__(self, alias: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., rows: _Optional[bytes] = ...) -> None: ...

class Carry(_message.Message):
    __slots__ = ("head", "span", "step", "sealed_at_us", "rows")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SEALED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    head: str
    span: Span
    step: int
    sealed_at_us: int
    rows: bytes
    def __init__(self, head: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., step: _Optional[int] = ..., sealed_at_us: _Optional[int] = ..., rows: _Optional[bytes] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("head", "span", "sealed_at_us", "rows")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    SEALED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    head: str
    span: Span
    sealed_at_us: int
    rows: bytes
    def __init__(self, head: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., sealed_at_us: _Optional[int] = ..., rows: _Optional[bytes] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("frontiers",)
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    frontiers: _containers.RepeatedCompositeFieldContainer[Frontier]
    def __init__(self, frontiers: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ...) -> None: ...

class Frontier(_message.Message):
    __slots__ = ("head", "tick")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    head: str
    tick: int
    def __init__(self, head: _Optional[str] = ..., tick: _Optional[int] = ...) -> None: ...
