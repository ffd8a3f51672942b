"""The parts of a query at one site, made from the shape of its plan: windows, halves of replicas, halves of steps."""

from __future__ import annotations

from collections.abc import Mapping

from node.core.algorithms import sm_d1, sm_d2, sm_s1, sm_s2
from node.core.algorithms.probe import LocalProbe
from node.core.algorithms.ship import ShipSource
from node.core.axis import CountAxis, axis_of
from node.core.desk import Desk
from node.core.owned import OwnedWindow, OwnerHalf
from node.core.replicas.full import FullHolder, FullOwner
from node.core.replicas.keys import KeysHolder, KeysOwner
from node.core.replicas.mixed import MixedHolder, MixedOwner
from node.core.replicas.reduced import ReducedHolder, ReducedOwner
from node.core.status import ReplicaKind, ReplicaStatus
from node.core.stored import StoredWindow
from node.core.ticks import TICK_MIN
from node.core.view import view_schema
from node.core.walk import ReplicaShape, Shape, StepShape
from node.core.window import WindowState
from planner.model import Algorithm, JoinQuery

Source = LocalProbe | ShipSource | sm_s1.Source | sm_s2.Source | sm_d1.Source | sm_d2.Source
Destination = LocalProbe | sm_s1.Destination | sm_d2.Destination
HolderHalf = FullHolder | ReducedHolder | KeysHolder | MixedHolder


