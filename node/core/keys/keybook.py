"""Keys that were asked about lately, by number: to ask about a key again costs a number instead of the key.

Both ends of a step keep such a book. They note the same questions in the same order, as a link delivers them,
so a key has the same number at both.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from node.core.errors import PeerProtocolError
from node.core.keys.hashing import I64
from node.core.keys.keystore import with_room
from node.core.keys.keytable import KeyTable, distinct
from node.core.limits import Limits


class KeyBook:
    """The book of one step at one of its ends. A key is crossed out when it was not asked about for some time."""

    def __init__(self, schema: pa.Schema, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits
        self._table = KeyTable(schema.types)
        #: By number: the last question with that key.
        self._last = np.zeros(0, np.int64)
        self._questions: deque[I64] = deque()
        self._count = 0

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._last.nbytes + sum(numbers.nbytes for numbers in self._questions)

    def numbers_of(self, keys: pa.RecordBatch) -> I64:
        """The number of each key; -1 for one that is not in the book."""
        return self._table.find(keys.columns)

    def note(self, known: I64, new: pa.RecordBatch) -> None:
        """A question was asked about keys of the book and about new ones, which are in the book from now on."""
        added = self._table.add(new.columns) if new.num_rows else known[:0]
        asked = np.concatenate([known, added])
        self._count += 1
        self._last = with_room(self._last, self._table.capacity)
        self._last[asked] = self._count
        self._questions.append(asked)
        limits = self._limits
        while len(self._questions) > limits.book_questions_max or len(self._table) > limits.book_keys_max:
            oldest = self._questions.popleft()
            number = self._count - len(self._questions)
            self._table.remove(oldest[self._last[oldest] == number])

    def read(self, known: I64, new: pa.RecordBatch) -> pa.RecordBatch:
        """The keys of a peer's question, known ones first. Noted only if they are right."""
        if (known[1:] <= known[:-1]).any() or not self._table.is_live(known).all():
            raise PeerProtocolError("a question requires keys that are in the book, in order; got others")
        rows, inverse = distinct(new.columns)
        if len(rows) != new.num_rows or (inverse < 0).any() or (self.numbers_of(new) >= 0).any():
            raise PeerProtocolError("a question requires new keys, each once, none of them null; got others")
        old = pa.RecordBatch.from_arrays(self._table.keys(known), schema=self._schema)
        self.note(known, new)
        return pa.concat_batches([old, new])
