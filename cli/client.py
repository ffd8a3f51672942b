"""Talks to a daemon's Control service."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from node.rpc import control_pb2 as pb
from planner.errors import NarrowsError

Reply = TypeVar("Reply", bound=Message)

#: A daemon on the other side of a slow link may take a while; a dead one is noticed at once.
CALL_S_MAX = 20.0
#: A status is there at once; a daemon that has not said it by then hangs, and a person waits.
STATUS_S_MAX = 5.0
#: Replies read ahead of whoever writes the rows: enough to overlap, little to hold.
REPLIES_MAX = 16
#: One row may be large, and the daemon is ours: no limit on what it sends.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0))


class DaemonUnreachableError(NarrowsError):
    """Nobody answers at the daemon's address."""

    def __init__(self, site: str, address: str) -> None:
        super().__init__(f"site {site} requires a running daemon at {address}; nobody answers")
        self.site = site


class DaemonRefusedError(NarrowsError):
    """The daemon answered, and the answer is no."""


class UnknownQueryError(DaemonRefusedError):
    """The daemon has no such query."""


class NotNowError(DaemonRefusedError):
    """The daemon cannot do it as things are: a site is missing, or somebody else follows the query."""


_REFUSALS = {grpc.StatusCode.NOT_FOUND: UnknownQueryError, grpc.StatusCode.FAILED_PRECONDITION: NotNowError}


class Client:
    """A connection to the daemon of one site."""

    def __init__(self, site: str, address: str) -> None:
        self.site = site
        self._address = address
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def issue(self, text: str, algorithm: str, policy: str = "frontier") -> pb.IssueReply:
        """Install a query with a forced plan."""
        return self.install(pb.IssueRequest(text=text, algorithm=algorithm, policy=policy))

    def install(self, request: pb.IssueRequest) -> pb.IssueReply:
        """Plan a query as the request says, and install it."""
        return self._call("Issue", request, pb.IssueReply)

    def explain(self, request: pb.ExplainRequest) -> pb.ExplainReply:
        return self._call("Explain", request, pb.ExplainReply)

    def queries(self) -> list[pb.QueryInfo]:
        return list(self._call("Queries", pb.Empty(), pb.QueriesReply).queries)

    def drop(self, query_id: str) -> None:
        self._call("Drop", pb.DropRequest(query_id=query_id), pb.Empty)

    def status(self) -> pb.StatusReply:
        return self._call("Status", pb.Empty(), pb.StatusReply, STATUS_S_MAX)

    def walks(self, query_id: str) -> list[pb.WalkStatus]:
        """Walks under way at the site: those of a query, or of all if none is named."""
        return list(self._call("Walks", pb.WalksRequest(query_id=query_id), pb.WalksReply, STATUS_S_MAX).walks)

    def _call(self, method: str, request: Message, reply: type[Reply], timeout_s: float = CALL_S_MAX) -> Reply:
        call: grpc.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            f"/narrows.Control/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        try:
            return call(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise self._said(error) from None

    def follow(self, query_id: str) -> Follower:
        return Follower(self, query_id)

    def _said(self, error: grpc.RpcError) -> NarrowsError:
        code, details = error.code(), error.details()
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return DaemonUnreachableError(self.site, self._address)
        return _REFUSALS.get(code, DaemonRefusedError)(details or code.name)


class Follower:
    """Rows of a query as they come; ``taken`` tells the daemon what it may forget.

    A thread reads the replies, so that Ctrl-C interrupts whoever waits for them and not gRPC,
    which could then not be asked for the rest.
    """

    def __init__(self, client: Client, query_id: str) -> None:
        self._client = client
        self._requests: queue.SimpleQueue[pb.FollowRequest | None] = queue.SimpleQueue()
        self._requests.put(pb.FollowRequest(query_id=query_id))
        self._replies: queue.Queue[pb.FollowReply | NarrowsError | None] = queue.Queue(REPLIES_MAX)
        call: grpc.StreamStreamMultiCallable[pb.FollowRequest, pb.FollowReply] = client._channel.stream_stream(
            "/narrows.Control/Follow",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.FollowReply.FromString,
        )
        self._call = call(iter(self._requests.get, None))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for reply in self._call:
                self._replies.put(reply)
            self._replies.put(None)
        except grpc.RpcError as error:
            self._replies.put(self._client._said(error))

    def __iter__(self) -> Iterator[pb.FollowReply]:
        while (reply := self._replies.get()) is not None:
            if isinstance(reply, NarrowsError):
                raise reply
            yield reply

    def taken(self, number: int) -> None:
        """Chunks before ``number`` are safely kept here."""
        self._requests.put(pb.FollowRequest(taken=number, seen=number))

    def seen(self, number: int) -> None:
        """Chunks before ``number`` were read, but are not safe yet: status tells a slow reader from one that waits."""
        self._requests.put(pb.FollowRequest(seen=number))

    def close(self) -> None:
        """Say goodbye, and wait until the daemon has heard what was said before."""
        self._requests.put(None)
        with suppress(NarrowsError):
            for _ in self:
                pass

    def cancel(self) -> None:
        """Leave at once. Nothing more is read, so nobody may wait to hand over replies."""
        self._call.cancel()
        self._requests.put(None)
