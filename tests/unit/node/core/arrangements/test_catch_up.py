"""Who reads a stream's log, one piece at a time, and what happens to what was read."""

from __future__ import annotations

import pytest

from node.core.arrangements.catch_up import LogGapError
from node.core.arrangements.feeds import LogReaders
from node.core.effects import ReadLog
from node.core.events import LinkMeasured
from node.core.limits import Limits
from node.core.links.messages import CloseCopy, LeaseCopy, Sync
from node.core.links.outbox import Outbox
from node.core.streams.ticks import TICK_END, Span
from planner.algorithms.descriptions import CopyKind
from tests.unit.node.core.arrangements.kit import STREAM, TAU, array, lease, reach
from tests.unit.node.core.arrangements.world import World


class Feed:
    def __init__(self, frontier: int) -> None:
        self.frontier = frontier


def readers() -> tuple[LogReaders, Outbox]:
    outbox = Outbox("bow")
    return LogReaders(outbox), outbox


# -- readers ----------------------------------------------------------------------------------


def test_each_piece_is_asked_for_from_where_the_reader_stands() -> None:
    reading, outbox = readers()
    feed, other = Feed(3), Feed(9)
    reading.begin("r", feed)
    reading.begin("s", other)
    assert outbox.take_effects() == [ReadLog(1, "r", 3), ReadLog(2, "s", 9)]
    assert reading.behind("r") == [feed]
    assert reading.behind("s") == [other]
    assert reading.take(1) == ("r", feed)
    assert reading.take(1) is None, "an answer is taken once"
    assert reading.behind("r") == []
    feed.frontier = 5
    reading.begin("r", feed)
    assert outbox.take_effects() == [ReadLog(3, "r", 5)]


def test_who_pauses_is_behind_but_nothing_is_read_for_it() -> None:
    reading, outbox = readers()
    feed = Feed(3)
    reading.pause("r", feed)
    assert outbox.take_effects() == []
    assert reading.behind("r") == [feed]
    assert reading.paused == [(feed, "r")]
    assert reading.in_use
    reading.begin("r", feed)
    assert reading.paused == []
    assert reading.behind("r") == [feed]


def test_who_is_forgotten_gets_nothing_of_what_is_under_way() -> None:
    reading, _ = readers()
    feed, other = Feed(3), Feed(3)
    reading.begin("r", feed)
    reading.begin("r", other)
    reading.pause("r", feed)
    reading.forget(feed)
    assert reading.take(1) is None
    assert reading.take(2) == ("r", other)
    assert not reading.in_use


# -- out of the log ---------------------------------------------------------------------------


def past(ticks: int = 4) -> World:
    """A table of the past that has read nothing of so many batches."""
    world = World(retain_ms=10_000)
    for tick in range(ticks):
        world.batch(1, (tick * TAU, 1))
    table = world.bow.local.past(STREAM, 1)
    table.lease(lease("q1", reach(30), first_tick=1, done=1))
    world.turn("bow")
    return world


def test_a_table_of_the_past_has_one_piece_in_flight_until_it_has_caught_up() -> None:
    world = past()
    (table,) = world.bow.local.all
    for frontier in (2, 3):
        assert len(world.reads) == 1
        world.read(1)
        assert table.frontier == frontier
    world.batch(1, (45, 1))
    assert table.frontier == 3, "a batch of now is not for one who is behind"
    assert world.bow.local.live(STREAM) is not table
    world.read(9)
    assert table.frontier == 5
    assert not world.reads
    world.batch(1, (55, 1))
    assert table.frontier == 6
    assert table.times_of(table.bounds(table.leases[0], array([60]), include_ties=False)[1] - 1).tolist() == [55]


def test_a_table_whose_queries_have_enough_is_read_for_when_they_want_more() -> None:
    world = past()
    (table,) = world.bow.local.all
    read = world.reads.popleft()
    world.bow.catch_up.on_read(read.reader, (world.log[1],), 0, lambda one: one is table)
    assert [effect for effect in world.outboxes["bow"].take_effects() if isinstance(effect, ReadLog)] == []
    world.bow.catch_up.read_on(lambda one: True)
    assert world.bow.readers.paused == [(table, STREAM)]
    assert world.outboxes["bow"].take_effects() == []
    world.bow.catch_up.read_on(lambda one: False)
    assert world.outboxes["bow"].take_effects() == [ReadLog(2, STREAM, 2)]


