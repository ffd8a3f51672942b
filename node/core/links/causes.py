"""What the bytes of a query are for: which step of which head, which copy, or rows for the sink.

Messages are counted as they leave, compressed, each with its own bytes (``node.codec`` keeps them apart) and
with its share of what frames them: a shipment's framing is divided evenly among the frames in it. What is
repeated after a reconnect is not counted again, so this can be less than the ledger of a link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from node.core.links.messages import (
    AskMatches,
    Carry,
    CloseCopy,
    DropPortion,
    Fetch,
    Fetched,
    KeyAnswer,
    LeaseCopy,
    Level,
    Message,
    OpenCopy,
    Rows,
    SetPortion,
    Sync,
    TupleAnswer,
)


class Purpose(StrEnum):
    """What a message belongs to."""

    STEP = "step"
    COPY = "copy"
    RESULTS = "results"
    CONTROL = "control"


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why bytes were sent. ``name`` is the head; ``number`` that of a step, or of a copy among the query's needs."""

    query_id: str
    purpose: Purpose
    name: str = ""
    number: int = -1


@dataclass(slots=True)
class Sent:
    """What left for one peer, of one kind, for one cause."""

    messages: int = 0
    nbytes: int = 0
    framing_bytes: float = 0.0


def cause_of(message: Message) -> Cause:
    """What a message belongs to, as far as it says so itself."""
    match message:
        case Carry() | AskMatches() | KeyAnswer() | TupleAnswer():
            return Cause(message.query_id, Purpose.STEP, message.head, message.step)
        case OpenCopy() | LeaseCopy():
            return Cause(message.query_id, Purpose.COPY, "", message.need)
        case Rows():
            return Cause(message.query_id, Purpose.RESULTS, message.head)
        case CloseCopy() | Level() | SetPortion() | DropPortion() | Sync() | Fetch() | Fetched():
            return Cause("", Purpose.COPY)
        case _:
            return Cause(message.query_id, Purpose.CONTROL)


class Traffic:
    """What a site has sent, by cause, peer and kind: for those queries, and questions before them, that sent last."""

    def __init__(self, queries_max: int = 200) -> None:
        self._queries_max = queries_max
        #: In the order in which they last sent something, so that what goes on is not forgotten for what is over.
        self._by_query: dict[str, dict[tuple[Cause, str, str], Sent]] = {}

    def count(self, cause: Cause, peer: str, kind: str, nbytes: int, framing: float, last: bool) -> None:
        """A part of a message left; ``last`` says that it was the last one of it."""
        flows = self._by_query.pop(cause.query_id, {})
        self._by_query[cause.query_id] = flows
        if len(self._by_query) > self._queries_max:
            del self._by_query[next(iter(self._by_query))]
        sent = flows.setdefault((cause, peer, kind), Sent())
        sent.messages += last
        sent.nbytes += nbytes
        sent.framing_bytes += framing

    def sent_for(self, is_wanted: Callable[[str], bool]) -> dict[str, int]:
        """By peer, the bytes of the queries whose names are wanted."""
        found: dict[str, float] = {}
        for name, flows in self._by_query.items():
            if is_wanted(name):
                for (_, peer, _), sent in flows.items():
                    found[peer] = found.get(peer, 0.0) + sent.nbytes + sent.framing_bytes
        return {peer: round(nbytes) for peer, nbytes in found.items()}

    def flows(self) -> list[tuple[Cause, str, str, Sent]]:
        """Cause, peer and kind with what was sent."""
        return [(*key, sent) for flows in self._by_query.values() for key, sent in flows.items()]
