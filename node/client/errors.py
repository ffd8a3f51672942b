"""What can go wrong between a client and its daemon, by what a caller can do about it."""

from __future__ import annotations

import grpc

from node.instance import STARTING_KEY
from planner.model.errors import NarrowsError


class DaemonUnreachableError(NarrowsError):
    """Nobody answers at the daemon's address."""

    def __init__(self, text: str, site: str = "") -> None:
        """``site`` is the daemon's, as far as the client knows it."""
        super().__init__(text)
        self.site = site


class DaemonSilentError(DaemonUnreachableError):
    """There was no answer in time. The daemon may be there, and busy."""


class DaemonRefusedError(NarrowsError):
    """The daemon answered, and the answer is no."""


class NotRightError(DaemonRefusedError):
    """What was asked is not right: the daemon changed nothing, and asking again will not help."""


class UnknownQueryError(DaemonRefusedError):
    """The daemon has no such query."""


class NotNowError(DaemonRefusedError):
    """The daemon cannot do it as things are: it is starting, a site is missing, or somebody else follows the query."""


class NoRoomError(DaemonRefusedError):
    """The daemon's disk is full: what was asked may work later."""


class DaemonFailedError(DaemonRefusedError):
    """The daemon's disk failed, or it has a bug: asking again will not help."""


class StartingError(NotNowError):
    """The daemon is starting, and serves nobody yet."""

    def __init__(self, text: str, site: str = "") -> None:
        super().__init__(text)
        self.site = site


class AwayTooLongError(NarrowsError):
    """A daemon, or a site that a query needs, was away for longer than the caller wanted to wait."""


class MissingRowsError(NarrowsError):
    """The daemon gave other rows than were asked for."""


_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT: NotRightError,
    grpc.StatusCode.NOT_FOUND: UnknownQueryError,
    grpc.StatusCode.FAILED_PRECONDITION: NotNowError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: NoRoomError,
    grpc.StatusCode.INTERNAL: DaemonFailedError,
}

#: A daemon that is stopping cancels what it is asked.
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def _is_starting(error: grpc.RpcError) -> bool:
    return any(entry.key == STARTING_KEY for entry in error.trailing_metadata() or ())


def error_of(error: grpc.RpcError, site: str, address: str, waited_s: float = 0.0) -> NarrowsError:
    """What gRPC says, as one of these. ``site`` may be unknown, and empty then; the call had ``waited_s``."""
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        who = f"site {site}" if site else "whoever asks"
        text = (
            f"{who} requires an answer of the daemon at {address} within {waited_s:g} s; got none: it is busy or hangs"
        )
        return DaemonSilentError(text, site)
    if code in _AWAY:
        if site:
            text = f"site {site} requires a running daemon at {address}; nobody answers"
        else:
            text = f"a running daemon is required at {address}; nobody answers ({details})"
        return DaemonUnreachableError(text, site)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return DaemonRefusedError(f"the daemon at {address} is too old for what is asked of it ({details})")
    if code is grpc.StatusCode.FAILED_PRECONDITION and _is_starting(error):
        return StartingError(details or "it is starting", site)
    return _REFUSALS.get(code, DaemonRefusedError)(details or code.name)
