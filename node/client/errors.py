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


class DaemonSilentError(DaemonUnreachableError):
    """There was no answer in time. The daemon may be there, and busy."""


class DaemonRefusedError(NarrowsError):
    """The daemon answered, and the answer is no."""


class UnknownQueryError(DaemonRefusedError):
    """The daemon has no such query."""


class NotNowError(DaemonRefusedError):
    """The daemon cannot do it as things are: it is starting, a site is missing, or somebody else follows the query."""


class MissingRowsError(NarrowsError):
    """The daemon gave other rows than were asked for."""


_REFUSALS = {grpc.StatusCode.NOT_FOUND: UnknownQueryError, grpc.StatusCode.FAILED_PRECONDITION: NotNowError}


def error_of(error: grpc.RpcError, site: str, address: str, waited_s: float = 0.0) -> NarrowsError:
    """What gRPC says, as one of these. ``site`` may be unknown, and empty then; the call had ``waited_s``."""
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        who = f"site {site}" if site else "whoever asks"
        text = (
            f"{who} requires an answer of the daemon at {address} within {waited_s:g} s; got none: it is busy or hangs"
        )
        return DaemonSilentError(text, site)
    if code is grpc.StatusCode.UNAVAILABLE:
        if site:
            text = f"site {site} requires a running daemon at {address}; nobody answers"
        else:
            text = f"a running daemon is required at {address}; nobody answers ({details})"
        return DaemonUnreachableError(text, site)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return DaemonRefusedError(f"the daemon at {address} is too old for what is asked of it ({details})")
    return _REFUSALS.get(code, DaemonRefusedError)(details or code.name)
