"""A half of a step: what one site does for the walks of one head at one step of its sequence."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from node.core.algorithms.desk import Desk
from node.core.algorithms.span_ledger import SpanLedger
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.copies.reduced_copy import ReducedHolder
from node.core.arrangements.gate import Arrangement, Look
from node.core.arrangements.lease import Lease
from node.core.arrangements.table import RowTable
from node.core.engine import HIGH, LOW, TS, Probe
from node.core.errors import LocalProtocolError, PeerProtocolError
from node.core.links.messages import StepMessage
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Asked, Sought, Stage, Waiting, Walk
from planner.model.graph import conjunction
from planner.model.query import Expr

#: What rows can be joined with.
Joinable = RowTable | ReducedHolder | MixedHolder


@dataclass(frozen=True, slots=True)
class HalfSite:
    """Where a half works: the query's desk, and what the step looks at here, under which lease."""

    desk: Desk
    window: Joinable | KeysHolder | None
    lease: Lease | None


class Half:
    """What all halves can do. Each says what it does when it is given a walk, woken, or sent a message."""

    def __init__(self, site: HalfSite, step: StepShape, at_source: bool) -> None:
        self._site = site
        self._desk = site.desk
        self._step = step
        self._at_source = at_source
        #: The walks that the other half sent.
        self._came = SpanLedger(f"query {self._desk.query_id}, head {step.head!r}, step {step.number}")
        self._conditions: dict[Expr | None, Expr | None] = {}

    def arrive(self, walk: Walk) -> None:
        """A walk comes for this step."""
        raise LocalProtocolError(f"{type(self).__name__} is given no walks; got {walk}")

    def opened(self, waiting: Waiting) -> None:
        """A walk that waited at the gate may look."""
        raise LocalProtocolError(f"{type(self).__name__} lets no walk wait at a gate; got {waiting}")

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        """The engine answered."""
        raise LocalProtocolError(f"{type(self).__name__} asks the engine nothing; got {waiting}")

    def fetched(self, waiting: Waiting) -> None:
        """The tuples that a walk waited for are here."""
        raise LocalProtocolError(f"{type(self).__name__} fetches nothing; got {waiting}")

    def on_message(self, peer: str, message: StepMessage) -> None:
        """The other half says something."""
        what = f"{type(message).__name__} for {message.head!r} step {message.step}"
        raise PeerProtocolError(f"query {message.query_id} requires a step that is done between us; got {what}")

    def on_done(self, tick: int) -> None:
        """The sink is done with the head's walks before ``tick``."""
        self._came.done(tick)

    @property
    def waiting(self) -> list[Waiting]:
        """Walks that wait for the other half."""
        return []

    @property
    def other_site(self) -> str:
        """Where the other half is."""
        return self._step.owner if self._at_source else self._step.source

    # -- for the halves -----------------------------------------------------------------------

    @property
    def lease(self) -> Lease:
        """The claim on what is looked at here."""
        assert self._site.lease is not None
        return self._site.lease

    def wait_for(self, walk: Walk, stage: Stage, cause: str, detail: Asked | Sought | None = None) -> Waiting:
        """The walk as it waits in this half."""
        return Waiting(walk, stage, self._at_source, cause, self._desk.now_us(), detail)

    def enter(self, walk: Walk, arrangement: Arrangement) -> None:
        """Look at an arrangement, now or when the walk may."""
        cause = f"{arrangement.progress.name} to be sealed"
        low_ts, high_ts = walk.times
        self.pass_gate(arrangement, low_ts, high_ts, self.wait_for(walk, Stage.GATE, cause))

    def pass_gate(self, arrangement: Arrangement, low_ts: int, high_ts: int, waiting: Waiting) -> None:
        """The same for rows that are elsewhere."""
        at_copy = self._at_source and self._step.remote
        look = Look(arrangement, self.lease, low_ts, high_ts, self._step.include_ties, at_copy)
        if self._desk.gate.enter(look, waiting):
            self.opened(waiting)

    def probe(self, walk: Walk, rows: pa.RecordBatch, window: Joinable) -> None:
        """Have the engine join rows of a walk with what is here."""
        step = self._step
        low, high = window.bounds(self.lease, rows.column(TS).to_numpy(), step.include_ties)
        columns = [*rows.columns, pa.array(low), pa.array(high)]
        placed = pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, LOW, HIGH])
        probe = Probe(
            window.name,
            step.keys,
            placed,
            step.carry_keys,
            step.hop.alias,
            self.condition(window.where(self.lease)),
            tuple(step.answer_schema.names),
        )
        self._desk.ask(probe, self.wait_for(walk, Stage.ENGINE, f"{rows.num_rows} rows to be joined"))

    def condition(self, where: Expr | None) -> Expr | None:
        """What must hold for a joined row besides its keys; ``where`` is what of our filter is not known to hold.

        Always the same object, by which an engine knows the question again.
        """
        if where not in self._conditions:
            terms = [term for term in (where, self._step.residual) if term is not None]
            self._conditions[where] = conjunction(terms)
        return self._conditions[where]
