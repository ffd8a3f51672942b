"""The halves of the six algorithms, by what they say to given values: each stage, each wake, no walk for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.algorithms import destination_half, source_half
from node.core.algorithms.half import Half, HalfSite
from node.core.arrangements.copies.portions import PASSES
from node.core.arrangements.gate import DeltaGate
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.rows import decode_rows, encode_rows
from node.core.engine import HIGH, LOW, TS, Find, Probe
from node.core.errors import LocalProtocolError, PeerProtocolError, QueryFailedError
from node.core.links.messages import AskMatches, Carry, Fetch, KeyAnswer, TupleAnswer
from node.core.queries.waiting import Stage, Walk
from node.core.streams.ticks import Span
from planner.algorithms.descriptions import Algorithm
from planner.model.query import columns_of
from tests.examples import examples
from tests.unit.node.core.algorithms.desk import Step
from tests.unit.node.core.arrangements.kit import TAU, Tuple, waiting

SIX = pytest.mark.parametrize("algorithm", list(Algorithm))
ASKING = pytest.mark.parametrize("algorithm", [Algorithm.SM_S1, Algorithm.SM_D2])
KEYS = pa.schema([("a.key", pa.int64())])


def asked_keys(message: AskMatches) -> list[int]:
    return list(decode_rows(message.keys, KEYS).column(0).to_pylist())


def keys(*values: int | None) -> bytes:
    return encode_rows(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=KEYS))


def read_by(probe: Probe) -> set[str]:
    """The columns of which a probe's condition is."""
    return set() if probe.condition is None else {str(column) for column in columns_of(probe.condition)}


def ints(*values: int) -> bytes:
    return encode_ints(np.array(values, np.int64))


# -- all of them ------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, TAU - 1), st.sampled_from([0, 1, 2])), min_size=1, max_size=4)
BATCH = st.lists(st.tuples(st.integers(0, TAU - 1), st.sampled_from([0, 1, 2, None])), max_size=4)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), BATCH),
        st.tuples(st.just("walk"), ROWS),
        st.tuples(st.just("go"), st.integers(0, 99)),
    ),
    max_size=40,
)
WINDOWS = st.sampled_from(["RANGE 30 MS", "RANGE 5 MS", "ROWS 3", "ROWS 1"])
WHERES = st.sampled_from(["", "b.key % 2 = 1", "a.n < b.n"])


def passes(where: str) -> Any:
    if where.startswith("b.key"):
        return lambda key, row: key is not None and key % 2 == 1
    return lambda key, row: True


@SIX
@given(EVENTS, WINDOWS, WHERES)
@examples(80)
def test_every_walk_gets_exactly_its_rows_in_whatever_order_things_happen(
    algorithm: Algorithm, events: list[tuple[str, Any]], window: str, where: str
) -> None:
    step = Step(algorithm, window, where)
    walks: dict[int, Walk] = {}
    syncs: list[Any] = []
    for name, what in events:
        if name == "batch":
            base = step.table.frontier * TAU
            ordered: list[Tuple] = sorted(((base + at, key) for at, key in what), key=lambda one: one[0])
            syncs += step.batch(1, *ordered, sync=False)
        elif name == "walk":
            walk = step.walk(len(walks), *what)
            walks[walk.span.first] = walk
        else:
            go(step, syncs, what)
    syncs += step.batch(len(walks) + 9, sync=False)
    while syncs or step.ash.sent or step.bow.sent or step.asked:
        go(step, syncs, 0)
    ended = step.ended()
    assert ended.keys() == walks.keys()
    for tick, walk in walks.items():
        expected = step.expected(walk, passes(where))
        if where == "a.n < b.n":
            expected = [(an, bn) for an, bn in expected if an < bn]
        assert ended[tick] == expected
    step.source.on_done(len(walks))
    assert step.source.waiting == []


def go(step: Step, syncs: list[Any], choice: int) -> None:
    """One of the things that can happen now. A sync does not overtake an answer, nor the other way round."""
    acts: list[Any] = []
    if step.ash.sent:
        acts.append(step.up)
    if step.bow.work.answers:
        acts.append(lambda: step.answer("bow"))
    if step.ash.work.answers:
        acts.append(lambda: step.answer("ash"))
    if syncs:
        acts.append(lambda: step.sync(syncs.pop(0)))
    elif step.bow.sent:
        acts.append(step.down)
    if acts:
        acts[choice % len(acts)]()


