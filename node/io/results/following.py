"""Rows of a query as they come, to a reader that is connected. What it has kept it says by ``Take``."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn

import grpc

from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.readers import Reader
from node.io.results.row_files import CHUNK_BYTES_MAX, RowsForgottenError
from node.rpc import control_pb2 as pb
from node.storage.errors import NoRoomError, StorageError
from planner.model.errors import QueryError

_INFO_EVERY_S = 0.25

Context = grpc.aio.ServicerContext[bytes, bytes]
Find = Callable[[str, str, Context], Awaitable[IssuedQuery]]


async def reader_of(query: IssuedQuery, name: str, context: Context) -> Reader:
    """The reader of this name, from now on if there was none; ends the call if there can be none."""
    try:
        return await query.reader(name)
    except QueryError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except StorageError as error:
        await refuse_note(error, f"query {query.query_id} cannot keep rows for another reader", context)
    raise AssertionError("abort does not return")


async def refuse_note(error: StorageError, text: str, context: Context) -> NoReturn:
    """Something cannot be noted: on a full disk it may be later, on one that failed only after a restart."""
    full = isinstance(error, NoRoomError)
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED if full else grpc.StatusCode.INTERNAL, f"{text}: {error}")
    raise AssertionError("abort does not return")


class Following:
    """The method Follow of the Control service."""

    def __init__(self, find: Find, queries: Queries, info: Callable[[IssuedQuery], pb.QueryInfo]) -> None:
        """``find`` is given an id, a run or nothing, and the call, which it ends if there is no such query."""
        self._find = find
        self._queries = queries
        self._info = info

    async def follow(self, request: pb.FollowRequest, context: Context) -> AsyncIterator[pb.FollowReply]:
        """Until the query has ended and all its rows were sent."""
        query = await self._find(request.query_id, request.run, context)
        reader = await self._reader(query, request, context)
        begin = request.begin if request.HasField("begin") else reader.place
        if not query.spool.first_row <= begin <= query.spool.rows:
            kept = f"rows {query.spool.first_row} to {query.spool.rows - 1}"
            text = f"query {query.query_id}: a follower requires row {begin} on; kept are {kept}"
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, text)
        connection = reader.attach(request.client or secrets.token_hex(8), begin)
        query.spool.follow(True)
        try:
            yield pb.FollowReply(schema=query.about.schema, first_row=begin, run=query.run)
            async for reply in self._replies(query, reader, connection):
                yield reply
        except RowsForgottenError as error:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, f"query {query.query_id}: {error}")
        except StorageError as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, f"query {query.query_id}: {error}")
        finally:
            reader.detach(connection)
            query.spool.follow(query.followed)
        if self._queries.leaving:
            await self._leave(context)

    async def _reader(self, query: IssuedQuery, request: pb.FollowRequest, context: Context) -> Reader:
        reader = await reader_of(query, request.reader, context)
        if reader.attached and reader.client != request.client:
            who = "" if len(query.readers) == 1 else f" for reader {reader.name}"
            text = f"query {query.query_id} requires one follower at a time{who}; it has one"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{text} (--as NAME reads under another name)")
        return reader

    async def _replies(self, query: IssuedQuery, reader: Reader, connection: int) -> AsyncIterator[pb.FollowReply]:
        told_at = 0.0
        row = reader.sent
        while reader.connection == connection and not self._queries.leaving:
            changed, ended = query.changed, query.state.ended
            while row < query.spool.rows and reader.connection == connection and not self._queries.leaving:
                try:
                    rows, end = await self._chunk(query, row)
                except RowsForgottenError:
                    if self._queries.by_id.get(query.query_id) is query:
                        raise
                    break  # it was dropped meanwhile
                yield pb.FollowReply(first_row=row, rows=rows)
                row = reader.sent = end
                self._queries.retry()
            if ended or self._queries.by_id.get(query.query_id) is not query:
                yield pb.FollowReply(first_row=row, info=self._info(query))
                return
            if time.monotonic() - told_at >= _INFO_EVERY_S:
                told_at = time.monotonic()
                yield pb.FollowReply(first_row=row, info=self._info(query))
            try:
                await asyncio.wait_for(changed.wait(), _INFO_EVERY_S)
            except TimeoutError:
                continue

    @staticmethod
    async def _chunk(query: IssuedQuery, row: int) -> tuple[bytes, int]:
        """The next rows as they are sent, and the number of the first behind them."""
        found = query.spool.at_hand(row)
        if found is not None:
            return found
        piece = query.spool.pieces(row, query.spool.rows, CHUNK_BYTES_MAX)[0]
        return await asyncio.to_thread(piece.load), piece.end_row

    async def _leave(self, context: Context) -> NoReturn:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the daemon is stopping")
        raise AssertionError("abort does not return")
