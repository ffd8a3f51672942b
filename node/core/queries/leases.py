"""What one query leases at one site: tables of local streams from Prepare on, copies of others' from its start on."""

from __future__ import annotations

from collections.abc import Mapping

from node.core.arrangements.arrangements import Arrangements, Leased
from node.core.arrangements.copies.copy import HeldCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.held_copies import Wanted, Wish
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.copies.reduced_copy import ReducedHolder
from node.core.arrangements.lease import Lease, done_with
from node.core.arrangements.local_tables import TableWish
from node.core.arrangements.reach import Reach
from node.core.arrangements.table import RowTable
from node.core.links.messages import Resumption, Start
from node.core.queries.query_id import is_successor
from node.core.queries.shape import CopyNeed, Shape, StepShape, needs
from node.core.streams.ticks import TICK_END, tick_of, tick_start
from planner.model.copies import RunningCopy, copy_of
from planner.model.query import Plan, PolicyName
from planner.model.time_unit import TimeUnit

#: What a step can look at.
Looked = RowTable | ReducedHolder | MixedHolder | KeysHolder


class QueryLeases:
    """The leases of one query, and how a step finds what it looks at."""

    def __init__(
        self, query_id: str, generation: int, plan: Plan, shape: Shape, site: str, reaches: dict[str, Reach]
    ) -> None:
        self._query_id = query_id
        self._generation = generation
        self._plan = plan
        self._shape = shape
        self._site = site
        self._reaches = reaches
        #: Everything that is leased, with its lease.
        self._held: list[tuple[Leased, Lease]] = []
        self._tables: dict[str, RowTable] = {}
        self._copies: dict[int, HeldCopy] = {}
        #: How far the tables were sealed when they were leased: batches before that were not given to this query.
        self._prepared_at: dict[str, int] = {}
        #: By need: copies that are held since Prepare because they may be right, and how far they were sealed then.
        self._candidates: dict[int, dict[int, int]] = {}
        #: It ran before, and nobody held anything for it since.
        self._is_alone = False
        #: Tables that are held until the start because they may be right.
        self._wished: list[tuple[RowTable, Lease]] = []
        #: For copies that other sites hold: by the number of the need.
        self._claims: list[Lease] = []

    @property
    def _local(self) -> tuple[str, ...]:
        return tuple(ref.alias for ref in self._plan.query.streams if ref.stream.site == self._site)

    def _lease(self, alias: str, keys: tuple[str, ...] | None) -> Lease:
        columns = self._plan.query.needed_columns(alias)
        return Lease(self._query_id, self._generation, self._reaches[alias], keys, columns)

    # -- Prepare ------------------------------------------------------------------------------

    def prepare(self, arrangements: Arrangements) -> None:
        """Hold on to the local streams as they are now, and to what others may hold of them."""
        for alias in self._local:
            table = arrangements.local.live(self._reaches[alias].stream)
            self._prepared_at[alias] = table.frontier
            self._lease_table(alias, table)
        for need in self._shape.needs:
            if need.owner == self._site:
                self._claim(arrangements, need)
            elif need.holder == self._site and self._plan.policy.name is PolicyName.FRONTIER:
                for copy in arrangements.held.candidates(self._view(need)):
                    self.hold(need.number, copy)

    def prepare_again(self, arrangements: Arrangements, resumed: Resumption, begins: Mapping[str, int]) -> None:
        """The query ran before and goes on with what logs have, which pins keep: it needs to hold nothing.

        It holds what is there for a while nevertheless, and what others open that are in the same position, so that
        all of them share again. Not if it may wait for long (``is_alone``).
        """
        done, self._is_alone = resumed.done_of(self._plan.query.aliases), resumed.is_alone
        for need in self._shape.needs:
            if need.owner == self._site:
                self._claim(arrangements, need, resumed.is_alone, begins[need.alias])
            elif need.holder == self._site and not resumed.is_alone:
                reach = self._reaches[need.alias]
                begin = None
                # How far back the logs go of what runs by another plan only their sites know.
                if reach.count is None and resumed.since is None:
                    seen = _seen_from(reach, done_with(need.alias, done))
                    begin = min(done[need.alias], seen)
                    if resumed.is_begun:
                        begin = max(resumed.begin_of(need.alias), begin)
                arrangements.held.wish(self._query_id, Wish(need.number, self._view(need), begin, self))
        for alias in () if resumed.is_alone else self._local:
            begin = self._needed_here(alias, begins[alias], done)
            if begin < TICK_END:
                arrangements.local.wish(self._query_id, TableWish(alias, self._reaches[alias].stream, begin, self))

    def _claim(
        self, arrangements: Arrangements, need: CopyNeed, is_own: bool = False, begin: int | None = None
    ) -> None:
        lease = self._lease(need.alias, need.keys)
        self._claims.append(lease)
        arrangements.owned.claim(need, self._view(need), lease, is_own, begin)

    def hold(self, need: int, copy: HeldCopy) -> None:
        """A copy that may be right keeps all that it has until the query starts."""
        self._candidates.setdefault(need, {})[copy.number] = copy.frontier
        for lease in self._copy_leases(self._shape.needs[need]):
            copy.lease(lease)
            self._held.append((copy, lease))

    def hold_table(self, alias: str, table: RowTable) -> None:
        """A table that may be right keeps all that it has until the query starts."""
        lease = self._lease(alias, None)
        table.lease(lease)
        self._wished.append((table, lease))

    def miss_batches(self) -> None:
        """More has come for copies than could be kept until the start: walks cannot start with them any more."""
        for prepared in self._candidates.values():
            prepared.update(dict.fromkeys(prepared, TICK_END))

    def _view(self, need: CopyNeed) -> RunningCopy:
        return copy_of(self._plan.query, need.kind, need.alias, need.keys, need.holder)

    def _copy_leases(self, need: CopyNeed) -> list[Lease]:
        looked_by = {step.keys for step in self._shape.all_steps if needs(step, need)}
        return [self._lease(need.alias, keys) for keys in _each(looked_by)]

    def _lease_table(self, alias: str, table: RowTable) -> None:
        looked_by = {step.keys for step in self._shape.all_steps if self._looks_here(step, alias)}
        for keys in _each(looked_by):
            lease = self._lease(alias, keys)
            table.lease(lease)
            self._held.append((table, lease))
        self._tables[alias] = table

    def _looks(self, alias: str) -> bool:
        """Whether walks look at a local stream here."""
        return any(self._looks_here(step, alias) for step in self._shape.all_steps)

    def _looks_here(self, step: StepShape, alias: str) -> bool:
        return step.hop.alias == alias and step.owner == self._site and step.looks_at_owner

    # -- Start --------------------------------------------------------------------------------

    def start(self, arrangements: Arrangements, message: Start, tau_ms: int) -> None:
        """From which tick on the query runs is known.

        Where that is before what a table has, the query gets a table of its own, out of the stream's log: batches
        of the other one that came early are not for it.
        """
        arrangements.unwish(self._query_id)
        for alias in self._local:
            if message.resumed is not None:
                begin = self._needed_here(alias, message.begin_of(alias), dict(message.resumed.done))
                reach = self._reaches[alias]
                table = arrangements.local.reaching(reach.stream, begin, reach, self._looks(alias))
                self._lease_table(alias, table)
            elif message.tick < self._prepared_at[alias]:
                self._begin_in_past(arrangements, alias, message.tick)
        for need in self._shape.needs:
            if need.holder == self._site:
                self._lease_copy(arrangements, need, message, tau_ms)
        for arrangement, lease in self._held:
            self._begin(lease, message)
            self._begin_late(lease, message, isinstance(arrangement, HeldCopy))
        for lease in self._claims:
            self._begin(lease, message)
        self._release_wished(arrangements)

    def _needed_here(self, alias: str, begin: int, done: dict[str, int]) -> int:
        """From which tick on a query that goes on needs the table of a local stream.

        Walks can start with what the log has. Where nobody looks at a time window nothing is needed.
        """
        reach = self._reaches[alias]
        if reach.count is not None:
            return begin
        if not self._looks(alias):
            return TICK_END
        return max(begin, _seen_from(reach, done_with(alias, done)))

    def _release_wished(self, arrangements: Arrangements) -> None:
        wished, self._wished = self._wished, []
        for table, lease in wished:
            arrangements.release(lease.reach.stream, table, lease)

    def _begin_in_past(self, arrangements: Arrangements, alias: str, tick: int) -> None:
        stream, live = self._reaches[alias].stream, self._tables[alias]
        old = [(table, lease) for table, lease in self._held if table is live and lease.reach.alias == alias]
        self._lease_table(alias, arrangements.local.past(stream, tick))
        for table, lease in old:
            self._held.remove((table, lease))
            arrangements.release(stream, table, lease)

    def _begin(self, lease: Lease, message: Start) -> None:
        alias = lease.reach.alias
        lease.first_tick = message.begin_of(alias)
        done = {head: message.first_walk_of(head) for head in self._plan.query.aliases}
        lease.done, lease.own_done = done_with(alias, done), done[alias]
        if self._plan.policy.name is PolicyName.DELTA:
            lease.linger = self._linger(lease, message.delta_us)

    def linger(self, delta_us: int) -> None:
        """Under policy delta, forget by another delta from now on. What has gone by the one before stays gone."""
        for lease in [*(lease for _, lease in self._held), *self._claims]:
            lease.linger = self._linger(lease, delta_us)

    def _linger(self, lease: Lease, delta_us: int) -> int:
        unit = self._plan.query.ref(lease.reach.alias).stream.unit
        return 2 * delta_us * unit // TimeUnit.US

    def _begin_late(self, lease: Lease, message: Start, is_copy: bool) -> None:
        """A query that goes on sees nothing before what its first walks see, though it has the log from before that."""
        reach, alias = lease.reach, lease.reach.alias
        if message.resumed is None or reach.count is not None:
            return
        starts = is_copy and self._shape.starts[alias] == self._site
        needed = [lease.own_done] if starts else []
        needed += [_seen_from(reach, lease.done)] if lease.keys is not None else []
        lease.first_tick = max(message.begin_of(alias), min(needed, default=message.begin_of(alias)))

    def _lease_copy(self, arrangements: Arrangements, need: CopyNeed, message: Start, tau_ms: int) -> None:
        stream = self._plan.query.ref(need.alias).stream
        wanted = Wanted(
            need.number,
            self._view(need),
            stream,
            tau_ms * stream.unit,
            message.begin_of(need.alias),
            dict(message.frontiers).get(need.alias, message.tick + 1),
            self._shape.starts[need.alias] == self._site,
            self._plan.policy.name is PolicyName.DELTA,
            message.resumed is not None,
            self._is_alone,
            is_successor(self._query_id),
        )
        leases = self._copy_leases(need)
        for lease in leases:
            self._begin(lease, message)
            self._begin_late(lease, message, is_copy=True)
        prepared = self._candidates.pop(need.number, {})
        copy = arrangements.held.find(wanted, leases[0], prepared)
        if copy is None:
            copy = arrangements.held.open(wanted, self._query_id)
        for lease in leases:
            copy.lease(lease)
        self._copies[need.number] = copy
        self._let_go(arrangements, need, prepared)
        self._held += [(copy, lease) for lease in leases]

    def _let_go(self, arrangements: Arrangements, need: CopyNeed, prepared: Mapping[int, int]) -> None:
        """The leases that held what might have been right."""
        for arrangement, lease in list(self._held):
            held_since = isinstance(arrangement, HeldCopy) and arrangement.number in prepared
            if held_since and lease.frozen and lease.reach.alias == need.alias:
                self._held.remove((arrangement, lease))
                arrangements.release(lease.reach.stream, arrangement, lease)

    # -- looking ------------------------------------------------------------------------------

    def window_of(self, step: StepShape) -> tuple[Looked | None, Lease | None]:
        """What a step looks at here, under which lease: a copy at the carry's site, or the stream's own table."""
        need = self._shape.need_of(step)
        if need is not None and step.source == self._site:
            copy = self._copies[need.number]
            lease = self._lease_of(copy, step)
            if isinstance(copy, FullHolder):
                return copy.table, lease
            assert isinstance(copy, ReducedHolder | MixedHolder | KeysHolder)
            return copy, lease
        if step.owner != self._site or not step.looks_at_owner:
            return None, None
        table = self._tables[step.hop.alias]
        return table, self._lease_of(table, step)

    def _lease_of(self, arrangement: Leased, step: StepShape) -> Lease:
        """A stream under two names may have both leases on one arrangement."""
        wanted = (step.hop.alias, step.keys)
        return next(
            lease for held, lease in self._held if held is arrangement and (lease.reach.alias, lease.keys) == wanted
        )

    def heads_at(self, table: RowTable) -> list[str]:
        """The heads whose walks start with the batches of a table."""
        found = [alias for alias, own in self._tables.items() if own is table]
        for need in self._shape.needs:
            copy = self._copies.get(need.number)
            if isinstance(copy, FullHolder) and copy.table is table:
                found.append(need.alias)
        return [alias for alias in found if self._shape.starts[alias] == self._site]

    def is_level(self, arrangements: Arrangements) -> bool:
        """Whether all that is looked at has caught up with its streams."""
        tables = self._tables.values()
        return all(copy.is_level for copy in self._copies.values()) and not any(
            arrangements.readers.is_behind(table) for table in tables
        )

    def table_of(self, alias: str) -> RowTable | None:
        """The table of a local stream."""
        return self._tables.get(alias)

    def pins(self) -> dict[str, int]:
        """By local stream: what its log must have for the query to begin again is from this event time on."""
        found: dict[str, int] = {}
        for arrangement, lease in self._held:
            if isinstance(arrangement, RowTable) and self._tables.get(lease.reach.alias) is arrangement:
                stream = lease.reach.stream
                found[stream] = min(found.get(stream, TICK_END), arrangement.begin_ts(lease))
        return found

    # -- moving on ----------------------------------------------------------------------------

    def on_done(self, arrangements: Arrangements, done: dict[str, int]) -> None:
        """The sink is done with these heads up to these ticks."""
        for arrangement, lease in self._held:
            alias = lease.reach.alias
            lease.done, lease.own_done = done_with(alias, done), done[alias]
            arrangements.moved(arrangement)
        for lease in self._claims:
            lease.done = done_with(lease.reach.alias, done)
        if self._claims:
            arrangements.moved_at_owner()

    def release(self, arrangements: Arrangements) -> None:
        """The query is over here."""
        arrangements.unwish(self._query_id)
        self._release_wished(arrangements)
        held, self._held = self._held, []
        for arrangement, lease in held:
            arrangements.release(lease.reach.stream, arrangement, lease)
        arrangements.owned.release(self._query_id)


def _seen_from(reach: Reach, done: int) -> int:
    """Of a time window: walks from a tick on see nothing before this one."""
    return tick_of(reach.before(tick_start(done, reach.tau)), reach.tau)


def _each(looked_by: set[tuple[str, ...]]) -> list[tuple[str, ...] | None]:
    """One lease for each choice of keys; one without, where walks only start."""
    return [*sorted(looked_by)] or [None]
