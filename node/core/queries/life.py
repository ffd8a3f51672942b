"""The life of a query at a site, as a table of states and events.

    prepared   it holds what it may need, and keeps what comes early
    running    its heads' batches walk
    over       nothing of it is left here

A pair that is not in the table cannot happen, or somebody broke the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from node.core.errors import PeerProtocolError


class RunState(StrEnum):
    """Where a query stands at a site."""

    PREPARED = "prepared"
    RUNNING = "running"
    OVER = "over"


class RunEvent(StrEnum):
    """What can happen to it."""

    #: Home says from which tick on it runs.
    START = "start"
    #: A local stream, or a full copy, has a batch with which walks may start.
    BATCH = "batch"
    #: The other half of one of its steps says something.
    STEP = "step"
    #: The sink has stored more.
    DONE = "done"
    #: It is dropped, complete, or cannot go on.
    END = "end"


class Reaction(StrEnum):
    """What is done then."""

    BEGIN = "begin"
    KEEP = "keep until the start"
    ACT = "act"
    CLOSE = "close"


#: What happens in which state, and the state after that.
TABLE: Mapping[tuple[RunState, RunEvent], tuple[Reaction, RunState]] = {
    (RunState.PREPARED, RunEvent.START): (Reaction.BEGIN, RunState.RUNNING),
    (RunState.PREPARED, RunEvent.BATCH): (Reaction.KEEP, RunState.PREPARED),
    (RunState.PREPARED, RunEvent.STEP): (Reaction.KEEP, RunState.PREPARED),
    (RunState.PREPARED, RunEvent.END): (Reaction.CLOSE, RunState.OVER),
    (RunState.RUNNING, RunEvent.BATCH): (Reaction.ACT, RunState.RUNNING),
    (RunState.RUNNING, RunEvent.STEP): (Reaction.ACT, RunState.RUNNING),
    (RunState.RUNNING, RunEvent.DONE): (Reaction.ACT, RunState.RUNNING),
    (RunState.RUNNING, RunEvent.END): (Reaction.CLOSE, RunState.OVER),
}


class Life:
    """The state of one query at one site."""

    def __init__(self, query_id: str) -> None:
        self._query_id = query_id
        self.state = RunState.PREPARED

    def on(self, event: RunEvent) -> Reaction:
        """What to do about an event; the state after it is the state from now on.

        Raises PeerProtocolError for one that cannot come now.
        """
        found = TABLE.get((self.state, event))
        if found is None:
            raise PeerProtocolError(f"query {self._query_id} is {self.state}, which requires no {event}; got one")
        reaction, self.state = found
        return reaction
