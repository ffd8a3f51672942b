from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("hello", "ping", "pong", "refuse")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    REFUSE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ping: int
    pong: int
    refuse: str
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ping: _Optional[int] = ..., pong: _Optional[int] = ..., refuse: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "cluster", "tau_ms", "site", "peer", "life", "peer_life", "resets", "folder", "lives", "expects", "about")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TAU_MS_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    PEER_LIFE_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    LIVES_FIELD_NUMBER: _ClassVar[int]
    EXPECTS_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    version: int
    cluster: str
    tau_ms: int
    site: str
    peer: str
    life: int
    peer_life: int
    resets: int
    folder: int
    lives: _containers.RepeatedScalarFieldContainer[int]
    expects: int
    about: bytes
    def __init__(self, version: _Optional[int] = ..., cluster: _Optional[str] = ..., tau_ms: _Optional[int] = ..., site: _Optional[str] = ..., peer: _Optional[str] = ..., life: _Optional[int] = ..., peer_life: _Optional[int] = ..., resets: _Optional[int] = ..., folder: _Optional[int] = ..., lives: _Optional[_Iterable[int]] = ..., expects: _Optional[int] = ..., about: _Optional[bytes] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("name", "site", "schema", "ts", "unit", "ts_scale")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    TS_SCALE_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    schema: bytes
    ts: str
    unit: int
    ts_scale: int
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., schema: _Optional[bytes] = ..., ts: _Optional[str] = ..., unit: _Optional[int] = ..., ts_scale: _Optional[int] = ...) -> None: ...

