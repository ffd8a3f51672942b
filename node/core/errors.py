"""Whose fault it is decides what happens: a bug here ends the daemon, a bad peer its query or its connection."""

from planner.model.errors import NarrowsError


class LocalProtocolError(NarrowsError):
    """This daemon broke its own rules: a bug. It must not go on."""


class PeerProtocolError(NarrowsError):
    """The peer sent something wrong: a message ends the query that it is about, a frame the connection."""


class PeerRefusedError(NarrowsError):
    """The peer is not one we may talk to: another version, another cluster, another site."""


class QueryFailedError(NarrowsError):
    """One query cannot go on, through nobody's fault but its data's. It ends everywhere, with this reason."""


def invariant(holds: bool, text: str) -> None:
    """Crash with ``text`` unless ``holds``; unlike assert it stays on under ``python -O``."""
    if not holds:
        raise LocalProtocolError(text)