def test_walks_are_told_of_all_that_a_table_of_the_past_takes_at_once() -> None:
    world = past()
    (table,) = world.bow.local.all
    read = world.reads.popleft()
    fed = world.bow.catch_up.on_read(read.reader, tuple(world.log[1:3]), 5, lambda one: False)
    assert [(one is table, rows.span, rows.sealed_at_us) for one, rows in fed.batches] == [(True, Span(1, 3), 5)]


@pytest.mark.parametrize(
    ("batches", "got"), [(slice(2, 3), r"got \[2, 3\)"), (slice(0, 1), r"got \[0, 1\)"), (slice(0, 0), "not there")]
)
def test_a_log_that_has_not_what_is_to_come_is_a_gap(batches: slice, got: str) -> None:
    world = past()
    read = world.reads.popleft()
    with pytest.raises(LogGapError, match=f"stream r requires tick 1 in its log; .*{got}"):
        world.bow.catch_up.on_read(read.reader, tuple(world.log[batches]), 0, lambda one: False)


@pytest.mark.parametrize("is_gap", [True, False], ids=["a gap", "unreadable"])
def test_what_cannot_be_read_for_a_copy_ends_who_uses_it_and_not_who_only_might(is_gap: bool) -> None:
    world = World(retain_ms=10_000)
    for tick in range(4):
        world.batch(1, (tick * TAU, 1))
    query = world.prepare("q1", CopyKind.KEYS, reach(30))
    world.start_at_ash(query, 1)
    world.up()
    world.prepare("q2", CopyKind.KEYS, reach(30))
    read = world.reads.popleft()
    if is_gap:
        with pytest.raises(LogGapError) as error:
            world.bow.catch_up.on_read(read.reader, tuple(world.log[2:]), 0, lambda one: False)
        assert error.value.queries == ()
    else:
        assert world.bow.catch_up.on_unread(read.reader, "disk on fire") == ()
    text = "stream r requires tick 1 in its log; got [2, 3)" if is_gap else "disk on fire"
    assert world.bow.owned.take_failed() == {"q1": text}
    world.bow.on_lease("ash", LeaseCopy("q2", 1, 0))
    assert world.bow.owned.take_failed() == {"q2": text}, "unless it turns out to use this very copy"


def test_what_is_read_for_somebody_who_is_gone_is_ignored() -> None:
    world = past()
    (table,) = world.bow.local.all
    world.bow.release(STREAM, table, table.leases[0])
    read = world.reads.popleft()
    fed = world.bow.catch_up.on_read(read.reader, tuple(world.log), 0, lambda one: False)
    assert (fed.batches, fed.woken) == ([], [])
    assert not world.bow.in_use


# -- pieces of a copy's past ------------------------------------------------------------------


def snapshot(piece_bytes: int, ticks: int = 4) -> World:
    """A copy of so many ticks, ten tuples each, of which all is read; what leaves is never acknowledged."""
    limits = Limits(piece_bytes_min=1, piece_bytes_unknown=piece_bytes)
    world = World(retain_ms=10_000, limits=limits)
    for tick in range(ticks):
        world.batch(1, *((tick * TAU, number) for number in range(10)))
    query = world.prepare("q1", CopyKind.FULL, reach(30))
    world.start_at_ash(query, 1)
    world.outboxes["bow"].backlog_bytes = lambda _: world.backlog
    world.up()
    world.mail["ash"].clear()
    return world


def have(world: World) -> None:
    """Ash says that it has a piece."""
    world.bow.catch_up.pace.measured(LinkMeasured("ash", 100, None))
    world.turn("bow")


def pieces(world: World) -> list[int]:
    """Up to where the syncs go that are under way; they have left."""
    found = [sync.frontier for sync in world.mail["ash"] if isinstance(sync, Sync)]
    world.mail["ash"].clear()
    return found


def test_a_past_is_cut_at_ticks_and_a_piece_has_one_at_least() -> None:
    world = snapshot(1)
    world.backlog = 4
    world.read(4)
    assert pieces(world) == [2], "then it is on its way"
    have(world)
    assert pieces(world) == [3]
    assert (world.levels, world.asked) == ([], ["ash", "ash"])
    have(world)
    assert pieces(world) == [4]
    assert world.levels == [1]


