"""Copies that others hold: their holders open, lease and close them, and from Prepare on nothing is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from node.core.arrangements.copies.key_copy import KeysOwner
from node.core.arrangements.copies.mixed_copy import MixedOwner
from node.core.arrangements.copies.owned_copies import Claim
from node.core.effects import IgnoreReason, NoteIgnored, ReadLog, Send
from node.core.encoding import rows as rows_module
from node.core.encoding.ints import decode_ints
from node.core.errors import PeerProtocolError
from node.core.links.causes import Purpose
from node.core.links.messages import CloseCopy, Fetch, Fetched, LeaseCopy, OpenCopy, Sync
from node.core.queries.shape import CopyNeed
from node.core.streams.ticks import TICK_END
from planner.algorithms.descriptions import CopyKind
from planner.model.query import Call, ColumnRef, Literal
from tests.unit.node.core.arrangements.kit import KEYS, STREAM, TAU, Tuple, below, lease, odd, reach, sealed, waiting
from tests.unit.node.core.arrangements.world import World, spec_of

KINDS = pytest.mark.parametrize("kind", list(CopyKind))
SPEC = spec_of(CopyKind.KEYS, reach(30))
NEED = CopyNeed(0, CopyKind.KEYS, "b", KEYS, "bow", "ash")


def opened(world: World, copy: int = 1, query_id: str = "q1", tick: int = 0) -> KeysOwner:
    world.bow.on_open("ash", OpenCopy(query_id, copy, 0, tick, SPEC))
    owner = world.bow.owned.get("ash", copy)
    assert isinstance(owner, KeysOwner)
    return owner


def deaths(world: World) -> list[int]:
    """Slots that died, of all syncs that are under way, which are taken off the link."""
    syncs = [message for message in world.mail["ash"] if isinstance(message, Sync)]
    world.mail["ash"].clear()
    return [slot for sync in syncs for slot in decode_ints(sync.dead, 9).tolist()]


# -- claims -----------------------------------------------------------------------------------


def test_a_claim_freezes_every_copy_that_it_may_turn_out_to_use() -> None:
    world = World()
    owner = opened(world)
    first = lease("q1", reach(0), done=0)
    owner.leases.append(first)
    world.batch(1, (5, 1))
    claimed = lease("q2", reach(0), first_tick=None)
    world.bow.owned.claim(NEED, SPEC, claimed)
    first.done = 99
    world.batch(1)
    assert deaths(world) == []
    assert world.bow.owned.settle_claim("q2", 0, opened(world, copy=2))
    world.batch(1)
    assert deaths(world) == [0], "it uses the other one"


def test_a_claim_freezes_also_a_copy_that_is_opened_for_another_query_meanwhile() -> None:
    world = World()
    claimed = lease("q2", first_tick=None)
    world.bow.owned.claim(NEED, SPEC, claimed)
    owner = opened(world, query_id="q1")
    assert owner.leases == [claimed]
    world.bow.on_lease("ash", LeaseCopy("q2", 1, 0))
    assert owner.leases == [claimed]
    assert owner.users == {"q2": 0}
    assert world.bow.owned.claims == []


def test_open_settles_the_claim_of_its_own_query_once() -> None:
    world = World()
    claimed = lease("q1", first_tick=None)
    world.bow.owned.claim(NEED, SPEC, claimed)
    owner = opened(world)
    assert owner.leases == [claimed]
    assert owner.users == {"q1": 0}
    assert not world.bow.owned.settle_claim("q1", 0, owner)


@pytest.mark.parametrize(
    "change",
    [{"kind": CopyKind.MIXED}, {"keys": ("n",)}, {"columns": ("key", "n")}, {"holder": "cam"}, {"stream": "another"}],
    ids=lambda change: next(iter(change)),
)
def test_a_claim_has_nothing_to_do_with_copies_that_it_cannot_use(change: dict[str, Any]) -> None:
    world = World()
    owner = opened(world)
    assert Claim(NEED, SPEC, lease()).may_be(owner)
    assert not Claim(NEED, replace(SPEC, **change), lease()).may_be(owner)


def test_a_claim_has_nothing_to_do_with_copies_that_let_less_pass() -> None:
    world = World()
    odd_keys = replace(SPEC, filter=odd(STREAM))
    world.bow.on_open("ash", OpenCopy("q1", 1, 0, 0, odd_keys))
    (owner,) = world.bow.owned.all
    assert Claim(NEED, odd_keys, lease()).may_be(owner)
    for other in (None, below(3, STREAM)):
        assert not Claim(NEED, replace(SPEC, filter=other), lease()).may_be(owner)


@pytest.mark.parametrize("opens", [True, False], ids=["opened", "leased"])
def test_a_copy_that_is_not_what_the_plan_says_is_refused(opens: bool) -> None:
    """Its holder would not find there what the query needs, and nobody would notice."""
    world = World()
    odd_keys = replace(SPEC, filter=odd(STREAM))
    if not opens:
        world.bow.on_open("ash", OpenCopy("over", 1, 0, 0, odd_keys))
    claimed = lease("q2", first_tick=None)
    world.bow.owned.claim(NEED, SPEC, claimed)
    text = "query q2 requires for its need 0 what its plan says; got keys copy 1 of r"
    if opens:
        with pytest.raises(PeerProtocolError, match=text):
            world.bow.on_open("ash", OpenCopy("q2", 1, 0, 0, odd_keys))
    else:
        with pytest.raises(PeerProtocolError, match=text):
            world.bow.on_lease("ash", LeaseCopy("q2", 1, 0))
    assert len(world.bow.owned) == (0 if opens else 1), "nothing is opened"
    assert [claim.lease for claim in world.bow.owned.claims] == [claimed]


def test_a_query_that_ends_leaves_its_copies_to_their_holder() -> None:
    world = World()
    claimed, other = lease("q1", first_tick=None), lease("q2", first_tick=None)
    world.bow.owned.claim(NEED, SPEC, claimed)
    world.bow.owned.claim(replace(NEED, number=1), SPEC, other)
    owner = opened(world)
    owner.progress.wait(5, waiting("q1"))
    world.bow.owned.release("q1")
    assert owner.leases == [other]
    assert owner.users == {}
    assert owner.progress.waiting == []
    assert world.bow.owned.get("ash", 1) is owner
    world.bow.owned.release("q2")
    assert world.bow.owned.claims == []


# -- opening and closing ----------------------------------------------------------------------


def test_a_copy_for_a_query_that_is_over_here_still_opens_and_forgets_nothing() -> None:
    """Its holder may lease it to others before it hears of the end."""
    world = World()
    owner = opened(world, query_id="over")
    world.batch(1, (5, 1))
    world.batch(99)
    assert deaths(world) == []
    world.bow.owned.claim(NEED, SPEC, lease("q2", reach(0), first_tick=100, done=100))
    world.bow.on_lease("ash", LeaseCopy("q2", 1, 0))
    world.batch(1)
    assert deaths(world) == [0]
    assert owner.users == {"q2": 0}


def test_a_closed_copy_is_fed_no_more_and_closing_again_harms_nobody() -> None:
    world = World()
    opened(world)
    world.bow.on_close("ash", CloseCopy(1))
    world.turn("bow")
    world.batch(1, (5, 1))
    assert not world.mail["ash"]
    assert not world.bow.in_use
    world.bow.on_close("ash", CloseCopy(1))
    world.turn("bow")
    assert [effect.reason for effect in world.ignored if isinstance(effect, NoteIgnored)][-1:] == [
        IgnoreReason.UNKNOWN_COPY
    ]


def test_a_copy_that_is_closed_while_it_reads_the_log_reads_no_more() -> None:
    world = World(retain_ms=1_000)
    world.batch(1, (5, 1))
    opened(world)
    world.turn("bow")
    assert len(world.reads) == 1
    world.bow.on_close("ash", CloseCopy(1))
    world.read()
    assert not world.mail["ash"]
    assert not world.bow.in_use


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (OpenCopy("q1", 1, 0, 0, replace(SPEC, stream="x")), "a new number and a stream of this site; got 1 of x"),
        (OpenCopy("q1", 1, 0, 0, replace(SPEC, holder="cam")), "a new number and a stream of this site"),
        (OpenCopy("q1", 7, 0, 0, SPEC), "a new number"),
        (
            OpenCopy("q1", 1, 0, 0, replace(SPEC, columns=("key", "zip"))),
            r"its columns, keys among them, each once; got \['zip'\]",
        ),
        (
            OpenCopy("q1", 1, 0, 0, replace(SPEC, columns=("n",))),
            r"its columns, keys among them, each once; got \('key', 'n'\)",
        ),
    ],
    ids=["another stream", "another holder", "a number twice", "an unknown column", "keys that it has not"],
)
def test_a_wrong_opening_is_refused_and_opens_nothing(message: OpenCopy, text: str) -> None:
    world = World()
    opened(world, copy=7)
    with pytest.raises(PeerProtocolError, match=f"requires {text}"):
        world.bow.on_open("ash", message)
    assert len(world.bow.owned) == 1


def test_a_lease_or_a_fetch_of_what_is_not_open_is_refused() -> None:
    world = World()
    opened(world)
    with pytest.raises(PeerProtocolError, match="a lease requires a copy that is open; got 2 of ash"):
        world.bow.on_lease("ash", LeaseCopy("q1", 2, 0))
    with pytest.raises(PeerProtocolError, match="a fetch requires a mixed copy; got 1 of ash"):
        world.bow.on_fetch("ash", Fetch(1, 0, b""))
    world.bow.on_fetch("ash", Fetch(2, 0, b""))
    world.turn("bow")
    assert [effect.reason for effect in world.ignored if isinstance(effect, NoteIgnored)] == [
        IgnoreReason.UNKNOWN_COPY,
    ]


def test_when_a_holder_is_lost_its_copies_are_and_no_others() -> None:
    world = World()
    opened(world, 1)
    opened(world, 2)
    world.bow.on_open("cam", OpenCopy("q1", 1, 0, 0, replace(SPEC, holder="cam")))
    world.bow.holder_lost("ash")
    assert [copy.peer for copy in world.bow.owned.all] == ["cam"]


def test_what_was_read_for_a_copy_is_forgotten_with_its_holder() -> None:
    """Else the copy stays, with all that it counted, for as long as the daemon runs."""
    world = World(retain_ms=1_000)
    for tick in range(3):
        world.batch(1, (tick * TAU, 1))
    query = world.prepare("q1", CopyKind.MIXED, reach(30))
    world.start_at_ash(query, 0)
    world.up()
    world.read()
    (copy,) = world.bow.owned.all
    assert list(world.bow.catch_up._read) == [copy], "the query has not begun here, so it has no table of the past"
    world.bow.holder_lost("ash")
    assert not world.bow.catch_up._read


# -- batches ----------------------------------------------------------------------------------


@KINDS
def test_a_copy_is_fed_from_its_tick_on(kind: CopyKind) -> None:
    of = reach(count=3) if kind is CopyKind.REDUCED else reach(30)
    world = World()
    world.bow.on_open("ash", OpenCopy("q1", 1, 0, 2, spec_of(kind, of)))
    world.batch(1, (5, 1))
    assert not world.mail["ash"]
    world.batch(3, (11, 2), (25, 3), (35, 4))
    (sync,) = world.mail["ash"]
    assert isinstance(sync, Sync)
    assert sync.frontier == 4
    world.mail["ash"].clear()
    world.batch(TICK_END)
    (end,) = world.mail["ash"]
    assert isinstance(end, Sync)
    assert end.frontier == TICK_END


def test_shipped_tuples_of_a_time_window_need_no_sync_and_no_log() -> None:
    # Algorithm 8 sends the number of expired tuples; here the holder decides what it forgets.
    world = World(retain_ms=1_000)
    world.batch(1, (5, 1))
    world.bow.on_open("ash", OpenCopy("q1", 1, 0, 0, spec_of(CopyKind.REDUCED, reach(30))))
    world.batch(1, (15, 1))
    assert not world.mail["ash"]
    assert not world.reads


def test_bytes_are_those_of_the_query_that_has_used_a_copy_for_longest() -> None:
    world = World()
    owner = opened(world)
    owner.users |= {"q7": 3, "q8": 1}
    world.bow.on_batch(sealed(0, 1, [(5, 1)]))
    effects = world.outboxes["bow"].take_effects()
    (send,) = [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Sync)]
    assert (send.cause.query_id, send.cause.purpose, send.cause.number) == ("q7", Purpose.COPY, 3)


def test_a_copy_that_begins_in_the_past_reads_the_log_from_there() -> None:
    world = World(retain_ms=1_000)
    world.batch(3, (5, 1), (25, 2))
    opened(world, tick=1)
    assert [effect for effect in world.outboxes["bow"].take_effects() if isinstance(effect, ReadLog)] == [
        ReadLog(1, STREAM, 1)
    ]
    assert world.bow.owned.all[0].first_ts == TAU


# -- what cannot be sent ----------------------------------------------------------------------


#: More than a message may have, in tests.
FEW = 3
MANY: list[Tuple] = [(at, at) for at in range(FEW + 1)]


def users_of(world: World, kind: CopyKind) -> dict[str, str]:
    """Two queries use one copy, a third one may; after too much for a message, those that end and why."""
    for query_id in ("q1", "q2"):
        world.start(query_id, kind, reach(30))
    world.prepare("q3", kind, reach(30))
    world.settle()
    world.batch(1, *MANY)
    if kind is CopyKind.MIXED:
        world.settle()
        world.want(world.queries["q1"], *range(len(MANY)))
        world.settle()
    return world.bow.owned.take_failed()


def test_a_filter_that_some_tuples_are_too_much_for_ends_who_uses_its_copy_and_not_the_daemon() -> None:
    # Claimed to fit in a byte, which it does for the first two tuples.
    product = Call("*", (ColumnRef("b", "n"), Literal(100, pa.int64())), pa.int8())
    of = reach(30, where=Call("is null", (product,), pa.bool_()))
    world = World()
    for query_id in ("q1", "q2"):
        world.start(query_id, CopyKind.KEYS, of)
    world.prepare("q3", CopyKind.KEYS, of)
    world.settle()
    world.batch(1, (1, 1), (2, 1))
    assert len(world.mail["ash"]) == 1
    assert world.bow.owned.take_failed() == {}
    world.batch(1, (12, 1))
    failed = world.bow.owned.take_failed()
    assert list(failed) == ["q1", "q2"], "and nobody who only might"
    assert "the filter of keys copy 1 of r at ash cannot be computed: ArrowInvalid" in failed["q1"]
    world.batch(1, (25, 1))
    assert len(world.mail["ash"]) == 1, "nothing follows a gap"


@pytest.mark.parametrize("kind", [CopyKind.FULL, CopyKind.KEYS])
def test_a_batch_with_too_many_rows_ends_who_uses_the_copy_and_not_the_daemon(
    kind: CopyKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "ROWS_MAX", FEW)
    world = World()
    failed = users_of(world, kind)
    assert list(failed) == ["q1", "q2"], "and nobody who only might"
    assert f"{kind} copy 1 of r at ash: rows of one message require at most {FEW}" in failed["q1"]
    world.batch(1, (15, 1))
    assert not world.mail["ash"], "nothing follows a gap"
    assert world.bow.owned.get("ash", 1) is not None
    world.bow.on_lease("ash", LeaseCopy("q3", 1, 0))
    assert list(world.bow.owned.take_failed()) == ["q3"], "whoever uses it later ends too"


def test_an_answer_to_a_fetch_with_too_many_rows_ends_who_uses_the_copy_and_not_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    found = MixedOwner.found

    def with_few(owner: MixedOwner, rows: pa.RecordBatch | None) -> Fetched:
        with monkeypatch.context() as patch:
            patch.setattr(rows_module, "ROWS_MAX", FEW)
            return found(owner, rows)

    monkeypatch.setattr(MixedOwner, "found", with_few)
    failed = users_of(world, CopyKind.MIXED)
    assert list(failed) == ["q1", "q2"]
    assert f"mixed copy 1 of r at ash: rows of one message require at most {FEW}" in failed["q1"]
