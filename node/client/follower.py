"""The rows of a query as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import grpc

from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

#: Replies read ahead of whoever writes the rows: enough to overlap, little to hold.
REPLIES_MAX = 16


class Follower:
    """Replies about a query, in order; ``taken`` tells the daemon what it may forget.

    A thread reads the replies, so that Ctrl-C interrupts whoever waits for them and not gRPC,
    which could then not be asked for the rest.
    """

    def __init__(
        self,
        follow: grpc.StreamStreamMultiCallable[pb.FollowRequest, pb.FollowReply],
        query_id: str,
        error_of: Callable[[grpc.RpcError], NarrowsError],
    ) -> None:
        self._error_of = error_of
        self._requests: queue.SimpleQueue[pb.FollowRequest | None] = queue.SimpleQueue()
        self._requests.put(pb.FollowRequest(query_id=query_id))
        self._replies: queue.Queue[pb.FollowReply | NarrowsError | None] = queue.Queue(REPLIES_MAX)
        self._call = follow(iter(self._requests.get, None))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for reply in self._call:
                self._replies.put(reply)
            self._replies.put(None)
        except grpc.RpcError as error:
            self._replies.put(self._error_of(error))

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
