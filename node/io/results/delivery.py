"""A query's rows by number, for readers that remember how far they came: Spark, and whoever else has checkpoints.

Reading changes nothing, so many processes may read at once and again. Only ``take`` lets rows be forgotten. Between
two takers there would be rows that one of them never sees, so while a query is followed nobody else takes of it,
unless its rows are kept anyway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import grpc
import pyarrow as pa

from node.core.events import RowsStored
from node.io.results.issued_queries import IssuedQuery, Queries
from node.io.results.segments import CHUNK_BYTES_MAX, Piece, RowsForgottenError, read_pieces
from node.rpc import control_pb2 as pb

#: Nobody is kept waiting longer, so that a call never outlives the patience of who made it.
_WAIT_MS_MAX = 5_000

Context = grpc.aio.ServicerContext[bytes, bytes]


class Delivery:
    """Three methods of the Control service."""

    def __init__(
        self,
        find: Callable[[str, Context], Awaitable[IssuedQuery]],
        queries: Queries,
        confirm: Callable[[Sequence[RowsStored]], None],
    ) -> None:
        self._find = find
        self._queries = queries
        self._confirm = confirm

    async def extent(self, request: pb.ExtentRequest, context: Context) -> pb.ExtentReply:
        """What there is; waits for rows past ``request.past``, or for the end, if that is wanted."""
        query = await self._find(request.query_id, context)
        until = time.monotonic() + min(request.wait_ms, _WAIT_MS_MAX) / 1000
        while query.spool.rows <= request.past and not query.state.ended:
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
            schema=query.plan.query.output_schema().serialize().to_pybytes(),
        )

    async def rows(self, request: pb.RowsRequest, context: Context) -> AsyncIterator[pb.RowsReply]:
        """The rows, small chunks joined and large ones apart, so that no message is tiny or huge."""
        query = await self._find_run(request.query_id, request.run, context)
        schema = query.plan.query.output_schema()
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
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"query {query.query_id}: {error}")

    async def take(self, request: pb.TakeRequest, context: Context) -> pb.Empty:
        """Rows before a number are safe elsewhere."""
        query = await self._find_run(request.query_id, request.run, context)
        if query.followed and not query.spool.keep:
            text = f"query {query.query_id} requires one client at a time that takes its rows; it is being followed"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if request.before > query.spool.rows:
            text = f"query {query.query_id} has {query.spool.rows} rows; {request.before} are said to be taken"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        query.spool.take(request.before)
        query.sent_before(query.spool.taken_chunk)
        self._confirm(self._queries.confirm(query))
        return pb.Empty()

    async def _find_run(self, query_id: str, run: str, context: Context) -> IssuedQuery:
        query = await self._find(query_id, context)
        if query.run != run:
            text = f"query {query_id} is another one than that of run {run}: its run is {query.run}"
            hint = "the daemon was restarted since, and rows have other numbers now"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{text}; {hint}")
        return query


def _load(pieces: Sequence[Piece], columns: Sequence[str]) -> bytes:
    rows = pa.concat_batches([rows.select(columns) for rows in read_pieces(pieces)])
    return rows.serialize().to_pybytes()  # type: ignore[no-any-return]
