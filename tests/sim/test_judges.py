"""The judges of the simulator notice what they are there for: each time something is broken, and they say what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.copies.held_copies import HeldCopies
from node.core.arrangements.copies.key_copy import KeyCounts
from node.core.arrangements.copies.mixed_copy import MixedOwner
from node.core.arrangements.copies.owned_copies import OwnedCopies
from node.core.arrangements.copies.reduced_copy import ReducedOwner
from node.core.arrangements.reach import Reach
from node.core.engine import Append
from node.core.keys.keybook import KeyBook
from node.core.links.messages import CloseCopy
from node.core.queries.news import Endings
from node.core.streams.stream import StreamState
from node.core.work import Work
from tests.sim.check import check, check_seed
from tests.sim.judges.copies import CopyError
from tests.sim.judges.invariant import InvariantError
from tests.sim.judges.invariants import Invariants
from tests.sim.scenarios.crowd import crowd_of

SEEDS = range(30)
Original = Callable[..., Any]


def forgets_a_bit(unsent: Original, owner: ReducedOwner, numbers: Any) -> Any:
    return unsent(owner, numbers) | True


def sets_a_bit_more(sent: Original, owner: ReducedOwner, numbers: Any) -> Any:
    return sent(owner, np.append(numbers, numbers[-1:] + 1))


def lets_a_key_live(forget: Original, counts: KeyCounts, number: int) -> Any:
    return forget(counts, number)[:0]


def forgets_too_much(before: Original, reach: Reach, ts: int) -> Any:
    return ts


def drops_rows(run: Original, work: Work, change: Any) -> Any:
    if not isinstance(change, Append) or change.rows.num_rows < 2:
        return run(work, change)
    return run(work, replace(change, rows=change.rows.slice(1)))


def keeps_quiet(release: Original, copies: HeldCopies, copy: Any, lease: Any) -> Any:
    send = copies._outbox.send
    copies._outbox.send = lambda peer, message, cause=None: (  # type: ignore[method-assign]
        None if isinstance(message, CloseCopy) else send(peer, message, cause)
    )
    try:
        return release(copies, copy, lease)
    finally:
        copies._outbox.send = send  # type: ignore[method-assign]


def keeps_leases(release: Original, copies: OwnedCopies, query_id: str) -> Any:
    return None


def loses_an_ending(take: Original, endings: Endings) -> Any:
    return take(endings)[1:]


def pins_nothing(pinned: Original, arrangements: Arrangements, stream: StreamState) -> Any:
    return stream.sealed_ts(stream.fed)


def trims_nothing(trim: Original, stream: StreamState, needed_ts: int) -> Any:
    return None


def reads_another_key(read: Original, book: KeyBook, known: Any, new: Any) -> Any:
    keys = read(book, known, new)
    book._last[:] += 1
    return keys


def answers_no_fetch(found: Original, owner: MixedOwner, rows: Any) -> Any:
    return found(owner, None)


def claims_to_be_durable(logged: Original, invariants: Invariants, stream: str, frontier: int) -> Any:
    """The core is told that a batch is logged, and it is not."""


@pytest.mark.parametrize(
    ("owner", "method", "sabotage", "says"),
    [
        (ReducedOwner, "unsent", forgets_a_bit, "was sent twice"),
        (ReducedOwner, "sent", sets_a_bit_more, "invariant 8"),
        (KeyCounts, "forget_before", lets_a_key_live, "has keys"),
        (Work, "run", drops_rows, "lacks"),
        (MixedOwner, "found", answers_no_fetch, "lacks"),
        (Reach, "before", forgets_too_much, "invariant 6"),
        (Invariants, "logged", claims_to_be_durable, "invariant 1:"),
        (KeyBook, "read", reads_another_key, "invariant 9"),
        (Endings, "take", loses_an_ending, "invariant 11"),
        (HeldCopies, "release", keeps_quiet, "invariant 13"),
        (OwnedCopies, "release", keeps_leases, "invariant 13"),
        (Arrangements, "_pinned_ts", pins_nothing, "invariant 15"),
        (StreamState, "trim", trims_nothing, "invariant 15"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_sabotage_is_noticed(
    owner: type, method: str, sabotage: Callable[..., Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(owner, method)
    monkeypatch.setattr(owner, method, lambda self, *args: sabotage(original, self, *args))
    noticed = []
    for seed in SEEDS:
        try:
            check(crowd_of(seed))
        except (CopyError, InvariantError) as error:
            noticed.append(str(error))
        except Exception as error:
            noticed.append(f"the core itself: {type(error).__name__}")
        if any(says in text for text in noticed):
            return
    raise AssertionError(f"required {says!r} in some failure; got {[text[:150] for text in noticed]}")


def test_rows_go_when_nobody_looks_although_a_query_that_starts_walks_with_them_is_being_prepared() -> None:
    """The last index of a table closes, and another opens, in one message, while such a query's lease is frozen."""
    check_seed(5168)
