"""The rows of a query as they come, each once, also over restarts of the daemon."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator

import grpc

from node.client.errors import MissingRowsError, UnknownQueryError
from node.client.patience import AWAY, Patience
from node.rpc import control_pb2 as pb
from planner.model.errors import NarrowsError

#: Replies read ahead of whoever writes the rows: enough to overlap, little to hold.
REPLIES_MAX = 16


class Follower:
    """Replies about a query, in order: the first has the schema, the others rows or how the query is.

    A connection that is lost is made again, and goes on with the next row by its number. A thread reads the replies, so
    that Ctrl-C interrupts whoever waits for them and not gRPC.
    """

    def __init__(
        self,
        follow: grpc.UnaryStreamMultiCallable[pb.FollowRequest, pb.FollowReply],
        query_id: str,
        reader: str,
        error_of: Callable[[grpc.RpcError], NarrowsError],
        patience: Patience | None,
    ) -> None:
        self._follow = follow
        self._error_of = error_of
        self._patience = patience
        self._request = pb.FollowRequest(query_id=query_id, reader=reader, client=secrets.token_hex(8))
        self._connection: _Connection | None = None
        #: The number of the next row that comes.
        self.next_row = 0

    @property
    def run(self) -> str:
        """Which query of this id it is, once there was a reply."""
        return self._request.run

    @property
    def client(self) -> str:
        """What this follower calls itself."""
        return self._request.client

    def __iter__(self) -> Iterator[pb.FollowReply]:
        """Until the daemon has said all. Raises NarrowsError if rows cannot be had."""
        while True:
            self.close()
            self._connection = _Connection(self._follow(self._request), self._error_of)
            try:
                yield from self._replies(self._connection)
            except AWAY as error:
                if self._patience is None:
                    raise
                self._patience.away(error, f"to go on with row {self.next_row:,} of {self._request.query_id}")
            except UnknownQueryError:
                if not self.run:
                    raise
                text = f"query {self._request.query_id} is gone: it was dropped meanwhile, or its site began anew"
                raise MissingRowsError(f"{text}; rows from {self.next_row:,} on are not kept any more") from None
            else:
                return

    def _replies(self, connection: _Connection) -> Iterator[pb.FollowReply]:
        for reply in connection:
            if self._patience is not None:
                self._patience.back()
            if reply.schema:
                if not self._request.run:
                    self.next_row, self._request.run = reply.first_row, reply.run
                    self._request.begin = self.next_row
                    yield reply
            elif reply.rows:
                if reply.first_row != self.next_row:
                    got = f"row {reply.first_row}"
                    raise MissingRowsError(f"query {self._request.query_id}: required row {self.next_row}; got {got}")
                yield reply
            else:
                yield reply

    def passed(self, rows: int) -> None:
        """So many rows of the last reply are dealt with: after a loss of the connection those behind them come."""
        self.next_row += rows
        self._request.begin = self.next_row

    def close(self) -> None:
        """Leave. Nothing more is read, so nobody waits to hand over replies."""
        if self._connection is not None:
            self._connection.cancel()


class _Connection:
    """One call, read by a thread."""

    def __init__(
        self,
        call: grpc._CallIterator[pb.FollowReply],
        error_of: Callable[[grpc.RpcError], NarrowsError],
    ) -> None:
        self._call = call
        self._error_of = error_of
        self._replies: queue.Queue[pb.FollowReply | NarrowsError | None] = queue.Queue(REPLIES_MAX)
        self._over = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        last: NarrowsError | None = None
        try:
            for reply in self._call:
                self._put(reply)
        except grpc.RpcError as error:
            last = self._error_of(error)
        self._put(last)

    def _put(self, reply: pb.FollowReply | NarrowsError | None) -> None:
        while not self._over:
            try:
                self._replies.put(reply, timeout=1.0)
            except queue.Full:
                continue
            return

    def __iter__(self) -> Iterator[pb.FollowReply]:
        while (reply := self._replies.get()) is not None:
            if isinstance(reply, NarrowsError):
                raise reply
            yield reply

    def cancel(self) -> None:
        self._over = True
        self._call.cancel()
