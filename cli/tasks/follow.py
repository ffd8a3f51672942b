"""Follows a query's rows into an output, and acknowledges only what is safe there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from cli.tasks.interruption import uninterrupted
from cli.tasks.output import Output, open_output
from node.client import Client, Follower
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb

_ACK_EVERY_S = 0.5

OnInfo = Callable[[pb.QueryInfo, int], None]


@dataclass
class Followed:
    """How far following got."""

    rows: int = 0
    #: Chunks before this number were written.
    written: int = 0
    info: pb.QueryInfo = field(default_factory=pb.QueryInfo)
    detached: bool = False
    #: Where the rows are of a query that ended before it had all, if they went to a file.
    partial: Path | None = None


def follow(
    client: Client, query_id: str, out: Path | None, form: str | None, on_info: OnInfo, *, whole: bool = False
) -> Followed:
    """Until the query ends, or Ctrl-C detaches. With ``whole``, a file stays only if it has every row.
    Otherwise rows of a query that failed or was dropped go beside the file that was asked for: it may be there, whole.

    Raises NarrowsError if the rows cannot be had or written; the daemon then still has what was not acknowledged.
    """
    follower = client.follow(query_id)
    output: Output | None = None
    followed = Followed()
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(next(iter(follower)).schema))
        output = open_output(out, form, schema)
        try:
            _pump(follower, output, schema, followed, on_info)
        except KeyboardInterrupt:
            followed.detached = True
        if whole and followed.info.state != QueryState.COMPLETED:
            output.abandon()
            followed.written = 0
        elif followed.detached or followed.info.state == QueryState.COMPLETED:
            output.finish()
        else:
            followed.partial = output.set_aside()
    except BaseException:
        follower.cancel()
        if output is not None:
            output.abandon()
        raise
    follower.taken(followed.written)
    follower.close()
    return followed


def _pump(follower: Follower, output: Output, schema: pa.Schema, followed: Followed, on_info: OnInfo) -> None:
    acked_at = time.monotonic()
    for reply in follower:
        if reply.rows:
            rows = pa.ipc.read_record_batch(pa.py_buffer(reply.rows), schema)
            # Whoever reads a pipe may have stopped: there Ctrl-C must not wait for it.
            with nullcontext() if output.safe_at_once else uninterrupted():
                output.write(rows)
                followed.rows += rows.num_rows
                followed.written = reply.number + 1
        if time.monotonic() - acked_at > _ACK_EVERY_S:
            acked_at = time.monotonic()
            (follower.taken if output.safe_at_once else follower.seen)(followed.written)
        if reply.HasField("info"):
            followed.info = reply.info
            on_info(reply.info, followed.rows)
            if QueryState(reply.info.state).ended:
                return
