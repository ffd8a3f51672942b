"""The states of a link, as a table of what can happen in each.

    down          no connection; messages wait
    greeting      a connection, on which we have said who we are
    remembering   the peer's life is new: it is written down before anything else is believed
    up            messages flow

A pair that is not in the table cannot happen, or the peer broke the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum

from node.core.errors import PeerProtocolError


class LinkState(Enum):
    """Where a link stands."""

    DOWN = "down"
    GREETING = "greeting"
    REMEMBERING = "remembering"
    UP = "up"


class LinkEvent(StrEnum):
    """What can happen to it."""

    #: There is a connection, which takes the place of the one before.
    OPENED = "a connection"
    #: The connection is gone, or was silent for too long.
    CLOSED = "the end of its connection"
    #: A greeting from a life of the peer that we have met, or from a new one.
    GREETED = "a greeting"
    GREETED_ANEW = "a greeting of a new life"
    #: The new life is written down.
    REMEMBERED = "a life that was written down"
    #: Anything else that a peer says on a connection.
    FRAME = "a frame"
    #: The peer will not talk to us.
    REFUSED = "a refusal"
    #: We have a message for the peer.
    MESSAGE = "a message to send"
    #: What the two ends have in common cannot be relied on: a message that cannot be read, numbers that do not fit, a
    #: queue that is too long.
    BROKEN = "a breach"
    TIME = "time"


class Reaction(StrEnum):
    """What is done then."""

    GREET = "greet"
    MEET = "agree on the session"
    WRITE = "have the life written down"
    HOLD = "hold until the life is written down"
    TAKE = "take"
    QUEUE = "queue"
    SEND = "queue and send"
    LEAVE = "keep what is not acknowledged for the next connection"
    RESET = "begin another session"
    WATCH = "watch for silence"
    TEND = "watch for silence, acknowledge, measure"
    NOTHING = "nothing"


_DOWN, _GREETING, _REMEMBERING, _UP = LinkState
_E, _R = LinkEvent, Reaction

#: What happens in which state, and the state after that.
TABLE: Mapping[tuple[LinkState, LinkEvent], tuple[Reaction, LinkState]] = {
    (_DOWN, _E.OPENED): (_R.GREET, _GREETING),
    (_DOWN, _E.CLOSED): (_R.NOTHING, _DOWN),
    (_DOWN, _E.REMEMBERED): (_R.NOTHING, _DOWN),
    (_DOWN, _E.MESSAGE): (_R.QUEUE, _DOWN),
    (_DOWN, _E.BROKEN): (_R.RESET, _DOWN),
    (_DOWN, _E.TIME): (_R.NOTHING, _DOWN),
    (_GREETING, _E.OPENED): (_R.GREET, _GREETING),
    (_GREETING, _E.CLOSED): (_R.LEAVE, _DOWN),
    (_GREETING, _E.GREETED): (_R.MEET, _UP),
    (_GREETING, _E.GREETED_ANEW): (_R.WRITE, _REMEMBERING),
    (_GREETING, _E.REMEMBERED): (_R.NOTHING, _GREETING),
    (_GREETING, _E.REFUSED): (_R.LEAVE, _DOWN),
    (_GREETING, _E.MESSAGE): (_R.QUEUE, _GREETING),
    (_GREETING, _E.BROKEN): (_R.RESET, _DOWN),
    (_GREETING, _E.TIME): (_R.WATCH, _GREETING),
    (_REMEMBERING, _E.OPENED): (_R.GREET, _GREETING),
    (_REMEMBERING, _E.CLOSED): (_R.LEAVE, _DOWN),
    (_REMEMBERING, _E.REMEMBERED): (_R.MEET, _UP),
    (_REMEMBERING, _E.FRAME): (_R.HOLD, _REMEMBERING),
    (_REMEMBERING, _E.REFUSED): (_R.LEAVE, _DOWN),
    (_REMEMBERING, _E.MESSAGE): (_R.QUEUE, _REMEMBERING),
    (_REMEMBERING, _E.BROKEN): (_R.RESET, _DOWN),
    (_REMEMBERING, _E.TIME): (_R.WATCH, _REMEMBERING),
    (_UP, _E.OPENED): (_R.GREET, _GREETING),
    (_UP, _E.CLOSED): (_R.LEAVE, _DOWN),
    (_UP, _E.REMEMBERED): (_R.NOTHING, _UP),
    (_UP, _E.FRAME): (_R.TAKE, _UP),
    (_UP, _E.REFUSED): (_R.LEAVE, _DOWN),
    (_UP, _E.MESSAGE): (_R.SEND, _UP),
    (_UP, _E.BROKEN): (_R.RESET, _DOWN),
    (_UP, _E.TIME): (_R.TEND, _UP),
}


_REQUIRES = {_DOWN: "a connection", _GREETING: "Hello first", _REMEMBERING: "one Hello", _UP: "one Hello"}


def step(state: LinkState, event: LinkEvent, got: str = "") -> tuple[Reaction, LinkState]:
    """What to do about an event, and the state after it.

    Raises PeerProtocolError for one that cannot come now.
    """
    found = TABLE.get((state, event))
    if found is None:
        raise PeerProtocolError(f"link requires {_REQUIRES[state]}; got {got or event}")
    return found
