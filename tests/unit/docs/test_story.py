"""What ``docs/how-a-tuple-travels.md`` tells is what happens: its rows by the oracle, its messages by the core.

If the core sends something else or at another time, ``docs/story.py`` is to be changed, and the page with it.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from docs import story
from docs.story import Sent
from node.core.limits import MIB, Limits
from node.core.links.messages import AskMatches, Carry, KeyAnswer, payload_bytes
from node.wire import kind_of
from tests.places import ROOT
from tests.sim.scenarios.scenario import Fault
from tests.unit.story import Seen, StoryWorld, name_of, oracle_rows, run

PAGE = (ROOT / "docs" / "how-a-tuple-travels.md").read_text()
EDGE = (("o", "id"), ("p", "order_id"))
OUTPUTS = [("id", "o", "id"), ("item", "o", "item"), ("method", "p", "method")]


@cache
def world() -> StoryWorld:
    return run(story.QUERY, story.STEPS)


@cache
def cut_world() -> StoryWorld:
    begin, end = story.CUT_MS
    return run(story.QUERY, story.STEPS, (Fault(begin * 1000, (end - begin) * 1000, story.CUT_PAIR, silent=False),))


@cache
def three_world() -> StoryWorld:
    return run(story.THREE_WAY, story.THREE_STEPS)


def rows(found: StoryWorld) -> list[dict[str, Any]]:
    return sorted(found.outcome.rows.to_pylist(), key=lambda row: int(row["id"]))


def shipments(seen: list[Seen], interval: tuple[int, int], head: str = "") -> list[tuple[Any, ...]]:
    """What left in an interval: messages that arrive together are one, named by the first of them."""
    together: dict[tuple[int | None, str, str], list[Seen]] = {}
    for each in seen:
        if interval[0] <= each.sent_ms < interval[1] and (not head or f" {head} " in name_of(each.message)):
            together.setdefault((each.arrived_ms, each.source, each.target), []).append(each)
    return sorted(
        (min(each.sent_ms for each in group), arrived, source, target, tuple(name_of(each.message) for each in group))
        for (arrived, source, target), group in together.items()
    )


def told(sent: tuple[Sent, ...]) -> list[tuple[Any, ...]]:
    return sorted((each.sent_ms, each.arrives_ms, each.source, each.target, each.parts) for each in sent)


def test_the_rows_are_those_of_the_definition() -> None:
    two = oracle_rows({"o": 10, "p": 5}, [EDGE], OUTPUTS)
    assert two == [dict(row) for row in story.RESULTS]
    assert rows(world()) == two
    assert rows(cut_world()) == two
    three = oracle_rows({"o": 10, "p": 5, "r": 5}, [EDGE, (("p", "payment_id"), ("r", "payment_id"))], OUTPUTS)
    assert three == [dict(row) for row in story.THREE_RESULTS]
    assert rows(three_world()) == three


def test_every_message_of_the_picture_is_sent_then_and_no_other() -> None:
    assert shipments(world().seen, story.RUN_MS) == told(story.RUN)


def test_every_message_around_the_cut_is_sent_then_and_no_other() -> None:
    assert shipments(cut_world().seen, story.CUT_RUN_MS) == told(story.CUT_RUN)
    until_cut = (story.RUN_MS[0], story.CUT_RUN_MS[0])
    assert shipments(cut_world().seen, until_cut) == shipments(world().seen, until_cut)
    dialled = [line for line in cut_world().story if "frankfurt-virginia connected" in line]
    assert [float(line.split()[0]) for line in dialled] == [0.0, story.DIALLED_MS[-1] / 1000]
    assert all(later - earlier == 200 for earlier, later in pairwise((story.CUT_MS[0], *story.DIALLED_MS)))


def test_every_message_of_the_refund_is_sent_then_and_no_other() -> None:
    assert shipments(three_world().seen, story.THREE_MS, "r") == told(story.THREE_RUN)


@pytest.mark.parametrize("sent", [story.RUN, story.CUT_RUN, story.THREE_RUN], ids=["run", "cut", "three"])
def test_colours_are_those_of_a_kind_that_is_sent(sent: tuple[Sent, ...]) -> None:
    kinds = {name_of(each.message): kind_of(each.message).name.lower() for each in _all_seen()}
    for each in sent:
        assert each.kind.value in {kinds[part] for part in each.parts}


def _all_seen() -> list[Seen]:
    return [*world().seen, *cut_world().seen, *three_world().seen]


def test_delays_are_those_of_the_links() -> None:
    for each in world().seen:
        assert each.arrived_ms is None or each.arrived_ms - each.sent_ms == story.delay_ms(each.source, each.target)


def test_bytes_and_bits_that_the_page_names() -> None:
    of_walk = {type(each.message): each.message for each in world().seen if " p [22, 23)" in name_of(each.message)}
    for kind, text in ((AskMatches, "9 bytes"), (KeyAnswer, "1 byte"), (Carry, "18 bytes")):
        assert payload_bytes(of_walk[kind]) == int(text.split()[0])
        assert text in PAGE
    answer = of_walk[KeyAnswer]
    assert isinstance(answer, KeyAnswer)
    # The first key has no match, the second has: the highest bits come first.
    assert answer.matches == b"\x40"


def test_what_frankfurt_keeps_at_that_moment() -> None:
    last = [kept for kept in world().kept if kept.site == "frankfurt" and kept.at_ms <= story.FRONTIERS_MS][-1]
    assert last.at_ms == story.SEALED * story.TAU_MS
    assert last.backlog == (story.SEALED - story.DONE["o"],)
    assert last.kept_from == (story.DONE["p"] * story.TAU_MS - 10_000,)
    limits = Limits()
    assert (limits.ahead_batches_max, limits.ahead_bytes_max) == (256, 64 * MIB)
    assert "64 MiB\nor 256 batches" in PAGE
    assert (limits.silence_us, limits.news_held_max, limits.news_us) == (10_000_000, 32, 1_000_000)
    assert "32 of them or the oldest is a second old" in PAGE


def test_the_page_has_the_tables_and_queries_of_the_story() -> None:
    for query in (story.QUERY, story.THREE_WAY):
        assert f"```sql\n{query}\n```" in PAGE
    for order, payment in zip(story.ORDERS, story.PAYMENTS, strict=True):
        left = f"| {order['id']} | {int(order['ts']) / 1000:.3f} | {order['item']} |"
        right = (
            f"{payment['payment_id']} | {payment['order_id']} | {int(payment['ts']) / 1000:.3f} | {payment['method']} |"
        )
        assert f"{left} | {right}" in PAGE
