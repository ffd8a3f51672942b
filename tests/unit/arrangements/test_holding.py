"""When a query shares a copy that is there, and when it must not."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.arrangements.copy import HeldCopy
from node.core.arrangements.full import FullHolder
from node.core.arrangements.holding import HeldCopies, Wanted
from node.core.arrangements.reach import Reach
from node.core.effects import Send
from node.core.engine import CloseTable
from node.core.messages import CloseCopy, LeaseCopy, Message, OpenCopy, Sync
from node.core.outbox import Outbox
from planner.algorithms import CopyKind
from planner.copies import CopyAxis, RunningCopy
from planner.model import Call, ColumnRef, Literal
from tests.unit.arrangements.kit import TAU, EngineWork, Tuple, below, lease, odd, reach
from tests.unit.arrangements.world import INFO, World, spec_of

KINDS = pytest.mark.parametrize("kind", list(CopyKind))
KEYED = pytest.mark.parametrize("kind", [kind for kind in CopyKind if kind.spec.keyed])
COUNTED = pytest.mark.parametrize("kind", [kind for kind in CopyKind if kind.spec.times])


class Ash:
    """The copies that ash holds, and what it tells their owner."""

    def __init__(self) -> None:
        self.work = EngineWork()
        self.outbox = Outbox("ash")
        self.held = HeldCopies(self.work, self.outbox)
        self.count = 0

    def lease(
        self,
        kind: CopyKind,
        of: Reach | None = None,
        tick: int = 0,
        prepared_at: int | None = None,
        starts_walks: bool = False,
        private: bool = False,
        spec: RunningCopy | None = None,
        prepared: dict[int, int] | None = None,
    ) -> HeldCopy:
        self.count += 1
        of = of or reach(30)
        wanted = Wanted(
            self.count,
            spec or spec_of(kind, of),
            INFO,
            TAU,
            tick,
            tick if prepared_at is None else prepared_at,
            starts_walks,
            private,
        )
        made = lease(f"q{self.count}", of, first_tick=tick, done=tick)
        copy = self.held.find(wanted, made, prepared or {}) or self.held.open(wanted, made.query_id)
        copy.lease(made)
        return copy

    def said(self) -> list[Message]:
        return [effect.message for effect in self.outbox.take_effects() if isinstance(effect, Send)]


@KINDS
def test_the_first_query_opens_a_copy_and_the_second_leases_it(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, tick=3)
    assert ash.said() == [OpenCopy("q1", 1, 1, 3, spec_of(kind, reach(30)))]
    assert ash.held.get(1) is first
    second = ash.lease(kind, reach(99), tick=3)
    assert second is first, "whatever the length of the window"
    assert ash.said() == [LeaseCopy("q2", 1, 2)]
    assert [one.query_id for one in first.leases] == ["q1", "q2"]
    assert first.status().users == ("q2",)


@KINDS
def test_a_copy_is_closed_when_the_last_query_lets_go(kind: CopyKind) -> None:
    ash = Ash()
    copy = ash.lease(kind)
    ash.lease(kind)
    ash.said()
    one, other = copy.leases
    ash.held.release(copy, one)
    assert ash.said() == []
    assert ash.held.all == [copy]
    ash.held.release(copy, other)
    assert ash.said() == [CloseCopy(1)]
    assert len(ash.held) == 0
    assert len(ash.work.of(CloseTable)) == (0 if kind is CopyKind.KEYS else 1)
    assert ash.lease(kind).number == 2, "a number is used once"


@KINDS
def test_a_copy_whose_other_half_is_gone_is_forgotten_and_nobody_is_told(kind: CopyKind) -> None:
    ash = Ash()
    copy = ash.lease(kind)
    ash.said()
    ash.held.forget(copy)
    ash.held.forget(copy)
    assert ash.said() == []
    assert len(ash.held) == 0


def synced(copy: HeldCopy, kind: CopyKind, *tuples: Tuple) -> None:
    """Ticks up to 9, with these tuples, arrived for a full copy."""
    assert isinstance(copy, FullHolder)
    world = World()
    world.start("q1", kind, reach(30))
    world.up()
    world.batch(9, *tuples)
    (sync,) = [message for message in world.mail["ash"] if isinstance(message, Sync)]
    copy.on_sync(replace(sync, copy=copy.number))


# -- reasons not to share ---------------------------------------------------------------------


def test_a_full_copy_that_has_forgotten_what_a_query_sees_is_not_shared() -> None:
    world = World()
    first = world.start("q1", CopyKind.FULL, reach(5))
    assert isinstance(first.copy, FullHolder)
    world.up()
    world.batch(9, (5, 1), (45, 2), (85, 3))
    world.settle()
    first.done = 6
    world.done_at_ash(first)
    kept = world.prepare("q2", CopyKind.FULL, reach(5))
    world.start_at_ash(kept, 5)
    assert kept.copy is first.copy
    gone = world.prepare("q3", CopyKind.FULL, reach(5))
    world.start_at_ash(gone, 4)
    assert gone.copy is not first.copy, "45 is gone"


def test_shipped_tuples_that_were_forgotten_are_a_reason_for_another_copy() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.REDUCED)
    first.leases[0].done = 5
    first.settle()
    assert ash.lease(CopyKind.REDUCED, tick=2) is first
    assert ash.lease(CopyKind.REDUCED, tick=1) is not first


@pytest.mark.parametrize("kind", [CopyKind.REDUCED, CopyKind.KEYS, CopyKind.MIXED])
def test_a_query_that_begins_before_its_owner_was_prepared_has_its_own_copy(kind: CopyKind) -> None:
    """The owner keeps keys, bits and counts for it only since then."""
    ash = Ash()
    first = ash.lease(kind)
    assert ash.lease(kind, tick=5, prepared_at=5) is first
    assert ash.lease(kind, tick=5, prepared_at=6) is not first


@pytest.mark.parametrize("kind", [CopyKind.KEYS, CopyKind.MIXED])
def test_a_copy_that_begins_later_is_not_shared(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, tick=5)
    assert ash.lease(kind, tick=4) is not first


def test_a_full_copy_is_shared_with_a_query_of_the_past_that_finds_all_of_it() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.FULL, tick=2)
    assert ash.lease(CopyKind.FULL, tick=2, prepared_at=9) is first
    assert ash.lease(CopyKind.FULL, tick=1, prepared_at=9) is not first


@COUNTED
def test_a_copy_with_positions_along_another_axis_is_not_shared(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(30))
    other = ash.lease(kind, reach(count=3))
    assert other is not first
    assert [copy.spec.axis for copy in ash.held.all] == [CopyAxis.TIME, CopyAxis.ROWS]


@pytest.mark.parametrize("kind", [CopyKind.FULL, CopyKind.KEYS])
def test_a_copy_without_positions_serves_both_axes(kind: CopyKind) -> None:
    ash = Ash()
    assert ash.lease(kind, reach(30)) is ash.lease(kind, reach(count=3))


@KINDS
def test_by_the_clock_nobody_shares(kind: CopyKind) -> None:
    ash = Ash()
    private = ash.lease(kind, private=True)
    shared = ash.lease(kind)
    assert shared is not private
    assert ash.lease(kind, private=True) not in (private, shared)
    assert ash.lease(kind) is shared
    assert shared.spec.filter is None


def test_walks_start_with_what_comes_so_a_copy_that_is_further_is_too_late_for_them() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.FULL, starts_walks=True)
    synced(first, CopyKind.FULL, (5, 1))
    assert ash.lease(CopyKind.FULL, tick=9, starts_walks=True) is first
    assert ash.lease(CopyKind.FULL, tick=8, starts_walks=True) is not first
    assert ash.lease(CopyKind.FULL, tick=8) is first, "who only looks may begin there"


def test_walks_may_start_with_batches_that_came_since_prepare_and_were_kept_for_the_query() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.FULL, starts_walks=True)
    synced(first, CopyKind.FULL, (5, 1))
    assert ash.lease(CopyKind.FULL, tick=8, starts_walks=True, prepared={1: 8}) is first
    assert ash.lease(CopyKind.FULL, tick=7, starts_walks=True, prepared={1: 8}) is not first


@KINDS
def test_a_copy_that_may_be_right_keeps_all_that_it_has_from_prepare_on(kind: CopyKind) -> None:
    world = World()
    first = world.start("q1", kind, reach(0))
    world.up()
    world.batch(1, (5, 1))
    world.settle()
    second = world.prepare("q2", kind, reach(30))
    world.prepare_at_ash(second)
    assert list(second.candidates) == [1]
    world.batch(3, (15, 2), (25, 3))
    first.done = 9
    world.done_at_bow(first)
    world.done_at_ash(first)
    world.settle()
    world.end_at_ash(first)
    world.end_at_bow(first)
    assert len(world.ash.held) == 1, "it is held although its only user is gone"
    world.start_at_ash(second, 1)
    world.start_at_bow(second, 1)
    world.settle()
    assert second.copy is world.ash.held.get(1)
    assert second.candidates == {}
    world.check()


@KINDS
def test_a_copy_that_turned_out_not_to_be_right_is_let_go(kind: CopyKind) -> None:
    world = World(retain_ms=1_000)
    world.batch(5, (5, 1))
    first = world.start("q1", kind, reach(30))
    world.settle()
    second = world.prepare("q2", kind, reach(30))
    world.prepare_at_ash(second)
    world.end_at_ash(first)
    world.start_at_ash(second, 2)
    assert [copy.number for copy in world.ash.held.all] == [2]
    assert CloseCopy(1) in world.mail["bow"]


@KINDS
def test_by_the_clock_no_copy_is_a_candidate(kind: CopyKind) -> None:
    ash = Ash()
    ash.lease(kind, private=True)
    assert ash.held.candidates(spec_of(kind, reach(30))) == []


@KINDS
def test_another_filter_needs_another_copy_unless_the_copy_has_all_that_passes_it(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(30, where=odd()))
    assert ash.lease(kind, reach(30, where=odd())) is first
    if kind is not CopyKind.REDUCED:
        assert ash.lease(kind, reach(30, where=below(3))) is not first


@COUNTED
def test_a_count_behind_another_filter_is_another_copy_even_if_a_wider_one_is_there(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(count=3))
    assert ash.lease(kind, reach(count=9)) is first
    narrow = ash.lease(kind, reach(count=3, where=odd()))
    assert narrow is not first
    assert narrow.spec.filter is not None, "positions depend on what passes, so a wide one would not do"


# -- a wide copy ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CopyKind.FULL, CopyKind.KEYS, CopyKind.MIXED])
def test_the_second_view_of_a_kind_is_opened_wide_and_serves_those_that_follow(kind: CopyKind) -> None:
    ash = Ash()
    ash.lease(kind, reach(30, where=odd()))
    narrow = replace(spec_of(kind, reach(30, where=below(3))), columns=("key",))
    wide = ash.lease(kind, reach(30, where=below(3)), spec=narrow)
    assert wide.spec.filter is None
    assert wide.spec.columns == (("key",) if kind is CopyKind.KEYS else ("key", "n")), "of both views, as in the stream"
    third = ash.lease(kind, reach(30, where=below(2)))
    assert third is wide


def test_a_wide_copy_has_the_columns_by_which_its_users_filter() -> None:
    ash = Ash()
    spec = spec_of(CopyKind.FULL, reach(30, where=odd()))
    ash.lease(CopyKind.FULL, spec=replace(spec, columns=("n",)))
    other = replace(spec_of(CopyKind.FULL, reach(30, where=below(3))), columns=("ts", "n"))
    wide = ash.lease(CopyKind.FULL, spec=other)
    assert wide.spec.columns == ("ts", "key", "n")


def test_two_views_that_want_little_do_not_make_a_wide_copy() -> None:
    ash = Ash()
    spec = spec_of(CopyKind.FULL, reach(30, where=odd()))
    ash.lease(CopyKind.FULL, spec=replace(spec, columns=("n",)))
    other = replace(spec, filter=Call("=", (ColumnRef("r", "key"), Literal(3, pa.int64())), pa.bool_()), columns=("n",))
    assert ash.lease(CopyKind.FULL, spec=other).spec == other


def test_a_wide_copy_of_keys_that_lets_nearly_all_pass_is_not_opened() -> None:
    ash = Ash()
    spec = spec_of(CopyKind.KEYS, reach(30, where=odd()))
    ash.lease(CopyKind.KEYS, spec=spec)
    other = replace(spec, filter=Call("=", (ColumnRef("r", "key"), Literal(3, pa.int64())), pa.bool_()))
    assert ash.lease(CopyKind.KEYS, spec=other).spec == other


@KEYED
def test_copies_by_other_keys_or_of_other_owners_are_not_alike(kind: CopyKind) -> None:
    ash = Ash()
    spec = spec_of(kind, reach(30, where=odd()))
    ash.lease(kind, spec=spec)
    by_number = replace(spec, keys=("n",), columns=("n",) if kind is CopyKind.KEYS else ("key", "n"))
    assert ash.lease(kind, spec=by_number).spec == by_number
    elsewhere = replace(spec, owner="cam")
    assert ash.lease(kind, spec=elsewhere).spec == elsewhere


def test_what_copies_say_about_themselves() -> None:
    ash = Ash()
    for kind in CopyKind:
        ash.lease(kind)
    statuses = ash.held.statuses()
    assert [status.kind for status in statuses] == list(CopyKind)
    assert {(status.peer, status.alias, status.frontier) for status in statuses} == {("bow", "b", 0)}
    assert [status.query_id for status in statuses] == ["q1", "q2", "q3", "q4"]
