"""What copies are told and what they ask for, message by message; and what a bad peer could send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from node.core.arrangements.copies.copy import HeldCopy, OwnedCopy, columns_schema, timed_schema
from node.core.arrangements.copies.full_copy import FullHolder
from node.core.arrangements.copies.key_copy import KeysHolder, KeysOwner
from node.core.arrangements.copies.mixed_copy import MixedHolder, MixedOwner
from node.core.arrangements.copies.portions import PASSES
from node.core.arrangements.copies.reduced_copy import ReducedHolder, ReducedOwner
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.engine import TS, Find
from node.core.errors import PeerProtocolError
from node.core.links.messages import Fetch, Fetched, Message, Sync, TupleAnswer, payload_bytes
from node.core.status import CopyRole
from node.core.streams.ticks import TICK_END, Span
from node.core.streams.view import SealedRows
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from tests.unit.node.core.arrangements.kit import SCHEMA, TAU, EngineWork, lease, reach, sealed, waiting
from tests.unit.node.core.arrangements.world import COLUMNS, Query, World, spec_of

KEY_SCHEMA = pa.schema([SCHEMA.field("key")])
TIMED = timed_schema(SCHEMA, COLUMNS)


def running(kind: CopyKind, count: int | None = None) -> tuple[World, Query, Any, Any]:
    """A query with one copy, opened: the world, the query, and the two halves."""
    world = World()
    query = world.start("q1", kind, reach(30, count))
    world.up()
    return world, query, world.bow.owned.get("ash", 1), world.ash.held.get(1)


def finish(world: World, query: Query, tick: int) -> None:
    """The sink is done with rows before a tick; bow hears of it."""
    query.done = tick
    world.done_at_bow(query)


def born_of(sync: Message) -> list[Any]:
    assert isinstance(sync, Sync)
    return list(decode_rows(sync.born, KEY_SCHEMA).column(0).to_pylist())


def dead_of(sync: Message) -> list[int]:
    assert isinstance(sync, Sync)
    return list(decode_ints(sync.dead, 99).tolist())


def all_down(world: World) -> list[Message]:
    return [world.down() for _ in range(len(world.mail["ash"]))]


def keys_of(copy: KeysHolder | MixedHolder) -> list[Any]:
    (keys,) = copy.table.keys(copy.table.live_slots())
    return sorted(keys.to_pylist())


# -- V: keys that come and go -----------------------------------------------------------------


def test_a_key_whose_last_tuple_goes_as_a_new_one_comes_lives_on() -> None:
    #  window 30     |0: key 1     |4: key 1 again, and rows before 40 are done: the first goes
    world, query, _, holder = running(CopyKind.KEYS)
    world.batch(1, (0, 1))
    finish(world, query, 4)
    world.batch(4, (45, 1))
    _, sync = all_down(world)
    assert (born_of(sync), dead_of(sync)) == ([], [])
    assert keys_of(holder) == [1]


def test_a_key_that_dies_is_named_by_its_slot_and_its_slot_is_used_again() -> None:
    world, query, _, holder = running(CopyKind.KEYS)
    world.batch(1, (0, 1), (1, 2))
    finish(world, query, 4)
    world.batch(4, (45, 2), (46, 3))
    world.batch(1, (50, 4))
    syncs = all_down(world)
    assert [dead_of(sync) for sync in syncs] == [[], [0], []]
    assert [born_of(sync) for sync in syncs] == [[1, 2], [3], [4]]
    assert holder.table.find([pa.array([4, 2, 3, 1])]).tolist() == [0, 1, 2, -1]


def test_a_key_that_is_born_and_dies_in_one_sync_leaves_nothing() -> None:
    # Rows up to tick 9 are done, because they were none; the tuple at 5 is late for all of them.
    world, query, _, holder = running(CopyKind.KEYS)
    finish(world, query, 9)
    world.batch(1, (5, 1))
    (sync,) = all_down(world)
    assert dead_of(sync) == [0]
    assert keys_of(holder) == []


def test_after_the_end_of_the_stream_deaths_are_told_without_a_batch_and_only_if_there_are_any() -> None:
    world, query, _, holder = running(CopyKind.KEYS)
    world.batch(1, (0, 1), (9, 2))
    world.batch(TICK_END)
    all_down(world)
    finish(world, query, 3)
    assert not world.mail["ash"]
    finish(world, query, 4)
    assert len(all_down(world)) == 1
    assert keys_of(holder) == []


def test_after_the_end_of_the_stream_m_is_told_also_of_tuples_that_went_without_their_key() -> None:
    world, query, _, holder = running(CopyKind.MIXED)
    world.batch(1, (0, 1), (9, 1))
    world.batch(TICK_END)
    all_down(world)
    finish(world, query, 3)
    assert not world.mail["ash"], "nothing went"
    query.done = 4
    assert query.claim is not None
    query.claim.reach = reach(35)  # so that what is before 5 goes
    world.done_at_bow(query)
    (sync,) = all_down(world)
    assert isinstance(sync, Sync)
    assert (dead_of(sync), sync.before) == ([], 1)
    assert keys_of(holder) == [1]


# -- a sync costs what changed ----------------------------------------------------------------


class Silent:
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Sync] = []

    def __call__(self, message: Sync) -> None:
        self.sent.append(message)


def many(begin: int, end: int, times: list[int], keys: list[int]) -> SealedRows:
    order = np.argsort(times, kind="stable")
    return sealed(begin, end, [(times[place], keys[place]) for place in order])


@pytest.mark.parametrize("count", [None, 100_000], ids=["time", "count"])
@pytest.mark.parametrize("half", [KeysOwner, MixedOwner])
def test_the_size_of_a_sync_does_not_depend_on_how_many_keys_there_are(
    half: type[KeysOwner] | type[MixedOwner], count: int | None
) -> None:
    sizes = {}
    kind = CopyKind.KEYS if half is KeysOwner else CopyKind.MIXED
    for keys in (10, 20_000):
        post = Silent()
        owner = half("ash", 1, spec_of(kind, reach(30, count)), SCHEMA, TAU, 0)
        owner.leases.append(lease(done=0))
        owner.take(many(0, 1, [number % TAU for number in range(keys)], list(range(keys))), post)
        assert owner.status().keys == keys
        owner.take(sealed(1, 2, []), post)
        owner.take(sealed(2, 3, [(25, 5)]), post)
        owner.take(sealed(3, 4, [(35, 10**6)]), post)
        sizes[keys] = [payload_bytes(sync) for sync in post.sent[1:]]
    assert sizes[10] == sizes[20_000]
    assert sizes[10][0] == 0
    assert max(sizes[10]) < 20


def test_the_deaths_of_a_tick_cost_their_number() -> None:
    sizes = {}
    for keys in (100, 20_000):
        post, of = Silent(), lease(of=reach(0), done=0)
        owner = KeysOwner("ash", 1, spec_of(CopyKind.KEYS, reach(0)), SCHEMA, TAU, 0)
        owner.leases.append(of)
        owner.take(many(0, 2, [0] * 50 + [15] * (keys - 50), list(range(keys))), post)
        of.done = 1  # the first 50 are gone, the others are not
        owner.take(sealed(2, 3, []), post)
        assert dead_of(post.sent[-1]) == list(range(50))
        sizes[keys] = payload_bytes(post.sent[-1])
    assert sizes[100] == sizes[20_000] < 20


def test_a_count_window_sends_its_event_times_once() -> None:
    for kind in (CopyKind.REDUCED, CopyKind.MIXED):
        world, _, _, _ = running(kind, count=3)
        world.batch(1, (0, 1), (5, 2), (5, None))
        world.batch(1)
        syncs = all_down(world)
        assert [decode_ints(sync.times, 9).tolist() for sync in syncs if isinstance(sync, Sync)] == [[0, 5, 5], []]


# -- the paper's example ----------------------------------------------------------------------


def test_example_4_of_the_paper() -> None:
    """Fig. 5. W2 = <c,y> <a,x> <a,y> <e,x>; c and a are full at N1. Then, in one update of W2:

        in: <d,x> <a,z> <f,w>      out: <c,y> <a,x>
        v_J = <d, f>    v_C = <0, 2, 1, 1, 1> for c, a, e, d, f    s_F = {<a,z>}

    We send of v_C only what the holder cannot derive: the slots whose count fell to zero. That <a,x> is
    gone, it learns from ``before``, the position before which everything is. (The figure leaves e's tuple
    open.) Which of two keys that are born together comes first in v_J is of no importance.
    """
    schema = pa.schema([("key", pa.string()), ("n", pa.string())])
    spec = RunningCopy(CopyKind.MIXED, "r", ("key",), ("key", "n"), None, CopyAxis.TIME, "bow", "ash")
    of, post, work = lease(done=0), Silent(), EngineWork()
    owner = MixedOwner("ash", 1, spec, schema, TAU, 0)
    owner.leases.append(of)
    holder = MixedHolder(work, 1, spec, schema, TAU, 0)

    def batch(begin: int, end: int, first: int, *tuples: tuple[int, str, str]) -> SealedRows:
        times, keys, values = zip(*tuples, strict=True)
        rows = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values)], schema=schema)
        return SealedRows("r", Span(begin, end), rows, np.array(times, np.int64), first, 0)

    def counts() -> dict[str, int]:
        table = owner.counts.table
        slots = table.live_slots()
        return dict(zip(table.keys(slots)[0].to_pylist(), owner.counts._counts[slots].tolist(), strict=True))

    def contents() -> dict[str, list[tuple[str, str]] | None]:
        """M as in the figure: the keys, with their full tuples, or None for those that are only keys."""
        (keys,) = holder.table.keys(holder.table.live_slots())
        _, full = holder.slots_of([keys])
        wanted = pa.RecordBatch.from_arrays([keys], names=["key"])
        find = Find(holder.name, ("key",), wanted, holder.kept_from, TICK_END, "r", None, ("key", "n"))
        (found,) = work.engine.run([find])
        assert isinstance(found, pa.RecordBatch)
        tuples = sorted((row["key"], row["n"]) for row in found.to_pylist())
        return {
            key: [item for item in tuples if item[0] == key] if here else None
            for key, here in zip(keys.to_pylist(), full.tolist(), strict=True)
        }

    owner.take(batch(0, 2, 0, (0, "c", "y"), (1, "a", "x"), (12, "a", "y"), (13, "e", "x")), post)
    holder.on_sync(post.sent[-1])
    slots, _ = holder.slots_of([pa.array(["c", "a"])])
    fetch = holder.fetch(slots, waiting())
    assert fetch is not None
    sought = owner.find(fetch)
    assert sought is not None
    assert sorted(sought.wanted.column("key").to_pylist()) == ["a", "c"]
    found = pa.RecordBatch.from_pydict(
        {"__position": [0, 1, 2], "key": ["c", "a", "a"], "n": ["y", "x", "y"], "__key": [0, 1, 1]}
    )
    holder.on_fetched(owner.found(found))
    assert counts() == {"c": 1, "a": 2, "e": 1}
    assert contents() == {"c": [("c", "y")], "a": [("a", "x"), ("a", "y")], "e": None}

    #  window 30: rows before tick 4 are done, so what is before 40 - 30 = 10 goes
    of.done = 4
    owner.take(batch(2, 5, 4, (40, "d", "x"), (41, "a", "z"), (42, "f", "w")), post)
    sync = post.sent[-1]
    holder.on_sync(sync)
    assert sorted(decode_rows(sync.born, pa.schema([schema.field("key")])).column(0).to_pylist()) == ["d", "f"]
    assert dead_of(sync) == [int(slots[0])]
    pushed = decode_rows(sync.rows, timed_schema(schema, ("key", "n"))).to_pylist()
    assert [(row["key"], row["n"]) for row in pushed] == [("a", "z")]
    assert sync.before == 2, "after the newest that is gone"
    assert counts() == {"a": 2, "e": 1, "d": 1, "f": 1}
    assert contents() == {"a": [("a", "y"), ("a", "z")], "e": None, "d": None, "f": None}


# -- fetches that cross syncs -----------------------------------------------------------------


def with_keys(*keys: int) -> tuple[World, Query, MixedOwner, MixedHolder]:
    """M with these keys, one tuple each in tick 0, and nothing under way."""
    world, query, owner, holder = running(CopyKind.MIXED)
    world.batch(1, *((0, key) for key in keys))
    world.settle()
    return world, query, owner, holder


def kill_all(world: World, query: Query) -> None:
    """A batch with which everything so far expires."""
    finish(world, query, world.stream.fed + 10)
    world.batch(10)


def full(holder: MixedHolder, *keys: int) -> list[bool]:
    return list(holder.slots_of([pa.array(keys, pa.int64())])[1].tolist())


def fetched_slots(world: World) -> list[list[int]]:
    return [decode_ints(message.slots, 9).tolist() for message in world.mail["bow"] if isinstance(message, Fetch)]


@pytest.mark.parametrize("reborn", [1, 2], ids=["the same key", "another key"])
@pytest.mark.parametrize("syncs_first", [0, 1, 2], ids=lambda count: f"{count} syncs arrive before the answer is made")
@pytest.mark.parametrize("heard_first", [False, True], ids=["owner changes first", "owner hears first"])
def test_a_fetch_that_crosses_the_death_of_its_key_means_only_that_life(
    reborn: int, syncs_first: int, heard_first: bool
) -> None:
    #  ash:  Fetch slot 0 (key 1) ----------\   /----> sync: 0 died   /----> sync: 0 born, another life
    #  bow:                                  \-/---------------------/---> Fetch: not what was meant
    world, query, _, holder = with_keys(1)
    world.want(query, 1)
    if heard_first:
        world.up()  # the bit is set, the answer not made
    kill_all(world, query)
    tick = world.stream.fed
    world.batch(1, (tick * TAU, reborn), (tick * TAU + 1, reborn))
    for _ in range(syncs_first):
        world.down()
    world.settle()
    world.batch(1, (tick * TAU + TAU, reborn))  # nobody asked for it in this life: it stays at bow
    world.settle()
    assert len(world.woken) == 1
    assert keys_of(holder) == [reborn]
    assert full(holder, reborn) == [False]
    world.want(query, reborn)
    world.settle()
    assert len(world.woken) == 2
    assert full(holder, reborn) == [True]
    assert {n for _, n in world.sent} >= {1, 2, 3}
    world.batch(1, (tick * TAU + 2 * TAU, reborn))
    world.down()
    assert (1, 4) in world.sent, "new tuples of a key that is full come with the sync"


def test_the_next_life_of_a_slot_can_be_asked_for_while_the_first_answer_is_under_way() -> None:
    world, query, _, holder = with_keys(1)
    world.want(query, 1)
    kill_all(world, query)
    tick = world.stream.fed
    world.batch(1, (tick * TAU, 2))
    world.down()
    world.down()
    world.want(query, 2)  # the same slot
    assert fetched_slots(world) == [[0], [0]]
    world.up()
    world.down()
    assert (len(world.woken), full(holder, 2)) == (1, [False])
    world.up()
    world.answer()
    world.down()
    assert (len(world.woken), full(holder, 2)) == (2, [True])


def test_two_walks_that_need_one_key_ask_once_and_both_get_it() -> None:
    world, query, _, _ = with_keys(1, 2)
    for keys in ((1,), (1,), (1, 2)):
        world.want(query, *keys)
    assert fetched_slots(world) == [[0], [1]]
    world.up()
    world.up()
    world.answer()
    world.answer()
    world.down()
    assert len(world.woken) == 2
    world.down()
    assert len(world.woken) == 3
    world.want(query, 1, 2)
    assert not world.mail["bow"], "what is here is not asked for"


def test_a_walk_waits_for_the_question_that_has_its_key_and_for_no_earlier_one() -> None:
    world, query, _, holder = with_keys(1, 2)
    for key in (1, 2, 2):
        world.want(query, key)
    assert len(holder.fetching) == 3
    world.up()
    world.up()
    world.answer()
    world.answer()
    world.down()
    assert len(world.woken) == 1
    world.down()
    assert len(world.woken) == 3
    assert holder.fetching == []


def test_answers_come_in_the_order_of_the_questions() -> None:
    world, query, _, _ = with_keys(1, 2, 3)
    for key in (3, 1, 2):
        world.want(query, key)
    for _ in range(3):
        world.up()
    for key in (3, 1, 2):
        world.answer()
        message = world.down()
        assert isinstance(message, Fetched)
        assert decode_rows(message.rows, TIMED).column("key").to_pylist() == [key]


def test_tuples_that_come_between_question_and_answer_come_once() -> None:
    world, query, _, holder = with_keys(1)
    world.want(query, 1)
    world.batch(1, (10, 1))  # before bow hears: part of the answer
    world.up()
    world.batch(1, (20, 1))  # after: with the sync, which is sent before the answer
    world.answer()
    assert [type(message) for message in world.mail["ash"]] == [Sync, Sync, Fetched]
    world.settle()
    assert full(holder, 1) == [True]
    assert sorted(n for _, n in world.sent) == [0, 1, 2]


def test_the_walks_of_a_query_that_ends_wait_for_no_tuples_and_others_do() -> None:
    world, query, _, holder = with_keys(1)
    other = world.start("q2", CopyKind.MIXED, reach(30))
    world.want(query, 1)
    world.want(other, 1)
    world.end_at_ash(query)
    assert [one.walk.query_id for one in holder.fetching] == ["q2"]
    world.settle()
    assert [one.walk.query_id for one in world.woken] == ["q2"]


# -- W' ---------------------------------------------------------------------------------------


def test_a_tuple_is_shipped_once_however_many_walks_and_queries_match_it() -> None:
    world, query, owner, _ = running(CopyKind.REDUCED)
    world.batch(1, (0, 1), (5, 1), (6, 2))
    world.batch(3, (15, 1))
    other = world.start("q2", CopyKind.REDUCED, reach(30))
    assert other.copy is query.copy
    world.up()
    other.table_lease.first_tick = 0  # type: ignore[union-attr]
    for tick, of, keys in ((1, query, (1,)), (2, query, (1, 2)), (3, other, (1, 2)), (3, query, (1,))):
        world.ask(of, tick, *keys)
    while world.hear_ask():
        pass
    answers = [decode_rows(answer.rows, TIMED) for answer in world.mail["ash"] if isinstance(answer, TupleAnswer)]
    assert [sorted(rows.column("n").to_pylist()) for rows in answers] == [[0, 1, 3], [2], [], []]
    assert owner.status().tuples == 4


def test_the_bits_of_tuples_that_are_forgotten_take_no_room() -> None:
    world, query, owner, _ = running(CopyKind.REDUCED)
    assert isinstance(owner, ReducedOwner)
    for tick in range(200):
        world.batch(1, *((tick * TAU + offset, 1) for offset in range(10)))
        if tick % 20 == 5:
            world.ask(query, tick, 1)
            world.hear_ask()
        finish(world, query, tick - 1)
        all_down(world)
    assert owner._sent.nbytes <= 16
    assert sum(world.sent.values()) > 100


# -- what halves say about themselves ---------------------------------------------------------


def test_both_halves_say_how_large_they_are() -> None:
    world, query, owner, holder = with_keys(1, 2, 3)
    world.want(query, 1, 3)
    world.settle()
    for half, role, peer in ((owner, CopyRole.OWNER, "ash"), (holder, CopyRole.HOLDER, "bow")):
        status = half.status()
        assert (status.role, status.peer, status.frontier, status.keys, status.tuples) == (role, peer, 1, 3, 2)
        assert (status.query_id, status.alias, status.users) == ("q1", "b", ())
        assert status.nbytes > 0


# -- what a bad peer could send ---------------------------------------------------------------


def keys(*values: int | None) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=KEY_SCHEMA))


def ints(*values: int) -> bytes:
    return encode_ints(np.array(values, np.int64))


def tuples(*rows: tuple[int | None, int | None, int]) -> bytes:
    named = [dict(zip(TIMED.names, row, strict=True)) for row in rows]
    return encode_rows(pa.RecordBatch.from_pylist(named, schema=TIMED))


def batch_of(*rows: tuple[int | None, int | None, int]) -> bytes:
    """A batch of a full copy with one portion: times, then columns."""
    return heads(*(row[0] for row in rows)) + columns(*(row[1:] for row in rows))


def heads(*times: int | None) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(times, pa.int64())], names=[TS]))


def columns(*rows: tuple[int | None, int]) -> bytes:
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return encode_rows(pa.RecordBatch.from_pylist(named, schema=columns_schema(SCHEMA, COLUMNS)))


Change = dict[str, Any]
WRONG_SYNCS: dict[str, Callable[[HeldCopy], Change]] = {
    "a frontier that goes back": lambda copy: {"frontier": 0},
    "a frontier beyond the end": lambda copy: {"frontier": TICK_END + 1},
    "a bound that goes back": lambda copy: {"before": copy.kept_from - 1},
    "a key that is there": lambda copy: {"born": keys(7, 2)},
    "a key twice": lambda copy: {"born": keys(7, 7)},
    "no key": lambda copy: {"born": keys(7, None)},
    "keys that are no rows": lambda copy: {"born": b"junk"},
    "the death of a slot that nobody has": lambda copy: {"dead": ints(99)},
    "the death of a negative slot": lambda copy: {"dead": ints(-1, 1)},
    "a death twice": lambda copy: {"dead": ints(1, 1)},
    "deaths out of order": lambda copy: {"dead": ints(2, 1)},
    "the death of a dead slot": lambda copy: {"dead": ints(0)},
    "deaths that are no numbers": lambda copy: {"dead": b"\xff\xff"},
}
WRONG_BY_KIND: dict[CopyKind, dict[str, Callable[[HeldCopy], Change]]] = {
    CopyKind.KEYS: WRONG_SYNCS
    | {
        "tuples where keys were agreed": lambda copy: {"rows": tuples((1, 1, 1))},
        "times where keys were agreed": lambda copy: {"times": ints(1)},
    },
    CopyKind.MIXED: WRONG_SYNCS
    | {
        "tuples that are no rows": lambda copy: {"rows": b"junk"},
        "a tuple without position": lambda copy: {"rows": tuples((None, 1, 1))},
        "a tuple without key": lambda copy: {"rows": tuples((1, None, 1))},
        "times that are no numbers": lambda copy: {"times": b"\xff\xff"},
        "times of a time window": lambda copy: {"frontier": 9, "times": ints(51)},
    },
}


def before_the_wrong_sync(kind: CopyKind) -> tuple[World, KeysHolder | MixedHolder, Sync]:
    """V or M with keys 2 and 4 in slots 1 and 2, slot 0 free again, and an honest sync to make wrong."""
    world, query, _, holder = running(kind)
    world.batch(1, (0, 1))
    world.batch(1, (12, 2), (13, 4))
    finish(world, query, 4)
    world.batch(3)
    world.settle()
    assert holder.table.live_slots().tolist() == [1, 2]
    return world, holder, Sync(1, holder.frontier, holder.kept_from, 0, b"", b"", b"", b"")


@pytest.mark.parametrize(("kind", "wrong"), [(kind, name) for kind, of in WRONG_BY_KIND.items() for name in of])
def test_a_wrong_sync_is_refused_and_changes_nothing(kind: CopyKind, wrong: str) -> None:
    world, holder, sync = before_the_wrong_sync(kind)
    was = (holder.frontier, holder.kept_from, keys_of(holder), holder.table.live_slots().tolist(), holder.tuples)
    with pytest.raises(PeerProtocolError, match="require"):
        holder.on_sync(replace(sync, **WRONG_BY_KIND[kind][wrong](holder)))
    now = (holder.frontier, holder.kept_from, keys_of(holder), holder.table.live_slots().tolist(), holder.tuples)
    assert now == was
    world.check()
    holder.on_sync(replace(sync, born=keys(7), dead=ints(1)))  # the honest one is taken as if nothing had happened
    assert keys_of(holder) == [4, 7]


@pytest.mark.parametrize("kind", [CopyKind.KEYS, CopyKind.MIXED])
def test_births_of_a_sync_with_wrong_deaths_are_not_taken_either(kind: CopyKind) -> None:
    _, holder, sync = before_the_wrong_sync(kind)
    for dead in (ints(99), ints(2, 1), b"\xff\xff"):
        with pytest.raises(PeerProtocolError):
            holder.on_sync(replace(sync, born=keys(7), dead=dead))
        assert keys_of(holder) == [2, 4]
    holder.on_sync(replace(sync, born=keys(7), dead=ints(0)))  # a key that is born and dies at once


@pytest.mark.parametrize("times", [(31, 30), (19,), (30, 60), (-5, 30)], ids=str)
@pytest.mark.parametrize("kind", [CopyKind.REDUCED, CopyKind.MIXED])
def test_times_that_are_not_those_of_the_new_ticks_are_refused(kind: CopyKind, times: tuple[int, ...]) -> None:
    world, _, _, holder = running(kind, count=3)
    world.batch(2, (1, 1))
    world.settle()
    honest = Sync(1, 5, holder.kept_from, 0, ints(20, 30, 49), b"", b"", b"")
    with pytest.raises(PeerProtocolError, match="requires times of a count window, in order"):
        holder.on_sync(replace(honest, times=ints(*times)))
    assert holder.frontier == 2
    holder.on_sync(honest)


@pytest.mark.parametrize(
    "change",
    [
        {"born": b"\x01"},
        {"dead": b"\x01"},
        {"rows": b"\x01"},
        {"frontier": 0},
        {"frontier": 2**63 - 1},
        {"times": b"\xff\xff"},
    ],
    ids=", ".join,
)
def test_a_wrong_sync_of_shipped_tuples_is_refused(change: Change) -> None:
    world, _, _, holder = running(CopyKind.REDUCED, count=3)
    world.batch(2, (1, 1))
    world.settle()
    honest = Sync(1, 3, 0, 0, b"", b"", b"", b"")
    with pytest.raises(PeerProtocolError):
        holder.on_sync(replace(honest, **change))
    assert holder.frontier == 2
    holder.on_sync(honest)
    *_, of_times = running(CopyKind.REDUCED)
    with pytest.raises(PeerProtocolError, match="requires times, of a count window"):
        of_times.on_sync(honest)


@pytest.mark.parametrize(
    "change",
    [
        {"born": b"\x01"},
        {"dead": b"\x01"},
        {"times": b"\x01"},
        {"rows": b"junk"},
        {"frontier": 2},
        {"frontier": 1},
        {"frontier": TICK_END + 1},
        {"rows": batch_of((None, 1, 1))},
        {"rows": batch_of((19, 1, 1))},
        {"rows": batch_of((30, 1, 1))},
        {"rows": batch_of((25, 1, 1), (24, 1, 2))},
        {"rows": heads(24)},
        {"rows": heads(24) + columns((1, 1), (1, 2))},
        {"rows": heads(24, 25) + columns((1, 1))},
        {"rows": batch_of((24, 1, 1)) + b"\x01"},
        {"rows": batch_of((24, 1, 1)) + batch_of((25, 1, 2))},
        {"rows": tuples((24, 1, 1))},
    ],
    ids=str,
)
def test_a_wrong_batch_of_a_full_copy_is_refused_and_changes_nothing(change: Change) -> None:
    world, _, _, holder = running(CopyKind.FULL)
    assert isinstance(holder, FullHolder)
    world.batch(2, (1, 1))
    world.settle()
    honest = Sync(1, 3, 0, 0, b"", b"", b"", batch_of((24, 1, 1), (25, 1, 2)))
    with pytest.raises(PeerProtocolError, match="require"):
        holder.on_sync(replace(honest, **change))
    assert (holder.frontier, holder.tuples) == (2, 1)
    world.check()
    taken = holder.on_sync(honest)
    assert taken.ts.tolist() == [24, 25]
    assert taken.rows.to_pylist() == [{"ts": None, "key": 1, "n": n, PASSES: 1} for n in (1, 2)]


WRONG_FETCHES: dict[str, tuple[int, bytes]] = {
    "no slots": (1, b""),
    "a slot that nobody has": (1, ints(0, 9)),
    "a negative slot": (1, ints(-1)),
    "slots out of order": (1, ints(1, 0)),
    "a slot twice": (1, ints(0, 0)),
    "a sync that was not sent": (2, ints(0)),
    "a negative sync": (-1, ints(0)),
    "slots that are no numbers": (1, b"\xff\xff"),
}


@pytest.mark.parametrize("wrong", list(WRONG_FETCHES))
def test_a_wrong_fetch_is_refused_and_marks_nothing(wrong: str) -> None:
    world, query, owner, holder = with_keys(1, 2)
    seen, slots = WRONG_FETCHES[wrong]
    with pytest.raises(PeerProtocolError):
        owner.find(Fetch(1, seen, slots))
    world.batch(1, (10, 1))
    assert not world.sent, "no key counts as asked for"
    world.want(query, 1, 2)
    world.settle()
    assert full(holder, 1, 2) == [True, True]


def test_a_key_cannot_be_fetched_twice() -> None:
    world, query, owner, _ = with_keys(1, 2)
    world.want(query, 1)
    world.settle()
    with pytest.raises(PeerProtocolError, match="not yet sent in full; got one again"):
        owner.find(Fetch(1, 1, ints(0, 1)))


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    *_, holder = with_keys(1)
    with pytest.raises(PeerProtocolError, match="requires a question before an answer"):
        holder.on_fetched(Fetched(1, b""))


@pytest.mark.parametrize("rows", [b"junk", tuples((None, 1, 1)), tuples((1, None, 1))])
def test_a_wrong_answer_leaves_the_question_open(rows: bytes) -> None:
    world, query, _, holder = with_keys(1)
    world.want(query, 1)
    with pytest.raises(PeerProtocolError):
        holder.on_fetched(Fetched(1, rows))
    assert len(holder.fetching) == 1
    world.settle()
    assert len(world.woken) == 1


def test_messages_for_another_kind_of_copy_are_refused_and_those_for_none_are_ignored() -> None:
    world, _, _, holder = running(CopyKind.KEYS)
    with pytest.raises(PeerProtocolError, match="fetched tuples require a mixed copy; got 1"):
        world.ash.on_fetched("bow", Fetched(1, b""))
    answer = TupleAnswer("q1", "a", Span(0, 1), 0, 1, b"")
    with pytest.raises(PeerProtocolError, match="an answer with tuples requires a reduced copy; got 1"):
        world.ash.on_tuples("bow", answer)
    assert not world.ash.on_tuples("bow", replace(answer, copy=9))
    assert world.ash.on_fetched("bow", Fetched(9, b"")) == []
    assert world.ash.on_sync("bow", Sync(9, 1, 0, 0, b"", b"", b"", b"")).woken == []
    assert holder.frontier == 0


@pytest.mark.parametrize("rows", [b"junk", tuples((None, 1, 1))])
def test_wrong_tuples_for_what_was_asked_are_refused_and_not_kept(rows: bytes) -> None:
    world, _, _, holder = running(CopyKind.REDUCED)
    assert isinstance(holder, ReducedHolder)
    with pytest.raises(PeerProtocolError):
        world.ash.on_tuples("bow", TupleAnswer("q1", "a", Span(0, 1), 0, 1, rows))
    assert holder.tuples == 0


def test_a_half_names_itself_when_it_refuses() -> None:
    world, _, owner, holder = running(CopyKind.KEYS)
    assert isinstance(owner, OwnedCopy)
    assert owner.progress.name == "keys copy 1 of r at ash"
    with pytest.raises(PeerProtocolError, match="keys copy 1 of r requires"):
        holder.on_sync(Sync(1, 1, 0, 0, b"", b"", b"", tuples((1, 1, 1))))
    assert TS in TIMED.names
    assert world.ash.held.all == [holder]


def test_only_its_owner_may_speak_of_a_copy() -> None:
    world, _, _, holder = running(CopyKind.KEYS)
    with pytest.raises(PeerProtocolError, match="requires messages of bow; got one of cam"):
        world.ash.on_sync("cam", Sync(1, 9, 0, 0, b"", b"", b"", b""))
    assert holder.frontier == 0
