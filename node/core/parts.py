"""The parts of a query at one site, made from the shape of its plan: windows, halves of replicas, halves of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from node.core.algorithms import sm_d1, sm_d2, sm_s1, sm_s2
from node.core.algorithms.probe import LocalProbe
from node.core.algorithms.ship import ShipSource
from node.core.axis import CountAxis, axis_of
from node.core.borrowed import BorrowedKeys, BorrowedMixed, BorrowedWindow, Later, move_parked
from node.core.desk import Desk
from node.core.owned import OwnedWindow, OwnerHalf
from node.core.replicas.full import FullHolder, FullOwner
from node.core.replicas.keys import KeysHolder, KeysOwner
from node.core.replicas.mixed import MixedHolder, MixedOwner
from node.core.replicas.reduced import ReducedHolder, ReducedOwner
from node.core.status import ReplicaKind, ReplicaStatus
from node.core.stored import StoredWindow
from node.core.ticks import TICK_END, TICK_MIN, tick_start
from node.core.view import view_schema
from node.core.walk import ReplicaShape, Shape, StepShape
from node.core.window import WindowState
from planner.model import Algorithm, JoinQuery

Source = LocalProbe | ShipSource | sm_s1.Source | sm_s2.Source | sm_d1.Source | sm_d2.Source
Destination = LocalProbe | sm_s1.Destination | sm_d2.Destination
HolderHalf = FullHolder | ReducedHolder | KeysHolder | MixedHolder


class Parts:
    """Everything that lives as long as the query runs here."""

    def __init__(
        self,
        desk: Desk,
        query: JoinQuery,
        shape: Shape,
        site: str,
        tau: int,
        first_tick: int,
        attached: Sequence[int] = (),
        users_done: Callable[[int], int] = lambda _: TICK_END,
    ) -> None:
        """``attached`` are replicas of which another query has the owner half; ``users_done`` tells up to which
        tick those queries are done that use one of ours."""
        self._desk = desk
        self._query = query
        self._shape = shape
        self._site = site
        self._tau = tau
        self._first_tick = first_tick
        self._users_done = users_done
        self.windows: list[StoredWindow] = []
        self.owned: dict[str, OwnedWindow] = {}
        self.full_owners: dict[int, FullOwner] = {}
        self.owners: dict[int, OwnerHalf] = {}
        self.holders: dict[int, HolderHalf] = {}
        self.sources: dict[tuple[str, int], Source] = {}
        self.destinations: dict[tuple[str, int], Destination] = {}
        self._full_copies: dict[str, StoredWindow] = {}
        self._borrowed: dict[str, BorrowedWindow] = {}
        for _, _, step in shape.all_steps:
            # With M the window is only there for the owner half.
            elsewhere = step.by(Algorithm.SM_S2) and shape.replica_of(step).number in attached
            if step.owner == site and not step.by(Algorithm.SP_S) and not elsewhere:
                self._own(step)
        for replica in [replica for replica in shape.replicas if replica.number not in attached]:
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
            self.full_owners[replica.number] = FullOwner(self._desk, replica, self._first_tick)
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
            ticks = [self._users_done(number) for number, half in self.owners.items() if half in owned.replicas]
            owned.on_done(min([done_with(owned.window.state.alias, done), *ticks]))
        for number, half in self.holders.items():
            # V and M forget when their owner says so.
            if isinstance(half, FullHolder | ReducedHolder):
                half.on_done(min(done_with(half.alias, done), self._users_done(number)))
        for (head, _), source in self.sources.items():
            if isinstance(source, sm_s1.Source | sm_d2.Source):
                source.asking.on_done(done[head])

    # -- shared with other queries ------------------------------------------------------------

    def has_half(self, number: int) -> bool:
        """Whether a half of that replica is here."""
        return number in self.holders or number in self.owners or number in self.full_owners

    def can_host(self, number: int, tick: int) -> bool:
        """Whether a query that sees what is from ``tick`` on can use a replica owned here: nothing of it was
        sent yet, and none of it will have been forgotten when it comes."""
        if number in self.full_owners:
            return self.full_owners[number].frontier <= tick
        state = next(owned for owned in self.owned.values() if self.owners[number] in owned.replicas).window.state
        return state.frontier <= tick and state.kept_from <= state.axis.position_of(tick_start(tick, self._tau))

    def borrow(self, number: int, host: Parts, host_number: int, later: Later) -> None:
        """Use another query's copy for that replica; walks that wait for ours wait for it."""
        mine, theirs = self.holders.pop(number), host.holders[host_number]
        first_ts = tick_start(self._first_tick, self._tau)
        for (head, place), source in self.sources.items():
            step = self._shape.steps[head][place]
            if step.remote and self._shape.uses(step, self._shape.replicas[number]):
                self._borrow_for(source, step, host, theirs, first_ts, later)
        if isinstance(mine, KeysHolder) and isinstance(theirs, KeysHolder):
            move_parked(mine.state, BorrowedKeys(theirs, later).park)
        for window in _windows_of(mine):
            name = window.window_id.removeprefix(f"{self._desk.query_id}/")
            borrowed = self._borrowed[name]
            move_parked(window.state, borrowed.park)
            window.close()
            self.windows.remove(window)

    def _borrow_for(
        self, source: Source, step: StepShape, host: Parts, half: HolderHalf, first_ts: int, later: Later
    ) -> None:
        if isinstance(source, LocalProbe):
            source.borrow(self._borrow_window(f"full:{step.window_name}", host.full_copy(step), first_ts, later))
        elif isinstance(source, sm_d1.Source) and isinstance(half, KeysHolder):
            source.borrow(BorrowedKeys(half, later))
        elif isinstance(source, sm_s2.Source) and isinstance(half, MixedHolder):
            name = self._shape.replica_of(step).name
            source.borrow(BorrowedMixed(half, self._borrow_window(name, half.window, first_ts, later), later))

    def _borrow_window(self, name: str, window: StoredWindow, first_ts: int, later: Later) -> BorrowedWindow:
        if name not in self._borrowed:
            self._borrowed[name] = BorrowedWindow(self._desk, window, first_ts, later)
        return self._borrowed[name]

    def full_copy(self, step: StepShape) -> StoredWindow:
        """The full copy that a step of ours, or one like it, probes."""
        return self._full_copies[step.window_name]

    def settle_lowest(self) -> None:
        """Before copies forget: where this query begins in those it borrows."""
        for window in self._borrowed.values():
            _ = window.lowest

    def keep_only(self, numbers: Sequence[int]) -> None:
        """The query is over; only the halves that others use stay."""
        self.sources.clear()
        self.destinations.clear()
        self._borrowed.clear()
        self.full_owners = {number: half for number, half in self.full_owners.items() if number in numbers}
        self.owners = {number: half for number, half in self.owners.items() if number in numbers}
        self.holders = {number: half for number, half in self.holders.items() if number in numbers}
        for owned in self.owned.values():
            owned.replicas = [half for half in owned.replicas if half in self.owners.values()]
        self.owned = {name: owned for name, owned in self.owned.items() if owned.replicas}
        kept = [owned.window for owned in self.owned.values()]
        kept += [window for half in self.holders.values() for window in _windows_of(half)]
        for window in self.windows:
            if window not in kept:
                window.close()
        self.windows = [window for window in self.windows if window in kept]

    def half(self, number: int) -> FullOwner | OwnerHalf | HolderHalf:
        """The half of a replica that is here."""
        return self.full_owners.get(number) or self.owners.get(number) or self.holders[number]

    def statuses(self, users_at: Callable[[int], tuple[str, ...]]) -> list[ReplicaStatus]:
        halves = [*self.full_owners.items(), *self.owners.items(), *self.holders.items()]
        return [replace(half.status(), users=users_at(number)) for number, half in halves]


def done_with(alias: str, done: Mapping[str, int]) -> int:
    """The tick before which no walk of another head, which could probe this stream's window, is left."""
    return min((tick for head, tick in done.items() if head != alias), default=TICK_MIN)


def _windows_of(half: HolderHalf) -> list[StoredWindow]:
    """The engine's windows that a holder half has."""
    if isinstance(half, FullHolder):
        return half.windows
    return [] if isinstance(half, KeysHolder) else [half.window]
