"""The client of a daemon, as Spark's driver and executors use it, each with a connection of its own."""

from __future__ import annotations

import grpc

from node.client import Client, DaemonUnreachableError, NoRoomError, StartingError
from spark_jobs.sink.options import SinkError


class SinkAwayError(SinkError, DaemonUnreachableError):
    """The daemon does not answer, or serves nobody yet."""


class SinkNoRoomError(SinkError, NoRoomError):
    """The daemon's disk is full, so that it can note nothing."""


class SinkClient(Client):
    """What fails says in Spark's logs, among much else, that it is about Narrows."""

    def error(self, error: grpc.RpcError, waited_s: float = 0.0) -> SinkError:
        """What to raise for what gRPC says."""
        found = super().error(error, waited_s)
        if isinstance(found, DaemonUnreachableError | StartingError):
            return SinkAwayError(f"narrows: {found}")
        if isinstance(found, NoRoomError):
            return SinkNoRoomError(f"narrows: {found}")
        return SinkError(f"narrows: {found}")
