"""What is sent to keep the copies of a query's plans, beside what steps ask for.

A copy that runs already, for whichever query, and has all that is needed costs nothing more. One that grows (a full
copy) is sent what nobody needed before, in messages that leave anyway.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algorithms.step_stats import NO_KEYS
from planner.algorithms.traffic import CopyLoad, Parts
from planner.cost.estimates import CopyKey, Flow
from planner.cost.row_sizes import RowSizes
from planner.estimate.estimator import Estimator
from planner.model.constants import EVENT_TIME
from planner.model.copies import RunningCopy, can_serve, copy_of, looseness, missing_shares, serving
from planner.model.query import ColumnRef, JoinQuery, RowsWindow


class CopySyncs:
    """The copies of one query's plans, beside those that run already."""

    def __init__(
        self, query: JoinQuery, running: tuple[RunningCopy, ...], estimator: Estimator, sizes: RowSizes
    ) -> None:
        self._query = query
        self._aliases = query.aliases
        self._copies = running
        self._estimator = estimator
        self._sizes = sizes
        self._needed: dict[CopyKey, RunningCopy] = {}
        self._running: dict[CopyKey, RunningCopy | None] = {}
        self._flows: dict[CopyKey, tuple[Flow, ...]] = {}

    @property
    def none_run(self) -> bool:
        """Whether no copy runs yet."""
        return not self._copies

    def running(self, copy: CopyKey) -> RunningCopy | None:
        """The copy that runs already and serves as this one, if any."""
        if not self._copies:
            return None
        if copy not in self._running:
            self._running[copy] = serving(self._copies, self._needed_copy(copy))
        return self._running[copy]

    def _needed_copy(self, copy: CopyKey) -> RunningCopy:
        if copy not in self._needed:
            self._needed[copy] = copy_of(self._query, copy.kind, copy.alias, copy.keys, copy.holder)
        return self._needed[copy]

    def looseness(self, copy: CopyKey) -> float:
        """How many times the keys that it has to have the copy has that serves as this one; 1 for one of its own."""
        running = self.running(copy)
        return 1.0 if running is None else looseness(running, self._needed_copy(copy))

    def grows(self, copy: CopyKey) -> bool:
        """Whether a copy runs that will be sent what is needed for this one beside what others need."""
        if not copy.kind.spec.grows or not self._copies or self.running(copy) is not None:
            return False
        needed = self._needed_copy(copy)
        return any(can_serve(running, needed) for running in self._copies)

    def flows(self, copy: CopyKey) -> tuple[Flow, ...]:
        """What is sent to keep a copy: nothing more if it runs already."""
        if copy not in self._flows:
            owner = self._query.ref(copy.alias).stream.site
            parts = self.sync(copy) if self.running(copy) is None else ()
            self._flows[copy] = tuple(Flow(owner, copy.holder, kind, size) for kind, size in parts if size > 0)
        return self._flows[copy]

    def _load(self, copy: CopyKey) -> CopyLoad:
        number, sizes, estimator = self._aliases.index(copy.alias), self._sizes, self._estimator
        return CopyLoad(
            estimator.rates[number],
            estimator.kept_keys(number, copy.keys) if copy.keys else NO_KEYS,
            estimator.batches_s[number],
            sizes.tuple_bytes(number),
            sizes.key_bytes(tuple(ColumnRef(copy.alias, name) for name in copy.keys)),
            self.times_bytes(copy),
            estimator.kept_rows(number),
        )

    def runs_among(self, copy: CopyKey, there: tuple[RunningCopy, ...]) -> bool:
        """Whether one of the copies that are there serves as this one."""
        return serving(there, self._needed_copy(copy)) is not None

    def snapshot(self, copy: CopyKey, there: tuple[RunningCopy, ...]) -> float:
        """Bytes that are sent first when a copy is begun; of one that grows only what those that are there lack."""
        load = self._load(copy)
        if copy.kind.spec.grows and any(can_serve(each, self._needed_copy(copy)) for each in there):
            load = replace(load, tuple_bytes=self._new_bytes(copy, there))
        return copy.kind.spec.snapshot(load)

    def sync(self, copy: CopyKey) -> Parts:
        """What it costs to keep a copy that does not run; to let one grow, only what nobody needed before."""
        load = self._load(copy)
        sync = copy.kind.spec.sync
        if not self.grows(copy):
            return sync(load)
        more, nothing = (
            dict(sync(replace(load, tuple_bytes=size))) for size in (self._new_bytes(copy, self._copies), 0.0)
        )
        return tuple((kind, size - nothing[kind]) for kind, size in more.items())

    def _new_bytes(self, copy: CopyKey, there: tuple[RunningCopy, ...]) -> float:
        """Of a tuple: those that nobody needed before, and a bit that says whether it passes the filter."""
        needed = self._needed_copy(copy)
        bit = 0.0 if needed.filter is None else 1 / 8
        missing = missing_shares(there, needed)
        sizes = {name: self._sizes.column_bytes(ColumnRef(copy.alias, name or EVENT_TIME)) for name in missing}
        return bit + sum(share * sizes[name] for name, share in missing.items())

    def times_bytes(self, copy: CopyKey) -> float:
        """What the holder of a copy of tuples is sent of each tuple: its event time, if the window counts tuples."""
        counted = isinstance(self._query.ref(copy.alias).window, RowsWindow)
        if not counted or not copy.kind.spec.times:
            return 0.0
        return self._sizes.column_bytes(ColumnRef(copy.alias, EVENT_TIME))
