"""A query's rows by number, for readers that remember how far they came: Spark, and whoever else has checkpoints.

Reading changes nothing, so many processes may read at once and again. Only ``take`` lets rows be forgotten, once every
reader has taken them. Between two takers of one name there would be rows that one of them never sees, so while a reader
is connected nobody else takes under its name, unless the rows are kept anyway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import grpc
import pyarrow as pa

from node.io.results.following import Find, reader_of, refuse_note
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.results.readers import DEFAULT_READER, Reader, reader_name
from node.io.results.row_files import CHUNK_BYTES_MAX, RowsForgottenError
from node.io.results.spool import Piece, read_pieces
from node.rpc import control_pb2 as pb
from node.storage.errors import StorageError
from planner.model.errors import QueryError

#: Nobody is kept waiting longer, so that a call never outlives the patience of who made it.
_WAIT_MS_MAX = 5_000

Context = grpc.aio.ServicerContext[bytes, bytes]


class Delivery:
    """Four methods of the Control service."""

    def __init__(self, find: Find, queries: Queries) -> None:
        self._find = find
        self._queries = queries

    async def extent(self, request: pb.ExtentRequest, context: Context) -> pb.ExtentReply:
        """What there is; waits for rows past ``request.past``, or for the end, if that is wanted."""
        query = await self._find(request.query_id, "", context)
        # Who names none begins none. Of rows that are kept, whoever begins anew has all.
        reader = None if query.spool.keep else query.readers.get(DEFAULT_READER)
        if request.reader:
            reader = await reader_of(query, request.reader, context)
        until = time.monotonic() + min(request.wait_ms, _WAIT_MS_MAX) / 1000
        while query.spool.rows <= request.past and not query.state.ended and not self._queries.leaving:
            try:
                await asyncio.wait_for(query.changed.wait(), until - time.monotonic())
            except TimeoutError:
                break
        return pb.ExtentReply(
            run=query.run,
            state=query.state,
            reason=query.reason,
            first=query.spool.first_row,
            end=query.spool.rows,
            nbytes=query.spool.nbytes,
            schema=query.about.schema,
            taken=0 if reader is None else reader.place,
        )

    async def rows(self, request: pb.RowsRequest, context: Context) -> AsyncIterator[pb.RowsReply]:
        """The rows, small chunks joined and large ones apart, so that no message is tiny or huge."""
        query = await self._find(request.query_id, request.run, context)
        schema = query.about.arrow_schema
        if unknown := [column for column in request.columns if column not in schema.names]:
            text = f"query {query.query_id} requires columns of {', '.join(schema.names)}; got {', '.join(unknown)}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        columns = list(request.columns) or schema.names
        try:
            yield pb.RowsReply(schema=pa.schema([schema.field(name) for name in columns]).serialize().to_pybytes())
            first = request.first
            while pieces := query.spool.pieces(first, request.end, CHUNK_BYTES_MAX):
                yield pb.RowsReply(rows=await asyncio.to_thread(_load, pieces, columns))
                first = pieces[-1].end_row
        except RowsForgottenError as error:
            dropped = self._queries.by_id.get(query.query_id) is not query
            text = "it was dropped while its rows were read" if dropped else str(error)
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, f"query {query.query_id}: {text}")
        except StorageError as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, f"query {query.query_id}: {error}")
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"query {query.query_id}: {error}")

    async def take(self, request: pb.TakeRequest, context: Context) -> pb.Empty:
        """Rows before a number are safe elsewhere."""
        query = await self._find(request.query_id, request.run, context)
        try:
            reader = await self._reader(query, reader_name(request.reader), context)
        except QueryError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if reader.attached and reader.client != request.client and not query.spool.keep:
            text = f"query {query.query_id} requires one client at a time that takes its rows; it is being followed"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if request.before > query.spool.rows:
            text = f"query {query.query_id} has {query.spool.rows} rows; {request.before} are said to be taken"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        if reader.attached:
            reader.seen = max(reader.seen, min(request.seen, query.spool.rows))
        try:
            await query.take(reader, request.before)
        except StorageError as error:
            await refuse_note(error, f"query {query.query_id} cannot note what is taken", context)
        self._queries.retry()
        return pb.Empty()

    async def forget(self, request: pb.ForgetRequest, context: Context) -> pb.Empty:
        """A reader will not come back."""
        query = await self._find(request.query_id, "", context)
        reader = await self._reader(query, request.reader, context)
        # The one that writes a file is the site's own, and ends when it is forgotten.
        if reader.attached and "file" not in reader.note:
            text = f"reader {reader.name} of query {query.query_id} is connected: end it first"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        try:
            await query.forget_reader(reader.name)
        except QueryError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except StorageError as error:
            await refuse_note(error, f"query {query.query_id} cannot note that {reader.name} is forgotten", context)
        self._queries.retry()
        return pb.Empty()

    @staticmethod
    async def _reader(query: IssuedQuery, name: str, context: Context) -> Reader:
        reader = query.readers.get(name or DEFAULT_READER)
        if reader is None:
            known = ", ".join(query.readers)
            text = f"unknown reader {name or DEFAULT_READER!r} of query {query.query_id}: required one of {known}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        assert reader is not None
        return reader


def _load(pieces: Sequence[Piece], columns: Sequence[str]) -> bytes:
    rows = pa.concat_batches([rows.select(columns) for rows in read_pieces(pieces)])
    return rows.serialize().to_pybytes()  # type: ignore[no-any-return]
