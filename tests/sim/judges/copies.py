"""The judge of copies: after every message, what a site keeps of streams must equal its definition.

The definition is taken from the scenario's data alone (``views``): the tuples of the stream that are not late, from
the tick for which the copy was opened, that pass its filter, in order. At a holder that is sealed up to tick f and has
forgotten what is before position e,

    table        of a local stream: holds every tuple with tick < f and number >= e
    full copy    the same for each of its queries, from the query's first tick on: of the tuples that pass its filter
                 the columns that it needs, and that they pass
    V            holds exactly the distinct keys of those tuples
    M            holds the same keys, and of those that are full exactly their tuples
    W'           holds exactly the tuples it was sent that are not before e, and they are tuples of the view

and no tuple is ever sent twice to the same copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from node.core.arrangements.copies.copy import ROWS_AXIS, HeldCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.copies.portions import PASSES
from node.core.arrangements.copies.reduced_copy import ReducedHolder
from node.core.arrangements.lease import Lease
from node.core.arrangements.ordinals import Ordinals
from node.core.arrangements.table import RowTable
from node.core.engine import HIGH, LOW, POSITION, TS, Engine, Find, Probe
from node.core.keys.keytable import KeyTable
from node.core.queries.query_id import query_of
from node.core.site import Site
from node.core.streams.ticks import TICK_MIN, tick_of
from planner.model.copies import RunningCopy
from planner.model.query import names_in
from tests.expressions import rows_that_hold
from tests.sim.judges.views import Row, View, Views, ViewTuple

_FAR = 2**62
_ALIAS = "w"


class CopyError(AssertionError):
    """A copy is not what it is defined to be."""


class CopyJudge:
    """Checks the tables and copies of one scenario."""

    def __init__(self, views: Views) -> None:
        self._views = views
        #: By site and table of the engine: the rows ever appended, with their positions, and how often rows were.
        self._sent: dict[tuple[str, str], Counter[Row]] = {}
        self._appends: Counter[tuple[str, str]] = Counter()
        #: By what is checked: what it was like when it was last checked.
        self._checked: dict[tuple[str, object], object] = {}
        self._wanted: dict[tuple[Any, ...], pa.RecordBatch | None] = {}
        #: By holder, owner and number: the tick from which on an owner feeds a copy. It may be later than the holder's.
        self._begun: dict[tuple[str, str, int], int] = {}
        #: Queries that are over at one of their sites, or will be soon, and those between two generations: others may
        #: not know yet. What copies lack that only those could see, they lack for good.
        self._doomed: set[str] = set()
        self._recovering: set[str] = set()
        #: By query, the generation before which all are over, and others that never took over.
        self._first_generation: dict[str, int] = {}
        self._never: set[tuple[str, int]] = set()
        self._has_gaps = False
        #: Queries that run again.
        self._recovered: set[str] = set()
        self.checks = 0
        #: Of which so many of copies that somebody uses who runs again.
        self.checks_again = 0
        self.tuples_sent = 0

    def appended(self, site: str, table: str, rows: pa.RecordBatch) -> None:
        """A table of the engine takes rows."""
        self._appends[site, table] += 1
        if table.startswith("copy/"):
            self._sent.setdefault((site, table), Counter()).update(_rows(rows.columns))
            self.tuples_sent += rows.num_rows

    def sent(self, site: str, table: str) -> Counter[Row]:
        """The rows that ever came for a copy, with their positions."""
        return self._sent.get((site, table), Counter())

    def forget(self, site: str) -> None:
        """The site was restarted: its copies are gone."""
        self._sent = {place: sent for place, sent in self._sent.items() if place[0] != site}
        self._checked = {place: seen for place, seen in self._checked.items() if place[0] != site}

    def doom(self, query_id: str) -> None:
        """A query is over at one of its sites, or will be soon."""
        self._doomed.add(query_id)
        self._has_gaps = True

    def doom_before(self, query_id: str, generation: int) -> None:
        """A query has gone over to another plan: what came before that is over."""
        self._first_generation[query_id] = generation
        self._has_gaps = True

    def doom_generation(self, query_id: str, generation: int) -> None:
        """A query does not go over to another plan."""
        self._never.add((query_id, generation))
        self._has_gaps = True

    def _is_gone(self, lease: Lease) -> bool:
        query_id = query_of(lease.query_id)
        if query_id in self._doomed | self._recovering or (query_id, lease.generation) in self._never:
            return True
        return lease.generation < self._first_generation.get(query_id, lease.generation)

    def recovers(self, query_id: str) -> None:
        """A generation of a query is over."""
        self._recovering.add(query_id)
        self._has_gaps = True

    def runs(self, query_id: str) -> None:
        """All sites are ready for a generation: nothing is left of the one before."""
        if query_id in self._recovering:
            self._recovering.discard(query_id)
            self._recovered.add(query_id)

    def note_opened(self, site: str, state: Site) -> None:
        """Remember from where on a site feeds the copies of its streams.

        Who opens a copy for a query that is over here may get less of the past than it asked for, and the tuples of the
        copy are counted from there on.
        """
        for owned in state.arrangements.owned.all:
            self._begun[owned.peer, site, owned.number] = tick_of(owned.first_ts, owned.progress.tau)

    def begun(self, copy: HeldCopy) -> int:
        """The tick from which on a copy has its view, as its owner began it."""
        place = copy.spec.holder, copy.spec.owner, copy.number
        return max(copy.opened, self._begun.get(place, copy.opened))

    def check(self, site: str, state: Site, engine: Engine) -> None:
        """Compare everything at a site that has changed with its definition."""
        kept: dict[tuple[str, object], object] = {}
        arrangements = state.arrangements
        for stream in state.streams:
            for table in arrangements.local.of(stream):
                if self._is_changed(kept, site, table, self._table_likeness(site, table)):
                    self._check_table(table, self._views.of(stream), engine)
        for copy in arrangements.held.all:
            if self._is_changed(kept, site, copy, self._likeness(site, copy)):
                self._check_copy(site, copy, engine)
        others = {place: seen for place, seen in self._checked.items() if place[0] != site}
        self._checked = others | kept

    def _is_changed(self, kept: dict[tuple[str, object], object], site: str, what: object, now: object) -> bool:
        kept[site, what] = now
        changed = self._checked.get((site, what)) != now
        self.checks += changed
        return changed

    def _table_likeness(self, site: str, table: RowTable) -> object:
        return table.frontier, table.kept_from, tuple(table.keys), self._appends[site, table.name]

    def _likeness(self, site: str, copy: HeldCopy) -> object:
        """Something that is different after every change of a copy."""
        if isinstance(copy, FullHolder):
            return self._table_likeness(site, copy.table)
        progress = copy.frontier, copy.kept_from, self._appends[site, copy.name]
        if isinstance(copy, MixedHolder):
            return progress, copy._syncs, copy._fetch_count, len(copy._fetches)
        return progress

    # -- the kinds ----------------------------------------------------------------------------

    def _check_copy(self, site: str, copy: HeldCopy, engine: Engine) -> None:
        match copy:
            case FullHolder():
                self._check_full(copy, engine)
            case KeysHolder():
                self._check_keys(copy, copy.table, self._alive(copy))
            case MixedHolder():
                self._check_mixed(copy, engine)
            case ReducedHolder():
                self._check_reduced(site, copy, engine)

    def _check_table(self, table: RowTable, view: View, engine: Engine) -> None:
        _check_times(table.name, table._ordinals, view, table.frontier)
        columns = tuple(table.schema.names)
        # Of one that is to be filled from the log the numbers are not known before its first batch.
        live = [] if table._is_new else view.between(table.kept_from, table.frontier)
        for keys in table.keys:
            found = self._found(engine, table.name, keys, columns, view, table.kept_from)
            wanted = [(number, item) for number, item in enumerate(live, max(0, table.kept_from))]
            if keys:
                required = Counter((number, *item.row(columns)) for number, item in wanted if item.key(keys))
            else:
                required = Counter(item.row(columns) for _, item in wanted)
            _compare(f"table {table.name} by {keys}", found, required)

    def _check_full(self, copy: FullHolder, engine: Engine) -> None:
        table, spec = copy.table, copy.spec
        if spec.axis is ROWS_AXIS:
            since = self._needed_ts(copy)
            _check_times(table.name, table._ordinals, self._view(copy), table.frontier, since)
        for lease in table.leases:
            if lease.frozen or lease.keys is None:
                continue
            low = max(table.kept_from, table._ordinals.rank_one(lease.first_ts))
            live = self._live(copy, lease, low)
            read = names_in(lease.reach.filter) if copy.portion_of(lease) == 0 else []
            columns = (*lease.columns, *(name for name in read if name not in lease.columns), PASSES)
            rows = self._found(engine, table.name, lease.keys, columns, self._views.of(spec.stream), low)
            found = Counter(self._own(copy, lease, columns, rows))
            if lease.keys:
                keyed = [item for item in live if item.key(lease.keys) is not None]
                required = Counter((item.ts, *item.row(lease.columns)) for item in keyed)
            else:
                required = Counter(item.row(lease.columns) for item in live)
            _compare(f"{copy.progress.name} for {lease.query_id} by {lease.keys}", found, required)

    def _needed_ts(self, copy: HeldCopy) -> int:
        """From this event time on a query that is not over anywhere needs the copy to be right; all if none is over."""
        living = [lease for lease in copy.leases if not self._is_gone(lease) and not lease.frozen]
        self.checks_again += any(query_of(lease.query_id) in self._recovered for lease in living)
        if not self._has_gaps:
            return -_FAR
        return min((lease.first_ts for lease in living), default=_FAR)

    def _live(self, copy: FullHolder, lease: Lease, low: int) -> list[ViewTuple]:
        """What a query must find from a number of the copy on."""
        if copy.spec.axis is ROWS_AXIS:
            # By numbers, which agree from the newest tuple back to the first that a living query sees.
            view = self._view(copy)
            return view.between(view.end(copy.frontier) - (copy.table._ordinals.end - low), copy.frontier)
        # The copy has what several filters let pass, so its numbers are those of no view.
        oldest = copy.table._ordinals.time_of(low)
        view = self._views.of(copy.spec.stream, lease.reach.filter, lease.first_tick or 0)
        return [] if oldest is None else view.between(view.rank(oldest), copy.frontier)

    def _own(self, copy: FullHolder, lease: Lease, columns: tuple[str, ...], rows: Counter[Row]) -> Iterator[Row]:
        """Of the rows of a full copy those that a query takes for its own, each behind its time if it is known."""
        number, condition = copy.portion_of(lease), lease.reach.filter
        found = [(row[:1] if lease.keys else (), row[-len(columns) :]) for row in rows.elements()]
        if number:
            passing = [bool(row[-1] >> number & 1) for _, row in found]
        elif condition is None or copy.spec.axis is ROWS_AXIS or not found:
            passing = [True] * len(found)
        else:
            # It has to compute its filter itself, of the columns that came.
            named = {f"{copy.spec.stream}.{name}": [row[at] for _, row in found] for at, name in enumerate(columns)}
            fields = [copy.table.schema.field(name).with_name(f"{copy.spec.stream}.{name}") for name in columns]
            passing = rows_that_hold(condition, pa.RecordBatch.from_pydict(named, schema=pa.schema(fields)))
        for (position, row), passes in zip(found, passing, strict=True):
            if passes:
                times = [int(copy.table.times_of(np.array([at]))[0]) for at in position]
                yield (*times, *row[: len(lease.columns)])

    def _first_alive(self, copy: KeysHolder | MixedHolder) -> int:
        """The number in its view of the first tuple whose key it has."""
        return copy.kept_from if copy.spec.axis is ROWS_AXIS else self._view(copy).rank(copy.kept_from)

    def _alive(self, copy: KeysHolder | MixedHolder) -> list[ViewTuple]:
        return self._view(copy).between(self._first_alive(copy), copy.frontier)

    def _check_keys(self, copy: HeldCopy, table: KeyTable, live: list[ViewTuple]) -> None:
        required = {item.key(copy.spec.keys) for item in live} - {None}
        held = _rows(table.keys(table.live_slots()))
        if len(held) != len(set(held)) or set(held) != required:
            raise CopyError(f"{copy.progress.name} has keys {held}, the view has {required}")

    def _check_mixed(self, copy: MixedHolder, engine: Engine) -> None:
        view, spec = self._view(copy), copy.spec
        by_number = spec.axis is ROWS_AXIS
        first, live = self._first_alive(copy), self._alive(copy)
        self._check_keys(copy, copy.table, live)
        if by_number:
            _check_times(copy.name, copy._ordinals, view, copy.frontier)
        slots = copy.table.live_slots()
        full = set(_rows(copy.table.keys(slots[copy._full.get(slots)])))
        held = self._found(engine, copy.name, spec.keys, spec.columns, view, copy.kept_from)
        own = _positioned(live, max(0, first), spec)
        # Whose table the owner has let go of is answered with nothing when it fetches: it will end. Others, who came
        # later, see only what is newer.
        needed_ts = self._needed_ts(copy)
        required = Counter(row for row, item in own if item.key(spec.keys) in full and item.ts >= needed_ts)
        surplus = held - Counter(row for row, _ in own)
        if surplus or required - held:
            raise CopyError(
                f"{copy.progress.name} lacks {sorted((required - held).elements())} of the keys {full}, "
                f"has {sorted(surplus.elements())} that the view has not"
            )

    def _check_reduced(self, site: str, copy: ReducedHolder, engine: Engine) -> None:
        spec = copy.spec
        # Of a time window W' is what was asked for, also by queries that begin before it was opened.
        view = self._view(copy) if spec.axis is ROWS_AXIS else self._views.of(spec.stream, spec.filter)
        if spec.axis is ROWS_AXIS:
            _check_times(copy.name, copy._ordinals, view, copy.frontier)
        sent = self.sent(site, copy.name)
        surplus = sent - Counter(row for row, _ in _positioned(view.tuples, 0, spec))
        if surplus:
            raise CopyError(f"{copy.progress.name} was sent twice, or are no tuples: {sorted(surplus.elements())}")
        required = Counter({row: count for row, count in sent.items() if row[0] >= copy.kept_from})
        held = self._found(engine, copy.name, spec.keys, spec.columns, view, copy.kept_from)
        _compare(copy.progress.name, held, required)

    # -- the definition -----------------------------------------------------------------------

    def _view(self, copy: HeldCopy) -> View:
        return self._views.of(copy.spec.stream, copy.spec.filter, self.begun(copy))

    def _found(
        self,
        engine: Engine,
        table: str,
        keys: tuple[str, ...],
        columns: tuple[str, ...],
        view: View,
        low: int,
    ) -> Counter[Row]:
        """The rows of a table of the engine from a position on, with it; without it where there are no keys."""
        if not keys:
            bounds = {TS: [0], LOW: [low], HIGH: [_FAR]}
            carry = pa.RecordBatch.from_pydict({name: pa.array(value, pa.int64()) for name, value in bounds.items()})
            names = tuple(f"{_ALIAS}.{name}" for name in columns)
            answer = engine.run([Probe(table, (), carry, (), _ALIAS, None, names)])[0]
            return Counter(_rows(_answered(answer).columns))
        wanted = self._every_key(view, keys)
        if wanted is None:
            return Counter()
        answer = engine.run([Find(table, keys, wanted, low, _FAR, _ALIAS, None, columns)])[0]
        return Counter(_rows(_answered(answer).select([POSITION, *columns]).columns))

    def _every_key(self, view: View, keys: tuple[str, ...]) -> pa.RecordBatch | None:
        """All keys that a view's tuples have, to look for; None if they have none."""
        place = (id(view), keys)
        if place not in self._wanted:
            known = sorted({key for item in view.tuples if (key := item.key(keys)) is not None}, key=str)
            columns = [pa.array([key[at] for key in known]) for at in range(len(keys))]
            self._wanted[place] = pa.record_batch(columns, names=list(keys)) if known else None
        return self._wanted[place]


