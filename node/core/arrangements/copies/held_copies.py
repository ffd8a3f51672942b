"""The copies that a site holds of views of other sites' streams.

A query leases a copy that is there if that has all it needs (``planner.model.copies.can_serve``) and nothing of it was
forgotten that the query can see; else one is opened. A full copy is sent what each query needs since the query was
prepared, so it serves all. After a crash many queries want again what they shared: who is first opens it from as far
back as the others need, and it forgets nothing until those have begun (``Wish``). Of other kinds, the second query
that would need a copy of its own beside another one opens a wide one, which has all tuples and the columns of both:
that serves most queries that come later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from node.core.arrangements.copies.copy import HeldCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.key_copy import KeysHolder
from node.core.arrangements.copies.mixed_copy import MixedHolder
from node.core.arrangements.copies.reduced_copy import ReducedHolder
from node.core.arrangements.lease import Lease
from node.core.links.messages import CloseCopy, LeaseCopy, OpenCopy
from node.core.links.outbox import Outbox
from node.core.status import CopyStatus
from node.core.streams.ticks import TICK_MIN
from node.core.work import Work
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy, can_serve, looseness, serves, weight
from planner.model.query import StreamInfo, names_in

#: A wide copy may weigh so many times what the own ones do that are there: it serves queries to come.
_WIDE_MAX = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """A copy that a query needs here."""

    #: Its number among the query's needs.
    need: int
    copy: RunningCopy
    stream: StreamInfo
    tau: int
    tick: int
    #: How far the stream was sealed when its site was prepared: from there on it forgets nothing for the query.
    prepared_at: int
    #: Whether walks start with what comes for the copy.
    starts_walks: bool
    #: Policy delta forgets by the clock, so it shares with nobody.
    private: bool
    #: The query ran before, and needs what is from ``tick`` on however much newer the stream is.
    is_resumed: bool = False
    #: It must not use a copy that is there: the owner's half has forgotten what only others do not need any more.
    is_own: bool = False
    #: Its walks begin where those of the run before are cut, which is yet to come.
    begins_later: bool = False


class Wisher(Protocol):
    """Who will need copies once it begins."""

    def hold(self, need: int, copy: HeldCopy) -> None:
        """Keep a copy as it is, because it may be right for a need."""
        ...


@dataclass(frozen=True, slots=True)
class Wish:
    """A copy that a query which is about to go on will need here."""

    need: int
    copy: RunningCopy
    #: It needs what is from this tick on; None if only the owner can tell, as of count windows.
    begin: int | None
    who: Wisher


class HeldCopies:
    """All of them, by number."""

    def __init__(self, work: Work, outbox: Outbox) -> None:
        self._work = work
        self._outbox = outbox
        self._count = 0
        self._copies: dict[int, HeldCopy] = {}
        self._private: dict[int, None] = {}
        self._wishes: dict[tuple[str, int], Wish] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def get(self, number: int) -> HeldCopy | None:
        return self._copies.get(number)

    @property
    def all(self) -> list[HeldCopy]:
        return list(self._copies.values())

    def candidates(self, needed: RunningCopy) -> list[HeldCopy]:
        """Copies that may turn out to be right for a query that is being prepared."""
        shared = [copy for number, copy in self._copies.items() if number not in self._private]
        return [copy for copy in shared if can_serve(copy.spec, needed)]

    def wish(self, query_id: str, wish: Wish) -> None:
        """A query is prepared that goes on: all that may be right for it is held, also what is opened later."""
        self._wishes[query_id, wish.need] = wish
        for copy in self.candidates(wish.copy):
            wish.who.hold(wish.need, copy)

    def unwish(self, query_id: str) -> None:
        """It begins, or is over."""
        self._wishes = {place: wish for place, wish in self._wishes.items() if place[0] != query_id}

    def find(self, wanted: Wanted, lease: Lease, prepared: Mapping[int, int]) -> HeldCopy | None:
        """A copy that is right for a query, and whose owner is told that it is used; None if there is none.

        ``prepared`` tells of copies that are held for the query since it was prepared how far they were sealed then.
        """
        if wanted.private or wanted.is_own:
            return None
        for copy in sorted(self.candidates(wanted.copy), key=lambda copy: looseness(copy.spec, wanted.copy)):
            if _is_right(copy, wanted, lease, prepared.get(copy.number, copy.frontier)):
                self._outbox.send(copy.spec.owner, LeaseCopy(lease.query_id, copy.number, wanted.need))
                return copy
        return None

    def open(self, wanted: Wanted, query_id: str) -> HeldCopy:
        """A new copy for a query."""
        spec = wanted.copy if wanted.private else self._view_for(wanted)
        copy = self._new(spec, wanted, self._begin_of(spec, wanted))
        self._copies[copy.number] = copy
        if wanted.private:
            self._private[copy.number] = None
        self._outbox.send(copy.spec.owner, OpenCopy(query_id, copy.number, wanted.need, copy.opened, copy.spec))
        for wish in () if wanted.private else self._wishes.values():
            if can_serve(spec, wish.copy):
                wish.who.hold(wish.need, copy)
        return copy

    def _begin_of(self, spec: RunningCopy, wanted: Wanted) -> int:
        """From which tick on to open a copy: from where the first one needs it of those that are about to go on.

        Not if that is more than twice as much as the query itself needs: who is far behind has to open its own.
        """
        if not wanted.is_resumed or wanted.is_own or wanted.private:
            return wanted.tick
        least = max(TICK_MIN, wanted.tick - (wanted.prepared_at - wanted.tick))
        wishes = [wish.begin for wish in self._wishes.values() if can_serve(spec, wish.copy)]
        return min([wanted.tick, *(begin for begin in wishes if begin is not None and begin >= least)])

    def _new(self, spec: RunningCopy, wanted: Wanted, tick: int) -> HeldCopy:
        self._count += 1
        number, schema, tau = self._count, wanted.stream.schema, wanted.tau
        match spec.kind:
            case CopyKind.FULL:
                return FullHolder(self._work, number, spec, schema, tau, tick)
            case CopyKind.REDUCED:
                return ReducedHolder(self._work, number, spec, schema, tau, tick)
            case CopyKind.KEYS:
                return KeysHolder(number, spec, schema, tau, tick)
            case CopyKind.MIXED:
                return MixedHolder(self._work, number, spec, schema, tau, tick)

    def _view_for(self, wanted: Wanted) -> RunningCopy:
        """The query's own view; a wide one if others of the same kind are there that do not serve it.

        A wide one has no filter, and the columns of all. But not if it would let pass too much to be of use, or weigh
        several times what own ones do: a few queries that each want little must not ship everything.
        """
        needed = wanted.copy
        beside = [copy.spec for copy in self._copies.values() if copy.number not in self._private]
        beside = [spec for spec in beside if _is_alike(spec, needed)]
        if not beside or needed.axis is CopyAxis.ROWS or needed.kind.spec.grows:
            return needed
        names = needed.columns
        if needed.kind.spec.tuples:
            wide = {name for spec in (needed, *beside) for name in (*spec.columns, *names_in(spec.filter))}
            names = tuple(name for name in wanted.stream.schema.names if name in wide)
        found = replace(needed, columns=names, filter=None)
        own = sum(weight(spec, wanted.stream.schema) for spec in (needed, *beside))
        return found if serves(found, needed) and weight(found, wanted.stream.schema) <= _WIDE_MAX * own else needed

    def release(self, copy: HeldCopy, lease: Lease) -> None:
        """A query lets go; a copy that nobody leases is closed."""
        copy.release(lease)
        if not copy.leases:
            copy.close()
            del self._copies[copy.number]
            self._private.pop(copy.number, None)
            self._outbox.send(copy.spec.owner, CloseCopy(copy.number))

    def forget(self, copy: HeldCopy) -> None:
        """The other half is gone: there is nobody to tell."""
        if self._copies.pop(copy.number, None) is not None:
            copy.close()
            self._private.pop(copy.number, None)

    def statuses(self) -> list[CopyStatus]:
        return [copy.status() for copy in self._copies.values()]


def _is_right(copy: HeldCopy, wanted: Wanted, lease: Lease, prepared: int) -> bool:
    """Whether a copy that serves a query has all that it needs; batches up to ``prepared`` were not given to it."""
    if wanted.is_resumed:
        return _is_right_again(copy, wanted, lease, prepared)
    if isinstance(copy, FullHolder):
        in_time = not wanted.starts_walks or prepared <= wanted.tick
        return in_time and copy.serves_from(lease, wanted.prepared_at)
    if wanted.prepared_at > wanted.tick:
        # Keys die when their owner says so, and it may have let go of what it knew of shipped tuples. Nothing of that
        # hurts the query since it was prepared there.
        return False
    return copy.reaches_back_to(lease.first_ts) if isinstance(copy, ReducedHolder) else copy.opened <= wanted.tick


def _is_right_again(copy: HeldCopy, wanted: Wanted, lease: Lease, prepared: int) -> bool:
    """The same for a query that ran before.

    The owner forgets nothing for it since it was prepared there, and what had been forgotten by then is known here:
    that came before the owner's fence.
    """
    assert lease.first_tick is not None
    if isinstance(copy, FullHolder):
        # Walks cannot start with batches that have passed: the log that has them is elsewhere.
        in_time = not wanted.starts_walks or wanted.begins_later or prepared <= lease.own_done
        return in_time and copy.serves_from(lease, TICK_MIN)
    if isinstance(copy, ReducedHolder):
        return copy.reaches_back_to(lease.first_ts)
    if copy.opened > lease.first_tick:
        return False
    if copy.spec.axis is not CopyAxis.ROWS:
        return copy.kept_from <= lease.first_ts
    # Which tuples are gone is told by their number alone.
    return copy.kept_from == 0


def _is_alike(one: RunningCopy, other: RunningCopy) -> bool:
    return (one.kind, one.stream, one.keys, one.axis, one.owner) == (
        other.kind,
        other.stream,
        other.keys,
        other.axis,
        other.owner,
    )
