"""What SM-S1 and SM-D2 have in common: keys go to the stream's site, and the walk waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from node.core.desk import Desk
from node.core.errors import PeerProtocolError
from node.core.hashing import I64
from node.core.ints import decode_ints, encode_ints
from node.core.keybook import KeyBook
from node.core.keytable import distinct
from node.core.messages import AskMatches, KeyAnswer, TupleAnswer
from node.core.payload import take_batch
from node.core.replicas.half import NUMBERS_MAX
from node.core.rows import decode_rows, encode_rows
from node.core.stored import StoredWindow
from node.core.walk import StepShape, Walk


@dataclass(frozen=True, slots=True)
class Asked:
    """A walk whose keys are asked about; ``key_of`` is the key of each row, as a place among those."""

    walk: Walk
    keys: int
    key_of: I64


class Asking:
    """The walks of one step that wait for an answer, at the source."""

    def __init__(self, desk: Desk, step: StepShape) -> None:
        self._desk = desk
        self._step = step
        self._asked: dict[int, Asked] = {}
        self._book = KeyBook(step.key_schema, desk.limits)

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, walk: Walk) -> None:
        """Ship the distinct keys of a walk (K)."""
        step = self._step
        rows, key_of = distinct(step.keys_of(walk.rows))
        keys = take_batch(walk.rows.select(step.carry_keys), rows)
        numbers = self._book.numbers_of(keys)
        order, known = _known_first(numbers)
        new = take_batch(keys, order[known:])
        self._book.note(numbers[order[:known]], new)
        self._asked[walk.span.first] = Asked(walk, len(rows), np.argsort(order)[key_of])
        low_ts, high_ts = walk.times
        message = AskMatches(
            self._desk.query_id,
            walk.head,
            walk.span,
            walk.step,
            walk.sealed_at_us,
            low_ts,
            high_ts,
            encode_rows(new),
            encode_ints(numbers[order[:known]]),
        )
        self._desk.send(step.owner, message)

    def answered(self, message: KeyAnswer | TupleAnswer) -> Asked:
        """The walk that the answer is for."""
        asked = self._asked.get(message.span.first)
        if asked is None or asked.walk.span != message.span:
            raise PeerProtocolError(
                f"query {message.query_id} requires answers to what was asked; got {message.head!r} {message.span}"
            )
        return self._asked.pop(message.span.first)

    def on_done(self, tick: int) -> None:
        """The sink is done with the head's walks before ``tick``: some of them ended without an answer."""
        for first in [first for first, asked in self._asked.items() if asked.walk.span.end <= tick]:
            del self._asked[first]


def _known_first(numbers: I64) -> tuple[I64, int]:
    """An order of keys with those that have numbers first, ascending, the others as they come; and how many have."""
    new = numbers < 0
    return np.lexsort((numbers, new)), len(numbers) - int(new.sum())


def find_matches(
    step: StepShape,
    window: StoredWindow,
    book: KeyBook,
    desk: Desk,
    message: AskMatches,
    then: Callable[[int, pa.RecordBatch], None],
    looking: Callable[[], None] | None = None,
) -> None:
    """At the stream's site: the tuples that match, once the window has them all; ``then(keys asked, tuples)``.

    ``looking`` is told when the search begins.
    """
    keys = book.read(decode_ints(message.known, NUMBERS_MAX), decode_rows(message.keys, step.key_schema))
    if not keys.num_rows:
        raise PeerProtocolError(f"query {message.query_id} requires keys to look for; got none")

    def find() -> None:
        low, high = window.state.axis.visible(message.low_ts, message.high_ts, step.include_ties)
        # Under policy delta some of it may be forgotten; what is forgotten must not be found by chance.
        low = max(low, window.state.kept_from)
        if looking is not None:
            looking()
        window.find(keys, low, high, lambda rows: then(keys.num_rows, rows))

    desk.gate.enter(window.state, message.low_ts, message.high_ts, step.include_ties, message.sealed_at_us, find)


def walk_of(message: AskMatches, rows: pa.RecordBatch) -> Walk:
    """The walk that is asked about, with other rows."""
    return Walk(message.head, message.span, message.sealed_at_us, message.step, rows)
