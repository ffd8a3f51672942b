"""Follows a query's rows into an output, and acknowledges only what is safe there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from cli.tasks.interruption import uninterrupted
from cli.tasks.output import Output, open_output
from node.client import (
    AwayTooLongError,
    Client,
    DaemonRefusedError,
    DaemonUnreachableError,
    Follower,
    NoRoomError,
    Patience,
    StartingError,
    UnknownQueryError,
)
from node.core.effects import QueryState
from node.rpc import control_pb2 as pb

_ACK_EVERY_S = 0.5
#: Who leaves does not wait longer for a site that is away, to tell it what is taken.
_LEAVE_S = 2.0

OnInfo = Callable[[pb.QueryInfo, int], None]


@dataclass
class Followed:
    """How far following got."""

    rows: int = 0
    #: Rows before this number were written; nothing while that is not known.
    written: int = 0
    info: pb.QueryInfo = field(default_factory=pb.QueryInfo)
    detached: bool = False
    #: Where the rows are of a query that ended before it had all, if they went to a file.
    partial: Path | None = None
    #: Why the site does not know which rows were taken; nothing if it does.
    untold: str = ""


def follow(
    client: Client,
    query_id: str,
    out: Path | None,
    form: str | None,
    on_info: OnInfo,
    *,
    whole: bool = False,
    reader: str = "",
) -> Followed:
    """Until the query ends, or Ctrl-C detaches. With ``whole``, a file stays only if it has every row.
    Otherwise rows of a query that failed or was dropped go beside the file that was asked for: it may be there, whole.

    Raises NarrowsError if the rows cannot be had or written; the daemon then still has what was not acknowledged.
    """
    follower = client.follow(query_id, reader)
    output: Output | None = None
    followed = Followed()
    try:
        replies = iter(follower)
        schema = pa.ipc.read_schema(pa.py_buffer(next(replies).schema))
        followed.written = follower.next_row
        with uninterrupted():  # or there may be a file that nobody removes
            output = open_output(out, form, schema)
        pump = _Pump(client, query_id, reader, follower, output, followed)
        try:
            for reply in replies:
                pump.take(reply, schema)
                if reply.HasField("info"):
                    on_info(reply.info, followed.rows)
                    if QueryState(reply.info.state).ended:
                        break
        except KeyboardInterrupt:
            followed.detached = True
        if whole and followed.info.state != QueryState.COMPLETED:
            output.abandon()
            return followed
        if followed.detached or followed.info.state == QueryState.COMPLETED:
            output.finish()
        else:
            followed.partial = output.set_aside()
        pump.end()
    except BaseException:
        if output is not None:
            output.abandon()
        raise
    finally:
        follower.close()
    return followed


class _Pump:
    """Rows from a follower to an output."""

    def __init__(
        self, client: Client, query_id: str, reader: str, follower: Follower, output: Output, followed: Followed
    ) -> None:
        self._client = client
        self._query_id = query_id
        self._reader = reader
        self._follower = follower
        self._output = output
        self._followed = followed
        self._told_at = time.monotonic()

    def take(self, reply: pb.FollowReply, schema: pa.Schema) -> None:
        """Write its rows, if it has some."""
        followed = self._followed
        if reply.rows:
            rows = pa.ipc.read_record_batch(pa.py_buffer(reply.rows), schema)
            # Whoever reads a pipe may have stopped: there Ctrl-C must not wait for it.
            with nullcontext() if self._output.safe_at_once else uninterrupted():
                self._output.write(rows)
                self._follower.passed(rows.num_rows)
                followed.rows += rows.num_rows
                followed.written = self._follower.next_row
        if reply.HasField("info"):
            followed.info = reply.info
        if time.monotonic() - self._told_at > _ACK_EVERY_S:
            self._told_at = time.monotonic()
            # One that is away, or has no room to note it, is told later; of a query that is dropped the replies tell.
            with suppress(DaemonUnreachableError, StartingError, NoRoomError, UnknownQueryError):
                self._tell(followed.written if self._output.safe_at_once else 0, patient=False)

    def end(self) -> None:
        """All that was written is safe: the site is told, which waits for one that is away, unless one wants to leave.

        If it cannot be told, rows will come again; those that are here are whole all the same.
        """
        if self._followed.detached:
            self._client.patience = Patience(_LEAVE_S)
        try:
            self._tell(self._followed.written, patient=True)
        except (AwayTooLongError, DaemonUnreachableError, StartingError):
            self._followed.untold = "is away and could not be told which rows were taken"
        except NoRoomError:
            # The rows are safe here, and its disk may stay full for long.
            self._followed.untold = "has no room on its disk to note which rows were taken"
        except UnknownQueryError:
            pass  # it was dropped, and keeps nothing
        except DaemonRefusedError as error:
            self._followed.untold = f"did not note which rows were taken ({error})"

    def _tell(self, before: int, *, patient: bool) -> None:
        run, name, seen = self._follower.run, self._follower.client, self._followed.written
        self._client.take(self._query_id, run, before, reader=self._reader, client=name, seen=seen, patient=patient)
