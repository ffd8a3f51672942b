"""Whose fault it is decides what happens: a bug here crashes, a bad peer loses its link."""

from planner.errors import NarrowsError


class LocalProtocolError(NarrowsError):
    """This daemon broke its own rules: a bug. It must not go on."""


class PeerProtocolError(NarrowsError):
    """The peer sent something wrong. The link is closed and the reason shown."""


class PeerRefusedError(NarrowsError):
    """The peer is not one we may talk to: another version, another cluster, another site."""


class QueryFailedError(NarrowsError):
    """One query cannot go on, through nobody's fault but its data's. It ends everywhere, with this reason."""


def invariant(holds: bool, text: str) -> None:
    """Crash with ``text`` unless ``holds``; unlike assert it stays on under ``python -O``."""
    if not holds:
        raise LocalProtocolError(text)
