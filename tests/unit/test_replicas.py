"""Every kind of replica against its definition, after every message, however long messages take.

An owner half and a holder half are wired through their messages alone. A model beside them knows
the stream as a list and the definitions of DESIGN sections 2 to 4; it shares nothing with the halves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.core.engine import TS, Find
from node.core.errors import PeerProtocolError
from node.core.ints import decode_ints, encode_ints
from node.core.messages import (
    Fetch,
    Fetched,
    ReplicaSync,
    TupleAnswer,
    payload_bytes,
)
from node.core.replicas.keys import KeysHolder, KeysOwner, key_schema
from node.core.replicas.mixed import MixedHolder, MixedOwner
from node.core.replicas.reduced import ReducedHolder, ReducedOwner
from node.core.rows import decode_rows, encode_rows
from node.core.status import ReplicaRole
from node.core.ticks import TICK_END, Span
from planner.model import (
    Algorithm,
)
from tests.oracle.oracle import Window
from tests.unit.copies import COUNT, TAU, TIME, Copy, Item, Key

# -- anything can happen ----------------------------------------------------------------------

TUPLES = st.lists(st.tuples(st.integers(0, 2 * TAU - 1), st.sampled_from([0, 1, 2, 3, None])), max_size=6)
WALK_ROWS = st.lists(st.tuples(st.integers(0, TAU - 1), st.integers(0, 3)), min_size=1, max_size=4)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("batch"), st.integers(1, 2), TUPLES),
        st.tuples(st.just("done"), st.integers(0, 4), st.none()),
        st.tuples(st.just("holder done"), st.none(), st.none()),
        st.tuples(st.just("down"), st.integers(1, 3), st.none()),
        st.tuples(st.just("up"), st.integers(1, 3), st.none()),
        st.tuples(st.just("answer"), st.integers(1, 3), st.none()),
        st.tuples(st.just("want"), st.none(), WALK_ROWS),
    ),
    max_size=40,
)


def happen(copy: Copy, events: list[tuple[str, Any, Any]]) -> None:  # noqa: C901 - a flat table reads best
    for name, number, rows in events:
        frontier = copy.model.now.frontier
        if name == "batch":
            span = number * TAU
            copy.batch(number, *((frontier * TAU + offset % span, word(copy, key)) for offset, key in rows))
        elif name == "done":
            # Rows of walks that are still open are not done, and walks begin in order.
            reach = min(copy.walks, default=copy.walk_tick if copy.algorithm is Algorithm.SM_S1 else frontier + 2)
            copy.finish(min(reach, max(copy.done, 0) + number))
        elif name == "holder done":
            copy.holder_finish()
        elif name == "down":
            for _ in range(min(number, len(copy.bow.mail))):
                copy.down()
        elif name == "up":
            for _ in range(min(number, len(copy.ash.mail))):
                copy.up()
        elif name == "answer":
            for desk in (copy.bow, copy.ash):
                for _ in range(min(number, len(desk.pending))):
                    desk.answer()
        elif copy.algorithm is Algorithm.SM_S2:
            copy.want(*{word(copy, key) for _, key in rows})
        elif copy.algorithm is Algorithm.SM_S1:
            copy.walk(*((offset, word(copy, key)) for offset, key in rows))
        copy.check()


def word(copy: Copy, key: int | None) -> Key:
    return f"key {key}" if copy.text and key is not None else key


def end(copy: Copy) -> None:
    """The stream ends, everything arrives, and nothing is left."""
    copy.batch(TICK_END)
    copy.settle()
    assert not copy.walks
    if isinstance(copy.holder, MixedHolder):
        alive = set(copy.held.lives.items())
        assert copy.asked & alive == copy.full
    copy.finish(TICK_END)
    copy.holder_finish()
    copy.settle()
    if isinstance(copy.holder, KeysHolder | MixedHolder):
        assert len(copy.holder.table) == 0
    for window in copy.ash_parts.windows:
        if window.state.alias == "b":
            kept = copy.holder_kept_from if copy.algorithm in (Algorithm.SP_S, Algorithm.SM_S1) else 0
            assert [row for row in copy.contents(window.window_id) if row[0] >= max(kept, window.state.kept_from)] == []


WINDOWS = st.sampled_from([TIME, ("range", 5), COUNT, ("rows", 1)])


@pytest.mark.parametrize("algorithm", [Algorithm.SP_S, Algorithm.SM_S1, Algorithm.SM_S2, Algorithm.SM_D1])
@given(EVENTS, WINDOWS, st.booleans(), st.booleans(), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=250)
def test_a_copy_equals_its_definition_after_every_message(
    algorithm: Algorithm,
    events: list[tuple[str, Any, Any]],
    window: Window,
    native: bool,
    text: bool,
    ties: bool,
) -> None:
    copy = Copy(algorithm, window, native, text, ties)
    happen(copy, events)
    end(copy)


# -- V: keys that come and go -----------------------------------------------------------------


def test_a_key_whose_last_tuple_goes_as_a_new_one_comes_lives_on() -> None:
    #  window 30     |0: key 1     |4: key 1 again, and rows before 40 are done: the first goes
    copy = Copy(Algorithm.SM_D1)
    copy.batch(1, (0, 1))
    copy.down()
    copy.finish(4)
    copy.batch(4, (45, 1))
    sync = copy.down()
    assert (sync.born, sync.dead) == (b"", b"")
    assert copy.held.lives == {1: 1}


def test_a_key_that_dies_is_named_by_its_slot_and_its_slot_is_used_again() -> None:
    copy = Copy(Algorithm.SM_D1)
    copy.batch(1, (0, 1), (1, 2))
    copy.finish(4)
    copy.batch(4, (45, 2), (46, 3))
    copy.batch(1, (50, 4))
    syncs = [copy.down() for _ in range(3)]
    assert [decode_ints(sync.dead, 100).tolist() for sync in syncs] == [[], [0], []]
    born = [decode_rows(sync.born, key_schema(copy.schema, ("b.key",))).column(0).to_pylist() for sync in syncs]
    assert born == [[1, 2], [3], [4]]
    assert isinstance(copy.holder, KeysHolder)
    assert copy.holder.table.find(copy.key_columns([4, 2, 3, 1])).tolist() == [0, 1, 2, -1]


def test_a_key_that_is_born_and_dies_in_one_sync_leaves_nothing() -> None:
    # Rows up to tick 9 are done, because they were none; the tuple at 5 is late for all of them.
    copy = Copy(Algorithm.SM_D1)
    copy.finish(9)
    copy.batch(1, (5, 1))
    sync = copy.down()
    assert decode_ints(sync.dead, 9).tolist() == [0]
    assert copy.held.lives == {}


def test_after_the_end_of_the_stream_deaths_are_told_without_a_batch_and_only_if_there_are_any() -> None:
    copy = Copy(Algorithm.SM_D1)
    copy.batch(1, (0, 1), (9, 2))
    copy.batch(TICK_END)
    copy.settle()
    copy.finish(3)
    assert not copy.bow.mail
    copy.finish(4)
    assert len(copy.bow.mail) == 1
    copy.down()
    assert copy.held.lives == {}


# -- a sync costs what changed ----------------------------------------------------------------


@pytest.mark.parametrize("window", [TIME, ("rows", 100_000)], ids=["time", "count"])
@pytest.mark.parametrize("algorithm", [Algorithm.SM_D1, Algorithm.SM_S2])
def test_the_size_of_a_sync_does_not_depend_on_how_many_keys_there_are(algorithm: Algorithm, window: Window) -> None:
    sizes = {}
    for keys in (10, 20_000):
        copy = Copy(algorithm, window, native=True)
        rows = copy.rows([Item(number, number % TAU, number) for number in range(keys)])
        copy.give_batch(Span(0, 1), rows.sort_by([(TS, "ascending")]))
        copy.bow.mail.popleft()
        assert copy.bow_parts.owners[0].status().keys == keys
        copy.give_batch(Span(1, 2), rows.slice(0, 0))
        quiet = copy.bow.mail.popleft()
        copy.give_batch(Span(2, 3), copy.rows([Item(0, 25, 5)]))
        known = copy.bow.mail.popleft()
        copy.give_batch(Span(3, 4), copy.rows([Item(0, 35, 10**6)]))
        born = copy.bow.mail.popleft()
        sizes[keys] = [payload_bytes(sync) for sync in (quiet, known, born) if isinstance(sync, ReplicaSync)]
    assert sizes[10] == sizes[20_000]
    assert sizes[10][0] == 0
    assert max(sizes[10]) < 20


def test_the_deaths_of_a_tick_cost_their_number() -> None:
    dead = {}
    for keys in (100, 20_000):
        copy = Copy(Algorithm.SM_D1, native=True)
        old = copy.rows([Item(number, 0, number) for number in range(50)])
        young = copy.rows([Item(number, 9, 50 + number) for number in range(keys - 50)])
        copy.give_batch(Span(0, 1), pa.concat_batches([old, young]))
        copy.finish(3)
        for owned in copy.bow_parts.owned.values():
            owned.window.expire(1)  # the first 50 are gone, the others are not
        copy.give_batch(Span(1, 2), young.slice(0, 0))
        sync = copy.bow.mail[-1]
        assert isinstance(sync, ReplicaSync)
        assert decode_ints(sync.dead, 50).tolist() == list(range(50))
        dead[keys] = payload_bytes(sync)
    assert dead[100] == dead[20_000] < 20


def test_a_time_window_needs_no_sync_for_the_tuples_that_were_shipped() -> None:
    # Algorithm 8 sends the number of expired tuples; here both halves know what the sink is done with.
    copy = Copy(Algorithm.SM_S1)
    copy.batch(1, (0, 1), (5, 2))
    copy.finish(9)
    copy.batch(1)
    assert not copy.bow.mail


def test_a_count_window_sends_its_event_times_once() -> None:
    for algorithm in (Algorithm.SM_S1, Algorithm.SM_S2):
        copy = Copy(algorithm, COUNT)
        copy.batch(1, (0, 1), (5, 2), (5, None))
        copy.batch(1)
        syncs = [copy.down(), copy.down()]
        assert [decode_ints(sync.times, 9).tolist() for sync in syncs] == [[0, 5, 5], []]


# -- the paper's example ----------------------------------------------------------------------


def test_example_4_of_the_paper() -> None:
    """Fig. 5. W2 = <c,y> <a,x> <a,y> <e,x>; c and a are full at N1. Then, in one update of W2:

        in: <d,x> <a,z> <f,w>      out: <c,y> <a,x>
        v_J = <d, f>    v_C = <0, 2, 1, 1, 1> for c, a, e, d, f    s_F = {<a,z>}

    We send of v_C only what the holder cannot derive: the slots whose count fell to zero. That <a,x> is
    gone, it learns from ``before``, the position before which everything is. (The figure leaves e's tuple
    open.) Which of two keys that are born together comes first in v_J is of no importance.
    """
    copy = Copy(Algorithm.SM_S2, text=True, payload=pa.string())
    owner, holder = copy.bow_parts.owners[0], copy.mixed
    assert isinstance(owner, MixedOwner)

    def rows(*tuples: tuple[int, str, str]) -> pa.RecordBatch:
        columns = zip(*tuples, strict=True)
        return pa.RecordBatch.from_arrays([pa.array(list(column)) for column in columns], schema=copy.schema)

    def counts() -> dict[str, int]:
        table = owner._keys.table
        slots = table.live_slots()
        return dict(zip(table.keys(slots)[0].to_pylist(), owner._keys._counts[slots].tolist(), strict=True))

    def contents() -> dict[str, list[tuple[str, str]] | None]:
        """M as in the figure: the keys, with their full tuples, or None for those that are only keys."""
        slots = holder.table.live_slots()
        (keys,) = holder.table.keys(slots)
        _, full = holder.slots_of([keys])
        wanted = pa.RecordBatch.from_arrays([keys], names=["b.key"])
        low = holder.window.state.kept_from
        (found,) = copy.ash.engine.run([Find(holder.window.window_id, wanted, low, TICK_END)])
        tuples = sorted((row["b.key"], row["b.n"]) for row in found.to_pylist())
        return {
            key: [item for item in tuples if item[0] == key] if here else None
            for key, here in zip(keys.to_pylist(), full.tolist(), strict=True)
        }

    def send_to_ash() -> Any:
        message = copy.bow.mail.popleft()
        if isinstance(message, ReplicaSync):
            holder.on_sync(message)
        else:
            assert isinstance(message, Fetched)
            holder.on_fetched(message)
        return message

    copy.bow.on_send = lambda message: None  # the model does not know this stream
    copy.give_batch(Span(0, 2), rows((0, "c", "y"), (1, "a", "x"), (12, "a", "y"), (13, "e", "x")))
    send_to_ash()
    slots, _ = holder.slots_of(copy.key_columns(["c", "a"]))
    holder.fetch(slots, lambda: None)
    copy.up()
    copy.bow.answer()
    send_to_ash()
    assert counts() == {"c": 1, "a": 2, "e": 1}
    assert contents() == {"c": [("c", "y")], "a": [("a", "x"), ("a", "y")], "e": None}
    slot_of_c = int(slots[0])

    #  window 30: rows before tick 4 are done, so what is before 40 - 30 = 10 goes
    for owned in copy.bow_parts.owned.values():
        owned.on_done(4)
    copy.give_batch(Span(2, 5), rows((40, "d", "x"), (41, "a", "z"), (42, "f", "w")))
    sync = send_to_ash()
    born = decode_rows(sync.born, key_schema(copy.schema, ("b.key",))).column(0).to_pylist()
    assert sorted(born) == ["d", "f"]
    assert decode_ints(sync.dead, 10).tolist() == [slot_of_c]
    assert [(row["b.key"], row["b.n"]) for row in decode_rows(sync.full, copy.schema).to_pylist()] == [("a", "z")]
    assert sync.before == 10
    assert counts() == {"a": 2, "e": 1, "d": 1, "f": 1}
    assert contents() == {"a": [("a", "y"), ("a", "z")], "e": None, "d": None, "f": None}


# -- fetches that cross syncs -----------------------------------------------------------------


def settled(*keys: int) -> Copy:
    """A copy M that has these keys, one tuple each in tick 0, and nothing under way."""
    copy = Copy(Algorithm.SM_S2)
    copy.batch(1, *((0, key) for key in keys))
    copy.settle()
    return copy


def kill_all(copy: Copy) -> None:
    """A batch with which everything so far expires."""
    copy.finish(copy.model.now.frontier + 10)
    copy.batch(10)


@pytest.mark.parametrize("reborn", [1, 2], ids=["the same key", "another key"])
@pytest.mark.parametrize("syncs_first", [0, 1, 2], ids=lambda count: f"{count} syncs arrive before the answer is made")
@pytest.mark.parametrize("heard_first", [False, True], ids=["owner changes first", "owner hears first"])
def test_a_fetch_that_crosses_the_death_of_its_key_means_only_that_life(
    reborn: int, syncs_first: int, heard_first: bool
) -> None:
    #  ash:  Fetch slot 0 (key 1) ----------\   /----> sync: 0 died   /----> sync: 0 born, another life
    #  bow:                                  \-/---------------------/---> Fetch: not what was meant
    copy = settled(1)
    got = copy.want(1)
    if heard_first:
        copy.up()  # the bit is set, the answer not made
    kill_all(copy)
    tick = copy.model.now.frontier
    copy.batch(1, (tick * TAU, reborn), (tick * TAU + 1, reborn))
    for _ in range(syncs_first):
        copy.down()
    if not heard_first:
        copy.up()
    copy.bow.answer()
    copy.batch(1, (tick * TAU + TAU, reborn))  # nobody asked for it in this life: it stays at bow
    copy.settle()
    assert got == [True]
    assert copy.held.lives == {reborn: 3}
    assert copy.full == set()
    again = copy.want(reborn)
    copy.settle()
    assert again == [True]
    assert copy.full == {(reborn, 3)}
    assert sorted(copy.shipped) == ([0, 1, 2, 3] if heard_first else [1, 2, 3])
    copy.batch(1, (tick * TAU + 2 * TAU, reborn))
    copy.down()
    assert sorted(copy.shipped)[-1] == 4, "new tuples of a key that is full come with the sync"


def test_the_next_life_of_a_slot_can_be_asked_for_while_the_first_answer_is_under_way() -> None:
    copy = settled(1)
    first = copy.want(1)
    kill_all(copy)
    tick = copy.model.now.frontier
    copy.batch(1, (tick * TAU, 2))
    copy.down()
    copy.down()
    second = copy.want(2)  # the same slot
    slots = [decode_ints(message.slots, 9).tolist() for message in copy.ash.mail if isinstance(message, Fetch)]
    assert slots == [[0], [0]]
    copy.up()
    copy.up()
    copy.bow.answer()
    copy.down()
    assert (first, second) == ([True], [])
    assert copy.full == set()
    copy.bow.answer()
    copy.down()
    assert second == [True]
    assert copy.full == {(2, 3)}


def test_two_walks_that_need_one_key_ask_once_and_both_get_it() -> None:
    copy = settled(1, 2)
    first, second, third = copy.want(1), copy.want(1), copy.want(1, 2)
    assert [decode_ints(message.slots, 9).tolist() for message in copy.ash.mail if isinstance(message, Fetch)] == [
        [0],
        [1],
    ]
    copy.up()
    copy.up()
    copy.bow.answer()
    copy.bow.answer()
    copy.down()
    assert (first, second, third) == ([True], [True], [])
    copy.down()
    assert third == [True]
    assert copy.want(1, 2) == []
    assert not copy.ash.mail, "what is here is not asked for"


def test_a_walk_waits_for_the_question_that_has_its_key_and_for_no_earlier_one() -> None:
    copy = settled(1, 2)
    copy.want(1)
    copy.want(2)
    waiting = copy.want(2)
    copy.up()
    copy.up()
    copy.bow.answer()
    copy.bow.answer()
    copy.down()
    assert waiting == []
    copy.down()
    assert waiting == [True]


def test_answers_come_in_the_order_of_the_questions() -> None:
    copy = settled(1, 2, 3)
    wants = [copy.want(key) for key in (3, 1, 2)]
    for _ in range(3):
        copy.up()
    for answered in range(3):
        copy.bow.answer()
        message = copy.down()
        assert decode_rows(message.rows, copy.schema).column("b.key").to_pylist() == [(3, 1, 2)[answered]]
        assert [len(got) for got in wants] == [1] * (answered + 1) + [0] * (2 - answered)


def test_tuples_that_come_between_question_and_answer_come_once() -> None:
    copy = settled(1)
    copy.want(1)
    copy.batch(1, (10, 1))  # before bow hears: part of the answer
    copy.up()
    copy.batch(1, (20, 1))  # after: with the sync, which is sent before the answer
    copy.bow.answer()
    kinds = [type(message) for message in copy.bow.mail]
    assert kinds == [ReplicaSync, ReplicaSync, Fetched]
    copy.settle()
    assert copy.full == {(1, 1)}
    assert sorted(copy.shipped) == [0, 1, 2]


# -- W' ---------------------------------------------------------------------------------------


def test_a_tuple_is_shipped_once_however_many_walks_match_it() -> None:
    copy = Copy(Algorithm.SM_S1)
    copy.batch(1, (0, 1), (5, 1), (6, 2))
    copy.batch(3, (15, 1))
    copy.walk_tick = 1
    copy.walk((0, 1))
    copy.walk((0, 1), (3, 2))
    copy.walk((0, 1))
    for _ in range(3):
        copy.up()
    for _ in range(3):
        copy.bow.answer()
    answers = [decode_rows(answer.rows, copy.schema) for answer in copy.bow.mail if isinstance(answer, TupleAnswer)]
    assert [sorted(rows.column("b.n").to_pylist()) for rows in answers] == [[0, 1], [2, 3], []]
    copy.settle()
    assert not copy.walks


def test_a_tuple_that_is_forgotten_between_question_and_answer_is_shipped_once() -> None:
    # Policy frontier forgets nothing that an open walk can see; policy delta may, and the engine takes its time.
    copy = Copy(Algorithm.SM_S1)
    copy.batch(1, (0, 1), (1, 1))
    copy.batch(2)
    copy.walk((5, 1))
    copy.walk((5, 1))
    copy.up()
    copy.up()
    copy.done = 9
    for owned in copy.bow_parts.owned.values():
        owned.on_done(9)
    copy.batch(1, *((31, 2) for _ in range(100)))
    copy.bow.answer()
    copy.bow.answer()
    assert [copy.shipped[number] for number in (0, 1)] == [1, 1]
    assert copy.bow_parts.owners[0].status().nbytes < 16, "then its bits go too"


def test_the_bits_of_tuples_that_are_forgotten_take_no_room() -> None:
    copy = Copy(Algorithm.SM_S1)
    for tick in range(500):
        copy.batch(1, *((tick * TAU + offset, 1) for offset in range(10)))
        copy.finish(tick - 1)
    owner = copy.bow_parts.owners[0]
    assert isinstance(owner, ReducedOwner)
    assert owner.status().nbytes <= 16


# -- what halves say about themselves ---------------------------------------------------------


def test_both_halves_say_how_large_they_are() -> None:
    copy = settled(1, 2, 3)
    copy.want(1, 3)
    copy.settle()
    owner, holder = copy.bow_parts.owners[0].status(), copy.mixed.status()
    assert (owner.role, owner.peer, owner.frontier, owner.keys, owner.tuples) == (ReplicaRole.OWNER, "ash", 1, 3, 2)
    assert (holder.role, holder.peer, holder.frontier, holder.keys, holder.tuples) == (
        ReplicaRole.HOLDER,
        "bow",
        1,
        3,
        2,
    )
    assert owner.nbytes > 0
    assert holder.nbytes > 0


# -- what a bad peer could send ---------------------------------------------------------------


def born(copy: Copy, *keys: Key) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays(copy.key_columns(keys), names=["b.key"]))


def ints(*values: int) -> bytes:
    return encode_ints(np.array(values, np.int64))


def without(copy: Copy, column: str) -> bytes:
    """A tuple with a null in one column."""
    row = {TS: 1, "b.key": 1, "b.n": 1} | {column: None}
    return encode_rows(pa.RecordBatch.from_pylist([row], schema=copy.schema))


WRONG_SYNCS: dict[str, Callable[[Copy, ReplicaSync], ReplicaSync]] = {
    "a frontier that goes back": lambda copy, sync: replace(sync, frontier=0),
    "a bound that goes back": lambda copy, sync: replace(sync, before=copy.held.kept_from - 1),
    "a key that is there": lambda copy, sync: replace(sync, born=born(copy, 7, 2)),
    "a key twice": lambda copy, sync: replace(sync, born=born(copy, 7, 7)),
    "no key": lambda copy, sync: replace(sync, born=born(copy, 7, None)),
    "keys that are no rows": lambda copy, sync: replace(sync, born=b"junk"),
    "the death of a slot that nobody has": lambda copy, sync: replace(sync, dead=ints(99)),
    "the death of a negative slot": lambda copy, sync: replace(sync, dead=ints(-1, 1)),
    "a death twice": lambda copy, sync: replace(sync, dead=ints(1, 1)),
    "deaths out of order": lambda copy, sync: replace(sync, dead=ints(2, 1)),
    "the death of a dead slot": lambda copy, sync: replace(sync, dead=ints(0)),
    "deaths that are no numbers": lambda copy, sync: replace(sync, dead=b"\xff\xff"),
}
WRONG_KEY_SYNCS = WRONG_SYNCS | {
    "tuples where keys were agreed": lambda copy, sync: replace(sync, full=without(copy, "b.n")),
    "times where keys were agreed": lambda copy, sync: replace(sync, times=ints(1)),
}
WRONG_MIXED_SYNCS = WRONG_SYNCS | {
    "tuples that are no rows": lambda copy, sync: replace(sync, full=b"junk"),
    "a tuple without position": lambda copy, sync: replace(sync, full=without(copy, TS)),
    "a tuple without key": lambda copy, sync: replace(sync, full=without(copy, "b.key")),
    "times that are no numbers": lambda copy, sync: replace(sync, times=b"\xff\xff"),
    "times of a time window": lambda copy, sync: replace(sync, frontier=9, times=ints(51)),
}


def before_the_wrong_sync(algorithm: Algorithm) -> tuple[Copy, ReplicaSync]:
    """V or M with keys 2 and 4 in slots 1 and 2, slot 0 free again, and an honest sync to make wrong."""
    copy = Copy(algorithm)
    copy.batch(1, (0, 1))
    copy.batch(1, (12, 2), (13, 4))
    copy.finish(4)
    copy.batch(3)
    copy.settle()
    assert isinstance(copy.holder, KeysHolder | MixedHolder)
    assert copy.holder.table.live_slots().tolist() == [1, 2]
    return copy, ReplicaSync("q1", 0, copy.held.frontier, copy.held.kept_from, b"", b"", b"", b"")


WRONG_BY_KIND = {Algorithm.SM_D1: WRONG_KEY_SYNCS, Algorithm.SM_S2: WRONG_MIXED_SYNCS}


@pytest.mark.parametrize(("algorithm", "wrong"), [(kind, name) for kind, of in WRONG_BY_KIND.items() for name in of])
def test_a_wrong_sync_is_refused(algorithm: Algorithm, wrong: str) -> None:
    copy, sync = before_the_wrong_sync(algorithm)
    holder = copy.holder
    assert isinstance(holder, KeysHolder | MixedHolder)
    with pytest.raises(PeerProtocolError):
        holder.on_sync(WRONG_BY_KIND[algorithm][wrong](copy, sync))
    state = holder.state if isinstance(holder, KeysHolder) else holder.window.state
    assert (state.frontier, state.kept_from) == (copy.held.frontier, copy.held.kept_from)


def test_the_honest_sync_beside_the_wrong_ones_is_taken() -> None:
    for algorithm in (Algorithm.SM_D1, Algorithm.SM_S2):
        copy, sync = before_the_wrong_sync(algorithm)
        assert isinstance(copy.holder, KeysHolder | MixedHolder)
        copy.holder.on_sync(replace(sync, born=born(copy, 7), dead=ints(1)))


@pytest.mark.parametrize("times", [(31, 30), (19,), (30, 60), (-5, 30)], ids=str)
@pytest.mark.parametrize("algorithm", [Algorithm.SM_S1, Algorithm.SM_S2])
def test_times_that_are_not_those_of_the_new_ticks_are_refused(algorithm: Algorithm, times: tuple[int, ...]) -> None:
    copy = Copy(algorithm, COUNT)
    copy.batch(2, (1, 1))
    copy.settle()
    assert isinstance(copy.holder, ReducedHolder | MixedHolder)
    honest = ReplicaSync("q1", 0, 5, copy.held.kept_from, ints(20, 30, 49), b"", b"", b"")
    with pytest.raises(PeerProtocolError, match="requires times of a count window, in order"):
        copy.holder.on_sync(replace(honest, times=ints(*times)))
    assert copy.holder.window.state.frontier == 2
    copy.holder.on_sync(honest)


@pytest.mark.parametrize(
    "change",
    [{"born": b"\x01"}, {"dead": b"\x01"}, {"full": b"\x01"}, {"frontier": 0}, {"times": b"\xff\xff"}],
    ids=", ".join,
)
def test_a_wrong_sync_of_shipped_tuples_is_refused(change: dict[str, Any]) -> None:
    copy = Copy(Algorithm.SM_S1, COUNT)
    copy.batch(2, (1, 1))
    copy.settle()
    assert isinstance(copy.holder, ReducedHolder)
    honest = ReplicaSync("q1", 0, 3, 0, b"", b"", b"", b"")
    with pytest.raises(PeerProtocolError):
        copy.holder.on_sync(replace(honest, **change))
    time_window = Copy(Algorithm.SM_S1, TIME)
    assert isinstance(time_window.holder, ReducedHolder)
    with pytest.raises(PeerProtocolError, match="requires times, of a count window"):
        time_window.holder.on_sync(honest)


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
    copy = settled(1, 2)
    seen, slots = WRONG_FETCHES[wrong]
    owner = copy.bow_parts.owners[0]
    assert isinstance(owner, MixedOwner)
    with pytest.raises(PeerProtocolError):
        owner.on_fetch(Fetch("q1", 0, seen, slots))
    assert not copy.bow.pending
    copy.batch(1, (10, 1))
    assert not copy.shipped, "no key counts as asked for"
    copy.want(1, 2)
    copy.settle()
    assert copy.full == {(1, 1), (2, 1)}


def test_a_key_cannot_be_fetched_twice() -> None:
    copy = settled(1, 2)
    copy.want(1)
    copy.settle()
    owner = copy.bow_parts.owners[0]
    assert isinstance(owner, MixedOwner)
    with pytest.raises(PeerProtocolError, match="not yet sent in full; got one again"):
        owner.on_fetch(Fetch("q1", 0, 1, ints(0, 1)))


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    copy = settled(1)
    with pytest.raises(PeerProtocolError, match="requires a question before an answer"):
        copy.mixed.on_fetched(Fetched("q1", 0, b""))


@pytest.mark.parametrize("column", [TS, "b.key", "junk"])
def test_a_wrong_answer_leaves_the_question_open(column: str) -> None:
    copy = settled(1)
    got = copy.want(1)
    with pytest.raises(PeerProtocolError):
        copy.mixed.on_fetched(Fetched("q1", 0, b"junk" if column == "junk" else without(copy, column)))
    assert got == []
    copy.settle()
    assert got == [True]


def test_kinds_have_the_halves_that_their_names_say() -> None:
    owners = {Algorithm.SM_S1: ReducedOwner, Algorithm.SM_S2: MixedOwner, Algorithm.SM_D1: KeysOwner}
    for algorithm, kind in owners.items():
        assert isinstance(Copy(algorithm).bow_parts.owners[0], kind)
