"""What the halves of the algorithms may ask of the query they belong to."""

from __future__ import annotations

from typing import Protocol

from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.gate import Gate
from node.core.engine import Find, Probe
from node.core.limits import Limits
from node.core.links.messages import AskMatches, Carry, Fetch, StepMessage
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Waiting, Walk


class Desk(Protocol):
    """One query at one site."""

    query_id: str
    gate: Gate
    limits: Limits

    def now_us(self) -> int:
        """What time it is."""

    def ask(self, question: Probe | Find, waiting: Waiting) -> int:
        """Ask the engine; the number of the question. The walk is woken with the answer."""

    def send(self, peer: str, message: StepMessage) -> None:
        """Give the link with ``peer`` a message, after those before."""

    def fetch(self, step: StepShape, message: Fetch) -> None:
        """Ask the stream's site for tuples of keys."""

    def advance(self, walk: Walk) -> None:
        """A walk has done a step, or lost its last row: on with it."""

    def carried(self, message: Carry, step: StepShape) -> Walk:
        """The walk that comes for a step; raises PeerProtocolError if it is not one."""

    def check_times(self, message: AskMatches) -> None:
        """Raises PeerProtocolError unless the times asked about are within the span."""

    def reduced_owner(self, peer: str, copy: int) -> ReducedOwner | None:
        """The owner's half of W' number ``copy`` at ``peer``; None if its holder closed it."""
