"""What SM-S1 and SM-D2 have in common: keys go to the stream's site, and the walk waits for the answer."""

from __future__ import annotations

import numpy as np

from node.core.algorithms.half import Half, HalfSite
from node.core.arrangements.gate import Arrangement
from node.core.arrangements.table import RowTable
from node.core.encoding.ints import decode_ints, encode_ints
from node.core.encoding.payload import take_batch
from node.core.encoding.rows import decode_rows, empty_batch, encode_rows
from node.core.engine import Find
from node.core.errors import PeerProtocolError
from node.core.keys.hashing import I64
from node.core.keys.keybook import KeyBook
from node.core.keys.keytable import distinct
from node.core.links.messages import AskMatches, KeyAnswer, TupleAnswer
from node.core.queries.shape import StepShape
from node.core.queries.waiting import Asked, Sought, Stage, Waiting, Walk


class AskingSource(Half):
    """At the carry's site: the walks of one step that wait for an answer."""

    def __init__(self, site: HalfSite, step: StepShape, at_source: bool) -> None:
        super().__init__(site, step, at_source)
        self._waiting: dict[int, Waiting] = {}
        self._book = KeyBook(step.key_schema, site.desk.limits)

    @property
    def waiting(self) -> list[Waiting]:
        return list(self._waiting.values())

    def ask(self, walk: Walk, copy: int) -> None:
        """Ship the distinct keys of a walk (K)."""
        step = self._step
        rows, key_of = distinct(step.keys_of(walk.rows))
        keys = take_batch(walk.rows.select(list(step.carry_keys)), rows)
        numbers = self._book.numbers_of(keys)
        order, known = _known_first(numbers)
        new = take_batch(keys, order[known:])
        self._book.note(numbers[order[:known]], new)
        asked = Asked(len(rows), np.argsort(order)[key_of])
        cause = f"{step.owner} to say which of {len(rows)} keys match"
        self._waiting[walk.span.first] = self.wait_for(walk, Stage.ANSWER, cause, asked)
        low_ts, high_ts = walk.times
        message = AskMatches(
            walk.query_id,
            walk.head,
            walk.span,
            walk.step,
            walk.sealed_at_us,
            low_ts,
            high_ts,
            copy,
            encode_rows(new),
            encode_ints(numbers[order[:known]]),
        )
        self._desk.send(step.owner, message)

    def take_waiting(self, message: KeyAnswer | TupleAnswer) -> Waiting:
        """The walk that the answer is for."""
        waiting = self._waiting.get(message.span.first)
        if waiting is None or waiting.walk.span != message.span:
            raise PeerProtocolError(
                f"query {message.query_id} requires answers to what was asked; got {message.head!r} {message.span}"
            )
        return self._waiting.pop(message.span.first)

    def on_done(self, tick: int) -> None:
        """Some walks end at the stream's site, without an answer."""
        for first in [first for first, waiting in self._waiting.items() if waiting.walk.span.end <= tick]:
            del self._waiting[first]


def _known_first(numbers: I64) -> tuple[I64, int]:
    """An order of keys with those that have numbers first, ascending, the others as they come; and how many have."""
    new = numbers < 0
    return np.lexsort((numbers, new)), len(numbers) - int(new.sum())


class FindingDestination(Half):
    """At the stream's site: finds the tuples with the keys that are asked about, once all are there."""

    def __init__(self, site: HalfSite, step: StepShape, at_source: bool) -> None:
        super().__init__(site, step, at_source)
        self._book = KeyBook(step.key_schema, site.desk.limits)

    @property
    def table(self) -> RowTable:
        assert isinstance(self._site.window, RowTable)
        return self._site.window

    def seek(self, message: AskMatches, arrangement: Arrangement) -> None:
        """Take a question; it waits until ``arrangement`` is sealed far enough."""
        step = self._step
        known = decode_ints(message.known, len(self._book))
        keys = self._book.read(known, decode_rows(message.keys, step.key_schema))
        if not keys.num_rows:
            raise PeerProtocolError(f"query {message.query_id} requires keys to look for; got none")
        self._came.take(message.span)
        rows = empty_batch(step.carry_schema)
        walk = Walk(
            message.query_id,
            self.lease.generation,
            message.head,
            message.span,
            message.sealed_at_us,
            message.step,
            rows,
        )
        sought = Sought(keys, message.low_ts, message.high_ts, message.copy)
        cause = f"{arrangement.progress.name} to be sealed"
        self.pass_gate(arrangement, message.low_ts, message.high_ts, self.wait_for(walk, Stage.GATE, cause, sought))

    def find(self, waiting: Waiting, columns: tuple[str, ...]) -> None:
        """Have the engine find the tuples with the keys of a question."""
        sought, step = waiting.detail, self._step
        assert isinstance(sought, Sought)
        low, high = self.table.visible(self.lease, sought.low_ts, sought.high_ts, step.include_ties)
        # Under policy delta some of it may be forgotten; what is forgotten must not be found by chance.
        low = max(low, self.table.kept_from)
        reach = self.lease.reach
        find = Find(self.table.name, step.keys, sought.keys, low, high, reach.stream, reach.filter, columns)
        cause = f"tuples with {sought.keys.num_rows} keys to be found"
        op_id = self._desk.ask(find, self.wait_for(waiting.walk, Stage.FIND, cause, sought))
        self.table.hold(op_id, low)
