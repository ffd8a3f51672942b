"""Asks a daemon for a query's rows by number. Runs in the driver and in executors, each with its own connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import grpc
import pyarrow as pa
from google.protobuf.message import Message

from node.rpc import control_pb2 as pb
from spark_jobs.sink_options import SinkError

Reply = TypeVar("Reply", bound=Message)

_CALL_S_MAX = 20.0
#: One row may be large, and the daemon is ours. A daemon that is gone without a word is noticed while we wait for rows.
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


class SinkClient:
    """A connection to the daemon at which a query was issued."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)

    def __enter__(self) -> SinkClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def issue(self, text: str, keep: bool) -> str:
        """Plan and install a query; its id."""
        request = pb.IssueRequest(text=text, policy="frontier", keep=keep)
        return self._call("Issue", request, pb.IssueReply).query_id

    def extent(self, query: str, past: int = 0, wait_ms: int = 0) -> pb.ExtentReply:
        """What can be read now; with ``wait_ms``, as soon as there are rows past ``past``, or after that time."""
        request = pb.ExtentRequest(query_id=query, past=past, wait_ms=wait_ms)
        return self._call("Extent", request, pb.ExtentReply)

    def take(self, query: str, run: str, before: int) -> None:
        """Rows before a number need not be kept any more."""
        self._call("Take", pb.TakeRequest(query_id=query, run=run, before=before), pb.Empty)

    def rows(self, query: str, run: str, first: int, end: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows from ``first`` to before ``end``, in order, with these columns and no others.

        Raises SinkError if the daemon cannot give them, or does not give them all.
        """
        call: grpc.UnaryStreamMultiCallable[pb.RowsRequest, pb.RowsReply] = self._channel.unary_stream(
            "/narrows.Control/Rows",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.RowsReply.FromString,
        )
        got = 0
        try:
            replies = call(pb.RowsRequest(query_id=query, run=run, first=first, end=end, columns=columns))
            schema = pa.ipc.read_schema(pa.py_buffer(next(replies).schema))
            for reply in replies:
                rows = pa.ipc.read_record_batch(pa.py_buffer(reply.rows), schema)
                got += rows.num_rows
                yield rows
        except grpc.RpcError as error:
            raise self._said(error) from None
        if got != end - first:
            raise SinkError(f"query {query}: required {end - first} rows from row {first} on; got {got}")

    def _call(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        call: grpc.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            f"/narrows.Control/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        try:
            return call(request, timeout=_CALL_S_MAX)
        except grpc.RpcError as error:
            raise self._said(error) from None

    def _said(self, error: grpc.RpcError) -> SinkError:
        code, details = error.code(), error.details()
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return SinkError(f"narrows: a running daemon is required at {self._address}; nobody answers ({details})")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return SinkError(f"narrows: the daemon at {self._address} is too old to give rows by number")
        return SinkError(f"narrows: {details or code.name}")
