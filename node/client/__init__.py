"""One client for everybody who talks to a daemon: the command, Spark's sink, the demo, scripts.

It knows gRPC, the messages of ``control.proto`` and nothing of what a daemon is made of; Arrow is loaded when rows are
read.
"""

from node.client.client import Client
from node.client.errors import (
    DaemonRefusedError,
    DaemonSilentError,
    DaemonUnreachableError,
    MissingRowsError,
    NotNowError,
    UnknownQueryError,
)
from node.client.follower import Follower

__all__ = [
    "Client",
    "DaemonRefusedError",
    "DaemonSilentError",
    "DaemonUnreachableError",
    "Follower",
    "MissingRowsError",
    "NotNowError",
    "UnknownQueryError",
]
