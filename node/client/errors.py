"""What can go wrong between a client and its daemon, by what a caller can do about it."""

from __future__ import annotations

import grpc

from planner.model.errors import NarrowsError


class DaemonUnreachableError(NarrowsError):
    """Nobody answers at the daemon's address."""

    def __init__(self, text: str, site: str = "") -> None:
        """``site`` is the daemon's, as far as the client knows it."""
        super().__init__(text)
        self.site = site


class DaemonRefusedError(NarrowsError):
    """The daemon answered, and the answer is no."""


class UnknownQueryError(DaemonRefusedError):
    """The daemon has no such query."""


class NotNowError(DaemonRefusedError):
    """The daemon cannot do it as things are: it is starting, a site is missing, or somebody else follows the query."""


class MissingRowsError(NarrowsError):
    """The daemon gave other rows than were asked for."""


_REFUSALS = {grpc.StatusCode.NOT_FOUND: UnknownQueryError, grpc.StatusCode.FAILED_PRECONDITION: NotNowError}


def error_of(error: grpc.RpcError, site: str, address: str) -> NarrowsError:
    """What gRPC says, as one of these. ``site`` may be unknown, and empty then."""
    code, details = error.code(), error.details()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        if site:
            text = f"site {site} requires a running daemon at {address}; nobody answers"
        else:
            text = f"a running daemon is required at {address}; nobody answers ({details})"
        return DaemonUnreachableError(text, site)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return DaemonRefusedError(f"the daemon at {address} is too old for what is asked of it ({details})")
    return _REFUSALS.get(code, DaemonRefusedError)(details or code.name)