def test_a_past_that_fits_is_one_piece() -> None:
    world = snapshot(10_000)
    world.read(4)
    assert pieces(world) == [4]
    assert world.asked == ["ash"]


def test_pieces_follow_one_another_while_the_link_takes_them() -> None:
    world = snapshot(100, ticks=40)
    world.read(40)
    (first,) = pieces(world)
    have(world)
    then = pieces(world)
    assert first < then[0]
    assert len(then) >= 2
    assert then[-1] < 40, "what leaves in a turn counts as on its way"


def test_little_is_sent_for_what_is_read_so_a_later_piece_is_made_of_more() -> None:
    #  a key is sent once, so from the second tick on nothing is sent for a tuple
    world = World(retain_ms=10_000, limits=Limits(piece_bytes_min=1, piece_bytes_unknown=400))
    for tick in range(9):
        world.batch(1, *((tick * TAU, number) for number in range(10)))
    query = world.prepare("q1", CopyKind.KEYS, reach(300))
    world.start_at_ash(query, 0)
    world.up()
    world.read(9)
    for _ in range(9):
        have(world)
    ends = pieces(world)
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    assert sizes[0] == 1
    assert max(sizes) >= 3
    assert ends[-1] == 9


def test_copies_that_share_a_link_are_sent_a_piece_each_in_turn() -> None:
    world = World(retain_ms=10_000, limits=Limits(piece_bytes_min=1, piece_bytes_unknown=1))
    for tick in range(3):
        world.batch(1, *((tick * TAU, number) for number in range(10)))
    for name, kind in (("q1", CopyKind.FULL), ("q2", CopyKind.KEYS)):
        query = world.prepare(name, kind, reach(30))
        world.start_at_ash(query, 0)
        world.up()
    world.outboxes["bow"].backlog_bytes = lambda _: -100_000
    world.bow.catch_up.read_on(lambda _: False)
    while world.reads:
        read = world.reads.popleft()
        found = tuple(batch for batch in world.log if batch.span.end > read.tick)
        world.bow.catch_up.on_read(read.reader, found, 0, lambda _: False)
    world.turn("bow")
    for _ in range(6):
        have(world)
    came = [(sync.copy, sync.frontier) for sync in world.mail["ash"] if isinstance(sync, Sync)]
    assert came == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]


# -- what the log may forget ------------------------------------------------------------------


def test_a_log_is_trimmed_to_what_somebody_can_still_need() -> None:
    world = World()
    query = world.start("q1", CopyKind.KEYS, reach(25))
    world.up()
    for tick in range(8):
        world.batch(1, (tick * TAU, 1))
    assert world.trimmed < 0, "nothing is done"
    query.done = 5
    world.done_at_bow(query)
    world.batch(1)
    assert world.trimmed == 2, "rows from 50 on see what is from 25 on"
    world.end_at_bow(query)
    world.bow.on_close("ash", CloseCopy(1))
    world.batch(1)
    assert world.trimmed == 10


def test_nothing_of_a_log_goes_while_it_is_not_known_where_a_query_begins() -> None:
    world = World()
    query = world.prepare("q1", CopyKind.KEYS, reach(0))
    for tick in range(4):
        world.batch(1, (tick * TAU, 1))
    assert world.trimmed < 0
    world.start_at_bow(query, 3)
    world.batch(1)
    assert world.trimmed == 3


def test_what_is_still_to_be_read_stays_in_the_log() -> None:
    world = past()
    (table,) = world.bow.local.all
    (one,) = table.leases
    one.done = one.own_done = TICK_END
    world.stream._retain = 0
    world.batch(1)
    assert world.trimmed == 1
    world.read(1)
    world.batch(1)
    assert world.trimmed == 2


def test_a_log_that_was_kept_only_for_a_copy_that_is_closed_is_trimmed_without_another_batch() -> None:
    world = World(retain_ms=10_000)
    for tick in range(4):
        world.batch(1, (tick * TAU, 1))
    query = world.prepare("q1", CopyKind.KEYS, reach(30))
    world.start_at_ash(query, 1)
    world.up()
    world.stream._retain = 0
    world.end_at_bow(query)
    world.turn("bow")
    assert world.trimmed <= 1, "the copy has not read it"
    world.bow.on_close("ash", CloseCopy(1))
    world.turn("bow")
    assert world.trimmed == 4