class About(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("query_id", "prepare", "prepared", "refused", "start", "drop", "failed", "sync", "carry", "rows", "done", "ask_matches", "key_answer", "tuple_answer", "open_copy", "fetch", "fetched", "lease_copy", "close_copy", "ask_profile", "profiles", "set_portion", "drop_portion", "fence", "lost", "returned", "ready", "switch", "cut", "floor", "level", "round_trips", "delta", "hold", "held", "go_over")
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
    ASK_MATCHES_FIELD_NUMBER: _ClassVar[int]
    KEY_ANSWER_FIELD_NUMBER: _ClassVar[int]
    TUPLE_ANSWER_FIELD_NUMBER: _ClassVar[int]
    OPEN_COPY_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    LEASE_COPY_FIELD_NUMBER: _ClassVar[int]
    CLOSE_COPY_FIELD_NUMBER: _ClassVar[int]
    ASK_PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    SET_PORTION_FIELD_NUMBER: _ClassVar[int]
    DROP_PORTION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIPS_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    GO_OVER_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    prepare: Prepare
    prepared: Prepared
    refused: str
    start: Start
    drop: Nothing
    failed: str
    sync: int
    carry: Place
    rows: str
    done: Done
    ask_matches: Place
    key_answer: Place
    tuple_answer: Place
    open_copy: OpenCopy
    fetch: int
    fetched: int
    lease_copy: LeaseCopy
    close_copy: int
    ask_profile: AskProfile
    profiles: Profiles
    set_portion: SetPortion
    drop_portion: DropPortion
    fence: int
    lost: Lost
    returned: Nothing
    ready: int
    switch: int
    cut: Cut
    floor: int
    level: int
    round_trips: RoundTrips
    delta: int
    hold: int
    held: Held
    go_over: GoOver
    def __init__(self, query_id: _Optional[str] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., refused: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., drop: _Optional[_Union[Nothing, _Mapping]] = ..., failed: _Optional[str] = ..., sync: _Optional[int] = ..., carry: _Optional[_Union[Place, _Mapping]] = ..., rows: _Optional[str] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., ask_matches: _Optional[_Union[Place, _Mapping]] = ..., key_answer: _Optional[_Union[Place, _Mapping]] = ..., tuple_answer: _Optional[_Union[Place, _Mapping]] = ..., open_copy: _Optional[_Union[OpenCopy, _Mapping]] = ..., fetch: _Optional[int] = ..., fetched: _Optional[int] = ..., lease_copy: _Optional[_Union[LeaseCopy, _Mapping]] = ..., close_copy: _Optional[int] = ..., ask_profile: _Optional[_Union[AskProfile, _Mapping]] = ..., profiles: _Optional[_Union[Profiles, _Mapping]] = ..., set_portion: _Optional[_Union[SetPortion, _Mapping]] = ..., drop_portion: _Optional[_Union[DropPortion, _Mapping]] = ..., fence: _Optional[int] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., returned: _Optional[_Union[Nothing, _Mapping]] = ..., ready: _Optional[int] = ..., switch: _Optional[int] = ..., cut: _Optional[_Union[Cut, _Mapping]] = ..., floor: _Optional[int] = ..., level: _Optional[int] = ..., round_trips: _Optional[_Union[RoundTrips, _Mapping]] = ..., delta: _Optional[int] = ..., hold: _Optional[int] = ..., held: _Optional[_Union[Held, _Mapping]] = ..., go_over: _Optional[_Union[GoOver, _Mapping]] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenCopy(_message.Message):
    __slots__ = ("copy", "need", "tick", "spec")
    COPY_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    copy: int
    need: int
    tick: int
    spec: RunningCopy
    def __init__(self, copy: _Optional[int] = ..., need: _Optional[int] = ..., tick: _Optional[int] = ..., spec: _Optional[_Union[RunningCopy, _Mapping]] = ...) -> None: ...

class LeaseCopy(_message.Message):
    __slots__ = ("copy", "need")
    COPY_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    copy: int
    need: int
    def __init__(self, copy: _Optional[int] = ..., need: _Optional[int] = ...) -> None: ...

class RoundTrips(_message.Message):
    __slots__ = ("round_trips",)
    ROUND_TRIPS_FIELD_NUMBER: _ClassVar[int]
    round_trips: _containers.RepeatedCompositeFieldContainer[RoundTrip]
    def __init__(self, round_trips: _Optional[_Iterable[_Union[RoundTrip, _Mapping]]] = ...) -> None: ...

class Cut(_message.Message):
    __slots__ = ("generation", "head", "tick")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    generation: int
    head: str
    tick: int
    def __init__(self, generation: _Optional[int] = ..., head: _Optional[str] = ..., tick: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("generation", "stream", "tick")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    generation: int
    stream: str
    tick: int
    def __init__(self, generation: _Optional[int] = ..., stream: _Optional[str] = ..., tick: _Optional[int] = ...) -> None: ...

class GoOver(_message.Message):
    __slots__ = ("generation", "tick")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    generation: int
    tick: int
    def __init__(self, generation: _Optional[int] = ..., tick: _Optional[int] = ...) -> None: ...

class SetPortion(_message.Message):
    __slots__ = ("copy", "portion", "spec")
    COPY_FIELD_NUMBER: _ClassVar[int]
    PORTION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    copy: int
    portion: int
    spec: RunningCopy
    def __init__(self, copy: _Optional[int] = ..., portion: _Optional[int] = ..., spec: _Optional[_Union[RunningCopy, _Mapping]] = ...) -> None: ...

class DropPortion(_message.Message):
    __slots__ = ("copy", "portion")
    COPY_FIELD_NUMBER: _ClassVar[int]
    PORTION_FIELD_NUMBER: _ClassVar[int]
    copy: int
    portion: int
    def __init__(self, copy: _Optional[int] = ..., portion: _Optional[int] = ...) -> None: ...

class AskProfile(_message.Message):
    __slots__ = ("text", "streams", "running", "counts_only", "past_us")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    COUNTS_ONLY_FIELD_NUMBER: _ClassVar[int]
    PAST_US_FIELD_NUMBER: _ClassVar[int]
    text: str
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    running: str
    counts_only: bool
    past_us: int
    def __init__(self, text: _Optional[str] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., running: _Optional[str] = ..., counts_only: _Optional[bool] = ..., past_us: _Optional[int] = ...) -> None: ...

class Profiles(_message.Message):
    __slots__ = ("profiles", "missing", "links", "copies", "counts", "kept_bytes")
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[Profile]
    missing: _containers.RepeatedCompositeFieldContainer[Missing]
    links: _containers.RepeatedCompositeFieldContainer[LinkSeen]
    copies: _containers.RepeatedCompositeFieldContainer[RunningCopy]
    counts: RunningCounts
    kept_bytes: int
    def __init__(self, profiles: _Optional[_Iterable[_Union[Profile, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[Missing, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkSeen, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[RunningCopy, _Mapping]]] = ..., counts: _Optional[_Union[RunningCounts, _Mapping]] = ..., kept_bytes: _Optional[int] = ...) -> None: ...

class RunningCounts(_message.Message):
    __slots__ = ("sent", "ship_all", "shared", "unreached", "frontiers")
    SENT_FIELD_NUMBER: _ClassVar[int]
    SHIP_ALL_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    UNREACHED_FIELD_NUMBER: _ClassVar[int]
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    sent: _containers.RepeatedCompositeFieldContainer[Count]
    ship_all: _containers.RepeatedCompositeFieldContainer[Count]
    shared: _containers.RepeatedCompositeFieldContainer[RunningCopy]
    unreached: _containers.RepeatedScalarFieldContainer[str]
    frontiers: _containers.RepeatedCompositeFieldContainer[Frontier]
    def __init__(self, sent: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., ship_all: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., shared: _Optional[_Iterable[_Union[RunningCopy, _Mapping]]] = ..., unreached: _Optional[_Iterable[str]] = ..., frontiers: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("name", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    bytes: int
    def __init__(self, name: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class RunningCopy(_message.Message):
    __slots__ = ("kind", "stream", "keys", "columns", "axis", "owner", "holder", "filter", "share")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stream: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    columns: _containers.RepeatedScalarFieldContainer[str]
    axis: str
    owner: str
    holder: str
    filter: Filter
    share: float
    def __init__(self, kind: _Optional[str] = ..., stream: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., columns: _Optional[_Iterable[str]] = ..., axis: _Optional[str] = ..., owner: _Optional[str] = ..., holder: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., share: _Optional[float] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("parts", "types")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[FilterPart]
    types: bytes
    def __init__(self, parts: _Optional[_Iterable[_Union[FilterPart, _Mapping]]] = ..., types: _Optional[bytes] = ...) -> None: ...

class FilterPart(_message.Message):
    __slots__ = ("column", "null", "truth", "number", "real", "text", "binary", "applied")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    NULL_FIELD_NUMBER: _ClassVar[int]
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    column: str
    null: int
    truth: bool
    number: str
    real: float
    text: str
    binary: bytes
    applied: Applied
    def __init__(self, column: _Optional[str] = ..., null: _Optional[int] = ..., truth: _Optional[bool] = ..., number: _Optional[str] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ..., applied: _Optional[_Union[Applied, _Mapping]] = ...) -> None: ...

class Applied(_message.Message):
    __slots__ = ("function", "args")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    function: str
    args: int
    def __init__(self, function: _Optional[str] = ..., args: _Optional[int] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("alias", "reason")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    alias: str
    reason: str
    def __init__(self, alias: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LinkSeen(_message.Message):
    __slots__ = ("site", "rtt_us", "bytes_per_s")
    SITE_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    site: str
    rtt_us: int
    bytes_per_s: float
    def __init__(self, site: _Optional[str] = ..., rtt_us: _Optional[int] = ..., bytes_per_s: _Optional[float] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("alias", "rows", "span_us", "batch_rows", "columns", "column_bytes", "sketches")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SPAN_US_FIELD_NUMBER: _ClassVar[int]
    BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_BYTES_FIELD_NUMBER: _ClassVar[int]
    SKETCHES_FIELD_NUMBER: _ClassVar[int]
    alias: str
    rows: int
    span_us: int
    batch_rows: float
    columns: _containers.RepeatedScalarFieldContainer[str]
    column_bytes: _containers.RepeatedScalarFieldContainer[float]
    sketches: _containers.RepeatedCompositeFieldContainer[Sketch]
    def __init__(self, alias: _Optional[str] = ..., rows: _Optional[int] = ..., span_us: _Optional[int] = ..., batch_rows: _Optional[float] = ..., columns: _Optional[_Iterable[str]] = ..., column_bytes: _Optional[_Iterable[float]] = ..., sketches: _Optional[_Iterable[_Union[Sketch, _Mapping]]] = ...) -> None: ...

class Sketch(_message.Message):
    __slots__ = ("columns", "limit", "hashes", "counts", "time_unit_us", "firsts", "lengths")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TIME_UNIT_US_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    hashes: bytes
    counts: bytes
    time_unit_us: int
    firsts: bytes
    lengths: bytes
    def __init__(self, columns: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., hashes: _Optional[bytes] = ..., counts: _Optional[bytes] = ..., time_unit_us: _Optional[int] = ..., firsts: _Optional[bytes] = ..., lengths: _Optional[bytes] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("alias", "algorithm")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    alias: str
    algorithm: str
    def __init__(self, alias: _Optional[str] = ..., algorithm: _Optional[str] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ("head", "steps", "start")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    head: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    start: str
    def __init__(self, head: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., start: _Optional[str] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("text", "sink", "sequences", "streams", "policy", "generation", "resumed", "begin", "kept", "part", "owner")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    text: str
    sink: str
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    policy: Policy
    generation: int
    resumed: Resumption
    begin: Begin
    kept: _containers.RepeatedCompositeFieldContainer[KeptJoin]
    part: str
    owner: str
    def __init__(self, text: _Optional[str] = ..., sink: _Optional[str] = ..., sequences: _Optional[_Iterable[_Union[Sequence, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., generation: _Optional[int] = ..., resumed: _Optional[_Union[Resumption, _Mapping]] = ..., begin: _Optional[_Union[Begin, _Mapping]] = ..., kept: _Optional[_Iterable[_Union[KeptJoin, _Mapping]]] = ..., part: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class KeptJoin(_message.Message):
    __slots__ = ("name", "aliases", "site", "sequences")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    site: str
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    def __init__(self, name: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., site: _Optional[str] = ..., sequences: _Optional[_Iterable[_Union[Sequence, _Mapping]]] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("at", "time_ms", "looks_back")
    AT_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LOOKS_BACK_FIELD_NUMBER: _ClassVar[int]
    at: str
    time_ms: int
    looks_back: bool
    def __init__(self, at: _Optional[str] = ..., time_ms: _Optional[int] = ..., looks_back: _Optional[bool] = ...) -> None: ...

class Resumption(_message.Message):
    __slots__ = ("first_tick", "done", "stored_to", "is_alone", "begins", "since", "walks_from")
    FIRST_TICK_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    STORED_TO_FIELD_NUMBER: _ClassVar[int]
    IS_ALONE_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WALKS_FROM_FIELD_NUMBER: _ClassVar[int]
    first_tick: int
    done: _containers.RepeatedCompositeFieldContainer[Frontier]
    stored_to: int
    is_alone: bool
    begins: _containers.RepeatedCompositeFieldContainer[Frontier]
    since: int
    walks_from: int
    def __init__(self, first_tick: _Optional[int] = ..., done: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., stored_to: _Optional[int] = ..., is_alone: _Optional[bool] = ..., begins: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., since: _Optional[int] = ..., walks_from: _Optional[int] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("generation", "reason")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    generation: int
    reason: str
    def __init__(self, generation: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("name", "delta_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DELTA_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    delta_us: int
    def __init__(self, name: _Optional[str] = ..., delta_us: _Optional[int] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("earliest", "origin_ms", "round_trips", "frontiers", "generation", "begins")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_MS_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIPS_FIELD_NUMBER: _ClassVar[int]
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    earliest: int
    origin_ms: int
    round_trips: _containers.RepeatedCompositeFieldContainer[RoundTrip]
    frontiers: _containers.RepeatedCompositeFieldContainer[Frontier]
    generation: int
    begins: _containers.RepeatedCompositeFieldContainer[Frontier]
    def __init__(self, earliest: _Optional[int] = ..., origin_ms: _Optional[int] = ..., round_trips: _Optional[_Iterable[_Union[RoundTrip, _Mapping]]] = ..., frontiers: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., generation: _Optional[int] = ..., begins: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ...) -> None: ...

class Frontier(_message.Message):
    __slots__ = ("alias", "tick")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    alias: str
    tick: int
    def __init__(self, alias: _Optional[str] = ..., tick: _Optional[int] = ...) -> None: ...

class RoundTrip(_message.Message):
    __slots__ = ("site", "rtt_us")
    SITE_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    site: str
    rtt_us: int
    def __init__(self, site: _Optional[str] = ..., rtt_us: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("tick", "origin_ms", "delta_us", "frontiers", "generation", "resumed")
    TICK_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_MS_FIELD_NUMBER: _ClassVar[int]
    DELTA_US_FIELD_NUMBER: _ClassVar[int]
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    tick: int
    origin_ms: int
    delta_us: int
    frontiers: _containers.RepeatedCompositeFieldContainer[Frontier]
    generation: int
    resumed: Resumed
    def __init__(self, tick: _Optional[int] = ..., origin_ms: _Optional[int] = ..., delta_us: _Optional[int] = ..., frontiers: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., generation: _Optional[int] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ...) -> None: ...

class Resumed(_message.Message):
    __slots__ = ("done", "begins", "islands")
    DONE_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    ISLANDS_FIELD_NUMBER: _ClassVar[int]
    done: _containers.RepeatedCompositeFieldContainer[Frontier]
    begins: _containers.RepeatedCompositeFieldContainer[Frontier]
    islands: _containers.RepeatedCompositeFieldContainer[Island]
    def __init__(self, done: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., begins: _Optional[_Iterable[_Union[Frontier, _Mapping]]] = ..., islands: _Optional[_Iterable[_Union[Island, _Mapping]]] = ...) -> None: ...

class Island(_message.Message):
    __slots__ = ("head", "first", "end")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    head: str
    first: int
    end: int
    def __init__(self, head: _Optional[str] = ..., first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("head", "step", "copy")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    head: str
    step: int
    copy: int
    def __init__(self, head: _Optional[str] = ..., step: _Optional[int] = ..., copy: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("taken", "heads")
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    taken: bool
    heads: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, taken: _Optional[bool] = ..., heads: _Optional[_Iterable[str]] = ...) -> None: ...
