"""What the two ends of a link say to each other: parts of messages, and what keeps the link going."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What the bytes of a frame are for; the ledger is kept by it."""

    CONTROL = 0
    TUPLES = 1
    SYNC = 2
    RESULTS = 3
    KEYS = 4
    KEY_ANSWERS = 5

    @property
    def label(self) -> str:
        """Its name for people and reports."""
        return _LABELS[self]


_LABELS = {kind: kind.name.lower() for kind in Kind}


class Packed(NamedTuple):
    """A message for a link, which looks into neither: bytes, and numbers that the connection codes with its own."""

    payload: bytes
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Hello:
    """First frame in each direction."""

    version: int
    cluster: str
    tau_ms: int
    site: str
    peer: str
    #: The session that this end believes in: its own life, the peer's (0: never met), and how often it was reset.
    life: int
    peer_life: int
    resets: int
    #: Number of the next part wanted from the peer, in that session.
    expects: int
    #: What the site says about itself; the link does not look inside.
    about: bytes
    #: The life in which the site's folder was begun, 0: there is none; and those before this one in it, the latest.
    folder: int = 0
    lives: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A numbered piece of a message. ``more`` follows, or it is the last of its message."""

    seq: int
    kind: Kind
    more: bool
    payload: bytes
    #: Everything of the other direction before this number has arrived.
    ack: int
    #: The numbers of the message, with its first part.
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything of the other direction before ``expects`` has arrived."""

    expects: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a Pong with the same number."""

    sent_at_us: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a Ping."""

    sent_at_us: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The last frame to a peer that may not talk to us."""

    reason: str


Frame = Hello | Part | Ack | Ping | Pong | Refuse
