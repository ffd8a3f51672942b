"""When a query shares a copy that is there, and when it must not."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from node.core.arrangements.copies.copy import HeldCopy
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.held_copies import HeldCopies, Wanted
from node.core.arrangements.feeds import LogReaders
from node.core.arrangements.local_tables import LocalTables
from node.core.arrangements.reach import Reach
from node.core.effects import Send
from node.core.engine import CloseTable
from node.core.links.messages import CloseCopy, LeaseCopy, Message, OpenCopy, SetPortion, Sync
from node.core.links.outbox import Outbox
from node.core.streams.stream import LocalStream, StreamState
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy, serves
from planner.model.query import Call, ColumnRef, Expr, Literal
from tests.unit.node.core.arrangements.kit import SCHEMA, TAU, EngineWork, Tuple, below, lease, odd, reach
from tests.unit.node.core.arrangements.world import INFO, World, spec_of

KINDS = pytest.mark.parametrize("kind", list(CopyKind))
KEYED = pytest.mark.parametrize("kind", [kind for kind in CopyKind if kind.spec.keyed])
#: Kinds in which a tuple's position depends on the axis: it is told, or is the tuple's number in the copy.
ONE_AXIS = pytest.mark.parametrize("kind", [kind for kind in CopyKind if kind.spec.times or kind.spec.grows])


class Ash:
    """The copies that ash holds, and what it tells their owner."""

    def __init__(self) -> None:
        self.work = EngineWork()
        self.outbox = Outbox("ash")
        self.held = HeldCopies(self.work, self.outbox)
        self.count = 0
        self.info = INFO

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
            self.info,
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


def equal(value: int) -> Expr:
    """A filter that lets tuples with one key pass."""
    return Call("=", (ColumnRef("r", "key"), Literal(value, pa.int64())), pa.bool_())


def synced(copy: HeldCopy, kind: CopyKind, *tuples: Tuple) -> None:
    """Ticks up to 9, with these tuples, arrived for a full copy."""
    assert isinstance(copy, FullHolder)
    world = World()
    world.start("q1", kind, reach(30))
    world.up()
    world.batch(9, *tuples)
    portion, sync = world.mail["ash"]
    assert isinstance(portion, SetPortion)
    assert isinstance(sync, Sync)
    copy.on_portion(portion)
    copy.on_sync(sync)


# -- reasons not to share ---------------------------------------------------------------------


def test_a_full_copy_that_has_forgotten_what_a_query_sees_is_not_shared() -> None:
    world = World()
    first = world.start("q1", CopyKind.FULL, reach(5))
    assert isinstance(first.copy, FullHolder)
    world.up()
    kept = world.prepare("q2", CopyKind.FULL, reach(5))
    gone = world.prepare("q3", CopyKind.FULL, reach(5))
    world.batch(9, (5, 1), (45, 2), (85, 3))
    world.settle()
    first.done = 6
    world.done_at_ash(first)
    world.start_at_ash(kept, 5)
    assert kept.copy is first.copy
    world.start_at_ash(gone, 4)
    assert gone.copy is not first.copy, "45 is gone"


def test_shipped_tuples_that_were_forgotten_are_a_reason_for_another_copy() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.REDUCED)
    first.leases[0].done = 5
    first.settle()
    assert ash.lease(CopyKind.REDUCED, tick=2) is first
    assert ash.lease(CopyKind.REDUCED, tick=1) is not first


@KINDS
def test_a_query_that_begins_before_its_owner_was_prepared_has_its_own_copy(kind: CopyKind) -> None:
    """The owner keeps keys, bits and counts for it only since then, and sends it what passes its filter."""
    ash = Ash()
    first = ash.lease(kind)
    assert ash.lease(kind, tick=5, prepared_at=5) is first
    assert ash.lease(kind, tick=5, prepared_at=6) is not first


@pytest.mark.parametrize("kind", [CopyKind.KEYS, CopyKind.MIXED])
def test_a_copy_that_begins_later_is_not_shared(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, tick=5)
    assert ash.lease(kind, tick=4) is not first


def test_a_full_copy_is_shared_with_a_query_that_begins_before_its_frontier_and_finds_all_of_it() -> None:
    ash = Ash()
    first = ash.lease(CopyKind.FULL, tick=2)
    assert ash.lease(CopyKind.FULL, reach(30, where=odd()), tick=9, prepared_at=2) is first
    assert ash.lease(CopyKind.FULL, tick=2, prepared_at=1) is first
    assert ash.lease(CopyKind.FULL, tick=1, prepared_at=1) is not first


@ONE_AXIS
def test_a_copy_with_positions_along_another_axis_is_not_shared(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(30))
    other = ash.lease(kind, reach(count=3))
    assert other is not first
    assert [copy.spec.axis for copy in ash.held.all] == [CopyAxis.TIME, CopyAxis.ROWS]


def test_a_copy_without_positions_serves_both_axes() -> None:
    ash = Ash()
    assert ash.lease(CopyKind.KEYS, reach(30)) is ash.lease(CopyKind.KEYS, reach(count=3))


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
def test_another_filter_needs_another_copy_unless_the_copy_has_all_that_passes_it_or_grows(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(30, where=odd()))
    assert ash.lease(kind, reach(30, where=odd())) is first
    other = ash.lease(kind, reach(30, where=below(3)))
    assert (other is first) == (kind in (CopyKind.REDUCED, CopyKind.FULL))


def test_one_full_copy_serves_all_whatever_their_filters_and_columns() -> None:
    ash = Ash()
    spec = replace(spec_of(CopyKind.FULL, reach(30, where=odd())), columns=("n",))
    first = ash.lease(CopyKind.FULL, reach(30, where=odd()), spec=spec)
    assert first.spec == spec, "it is opened for what the first query needs, and grows"
    for where, columns in ((below(3), ("ts", "n")), (None, ("key",)), (equal(3), ("ts", "key", "n")), (odd(), ())):
        of = reach(30, where=where)
        needed = replace(spec_of(CopyKind.FULL, of), columns=columns)
        assert ash.held.candidates(needed) == [first]
        assert ash.lease(CopyKind.FULL, of, spec=needed) is first
    assert ash.said() == [
        OpenCopy("q1", 1, 1, 0, spec),
        *(LeaseCopy(f"q{number}", 1, number) for number in range(2, 6)),
    ]
    assert first.spec == spec


@pytest.mark.parametrize(
    "change", [{"stream": "l"}, {"owner": "cam"}, {"holder": "cam"}], ids=lambda change: next(iter(change))
)
def test_a_full_copy_of_something_else_is_not_shared(change: dict[str, str]) -> None:
    ash = Ash()
    spec = spec_of(CopyKind.FULL, reach(30))
    ash.lease(CopyKind.FULL, spec=spec)
    assert ash.held.candidates(replace(spec, **change)) == []  # type: ignore[arg-type]


def test_a_full_copy_of_a_count_window_is_shared_with_queries_that_need_other_columns() -> None:
    ash = Ash()
    of = reach(count=3, where=odd())
    first = ash.lease(CopyKind.FULL, of, spec=replace(spec_of(CopyKind.FULL, of), columns=("n",)))
    assert ash.lease(CopyKind.FULL, of, spec=replace(spec_of(CopyKind.FULL, of), columns=("ts", "key"))) is first


@ONE_AXIS
def test_a_count_behind_another_filter_is_another_copy_even_if_a_wider_one_is_there(kind: CopyKind) -> None:
    ash = Ash()
    first = ash.lease(kind, reach(count=3))
    assert ash.lease(kind, reach(count=9)) is first
    narrow = ash.lease(kind, reach(count=3, where=odd()))
    assert narrow is not first
    assert narrow.spec.filter is not None, "positions depend on what passes, so a wide one would not do"


# -- a wide copy ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CopyKind.KEYS, CopyKind.MIXED])
def test_the_second_view_of_a_kind_is_opened_wide_and_serves_those_that_follow(kind: CopyKind) -> None:
    ash = Ash()
    ash.lease(kind, reach(30, where=odd()))
    narrow = replace(spec_of(kind, reach(30, where=below(3))), columns=("key",))
    wide = ash.lease(kind, reach(30, where=below(3)), spec=narrow)
    assert wide.spec.filter is None
    assert wide.spec.columns == (("key",) if kind is CopyKind.KEYS else ("key", "n")), "of both views, as in the stream"
    third = ash.lease(kind, reach(30, where=below(2)))
    assert third is wide


def needing(where: Expr, *columns: str) -> RunningCopy:
    """M of what passes a filter, with these columns."""
    return replace(spec_of(CopyKind.MIXED, reach(30)), filter=where, columns=columns)


def under(column: str, value: int = 3) -> Expr:
    return Call("<", (ColumnRef("r", column), Literal(value, pa.int64())), pa.bool_())


@pytest.mark.parametrize("turned", [False, True], ids=["those of the copy beside it", "its own"])
def test_a_wide_copy_has_the_columns_by_which_its_users_filter(turned: bool) -> None:
    ash = Ash()
    one, other = needing(under("n"), "key"), needing(under("ts"), "ts", "key")
    first, second = (other, one) if turned else (one, other)
    ash.lease(CopyKind.MIXED, spec=first)
    wide = ash.lease(CopyKind.MIXED, spec=second)
    assert wide.spec.filter is None
    assert wide.spec.columns == ("ts", "key", "n")


def test_a_wide_copy_has_the_columns_of_all_copies_beside_it_and_not_those_that_nobody_needs() -> None:
    ash = Ash()
    more = [pa.field(name, pa.int64()) for name in ("m", "o")]
    ash.info = replace(INFO, schema=pa.schema([*SCHEMA, *more]))
    for number, (column, wide) in enumerate({"key": ("key",), "m": ("key", "m"), "n": ("key", "n", "m")}.items()):
        copy = ash.lease(CopyKind.MIXED, spec=needing(under("key", number), *dict.fromkeys(("key", column))))
        assert copy.spec.columns == wide, "in the order of the stream"
        assert (copy.spec.filter is None) == (number > 0)
    assert len(ash.held) == 3


def test_two_views_that_want_little_do_not_make_a_wide_copy() -> None:
    ash = Ash()
    ash.lease(CopyKind.MIXED, spec=needing(equal(3), "ts", "key", "n"))
    #  a wide one would send 24 bytes of each tuple; these two send about 24 / 10 + 8 / 3, of which 4 times is less
    other = needing(under("key"), "key")
    assert serves(replace(other, filter=None), other), "it would let pass no more than what is of use"
    assert ash.lease(CopyKind.MIXED, spec=other).spec == other


def test_a_wide_copy_of_keys_that_lets_nearly_all_pass_is_not_opened() -> None:
    ash = Ash()
    spec = spec_of(CopyKind.KEYS, reach(30, where=odd()))
    ash.lease(CopyKind.KEYS, spec=spec)
    other = replace(spec, filter=equal(3))
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


@KINDS
@pytest.mark.parametrize("stream", ["copy", "copy/1", "1"])
def test_a_copys_table_has_never_the_name_of_a_table_of_an_own_stream(kind: CopyKind, stream: str) -> None:
    """An own stream may be called copy, and a peer's anything; an engine has all tables under one set of names."""
    ash = Ash()
    ash.info = replace(INFO, name=stream)
    spec = replace(spec_of(kind, reach(30)), stream=stream)
    names = {ash.lease(kind, spec=spec, private=True).name for _ in range(3)}
    own = replace(INFO, name="copy", site="ash")
    outbox, work = Outbox("ash"), EngineWork()
    local = LocalTables({"copy": StreamState(LocalStream(own), TAU)}, work, LogReaders(outbox))
    tables = {local.past("copy", tick).name for tick in range(3)}
    assert len(names) == len(tables) == 3
    assert names.isdisjoint(tables)
