from node.rpc import link_pb2 as _link_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HomeRecord(_message.Message):
    __slots__ = ("prepare", "state", "reason", "first_tick", "limited_by", "begins", "walks_from")
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIRST_TICK_FIELD_NUMBER: _ClassVar[int]
    LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    WALKS_FROM_FIELD_NUMBER: _ClassVar[int]
    prepare: bytes
    state: str
    reason: str
    first_tick: int
    limited_by: _containers.RepeatedScalarFieldContainer[str]
    begins: _containers.RepeatedCompositeFieldContainer[_link_pb2.Frontier]
    walks_from: int
    def __init__(self, prepare: _Optional[bytes] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., first_tick: _Optional[int] = ..., limited_by: _Optional[_Iterable[str]] = ..., begins: _Optional[_Iterable[_Union[_link_pb2.Frontier, _Mapping]]] = ..., walks_from: _Optional[int] = ...) -> None: ...

class DoneRecord(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: _containers.RepeatedCompositeFieldContainer[_link_pb2.Frontier]
    def __init__(self, done: _Optional[_Iterable[_Union[_link_pb2.Frontier, _Mapping]]] = ...) -> None: ...

class PinRecord(_message.Message):
    __slots__ = ("home", "streams", "restored")
    HOME_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    home: str
    streams: _containers.RepeatedScalarFieldContainer[str]
    restored: _containers.RepeatedCompositeFieldContainer[_link_pb2.Frontier]
    def __init__(self, home: _Optional[str] = ..., streams: _Optional[_Iterable[str]] = ..., restored: _Optional[_Iterable[_Union[_link_pb2.Frontier, _Mapping]]] = ...) -> None: ...
