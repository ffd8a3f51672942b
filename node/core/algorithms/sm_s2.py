"""SM-S2 (Algorithm 4): M tells at the source which keys match; tuples of those it has not are fetched, once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from node.core.algorithms.half import Half, HalfSite
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.encoding.payload import take_batch
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Stage, Waiting, Walk

#: At the stream's site the copy's owner does all there is to do.
Destination = None


@dataclass(slots=True)
class _Joining:
    """A walk whose join comes in two parts, and what has come."""

    walk: Walk
    missing: int
    rows: list[pa.RecordBatch] = field(default_factory=list)


class Source(Half):
    """At the carry's site, with M."""

    def __init__(self, site: HalfSite, step: StepShape, at_source: bool) -> None:
        super().__init__(site, step, at_source)
        self._joining: dict[int, _Joining] = {}

    def arrive(self, walk: Walk) -> None:
        self.enter(walk, self._copy)

    def opened(self, waiting: Waiting) -> None:
        """Rows whose tuples are here are joined now; Temp, those whose keys match only, when the tuples come."""
        walk, copy = waiting.walk, self._copy
        slots, full = copy.slots_of(self._step.keys_of(walk.rows))
        temp, now = np.flatnonzero((slots >= 0) & ~full), np.flatnonzero(full)
        if not len(temp) and not len(now):
            self._desk.advance(walk.narrowed(walk.rows.slice(0, 0)))
            return
        self._joining[walk.span.first] = _Joining(walk, (len(now) > 0) + (len(temp) > 0))
        if len(now):
            self.probe(walk, take_batch(walk.rows, now), copy)
        if len(temp):
            rest = walk.narrowed(take_batch(walk.rows, temp))
            cause = f"{self._step.owner} to send the tuples of {len(np.unique(slots[temp]))} keys"
            fetch = copy.fetch(slots[temp], self.wait_for(rest, Stage.FETCH, cause))
            if fetch is not None:
                self._desk.fetch(self._step, fetch)

    def fetched(self, waiting: Waiting) -> None:
        self.probe(waiting.walk, waiting.walk.rows, self._copy)

    def answered(self, waiting: Waiting, rows: pa.RecordBatch) -> None:
        joining = self._joining[waiting.walk.span.first]
        joining.rows.append(rows)
        joining.missing -= 1
        if not joining.missing:
            del self._joining[waiting.walk.span.first]
            whole = joining.rows[0] if len(joining.rows) == 1 else pa.concat_batches(joining.rows)
            self._desk.advance(joining.walk.joined(whole))

    @property
    def _copy(self) -> MixedHolder:
        assert isinstance(self._site.window, MixedHolder)
        return self._site.window
