"""One client for everybody who talks to a daemon: the command, Spark's sink, the demo, scripts.

It knows gRPC, the messages of ``control.proto`` and nothing of what a daemon is made of; Arrow is loaded when rows are
read.
"""

from node.client.client import Client
from node.client.errors import (
    AwayTooLongError,
    DaemonFailedError,
    DaemonRefusedError,
    DaemonSilentError,
    DaemonUnreachableError,
    MissingRowsError,
    NoRoomError,
    NotNowError,
    NotRightError,
    StartingError,
    UnknownQueryError,
)
from node.client.follower import Follower
from node.client.patience import Patience

__all__ = [
    "AwayTooLongError",
    "Client",
    "DaemonFailedError",
    "DaemonRefusedError",
    "DaemonSilentError",
    "DaemonUnreachableError",
    "Follower",
    "MissingRowsError",
    "NoRoomError",
    "NotNowError",
    "NotRightError",
    "Patience",
    "StartingError",
    "UnknownQueryError",
]