class Parts:
    """Everything that lives as long as the query runs here."""

    def __init__(self, desk: Desk, query: JoinQuery, shape: Shape, site: str, tau: int, first_tick: int) -> None:
        self._desk = desk
        self._query = query
        self._shape = shape
        self._site = site
        self._tau = tau
        self._first_tick = first_tick
        self.windows: list[StoredWindow] = []
        self.owned: dict[str, OwnedWindow] = {}
        self.full_owners: dict[int, FullOwner] = {}
        self.owners: dict[int, OwnerHalf] = {}
        self.holders: dict[int, HolderHalf] = {}
        self.sources: dict[tuple[str, int], Source] = {}
        self.destinations: dict[tuple[str, int], Destination] = {}
        self._full_copies: dict[str, StoredWindow] = {}
        for _, _, step in shape.all_steps:
            if step.owner == site and not step.by(Algorithm.SP_S):
                self._own(step)
        for replica in shape.replicas:
            if replica.owner == site:
                self._add_owner(replica)
            elif replica.holder == site:
                self.holders[replica.number] = self._holder(replica)
        for head, number, step in shape.all_steps:
            if step.source == site:
                self.sources[head, number] = self._source(step)
            elif step.owner == site and not step.by(Algorithm.SP_S, Algorithm.SM_S2):
                self.destinations[head, number] = self._destination(step)

    # -- windows ------------------------------------------------------------------------------

    def _state(self, alias: str, name: str) -> WindowState:
        query = self._query
        axis = axis_of(query.ref(alias).window, query.unit)
        return WindowState(f"{self._desk.query_id}/{name}", alias, self._tau, axis, self._first_tick)

    def _stored(self, alias: str, name: str, keys: tuple[str, ...], numbered: bool = False) -> StoredWindow:
        window = StoredWindow(
            self._desk, self._state(alias, name), view_schema(self._query, alias), keys, numbered=numbered
        )
        self.windows.append(window)
        return window

    def _own(self, step: StepShape) -> None:
        if step.window_name in self.owned:
            return
        alias = step.hop.alias
        window_of_count = isinstance(axis_of(self._query.ref(alias).window, self._query.unit), CountAxis)
        # Whoever remembers single tuples needs their numbers; in a count window the position is the number.
        numbered = not window_of_count and any(
            replica.kind is ReplicaKind.REDUCED and replica.alias == alias and replica.keys == step.window_keys
            for replica in self._shape.replicas
        )
        window = self._stored(alias, step.window_name, step.window_keys, numbered)
        self.owned[step.window_name] = OwnedWindow(window)

    def _owned_of(self, replica: ReplicaShape) -> OwnedWindow:
        return self.owned[f"{replica.alias}({','.join(replica.keys)})"]

    # -- replicas -----------------------------------------------------------------------------

    def _add_owner(self, replica: ReplicaShape) -> None:
        if replica.kind is ReplicaKind.FULL:
            self.full_owners[replica.number] = FullOwner(self._desk, replica)
            return
        owned = self._owned_of(replica)
        half = self._owner(replica, owned.window)
        self.owners[replica.number] = half
        owned.replicas.append(half)

    def _owner(self, replica: ReplicaShape, window: StoredWindow) -> OwnerHalf:
        schema = view_schema(self._query, replica.alias)
        if replica.kind is ReplicaKind.REDUCED:
            return ReducedOwner(self._desk, replica, window.state)
        if replica.kind is ReplicaKind.KEYS:
            return KeysOwner(self._desk, replica, window.state, schema)
        return MixedOwner(self._desk, replica, window, schema)

    def _holder(self, replica: ReplicaShape) -> HolderHalf:
        schema = view_schema(self._query, replica.alias)
        if replica.kind is ReplicaKind.FULL:
            return FullHolder(self._desk, replica, self._full_windows(replica))
        if replica.kind is ReplicaKind.KEYS:
            return KeysHolder(self._desk, replica, self._state(replica.alias, replica.name), schema)
        window = self._stored(replica.alias, replica.name, replica.keys)
        if replica.kind is ReplicaKind.REDUCED:
            return ReducedHolder(self._desk, replica, window)
        return MixedHolder(self._desk, replica, window, schema)

    def _full_windows(self, replica: ReplicaShape) -> list[StoredWindow]:
        windows: dict[str, StoredWindow] = {}
        for _, _, step in self._shape.all_steps:
            if step.by(Algorithm.SP_S) and step.source == self._site and step.hop.alias == replica.alias:
                name = step.window_name
                windows[name] = windows.get(name) or self._stored(replica.alias, f"full:{name}", step.window_keys)
        self._full_copies |= windows
        return list(windows.values())

    # -- halves of steps ----------------------------------------------------------------------

    def _source(self, step: StepShape) -> Source:
        desk = self._desk
        if not step.remote:
            return LocalProbe(desk, step, self.owned[step.window_name].window)
        match step.hop.algorithm:
            case Algorithm.SP_S:
                return LocalProbe(desk, step, self._full_copies[step.window_name])
            case Algorithm.SP_D:
                return ShipSource(desk, step)
            case Algorithm.SM_D2:
                return sm_d2.Source(desk, step)
        half = self.holders[self._shape.replica_of(step).number]
        if isinstance(half, ReducedHolder):
            return sm_s1.Source(desk, step, half)
        if isinstance(half, MixedHolder):
            return sm_s2.Source(desk, step, half)
        assert isinstance(half, KeysHolder)
        return sm_d1.Source(desk, step, half)

    def _destination(self, step: StepShape) -> Destination:
        window = self.owned[step.window_name].window
        if step.hop.algorithm is Algorithm.SM_D2:
            return sm_d2.Destination(self._desk, step, window)
        if step.hop.algorithm is Algorithm.SM_S1:
            half = self.owners[self._shape.replica_of(step).number]
            assert isinstance(half, ReducedOwner)
            return sm_s1.Destination(self._desk, step, window, half)
        return LocalProbe(self._desk, step, window)

    # -- all of them --------------------------------------------------------------------------

    @property
    def full_holders(self) -> list[FullHolder]:
        return [half for half in self.holders.values() if isinstance(half, FullHolder)]

    def on_done(self, done: Mapping[str, int]) -> None:
        """The sink is done with these heads up to these ticks."""
        for owned in self.owned.values():
            owned.on_done(_done_with(owned.window.state.alias, done))
        for half in self.holders.values():
            # V and M forget when their owner says so.
            if isinstance(half, FullHolder | ReducedHolder):
                half.on_done(_done_with(half.alias, done))
        for (head, _), source in self.sources.items():
            if isinstance(source, sm_s1.Source | sm_d2.Source):
                source.asking.on_done(done[head])

    def statuses(self) -> list[ReplicaStatus]:
        halves = [*self.full_owners.values(), *self.owners.values(), *self.holders.values()]
        return [half.status() for half in halves]


def _done_with(alias: str, done: Mapping[str, int]) -> int:
    """The tick before which no walk of another head, which could probe this stream's window, is left."""
    return min((tick for head, tick in done.items() if head != alias), default=TICK_MIN)
