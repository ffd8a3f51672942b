"""What a query that ran did send and deliver, as values beside what was expected (``planner.cost.estimates``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.algorithms.kinds import Kind
from planner.cost.estimates import CopyKey


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes of one kind that went from one site to another, in all."""

    source: str
    target: str
    kind: Kind
    nbytes: float


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One step of a head's walks: rows of the carry before and after it, and what was sent for it."""

    rows_in: int = 0
    rows_out: int = 0
    sent: tuple[Sent, ...] = ()

    @property
    def nbytes(self) -> float:
        """All bytes of the step, without those of its copy's sync."""
        return bytes_of(self.sent)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was counted of one query. Expected figures are per second of event time: times ``seconds``."""

    #: Event time that the query has seen.
    seconds: float
    #: By head and number of the step.
    steps: Mapping[tuple[str, int], MeasuredStep]
    #: Rows on their way to the sink, by head.
    results: Mapping[str, tuple[Sent, ...]] = field(default_factory=dict)
    copies: Mapping[CopyKey, tuple[Sent, ...]] = field(default_factory=dict)
    control: tuple[Sent, ...] = ()
    #: What shipping every tuple to the sink would have cost, compressed, without framing; None if nobody metered that.
    ship_all_bytes: float | None = 0.0

    @property
    def sent(self) -> tuple[Sent, ...]:
        """Everything that travelled."""
        steps = [sent for step in self.steps.values() for sent in step.sent]
        rest = [sent for group in (*self.results.values(), *self.copies.values()) for sent in group]
        return (*steps, *rest, *self.control)

    @property
    def by_link(self) -> Mapping[tuple[str, str], float]:
        """Bytes from one site to another."""
        found: dict[tuple[str, str], float] = {}
        for sent in self.sent:
            way = (sent.source, sent.target)
            found[way] = found.get(way, 0.0) + sent.nbytes
        return dict(sorted(found.items()))

    @property
    def nbytes(self) -> float:
        """All bytes on all links."""
        return bytes_of(self.sent)


def bytes_of(sent: Iterable[Sent]) -> float:
    """The bytes of all of them."""
    return sum(part.nbytes for part in sent)
