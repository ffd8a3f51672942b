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

from dataclasses import dataclass

import pyarrow as pa

from node.core.engine import TS, Engine, Find
from node.core.query_run import QueryRun
from node.core.replicas.full import FullHolder
from node.core.replicas.keys import KeysHolder
from node.core.replicas.mixed import MixedHolder
from node.core.replicas.reduced import ReducedHolder
from node.core.stored import StoredWindow
from tests.oracle.oracle import accepted
from tests.sim.scenario import Scenario

_FAR = 2**62


@dataclass(frozen=True)
class Tuple:
    """A tuple of a stream as a window sees it."""

    n: int
    key: object
    tick: int
    position: int


class ReplicaChecker:
    """Checks the copies of one scenario's windows."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._tuples: dict[tuple[str, int], list[Tuple]] = {}
        #: By site and window: the tuples ever sent to a copy.
        self._sent: dict[tuple[str, str], set[int]] = {}
        self.checks = 0
        self.tuples_sent = 0

    def appended(self, site: str, window: str, rows: pa.RecordBatch) -> None:
        """A copy takes tuples; none of them may have come before."""
        if ":" not in window or "/full:" in window:
            return
        alias = window.partition(":")[2][0]
        sent = self._sent.setdefault((site, window), set())
        for n in rows.column(f"{alias}.n").to_pylist():
            assert n not in sent, f"tuple {n} of {alias} was shipped twice to {site}, into {window}"
            sent.add(n)
            self.tuples_sent += 1

    def forget(self, site: str) -> None:
        """The site was restarted: its copies are gone."""
        self._sent = {place: sent for place, sent in self._sent.items() if place[0] != site}

    def check(self, site: str, run: QueryRun, engine: Engine) -> None:
        """Compare every copy at a site with its definition."""
        for half in run._parts.holders.values() if run._parts else ():
            self.checks += 1
            match half:
                case FullHolder():
                    for window in half._windows:
                        self._check_full(run, window, engine)
                case KeysHolder():
                    self._check_keys(run, half)
                case MixedHolder():
                    self._check_keys(run, half)
                    self._check_mixed(run, half, engine)
                case ReducedHolder():
                    self._check_reduced(site, run, half, engine)

    # -- the kinds ----------------------------------------------------------------------------

    def _check_full(self, run: QueryRun, window: StoredWindow, engine: Engine) -> None:
        state = window.state
        required = {
            item.n for item in self._live(run, state.alias, state.frontier, state.kept_from) if item.key is not None
        }
        assert self._held(run, window, engine, state.kept_from) == required, f"{state.window_id} is not the window"

    def _check_keys(self, run: QueryRun, half: KeysHolder | MixedHolder) -> None:
        state = half.state if isinstance(half, KeysHolder) else half.window.state
        live = self._live(run, state.alias, state.frontier, state.kept_from)
        required = {item.key for item in live} - {None}
        held = half.table.keys(half.table.live_slots())[0].to_pylist()
        assert len(held) == len(set(held)), f"{state.window_id} has a key twice: {held}"
        assert set(held) == required, f"{state.window_id} has keys {held}, the window has {required}"

    def _check_mixed(self, run: QueryRun, half: MixedHolder, engine: Engine) -> None:
        state, slots = half.window.state, half.table.live_slots()
        full = set(half.table.keys(slots[half._full.get(slots)])[0].to_pylist())
        live = self._live(run, state.alias, state.frontier, state.kept_from)
        required = {item.n for item in live if item.key in full}
        held = self._held(run, half.window, engine, state.kept_from)
        in_full = {item.n for item in live if item.n in held and item.key in full}
        assert in_full == required, f"{state.window_id} has {in_full} of the keys {full}, the window has {required}"
        assert held <= {item.n for item in live}, f"{state.window_id} has tuples that the window has not"

    def _check_reduced(self, site: str, run: QueryRun, half: ReducedHolder, engine: Engine) -> None:
        state = half.window.state
        tuples = self._all(run, state.alias)
        sent = self._sent.get((site, state.window_id), set())
        required = {item.n for item in tuples if item.n in sent and item.position >= state.kept_from}
        held = self._held(run, half.window, engine, state.kept_from)
        assert held == required, f"{state.window_id} has {held}, it was sent {required}"
        assert sent <= {item.n for item in tuples}, f"{state.window_id} was sent what is no tuple of the stream"

    # -- the definition -----------------------------------------------------------------------

    def _live(self, run: QueryRun, alias: str, frontier: int, kept_from: int) -> list[Tuple]:
        tuples = self._all(run, alias)
        return [item for item in tuples if item.tick < frontier and item.position >= kept_from]

    def _all(self, run: QueryRun, alias: str) -> list[Tuple]:
        place = (alias, run._first_tick)
        if place not in self._tuples:
            self._tuples[place] = self._define(*place)
        return self._tuples[place]

    def _define(self, alias: str, first_tick: int) -> list[Tuple]:
        scenario, number = self._scenario, "ab".index(alias)
        data, (kind, _) = scenario.streams[number], scenario.windows[number]
        finest = 1000 if any(other.unit == "us" for other in scenario.streams) else 1
        own = 1000 if data.unit == "us" else 1
        rows, _ = accepted(data.table(), "ts", scenario.tau_ms * own, data.lateness_ms * own)
        found = sorted((row for row in rows.to_pylist() if row["ts"] is not None), key=lambda row: row["ts"])
        found = [row for row in found if row["ts"] // (scenario.tau_ms * own) >= first_tick]
        return [
            Tuple(
                row["n"],
                row["key"],
                row["ts"] // (scenario.tau_ms * own),
                row["ts"] * (finest // own) if kind == "range" else place,
            )
            for place, row in enumerate(found)
        ]

    def _held(self, run: QueryRun, window: StoredWindow, engine: Engine, low: int) -> set[int]:
        """The tuples of a copy at or after a position, each once."""
        alias = window.state.alias
        keys = sorted({item.key for item in self._all(run, alias)} - {None}, key=str)
        if not keys:
            return set()
        wanted = pa.record_batch([pa.array(keys, window.schema.field(f"{alias}.key").type)], names=["key"])
        rows = engine.run([Find(window.window_id, wanted, low, _FAR)])[0]
        held = rows.column(f"{alias}.n").to_pylist()
        assert len(held) == len(set(held)), f"{window.window_id} holds a tuple twice: {held}"
        assert not rows.column(TS).null_count
        return set(held)