def _positioned(tuples: list[ViewTuple], first: int, spec: RunningCopy) -> list[tuple[Row, ViewTuple]]:
    """Tuples as rows of a copy, each behind its position; the first has number ``first`` in the view."""
    return [
        ((first + at if spec.axis is ROWS_AXIS else item.ts, *item.row(spec.columns)), item)
        for at, item in enumerate(tuples)
    ]


def _check_times(name: str, ordinals: Ordinals, view: View, frontier: int, since: int = -_FAR) -> None:
    """The event times that a table knows are those of the view's tuples, under their numbers.

    Those from ``since`` on, if that is later: what is before may have come to it or not.
    """
    if frontier == TICK_MIN:
        return
    end = view.end(frontier)
    known = ordinals._times.values
    if since > -_FAR:
        newer = known[known >= since].tolist()
        required = [ts for ts in view.times[:end] if ts >= since][-len(newer) :] if newer else []
        if newer != required:
            raise CopyError(f"{name} has times {newer} since {since}, the view {required}")
    elif len(known) and (ordinals.end != end or known.tolist() != view.times[ordinals.first : end]):
        raise CopyError(f"{name} has times {known} from {ordinals.first} on, the view {view.times[:end]}")


def _compare(name: str, held: Counter[Row], required: Counter[Row]) -> None:
    if held != required:
        missing, surplus = required - held, held - required
        raise CopyError(f"{name} lacks {list(missing.elements())}, has too much: {list(surplus.elements())}")


def _answered(outcome: pa.RecordBatch | Exception | None) -> pa.RecordBatch:
    if not isinstance(outcome, pa.RecordBatch):
        raise CopyError(f"a question requires rows as its answer; got {outcome!r}")
    return outcome


def _rows(columns: list[pa.Array]) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
