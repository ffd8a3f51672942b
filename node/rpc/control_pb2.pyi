from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadyReply(_message.Message):
    __slots__ = ("site", "instance", "ready", "steps", "step_seconds")
    SITE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    site: str
    instance: str
    ready: bool
    steps: _containers.RepeatedScalarFieldContainer[str]
    step_seconds: float
    def __init__(self, site: _Optional[str] = ..., instance: _Optional[str] = ..., ready: _Optional[bool] = ..., steps: _Optional[_Iterable[str]] = ..., step_seconds: _Optional[float] = ...) -> None: ...

class IssueRequest(_message.Message):
    __slots__ = ("text", "algorithm", "policy", "plan", "plan_file", "search", "cost", "explained", "keep", "reader", "to", "to_format", "begin", "adaptive")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FILE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    EXPLAINED_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TO_FORMAT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    text: str
    algorithm: str
    policy: str
    plan: str
    plan_file: str
    search: str
    cost: str
    explained: bool
    keep: bool
    reader: str
    to: str
    to_format: str
    begin: str
    adaptive: bool
    def __init__(self, text: _Optional[str] = ..., algorithm: _Optional[str] = ..., policy: _Optional[str] = ..., plan: _Optional[str] = ..., plan_file: _Optional[str] = ..., search: _Optional[str] = ..., cost: _Optional[str] = ..., explained: _Optional[bool] = ..., keep: _Optional[bool] = ..., reader: _Optional[str] = ..., to: _Optional[str] = ..., to_format: _Optional[str] = ..., begin: _Optional[str] = ..., adaptive: _Optional[bool] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("query", "query_id", "measured")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    query: IssueRequest
    query_id: str
    measured: _containers.RepeatedCompositeFieldContainer[StatusReply]
    def __init__(self, query: _Optional[_Union[IssueRequest, _Mapping]] = ..., query_id: _Optional[str] = ..., measured: _Optional[_Iterable[_Union[StatusReply, _Mapping]]] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("text", "json", "svg", "dot")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    DOT_FIELD_NUMBER: _ClassVar[int]
    text: str
    json: str
    svg: str
    dot: str
    def __init__(self, text: _Optional[str] = ..., json: _Optional[str] = ..., svg: _Optional[str] = ..., dot: _Optional[str] = ...) -> None: ...

class ReplanRequest(_message.Message):
    __slots__ = ("query_id", "plan", "dry_run", "why")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    plan: IssueRequest
    dry_run: bool
    why: str
    def __init__(self, query_id: _Optional[str] = ..., plan: _Optional[_Union[IssueRequest, _Mapping]] = ..., dry_run: _Optional[bool] = ..., why: _Optional[str] = ...) -> None: ...

class ReplanReply(_message.Message):
    __slots__ = ("before", "after", "same", "number", "warnings")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    before: PlanCost
    after: PlanCost
    same: bool
    number: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, before: _Optional[_Union[PlanCost, _Mapping]] = ..., after: _Optional[_Union[PlanCost, _Mapping]] = ..., same: _Optional[bool] = ..., number: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class PlanCost(_message.Message):
    __slots__ = ("text", "brief", "json", "bytes_per_s")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BRIEF_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    text: str
    brief: str
    json: str
    bytes_per_s: float
    def __init__(self, text: _Optional[str] = ..., brief: _Optional[str] = ..., json: _Optional[str] = ..., bytes_per_s: _Optional[float] = ...) -> None: ...

class SwitchStatus(_message.Message):
    __slots__ = ("number", "state", "why", "reason", "before", "after", "begun_ms", "switching_ms", "ended_ms", "seconds", "waiting_for", "filling", "heads")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    SWITCHING_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    FILLING_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    number: int
    state: str
    why: str
    reason: str
    before: str
    after: str
    begun_ms: int
    switching_ms: int
    ended_ms: int
    seconds: float
    waiting_for: _containers.RepeatedScalarFieldContainer[str]
    filling: bool
    heads: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., state: _Optional[str] = ..., why: _Optional[str] = ..., reason: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., begun_ms: _Optional[int] = ..., switching_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., seconds: _Optional[float] = ..., waiting_for: _Optional[_Iterable[str]] = ..., filling: _Optional[bool] = ..., heads: _Optional[_Iterable[str]] = ...) -> None: ...

class IssueReply(_message.Message):
    __slots__ = ("query_id", "schema", "plan_text", "plan_json", "warnings")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PLAN_TEXT_FIELD_NUMBER: _ClassVar[int]
    PLAN_JSON_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    schema: bytes
    plan_text: str
    plan_json: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, query_id: _Optional[str] = ..., schema: _Optional[bytes] = ..., plan_text: _Optional[str] = ..., plan_json: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("query_id", "reader", "begin", "run", "client")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    reader: str
    begin: int
    run: str
    client: str
    def __init__(self, query_id: _Optional[str] = ..., reader: _Optional[str] = ..., begin: _Optional[int] = ..., run: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class FollowReply(_message.Message):
    __slots__ = ("rows", "info", "schema", "first_row", "run")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    rows: bytes
    info: QueryInfo
    schema: bytes
    first_row: int
    run: str
    def __init__(self, rows: _Optional[bytes] = ..., info: _Optional[_Union[QueryInfo, _Mapping]] = ..., schema: _Optional[bytes] = ..., first_row: _Optional[int] = ..., run: _Optional[str] = ...) -> None: ...

class ExtentRequest(_message.Message):
    __slots__ = ("query_id", "past", "wait_ms", "reader")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PAST_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    past: int
    wait_ms: int
    reader: str
    def __init__(self, query_id: _Optional[str] = ..., past: _Optional[int] = ..., wait_ms: _Optional[int] = ..., reader: _Optional[str] = ...) -> None: ...

class ExtentReply(_message.Message):
    __slots__ = ("run", "state", "reason", "first", "end", "nbytes", "taken", "schema")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    run: str
    state: str
    reason: str
    first: int
    end: int
    nbytes: int
    taken: int
    schema: bytes
    def __init__(self, run: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., first: _Optional[int] = ..., end: _Optional[int] = ..., nbytes: _Optional[int] = ..., taken: _Optional[int] = ..., schema: _Optional[bytes] = ...) -> None: ...

class RowsRequest(_message.Message):
    __slots__ = ("query_id", "run", "first", "end", "columns")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    run: str
    first: int
    end: int
    columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, query_id: _Optional[str] = ..., run: _Optional[str] = ..., first: _Optional[int] = ..., end: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ...) -> None: ...

class RowsReply(_message.Message):
    __slots__ = ("rows", "schema")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    rows: bytes
    schema: bytes
    def __init__(self, rows: _Optional[bytes] = ..., schema: _Optional[bytes] = ...) -> None: ...

class TakeRequest(_message.Message):
    __slots__ = ("query_id", "run", "before", "reader", "client", "seen")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    run: str
    before: int
    reader: str
    client: str
    seen: int
    def __init__(self, query_id: _Optional[str] = ..., run: _Optional[str] = ..., before: _Optional[int] = ..., reader: _Optional[str] = ..., client: _Optional[str] = ..., seen: _Optional[int] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("query_id", "reader")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    reader: str
    def __init__(self, query_id: _Optional[str] = ..., reader: _Optional[str] = ...) -> None: ...

class ReaderStatus(_message.Message):
    __slots__ = ("name", "taken", "read", "lag_rows", "lag_bytes", "attached", "file", "trouble")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    LAG_ROWS_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    taken: int
    read: int
    lag_rows: int
    lag_bytes: int
    attached: bool
    file: str
    trouble: str
    def __init__(self, name: _Optional[str] = ..., taken: _Optional[int] = ..., read: _Optional[int] = ..., lag_rows: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., attached: _Optional[bool] = ..., file: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...

class CompleteFrom(_message.Message):
    __slots__ = ("asked", "asked_ms", "first_tick", "from_ms", "limited_by", "begin_ms", "lacking")
    ASKED_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_TICK_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    BEGIN_MS_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    asked: str
    asked_ms: int
    first_tick: int
    from_ms: int
    limited_by: _containers.RepeatedScalarFieldContainer[str]
    begin_ms: int
    lacking: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, asked: _Optional[str] = ..., asked_ms: _Optional[int] = ..., first_tick: _Optional[int] = ..., from_ms: _Optional[int] = ..., limited_by: _Optional[_Iterable[str]] = ..., begin_ms: _Optional[int] = ..., lacking: _Optional[_Iterable[str]] = ...) -> None: ...

class AwaySite(_message.Message):
    __slots__ = ("site", "trouble", "seconds")
    SITE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    site: str
    trouble: str
    seconds: float
    def __init__(self, site: _Optional[str] = ..., trouble: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class QueryInfo(_message.Message):
    __slots__ = ("query_id", "text", "state", "reason", "rows", "plan_text", "heads", "followed", "latency_us_buckets", "latency_rows", "home", "readers", "away", "trouble", "waiting_for", "recovery", "streams", "complete_from", "last_switch")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PLAN_TEXT_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_ROWS_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FROM_FIELD_NUMBER: _ClassVar[int]
    LAST_SWITCH_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    text: str
    state: str
    reason: str
    rows: int
    plan_text: str
    heads: _containers.RepeatedCompositeFieldContainer[HeadInfo]
    followed: bool
    latency_us_buckets: _containers.RepeatedScalarFieldContainer[int]
    latency_rows: _containers.RepeatedScalarFieldContainer[int]
    home: str
    readers: _containers.RepeatedCompositeFieldContainer[ReaderStatus]
    away: _containers.RepeatedCompositeFieldContainer[AwaySite]
    trouble: str
    waiting_for: _containers.RepeatedScalarFieldContainer[str]
    recovery: RecoveryStatus
    streams: _containers.RepeatedScalarFieldContainer[str]
    complete_from: CompleteFrom
    last_switch: SwitchStatus
    def __init__(self, query_id: _Optional[str] = ..., text: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., rows: _Optional[int] = ..., plan_text: _Optional[str] = ..., heads: _Optional[_Iterable[_Union[HeadInfo, _Mapping]]] = ..., followed: _Optional[bool] = ..., latency_us_buckets: _Optional[_Iterable[int]] = ..., latency_rows: _Optional[_Iterable[int]] = ..., home: _Optional[str] = ..., readers: _Optional[_Iterable[_Union[ReaderStatus, _Mapping]]] = ..., away: _Optional[_Iterable[_Union[AwaySite, _Mapping]]] = ..., trouble: _Optional[str] = ..., waiting_for: _Optional[_Iterable[str]] = ..., recovery: _Optional[_Union[RecoveryStatus, _Mapping]] = ..., streams: _Optional[_Iterable[str]] = ..., complete_from: _Optional[_Union[CompleteFrom, _Mapping]] = ..., last_switch: _Optional[_Union[SwitchStatus, _Mapping]] = ...) -> None: ...

class HeadInfo(_message.Message):
    __slots__ = ("head", "done_tick")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    DONE_TICK_FIELD_NUMBER: _ClassVar[int]
    head: str
    done_tick: int
    def __init__(self, head: _Optional[str] = ..., done_tick: _Optional[int] = ...) -> None: ...

class QueriesReply(_message.Message):
    __slots__ = ("queries",)
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    queries: _containers.RepeatedCompositeFieldContainer[QueryInfo]
    def __init__(self, queries: _Optional[_Iterable[_Union[QueryInfo, _Mapping]]] = ...) -> None: ...

class DropRequest(_message.Message):
    __slots__ = ("query_id",)
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    def __init__(self, query_id: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("site", "streams", "links", "windows", "engine_seconds", "core_seconds", "cpu_seconds", "rss_bytes", "views", "uptime_seconds", "ignored", "copies", "probes", "steps", "traffic", "queries", "engine", "catching_up", "ended", "log_bytes", "log_quota_bytes", "kept", "disk_trouble")
    class IgnoredEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SITE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CORE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    CATCHING_UP_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_QUOTA_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    DISK_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    site: str
    streams: _containers.RepeatedCompositeFieldContainer[StreamStatus]
    links: _containers.RepeatedCompositeFieldContainer[LinkStatus]
    windows: _containers.RepeatedCompositeFieldContainer[WindowStatus]
    engine_seconds: float
    core_seconds: float
    cpu_seconds: float
    rss_bytes: int
    views: _containers.RepeatedCompositeFieldContainer[ViewStatus]
    uptime_seconds: float
    ignored: _containers.ScalarMap[str, int]
    copies: _containers.RepeatedCompositeFieldContainer[CopyStatus]
    probes: _containers.RepeatedCompositeFieldContainer[ProbeStatus]
    steps: _containers.RepeatedCompositeFieldContainer[StepStatus]
    traffic: _containers.RepeatedCompositeFieldContainer[TrafficStatus]
    queries: _containers.RepeatedCompositeFieldContainer[QueryBrief]
    engine: EngineStatus
    catching_up: _containers.RepeatedCompositeFieldContainer[CatchingUpStatus]
    ended: _containers.RepeatedCompositeFieldContainer[QueryBrief]
    log_bytes: int
    log_quota_bytes: int
    kept: _containers.RepeatedCompositeFieldContainer[KeptLog]
    disk_trouble: str
    def __init__(self, site: _Optional[str] = ..., streams: _Optional[_Iterable[_Union[StreamStatus, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkStatus, _Mapping]]] = ..., windows: _Optional[_Iterable[_Union[WindowStatus, _Mapping]]] = ..., engine_seconds: _Optional[float] = ..., core_seconds: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., views: _Optional[_Iterable[_Union[ViewStatus, _Mapping]]] = ..., uptime_seconds: _Optional[float] = ..., ignored: _Optional[_Mapping[str, int]] = ..., copies: _Optional[_Iterable[_Union[CopyStatus, _Mapping]]] = ..., probes: _Optional[_Iterable[_Union[ProbeStatus, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[StepStatus, _Mapping]]] = ..., traffic: _Optional[_Iterable[_Union[TrafficStatus, _Mapping]]] = ..., queries: _Optional[_Iterable[_Union[QueryBrief, _Mapping]]] = ..., engine: _Optional[_Union[EngineStatus, _Mapping]] = ..., catching_up: _Optional[_Iterable[_Union[CatchingUpStatus, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[QueryBrief, _Mapping]]] = ..., log_bytes: _Optional[int] = ..., log_quota_bytes: _Optional[int] = ..., kept: _Optional[_Iterable[_Union[KeptLog, _Mapping]]] = ..., disk_trouble: _Optional[str] = ...) -> None: ...

class KeptLog(_message.Message):
    __slots__ = ("query_id", "home", "stream", "since", "bytes", "runs")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    home: str
    stream: str
    since: int
    bytes: int
    runs: bool
    def __init__(self, query_id: _Optional[str] = ..., home: _Optional[str] = ..., stream: _Optional[str] = ..., since: _Optional[int] = ..., bytes: _Optional[int] = ..., runs: _Optional[bool] = ...) -> None: ...

class EngineStatus(_message.Message):
    __slots__ = ("name", "master", "version", "jobs", "job_ms_median", "job_ms_last", "rebuilt", "restarts", "restarting_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    JOB_MS_MEDIAN_FIELD_NUMBER: _ClassVar[int]
    JOB_MS_LAST_FIELD_NUMBER: _ClassVar[int]
    REBUILT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RESTARTING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    master: str
    version: str
    jobs: int
    job_ms_median: float
    job_ms_last: float
    rebuilt: int
    restarts: int
    restarting_seconds: float
    def __init__(self, name: _Optional[str] = ..., master: _Optional[str] = ..., version: _Optional[str] = ..., jobs: _Optional[int] = ..., job_ms_median: _Optional[float] = ..., job_ms_last: _Optional[float] = ..., rebuilt: _Optional[int] = ..., restarts: _Optional[int] = ..., restarting_seconds: _Optional[float] = ...) -> None: ...

class StreamStatus(_message.Message):
    __slots__ = ("name", "state", "rows", "aside", "rows_per_second", "frontier", "reason", "logged_rows", "logged_bytes", "idle_seconds", "still_seconds", "state_seconds", "full_queries", "aside_by_reason", "aside_file")
    class AsideByReasonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ASIDE_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOGGED_ROWS_FIELD_NUMBER: _ClassVar[int]
    LOGGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STILL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FULL_QUERIES_FIELD_NUMBER: _ClassVar[int]
    ASIDE_BY_REASON_FIELD_NUMBER: _ClassVar[int]
    ASIDE_FILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    rows: int
    aside: int
    rows_per_second: float
    frontier: int
    reason: str
    logged_rows: int
    logged_bytes: int
    idle_seconds: float
    still_seconds: float
    state_seconds: float
    full_queries: _containers.RepeatedScalarFieldContainer[str]
    aside_by_reason: _containers.ScalarMap[str, int]
    aside_file: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., rows: _Optional[int] = ..., aside: _Optional[int] = ..., rows_per_second: _Optional[float] = ..., frontier: _Optional[int] = ..., reason: _Optional[str] = ..., logged_rows: _Optional[int] = ..., logged_bytes: _Optional[int] = ..., idle_seconds: _Optional[float] = ..., still_seconds: _Optional[float] = ..., state_seconds: _Optional[float] = ..., full_queries: _Optional[_Iterable[str]] = ..., aside_by_reason: _Optional[_Mapping[str, int]] = ..., aside_file: _Optional[str] = ...) -> None: ...

class LinkStatus(_message.Message):
    __slots__ = ("peer", "state", "trouble", "rtt_us", "sent_bytes", "received_bytes", "backlog_bytes", "reconnects", "duplicates", "bytes_per_s", "state_seconds", "silent_seconds", "behind_seconds", "delivered_per_s", "rtt_us_least", "reconnects_lately")
    class SentBytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ReceivedBytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PEER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    STATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SILENT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_PER_S_FIELD_NUMBER: _ClassVar[int]
    RTT_US_LEAST_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_LATELY_FIELD_NUMBER: _ClassVar[int]
    peer: str
    state: str
    trouble: str
    rtt_us: int
    sent_bytes: _containers.ScalarMap[str, int]
    received_bytes: _containers.ScalarMap[str, int]
    backlog_bytes: int
    reconnects: int
    duplicates: int
    bytes_per_s: float
    state_seconds: float
    silent_seconds: float
    behind_seconds: float
    delivered_per_s: float
    rtt_us_least: int
    reconnects_lately: int
    def __init__(self, peer: _Optional[str] = ..., state: _Optional[str] = ..., trouble: _Optional[str] = ..., rtt_us: _Optional[int] = ..., sent_bytes: _Optional[_Mapping[str, int]] = ..., received_bytes: _Optional[_Mapping[str, int]] = ..., backlog_bytes: _Optional[int] = ..., reconnects: _Optional[int] = ..., duplicates: _Optional[int] = ..., bytes_per_s: _Optional[float] = ..., state_seconds: _Optional[float] = ..., silent_seconds: _Optional[float] = ..., behind_seconds: _Optional[float] = ..., delivered_per_s: _Optional[float] = ..., rtt_us_least: _Optional[int] = ..., reconnects_lately: _Optional[int] = ...) -> None: ...

class StepStatus(_message.Message):
    __slots__ = ("query_id", "head", "step", "rows", "walks")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WALKS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    head: str
    step: int
    rows: int
    walks: int
    def __init__(self, query_id: _Optional[str] = ..., head: _Optional[str] = ..., step: _Optional[int] = ..., rows: _Optional[int] = ..., walks: _Optional[int] = ...) -> None: ...

class TrafficStatus(_message.Message):
    __slots__ = ("query_id", "purpose", "name", "number", "peer", "kind", "messages", "bytes", "framing_bytes")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAMING_BYTES_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    purpose: str
    name: str
    number: int
    peer: str
    kind: str
    messages: int
    bytes: int
    framing_bytes: float
    def __init__(self, query_id: _Optional[str] = ..., purpose: _Optional[str] = ..., name: _Optional[str] = ..., number: _Optional[int] = ..., peer: _Optional[str] = ..., kind: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., framing_bytes: _Optional[float] = ...) -> None: ...

class WindowStatus(_message.Message):
    __slots__ = ("window", "frontier", "waiting_walks", "rows", "nbytes", "stream", "indexes", "users")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    WAITING_WALKS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    window: str
    frontier: int
    waiting_walks: int
    rows: int
    nbytes: int
    stream: str
    indexes: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, window: _Optional[str] = ..., frontier: _Optional[int] = ..., waiting_walks: _Optional[int] = ..., rows: _Optional[int] = ..., nbytes: _Optional[int] = ..., stream: _Optional[str] = ..., indexes: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class ViewStatus(_message.Message):
    __slots__ = ("query_id", "alias", "rows", "ship_all_bytes", "backlog_bytes", "span_us", "run")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SHIP_ALL_BYTES_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPAN_US_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    alias: str
    rows: int
    ship_all_bytes: int
    backlog_bytes: int
    span_us: int
    run: str
    def __init__(self, query_id: _Optional[str] = ..., alias: _Optional[str] = ..., rows: _Optional[int] = ..., ship_all_bytes: _Optional[int] = ..., backlog_bytes: _Optional[int] = ..., span_us: _Optional[int] = ..., run: _Optional[str] = ...) -> None: ...

class CopyStatus(_message.Message):
    __slots__ = ("query_id", "alias", "kind", "role", "peer", "frontier", "keys", "tuples", "nbytes", "ended", "users", "stream")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TUPLES_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    alias: str
    kind: str
    role: str
    peer: str
    frontier: int
    keys: int
    tuples: int
    nbytes: int
    ended: bool
    users: _containers.RepeatedScalarFieldContainer[str]
    stream: str
    def __init__(self, query_id: _Optional[str] = ..., alias: _Optional[str] = ..., kind: _Optional[str] = ..., role: _Optional[str] = ..., peer: _Optional[str] = ..., frontier: _Optional[int] = ..., keys: _Optional[int] = ..., tuples: _Optional[int] = ..., nbytes: _Optional[int] = ..., ended: _Optional[bool] = ..., users: _Optional[_Iterable[str]] = ..., stream: _Optional[str] = ...) -> None: ...

class QueryBrief(_message.Message):
    __slots__ = ("query_id", "state", "rows", "plan_brief", "reason", "state_seconds", "streams", "sites", "waiting_for", "followed", "unread_rows", "unread_bytes", "unread_seconds", "read_per_s", "full", "done_tick", "links", "readers", "trouble", "recovery", "complete_from", "last_switch")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PLAN_BRIEF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    UNREAD_ROWS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNREAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    READ_PER_S_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    DONE_TICK_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FROM_FIELD_NUMBER: _ClassVar[int]
    LAST_SWITCH_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    state: str
    rows: int
    plan_brief: str
    reason: str
    state_seconds: float
    streams: _containers.RepeatedScalarFieldContainer[str]
    sites: _containers.RepeatedScalarFieldContainer[str]
    waiting_for: _containers.RepeatedScalarFieldContainer[str]
    followed: bool
    unread_rows: int
    unread_bytes: int
    unread_seconds: float
    read_per_s: float
    full: bool
    done_tick: int
    links: _containers.RepeatedScalarFieldContainer[str]
    readers: _containers.RepeatedCompositeFieldContainer[ReaderStatus]
    trouble: str
    recovery: RecoveryStatus
    complete_from: CompleteFrom
    last_switch: SwitchStatus
    def __init__(self, query_id: _Optional[str] = ..., state: _Optional[str] = ..., rows: _Optional[int] = ..., plan_brief: _Optional[str] = ..., reason: _Optional[str] = ..., state_seconds: _Optional[float] = ..., streams: _Optional[_Iterable[str]] = ..., sites: _Optional[_Iterable[str]] = ..., waiting_for: _Optional[_Iterable[str]] = ..., followed: _Optional[bool] = ..., unread_rows: _Optional[int] = ..., unread_bytes: _Optional[int] = ..., unread_seconds: _Optional[float] = ..., read_per_s: _Optional[float] = ..., full: _Optional[bool] = ..., done_tick: _Optional[int] = ..., links: _Optional[_Iterable[str]] = ..., readers: _Optional[_Iterable[_Union[ReaderStatus, _Mapping]]] = ..., trouble: _Optional[str] = ..., recovery: _Optional[_Union[RecoveryStatus, _Mapping]] = ..., complete_from: _Optional[_Union[CompleteFrom, _Mapping]] = ..., last_switch: _Optional[_Union[SwitchStatus, _Mapping]] = ...) -> None: ...

class RecoveryStatus(_message.Message):
    __slots__ = ("reason", "seconds", "heads")
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    seconds: float
    heads: _containers.RepeatedCompositeFieldContainer[HeadProgress]
    def __init__(self, reason: _Optional[str] = ..., seconds: _Optional[float] = ..., heads: _Optional[_Iterable[_Union[HeadProgress, _Mapping]]] = ...) -> None: ...

class HeadProgress(_message.Message):
    __slots__ = ("head", "begun_tick", "done_tick", "goal_tick")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BEGUN_TICK_FIELD_NUMBER: _ClassVar[int]
    DONE_TICK_FIELD_NUMBER: _ClassVar[int]
    GOAL_TICK_FIELD_NUMBER: _ClassVar[int]
    head: str
    begun_tick: int
    done_tick: int
    goal_tick: int
    def __init__(self, head: _Optional[str] = ..., begun_tick: _Optional[int] = ..., done_tick: _Optional[int] = ..., goal_tick: _Optional[int] = ...) -> None: ...

class CatchingUpStatus(_message.Message):
    __slots__ = ("stream", "what", "peer", "queries", "tick", "goal_tick")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    GOAL_TICK_FIELD_NUMBER: _ClassVar[int]
    stream: str
    what: str
    peer: str
    queries: _containers.RepeatedScalarFieldContainer[str]
    tick: int
    goal_tick: int
    def __init__(self, stream: _Optional[str] = ..., what: _Optional[str] = ..., peer: _Optional[str] = ..., queries: _Optional[_Iterable[str]] = ..., tick: _Optional[int] = ..., goal_tick: _Optional[int] = ...) -> None: ...

class ProbeStatus(_message.Message):
    __slots__ = ("query_id", "delta_us", "early", "late")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    DELTA_US_FIELD_NUMBER: _ClassVar[int]
    EARLY_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    delta_us: int
    early: int
    late: int
    def __init__(self, query_id: _Optional[str] = ..., delta_us: _Optional[int] = ..., early: _Optional[int] = ..., late: _Optional[int] = ...) -> None: ...

class WalksRequest(_message.Message):
    __slots__ = ("query_id",)
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    def __init__(self, query_id: _Optional[str] = ...) -> None: ...

class WalksReply(_message.Message):
    __slots__ = ("walks",)
    WALKS_FIELD_NUMBER: _ClassVar[int]
    walks: _containers.RepeatedCompositeFieldContainer[WalkStatus]
    def __init__(self, walks: _Optional[_Iterable[_Union[WalkStatus, _Mapping]]] = ...) -> None: ...

class WalkStatus(_message.Message):
    __slots__ = ("query_id", "generation", "head", "first_tick", "end_tick", "rows", "keys", "step", "steps", "alias", "stream", "algorithm", "stage", "asked", "cause", "seconds")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    FIRST_TICK_FIELD_NUMBER: _ClassVar[int]
    END_TICK_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    generation: int
    head: str
    first_tick: int
    end_tick: int
    rows: int
    keys: int
    step: int
    steps: int
    alias: str
    stream: str
    algorithm: str
    stage: str
    asked: bool
    cause: str
    seconds: float
    def __init__(self, query_id: _Optional[str] = ..., generation: _Optional[int] = ..., head: _Optional[str] = ..., first_tick: _Optional[int] = ..., end_tick: _Optional[int] = ..., rows: _Optional[int] = ..., keys: _Optional[int] = ..., step: _Optional[int] = ..., steps: _Optional[int] = ..., alias: _Optional[str] = ..., stream: _Optional[str] = ..., algorithm: _Optional[str] = ..., stage: _Optional[str] = ..., asked: _Optional[bool] = ..., cause: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...
