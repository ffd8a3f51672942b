"""A head that is behind its table reads the log until it has caught up, and no further."""

from __future__ import annotations

from node.core.arrangements.head_cursor import HeadCursor
from node.core.streams.ticks import Span
from planner.algorithms.descriptions import CopyKind
from tests.unit.node.core.arrangements.kit import STREAM, TAU, reach
from tests.unit.node.core.arrangements.world import World


def behind(tick: int) -> tuple[World, HeadCursor]:
    """A table that is sealed up to tick 6, and a head that begins with a tick before."""
    world = World()
    query = world.start("q1", CopyKind.KEYS, reach(1_000))
    for number in range(3):
        world.batch(2, (2 * number * TAU, 1), (2 * number * TAU + TAU, 2))
    assert query.table is not None
    cursor = HeadCursor("q1", 1, "b", query.table, tick)
    world.bow.readers.begin(STREAM, cursor)
    world.turn("bow")
    return world, cursor


def read(world: World, batches: int, full: bool = False) -> list[tuple[Span, list[int]]]:
    asked = world.reads.popleft()
    found = [batch for batch in world.log if batch.span.end > asked.tick][:batches]
    fed = world.bow.catch_up.on_read(asked.reader, tuple(found), 0, lambda _: full)
    world.turn("bow")
    return [(sealed.span, sealed.ts.tolist()) for _, sealed in fed.heads]


def test_it_has_its_first_batch_from_its_first_tick_on_and_all_up_to_its_table() -> None:
    world, cursor = behind(1)
    assert cursor.is_behind
    assert read(world, 1) == [(Span(1, 2), [TAU])]
    assert cursor.frontier == 2
    assert read(world, 9) == [(Span(2, 4), [20, 30]), (Span(4, 6), [40, 50])]
    assert cursor.frontier == cursor.table.frontier == 6
    assert not world.reads


def test_it_stops_where_its_table_is_although_the_log_goes_on() -> None:
    world, cursor = behind(4)
    world.batch(2, (61, 1))
    cursor.table.progress.frontier = 6  # as if the batch were logged, and not fed
    assert read(world, 9) == [(Span(4, 6), [40, 50])]


def test_it_is_not_read_for_while_too_much_is_under_way() -> None:
    world, cursor = behind(0)
    asked = world.reads.popleft()
    world.bow.catch_up.on_read(asked.reader, tuple(world.log[:1]), 0, lambda feed: feed is cursor)
    world.bow.catch_up.read_on(lambda feed: feed is cursor)
    assert world.outboxes["bow"].take_effects() == []
    world.turn("bow")
    assert [one.tick for one in world.reads] == [cursor.frontier] == [2]


def test_what_is_still_to_be_read_for_it_stays_in_the_log() -> None:
    world, cursor = behind(2)
    world.end_at_bow(world.queries["q1"])
    world.batch(1)
    assert world.trimmed <= cursor.frontier == 2


def test_a_log_without_its_next_batch_ends_its_query() -> None:
    world, cursor = behind(0)
    asked = world.reads.popleft()
    assert world.bow.catch_up.on_unread(asked.reader, "a bad sector") == (cursor.query_id,)