@pytest.mark.parametrize(
    ("algorithm", "at_ash"),
    [(Algorithm.SP_S, True), (Algorithm.SM_S2, True), (Algorithm.SM_D1, True), (Algorithm.SP_D, False)],
)
def test_a_walk_waits_at_the_gate_until_what_it_looks_at_is_sealed_beyond_it(
    algorithm: Algorithm, at_ash: bool
) -> None:
    step = Step(algorithm)
    step.batch(1, (5, 1))
    step.walk(1, (3, 1))
    step.ash.now = step.bow.now = 42
    while step.ash.sent:
        step.up()
    progress = step.source._site.window.progress if at_ash else step.table.progress  # type: ignore[union-attr]
    (held,) = progress.waiting
    assert (held.stage, held.at_source) == (Stage.GATE, at_ash)
    assert "to be sealed" in held.cause
    assert not step.asked
    step.batch(1)
    step.settle()
    assert step.ended() == {1: [(0, 0)]}


@SIX
def test_what_waits_can_be_told_to_people(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.walk(0, (3, 1), (4, 2))
    step.batch(9, (1, 1), (2, 2))
    seen = []
    while step.ash.sent or step.asked or step.bow.sent:
        seen += [*step.source.waiting, *(asker for desk in (step.ash, step.bow) for asker in desk.work.asking.values())]
        go(step, [], 0)
    assert seen
    assert all(str(one).startswith("q1/1 a [0, 1) step 0") for one in seen)


def test_halves_are_named_by_the_plan() -> None:
    names = {}
    for algorithm in Algorithm:
        step = Step(algorithm)
        names[algorithm.value] = (type(step.source).__name__, type(step.destination).__name__)
    assert names == {
        "SP-S": ("LocalProbe", "NoneType"),
        "SP-D": ("ShipSource", "CarriedProbe"),
        "SM-S1": ("Source", "Destination"),
        "SM-S2": ("Source", "NoneType"),
        "SM-D1": ("Source", "CarriedProbe"),
        "SM-D2": ("Source", "Destination"),
    }


@SIX
def test_a_step_within_a_site_is_a_local_probe_whatever_the_plan_says(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    local = replace(step.step, source="bow")
    site = HalfSite(step.bow, step.table, step.lease)
    assert type(source_half(site, local)).__name__ == "LocalProbe"
    assert destination_half(site, local) is None


def test_a_half_refuses_what_it_has_nothing_to_do_with() -> None:
    step = Step(Algorithm.SP_S)
    plain = Half(HalfSite(step.ash, None, None), step.step, True)
    walk = waiting()
    with pytest.raises(LocalProtocolError, match="is given no walks"):
        plain.arrive(walk.walk)
    with pytest.raises(LocalProtocolError, match="lets no walk wait at a gate"):
        plain.opened(walk)
    with pytest.raises(LocalProtocolError, match="asks the engine nothing"):
        plain.answered(walk, walk.walk.rows)
    with pytest.raises(LocalProtocolError, match="fetches nothing"):
        plain.fetched(walk)
    assert plain.waiting == []
    for half in (plain, Step(Algorithm.SM_D1).source):
        with pytest.raises(PeerProtocolError, match="is done between us; got KeyAnswer for 'a' step 0"):
            half.on_message("bow", KeyAnswer("q1", "a", Span(0, 1), 0, b"\x80"))


def test_a_probe_says_what_each_row_sees_and_names_the_columns_that_are_needed_later() -> None:
    step = Step(Algorithm.SP_S, where="b.key % 2 = 1 AND a.n < b.n")
    step.batch(5, (5, 1), (15, 1))
    step.walk(1, (0, 1), (9, 1))
    (probe,) = step.ash.work.of(Probe)
    assert probe.rows.column(LOW).to_pylist() == [0, 0]
    assert probe.rows.column(HIGH).to_pylist() == [1, 2]
    assert (probe.table, probe.keys, probe.carry_keys, probe.alias) == ("copy/r/1", ("key",), ("a.key",), "b")
    assert probe.columns == (TS, "a.n", "b.n")
    assert read_by(probe) == {f"b.{PASSES}", "a.n", "b.n"}, "the copy knows of its tuples that they have passed"
    counted = Step(Algorithm.SP_S, "ROWS 3", where="b.key % 2 = 1 AND a.n < b.n")
    counted.batch(5, (5, 1), (15, 1))
    counted.walk(1, (0, 1), (9, 1))
    (probe,) = counted.ash.work.of(Probe)
    assert read_by(probe) == {"a.n", "b.n"}, "what is in the copy of a count window has passed the filter"
    local = Step(Algorithm.SP_D, where="b.key % 2 = 1 AND a.n < b.n")
    local.batch(5, (5, 1))
    local.walk(1, (0, 1))
    local.up()
    (probe,) = local.bow.work.of(Probe)
    assert read_by(probe) == {"b.key", "a.n", "b.n"}, "the stream's own table has all tuples"


# -- asking -----------------------------------------------------------------------------------


@ASKING
def test_distinct_keys_are_asked_for_once_with_the_times_of_the_walk(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.walk(1, (4, 2), (5, 1), (6, 2))
    ((_, ask),) = step.ash.sent
    assert isinstance(ask, AskMatches)
    assert asked_keys(ask) == [1, 2]
    assert (ask.low_ts, ask.high_ts, ask.sealed_at_us) == (14, 16, 7)
    assert ask.copy == (1 if algorithm is Algorithm.SM_S1 else 0)
    (held,) = step.source.waiting
    assert (held.stage, held.cause) == (Stage.ANSWER, "bow to say which of 2 keys match")


@ASKING
def test_keys_that_were_asked_about_lately_go_as_numbers_before_the_new_ones(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(9, *((at, at) for at in range(5)))
    step.walk(0, (8, 3), (9, 1))
    step.walk(1, (0, 2), (1, 3), (2, 1))
    first, second = (message for _, message in step.ash.sent)
    assert (asked_keys(first), decode_ints(first.known, 9).tolist()) == ([1, 3], [])
    assert (asked_keys(second), decode_ints(second.known, 9).tolist()) == ([2], [0, 1])
    step.settle()
    assert step.ended() == {0: [(0, 3), (1, 1)], 1: [(0, 2), (1, 3), (2, 1)]}


@ASKING
def test_three_walks_ask_before_the_first_answer_arrives_and_none_waits_for_another(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(9, (1, 1), (2, 1))
    for tick in range(3):
        step.walk(tick, (5, 1))
    assert len(step.ash.sent) == len(step.source.waiting) == 3
    for _ in range(3):
        step.up()
    assert step.asked == 3, "three questions to the engine, none answered"
    step.bow.work.answers.rotate(-2)  # the last is answered first
    assert step.answer("bow").walk.span.first == 2
    step.down()
    assert [one.walk.span.first for one in step.source.waiting] == [0, 1]
    step.settle()
    assert step.ended() == {tick: [(0, 0), (0, 1)] for tick in range(3)}


@ASKING
def test_a_question_waits_where_its_tuples_are_not_sealed_and_others_pass_it(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(1, (1, 1))
    step.walk(0, (5, 1))
    step.walk(3, (5, 1))
    step.up()
    step.up()
    assert step.asked == 1
    (held,) = step.table.progress.waiting
    assert (held.stage, held.at_source, held.walk.span.first) == (Stage.GATE, False, 3)
    step.batch(3)
    assert step.asked == 2


@ASKING
def test_a_question_looks_among_what_some_row_of_its_walk_can_see_and_holds_it_meanwhile(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(9, (5, 1), (15, 1), (25, 2), (45, 1))
    step.walk(4, (0, 1), (9, 1))
    step.up()
    (find,) = step.bow.work.of(Find)
    assert (find.low, find.high) == (1, 4)  # a row at 40 sees from 10 on, one at 49 up to 48
    step.lease.done = 9
    step.table.settle()
    assert step.table.kept_from == 1, "what may be in the answer stays"
    step.settle()
    assert step.ended() == {4: [(0, 1), (1, 3)]}
    step.table.settle()
    assert step.table.kept_from == 4


@ASKING
def test_done_forgets_the_walks_that_ended_elsewhere_and_no_others(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    for tick in range(3):
        step.walk(tick, (5, 1))
    step.source.on_done(2)
    assert [one.walk.span.first for one in step.source.waiting] == [2]


@ASKING
def test_an_answer_that_nobody_waits_for_is_refused_and_harms_nobody(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(9, (1, 1))
    step.walk(0, (5, 1))
    step.up()
    step.answer("bow")
    ((_, answer),) = step.bow.sent
    for span in (Span(0, 2), Span(1, 2)):
        with pytest.raises(PeerProtocolError, match="requires answers to what was asked; got 'a'"):
            step.source.on_message("bow", replace(answer, span=span))
    step.down()
    with pytest.raises(PeerProtocolError, match="requires answers to what was asked"):
        step.source.on_message("bow", answer)
    step.settle()
    assert step.ended() == {0: [(0, 0)]}


@ASKING
@pytest.mark.parametrize(
    ("asked", "known", "text"),
    [
        (b"", b"", "requires keys to look for; got none"),
        (keys(1, 1), b"", "requires new keys, each once"),
        (keys(None), b"", "requires new keys"),
        (b"junk", b"", "columns"),
        (b"", ints(0), "a count from 1 to 0; got 1"),
        (keys(1), ints(-1), "a count from 1 to 0; got 1"),
    ],
)
def test_a_wrong_question_is_refused_and_the_book_is_as_before(
    algorithm: Algorithm, asked: bytes, known: bytes, text: str
) -> None:
    step = Step(algorithm)
    step.batch(9, (1, 1))
    assert step.destination is not None
    copy = 1 if algorithm is Algorithm.SM_S1 else 0
    wrong = AskMatches("q1", "a", Span(0, 1), 0, 0, 5, 5, copy, asked, known)
    with pytest.raises(PeerProtocolError, match=text):
        step.destination.on_message("ash", wrong)
    assert not step.asked
    step.walk(0, (5, 1))
    step.settle()
    assert step.ended() == {0: [(0, 0)]}


@ASKING
@pytest.mark.parametrize("span", [Span(0, 1), Span(0, 3)], ids=str)
def test_a_question_of_a_walk_that_came_before_is_refused(algorithm: Algorithm, span: Span) -> None:
    step = Step(algorithm)
    step.batch(9, (1, 1))
    step.walk(0, (5, 1))
    ((_, ask),) = step.ash.sent
    step.up()
    assert step.destination is not None
    with pytest.raises(PeerProtocolError, match="head 'a', step 0 requires walks of ticks from start on, each once"):
        step.destination.on_message("ash", replace(ask, span=span, keys=b"", known=ints(0)))
    step.settle()
    assert step.ended() == {0: [(0, 0)]}


# -- SM-S1 ------------------------------------------------------------------------------------


def test_tuples_whose_answer_could_not_be_sent_come_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy lives on for other queries, and they must not miss what only seems to have been sent."""
    step = Step(Algorithm.SM_S1)
    step.batch(9, (1, 1), (2, 2))
    step.walk(0, (5, 1), (6, 2))
    step.up()

    def too_large(peer: str, message: object) -> None:
        raise QueryFailedError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(step.bow, "send", too_large)
        with pytest.raises(QueryFailedError):
            step.answer("bow")
    assert step.owner is not None
    assert step.owner.tuples == 0
    step.walk(1, (5, 1))
    step.settle()
    assert step.ended() == {1: [(0, 0)]}
    assert step.owner.tuples == 1


def test_tuples_that_were_shipped_are_not_shipped_again_and_the_walk_still_gets_them() -> None:
    step = Step(Algorithm.SM_S1)
    step.batch(9, (1, 1), (2, 2), (12, 1))
    shipped = []
    for tick in range(3):
        step.walk(tick, (5, 1))
        step.up()
        step.answer("bow")
        message = step.down()
        assert isinstance(message, TupleAnswer)
        shipped.append(len(message.rows) > 0)
        step.answer("ash")
    assert shipped == [True, True, False]
    assert step.ended() == {0: [(0, 0)], 1: [(0, 0), (0, 2)], 2: [(0, 0), (0, 2)]}
    assert step.copy is not None
    assert step.copy.tuples == 2


def test_a_count_window_is_asked_for_once_its_holder_was_told_of_all_before() -> None:
    """The sync leaves before the answer, so the holder can number what it is sent."""
    step = Step(Algorithm.SM_S1, "ROWS 2")
    step.walk(0, (5, 1))
    step.up()
    assert step.owner is not None
    (held,) = step.owner.progress.waiting
    assert held.stage is Stage.GATE
    assert step.table.progress.waiting == []
    step.batch(1, (1, 1), (2, 1), (3, 2), (4, 1))
    step.settle()
    assert step.ended() == {0: [(0, 3)]}


def test_a_question_for_a_copy_that_is_not_open_is_refused() -> None:
    step = Step(Algorithm.SM_S1)
    step.walk(0, (5, 1))
    _, ask = step.ash.sent.popleft()
    assert step.destination is not None
    with pytest.raises(PeerProtocolError, match="requires a reduced copy of its own that is open; got 2"):
        step.destination.on_message("ash", replace(ask, copy=2))


def test_a_question_for_a_copy_that_is_closed_meanwhile_is_dropped() -> None:
    for closed_before_find in (True, False):
        step = Step(Algorithm.SM_S1)
        step.walk(0, (5, 1))
        step.up()
        if closed_before_find:
            step.bow.owner = None
        step.batch(1, (1, 1))
        step.bow.owner = None
        if not closed_before_find:
            step.answer("bow")
        assert not step.bow.sent
        assert not step.asked


# -- SM-S2 ------------------------------------------------------------------------------------


def test_a_walk_that_has_its_tuples_overtakes_one_that_fetches() -> None:
    step = Step(Algorithm.SM_S2)
    step.batch(9, (1, 1), (2, 2))
    step.walk(0, (5, 1))
    step.settle()
    step.walk(1, (5, 2))
    step.walk(2, (5, 1))
    ((_, fetch),) = step.ash.sent
    assert isinstance(fetch, Fetch)
    step.answer("ash")
    assert list(step.ended()) == [0, 2]
    step.settle()
    assert step.ended() == {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 0)]}


def test_two_walks_that_need_one_key_send_one_fetch_and_both_get_their_rows() -> None:
    step = Step(Algorithm.SM_S2)
    step.batch(9, (1, 1), (2, 2))
    for tick, key in ((0, 1), (1, 1), (2, 2)):
        step.walk(tick, (5, key))
    assert [len(decode_ints(message.slots, 9)) for _, message in step.ash.sent] == [1, 1]
    step.settle()
    assert step.ended() == {0: [(0, 0)], 1: [(0, 0)], 2: [(0, 1)]}


def test_a_walk_with_both_kinds_of_rows_is_joined_in_two_parts_and_goes_on_once() -> None:
    step = Step(Algorithm.SM_S2)
    step.batch(9, (1, 1), (2, 2))
    step.walk(0, (5, 1))
    step.settle()
    step.walk(1, (5, 1), (6, 2), (7, 9))
    assert step.asked == 1, "the part whose tuples are here"
    step.answer("ash")
    assert list(step.ended()) == [0]
    assert step.copy is not None
    (held,) = step.copy.fetching  # type: ignore[union-attr]
    assert (held.stage, held.walk.rows.num_rows) == (Stage.FETCH, 1)
    step.settle()
    assert step.ended()[1] == [(0, 0), (1, 1)]


def test_both_parts_may_come_in_the_other_order() -> None:
    step = Step(Algorithm.SM_S2)
    step.batch(9, (1, 1), (2, 2))
    step.walk(0, (5, 1))
    step.settle()
    step.walk(1, (5, 1), (6, 2))
    step.up()
    step.down()
    step.ash.work.answers.rotate(1)
    step.answer("ash")
    assert list(step.ended()) == [0]
    step.answer("ash")
    assert step.ended()[1] == [(0, 0), (1, 1)]


def test_a_walk_of_keys_that_the_window_has_not_ends_at_once_and_sends_nothing() -> None:
    for algorithm in (Algorithm.SM_S2, Algorithm.SM_D1):
        step = Step(algorithm)
        step.batch(9, (1, 1))
        step.walk(0, (5, 7))
        assert step.ended() == {0: []}
        assert not step.ash.sent
        assert not step.asked


# -- SM-D1, SM-D2 -----------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [Algorithm.SM_D1, Algorithm.SM_D2])
def test_only_rows_whose_key_matches_are_shipped(algorithm: Algorithm) -> None:
    step = Step(algorithm)
    step.batch(9, (1, 1), (2, 3))
    step.walk(0, (4, 1), (5, 2), (6, 3))
    while not (step.ash.sent and isinstance(step.ash.sent[0][1], Carry)):
        step.up() if step.ash.sent else (step.down() if step.bow.sent else step.answer("bow"))
    ((_, carry),) = step.ash.sent
    assert decode_rows(carry.rows, step.step.carry_schema).column("a.key").to_pylist() == [1, 3]
    step.settle()
    assert step.ended() == {0: [(0, 0), (2, 1)]}


def test_the_rows_of_three_walks_travel_before_the_first_is_joined() -> None:
    step = Step(Algorithm.SM_D2)
    step.batch(9, (1, 1))
    for tick in range(3):
        step.walk(tick, (5, 1))
    for act in (step.up, lambda: step.answer("bow"), step.down, step.up):
        for _ in range(3):
            act()
    assert step.asked == 3
    assert step.source.waiting == []
    step.settle()
    assert len(step.ended()) == 3


def test_a_walk_without_match_ends_at_the_destination_without_an_answer() -> None:
    step = Step(Algorithm.SM_D2)
    step.batch(9, (1, 1))
    step.walk(0, (5, 9))
    step.up()
    assert step.answer("bow").stage is Stage.FIND
    assert not step.bow.sent
    assert [walk.rows.num_rows for walk in step.bow.advanced] == [0]
    assert len(step.source.waiting) == 1
    step.source.on_done(1)
    assert step.source.waiting == []


def test_rows_of_a_walk_whose_keys_were_not_found_to_match_are_refused() -> None:
    step = Step(Algorithm.SM_D2)
    step.batch(9, (1, 1))
    step.walk(0, (5, 1))
    step.up()
    step.answer("bow")
    step.down()
    ((_, carry),) = step.ash.sent
    assert step.destination is not None
    with pytest.raises(PeerProtocolError, match=r"requires rows for keys that were found to match; got 'a' \[1, 2\)"):
        step.destination.on_message("ash", replace(carry, span=Span(1, 2)))
    step.up()
    with pytest.raises(PeerProtocolError, match="requires rows for keys that were found to match"):
        step.destination.on_message("ash", carry)
    step.settle()
    assert step.ended() == {0: [(0, 0)]}


@pytest.mark.parametrize(
    ("matches", "text"),
    [
        (b"", "a bit for each of 2 keys; got more or fewer"),
        (b"\x80\x00", "a bit for each of 2 keys; got more or fewer"),
        (b"\x00", "an answer only when a key matches; got none"),
        (b"\x3f", "an answer only when a key matches; got none"),
    ],
)
def test_a_wrong_answer_about_keys_is_refused(matches: bytes, text: str) -> None:
    step = Step(Algorithm.SM_D2)
    step.walk(0, (5, 1), (6, 2))
    with pytest.raises(PeerProtocolError, match=f"requires {text}"):
        step.source.on_message("bow", KeyAnswer("q1", "a", Span(0, 1), 0, matches))


def test_the_first_bit_is_the_highest() -> None:
    step = Step(Algorithm.SM_D2)
    step.batch(9, *((key, key) for key in (1, 3, 9)))
    step.walk(1, *((at, at) for at in range(1, 10)))
    step.up()
    step.answer("bow")
    ((_, answer),) = step.bow.sent
    assert answer.matches == bytes([0b10100000, 0b10000000])


# -- by the clock -----------------------------------------------------------------------------


@SIX
def test_by_the_clock_a_walk_waits_where_the_paper_has_it_wait(algorithm: Algorithm) -> None:
    #  Algorithm 1, line 3; 4, line 3; 5, line 3
    at_copies = {Algorithm.SP_S, Algorithm.SM_S2, Algorithm.SM_D1}
    step = Step(algorithm, gate=lambda: DeltaGate(1_000))
    step.batch(9, (5, 1))
    step.walk(1, (3, 1))
    step.settle()
    assert len(step.ash.gate.waiting) == (algorithm in at_copies)
    assert step.bow.gate.waiting == []
    assert step.ended() == ({} if algorithm in at_copies else {1: [(0, 0)]})
    for held in step.ash.gate.due(1_007):
        step.source.opened(held)
    step.settle()
    assert step.ended() == {1: [(0, 0)]}
    assert (step.ash.gate.early, step.bow.gate.early) == (0, 0)


@SIX
def test_by_the_clock_a_look_waits_no_longer_than_delta(algorithm: Algorithm) -> None:
    step = Step(algorithm, gate=lambda: DeltaGate(1_000))
    step.batch(1, (5, 1))
    step.walk(1, (3, 1))
    for _ in range(9):
        for desk, half in ((step.ash, step.source), (step.bow, step.destination)):
            for held in desk.gate.due(1_007):
                assert half is not None
                half.opened(held)
        step.settle()
    assert step.ended() == {1: [(0, 0)]}
    assert step.ash.gate.early + step.bow.gate.early > 0, "the window was not sealed, and that is counted"
