"""The replicas' judge: after every message, a copy of a window must equal its definition.

The definition is taken from the scenario's data alone: the tuples of the stream that are not
late, in order. At a holder that is sealed up to tick f and has forgotten what is before position e,

    full copy    holds every tuple with tick < f and position >= e
    V            holds exactly the distinct keys of those tuples
    M            holds the same keys, and for those that are full exactly their tuples
    W'           holds exactly the tuples it was sent, and they are tuples of the window

and no tuple is ever sent twice to the same copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from node.core.engine import TS, Engine, Find
from node.core.parts import HolderHalf
from node.core.query_run import QueryRun
from node.core.replicas.full import FullHolder
from node.core.replicas.keys import KeysHolder
from node.core.replicas.mixed import MixedHolder
from node.core.replicas.reduced import ReducedHolder
from node.core.stored import StoredWindow
from tests.sim.expectation import seen, tick_of
from tests.sim.scenario import Scenario

_FAR = 2**62


@dataclass(frozen=True)
class Tuple:
    """A tuple of a stream as a window sees it."""

    n: int
    values: dict[str, object]
    tick: int
    position: int

    def key(self, columns: tuple[str, ...]) -> tuple[object, ...] | None:
        """Its key by these columns; None if one is null, which equals nothing."""
        found = tuple(self.values[column.partition(".")[2]] for column in columns)
        return None if None in found else found


class ReplicaChecker:
    """Checks the copies of one scenario's windows."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._tuples: dict[tuple[str, str, int], list[Tuple]] = {}
        #: By site and window: the tuples ever sent to a copy.
        self._sent: dict[tuple[str, str], set[int]] = {}
        #: By site and copy: what it was like when it was last checked, and by window how often tuples were added.
        self._checked: dict[tuple[str, str, int], object] = {}
        self._appends: Counter[tuple[str, str]] = Counter()
        self._wanted: dict[tuple[str, int], pa.RecordBatch | None] = {}
        self.checks = 0
        self.tuples_sent = 0

    def appended(self, site: str, window: str, rows: pa.RecordBatch) -> None:
        """A copy takes tuples; none of them may have come before."""
        self._appends[site, window] += 1
        if ":" not in window or "/full:" in window:
            return
        alias = window.partition(":")[2].partition("(")[0]
        if f"{alias}.n" not in rows.schema.names:
            return
        sent = self._sent.setdefault((site, window), set())
        for n in rows.column(f"{alias}.n").to_pylist():
            assert n not in sent, f"tuple {n} of {alias} was shipped twice to {site}, into {window}"
            sent.add(n)
            self.tuples_sent += 1

    def forget(self, site: str) -> None:
        """The site was restarted: its copies are gone."""
        self._sent = {place: sent for place, sent in self._sent.items() if place[0] != site}
        self._checked = {place: seen for place, seen in self._checked.items() if place[0] != site}

    def check(self, site: str, run: QueryRun, engine: Engine) -> None:
        """Compare every copy at a site that has changed with its definition."""
        for number, half in run._parts.holders.items() if run._parts else ():
            now, place = self._likeness(site, half), (site, run.query_id, number)
            if self._checked.get(place) == now:
                continue
            self._checked[place] = now
            self.checks += 1
            self._check(site, run, half, engine)

    def _check(self, site: str, run: QueryRun, half: HolderHalf, engine: Engine) -> None:
        match half:
            case FullHolder():
                for window in half._windows:
                    if _numbered(window):
                        self._check_full(run, window, engine)
            case KeysHolder():
                self._check_keys(run, half)
            case MixedHolder():
                self._check_keys(run, half)
                if _numbered(half.window):
                    self._check_mixed(run, half, engine)
            case ReducedHolder():
                if _numbered(half.window):
                    self._check_reduced(site, run, half, engine)

    def _likeness(self, site: str, half: HolderHalf) -> object:
        """Something that is different after every change of a copy."""
        windows = (
            half._windows if isinstance(half, FullHolder) else [] if isinstance(half, KeysHolder) else [half.window]
        )
        states = [half.state] if isinstance(half, KeysHolder) else [window.state for window in windows]
        progress = [(state.frontier, state.kept_from, self._appends[site, state.window_id]) for state in states]
        if isinstance(half, KeysHolder | MixedHolder):
            slots = half.table.live_slots()
            full = half._full.get(slots).tobytes() if isinstance(half, MixedHolder) else b""
            return progress, slots.tobytes(), full
        return progress

    # -- the kinds ----------------------------------------------------------------------------

    def _check_full(self, run: QueryRun, window: StoredWindow, engine: Engine) -> None:
        state = window.state
        keys = _keys(window)
        live = self._live(run, state.alias, state.frontier, state.kept_from)
        required = {item.n for item in live if item.key(keys) is not None}
        held = self._held(run, window, keys, engine, state.kept_from)
        assert held == required, f"{state.window_id} has {held}, the window has {required}"

    def _check_keys(self, run: QueryRun, half: KeysHolder | MixedHolder) -> None:
        state = half.state if isinstance(half, KeysHolder) else half.window.state
        live = self._live(run, state.alias, state.frontier, state.kept_from)
        required = {item.key(half._shape.keys) for item in live} - {None}
        held = _rows(half.table.keys(half.table.live_slots()))
        assert len(held) == len(set(held)), f"{state.window_id} has a key twice: {held}"
        assert set(held) == required, f"{state.window_id} has keys {held}, the window has {required}"

    def _check_mixed(self, run: QueryRun, half: MixedHolder, engine: Engine) -> None:
        state, slots, keys = half.window.state, half.table.live_slots(), half._shape.keys
        full = set(_rows(half.table.keys(slots[half._full.get(slots)])))
        live = self._live(run, state.alias, state.frontier, state.kept_from)
        required = {item.n for item in live if item.key(keys) in full}
        held = self._held(run, half.window, keys, engine, state.kept_from)
        in_full = {item.n for item in live if item.n in held and item.key(keys) in full}
        assert in_full == required, f"{state.window_id} has {in_full} of the keys {full}, the window has {required}"
        assert held <= {item.n for item in live}, f"{state.window_id} has tuples that the window has not"

    def _check_reduced(self, site: str, run: QueryRun, half: ReducedHolder, engine: Engine) -> None:
        state = half.window.state
        tuples = self._all(run, state.alias)
        sent = self._sent.get((site, state.window_id), set())
        required = {item.n for item in tuples if item.n in sent and item.position >= state.kept_from}
        held = self._held(run, half.window, half._shape.keys, engine, state.kept_from)
        assert held == required, f"{state.window_id} has {held}, it was sent {required}"
        assert sent <= {item.n for item in tuples}, f"{state.window_id} was sent what is no tuple of the stream"

    # -- the definition -----------------------------------------------------------------------

    def _live(self, run: QueryRun, alias: str, frontier: int, kept_from: int) -> list[Tuple]:
        tuples = self._all(run, alias)
        return [item for item in tuples if item.tick < frontier and item.position >= kept_from]

    def _all(self, run: QueryRun, alias: str) -> list[Tuple]:
        place = (run.query_id, alias, run._first_tick)
        if place not in self._tuples:
            self._tuples[place] = self._define(*place)
        return self._tuples[place]

    def _define(self, query_id: str, alias: str, first_tick: int) -> list[Tuple]:
        scenario = self._scenario
        refs = {ref.alias: ref for ref in scenario.queries[int(query_id[1:]) - 1].refs}
        data, (kind, _) = scenario.data(refs[alias].stream), refs[alias].window
        finest = 1000 if any(scenario.data(ref.stream).unit == "us" for ref in refs.values()) else 1
        own = 1000 if data.unit == "us" else 1
        rows = sorted(seen(scenario, refs[alias], first_tick).to_pylist(), key=lambda row: row["ts"])
        return [
            Tuple(
                row["n"],
                row,
                tick_of(scenario, data, row["ts"]),
                row["ts"] * (finest // own) if kind == "range" else place,
            )
            for place, row in enumerate(rows)
        ]

    def _held(self, run: QueryRun, window: StoredWindow, keys: tuple[str, ...], engine: Engine, low: int) -> set[int]:
        """The tuples of a copy at or after a position, each once."""
        alias = window.state.alias
        place = (window.window_id, run._first_tick)
        if place not in self._wanted:
            self._wanted[place] = _every_key(self._all(run, alias), keys, window.schema)
        wanted = self._wanted[place]
        if wanted is None:
            return set()
        rows = engine.run([Find(window.window_id, wanted, low, _FAR)])[0]
        held = rows.column(f"{alias}.n").to_pylist()
        assert len(held) == len(set(held)), f"{window.window_id} holds a tuple twice: {held}"
        assert not rows.column(TS).null_count
        return set(held)


def _every_key(tuples: list[Tuple], keys: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch | None:
    """All keys that the tuples have, to look for; None if they have none."""
    known = sorted({key for item in tuples if (key := item.key(keys)) is not None}, key=str)
    columns = [pa.array([key[place] for key in known], schema.field(name).type) for place, name in enumerate(keys)]
    return pa.record_batch(columns, names=list(keys)) if known else None


def _keys(window: StoredWindow) -> tuple[str, ...]:
    """The columns by which a window is searched, from its name."""
    inner = window.window_id.partition("(")[2].rstrip(")")
    return tuple(inner.split(",")) if inner else ()


def _numbered(window: StoredWindow) -> bool:
    """Whether tuples can be told apart, and found: a window for a product has no key to find them by."""
    return f"{window.state.alias}.n" in window.schema.names and bool(_keys(window))


def _rows(columns: list[pa.Array]) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
