"""A dictionary from join keys to small numbers (slots), for many rows at a time.

Both ends of a copy apply the same calls and so number the same keys alike:
slots depend on the order of calls and rows alone.

An open hash table of slots, probed for all rows at once, one place further per
round. A key removed from the middle of a chain leaves a mark behind (_GONE) that
keeps the chain whole; when keys and marks fill half of the table, it is built anew
without the marks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.core.errors import invariant
from node.core.keys import keycodes
from node.core.keys.fifo import Fifo
from node.core.keys.hashing import I64, scramble
from node.core.keys.keycodes import Finish, Mask
from node.core.keys.keystore import Store, plain, store, take, with_room

#: What is in the table besides slots; both negative.
_EMPTY, _GONE = -1, -2
_SIZE_MIN = 64
_SLOTS_MAX = 2**29
#: So few rows look at so many places at once: what costs then is the number of rounds, not the work in one.
_FEW = 256
_AHEAD = np.arange(8)


class KeyTable:
    """Keys of one or several columns, each with its slot.

    A wrong call (``LocalProtocolError``) may leave the table half changed.
    """

    def __init__(self, kinds: Sequence[pa.DataType], finish: Finish = scramble) -> None:
        self._kinds = list(kinds)
        self._finish = finish
        self._exact = keycodes.exact(self._kinds)
        #: Values by slot. Not needed where codes are the keys.
        self._stores: list[Store] = [] if self._exact else [store(kind) for kind in self._kinds]
        #: By slot: the key's code, and its place in the table, negative if the slot is free.
        self._codes = with_room(np.empty(0, dtype=np.int64), 1)
        self._places = np.empty(0, dtype=np.int32)
        self._table = np.full(_SIZE_MIN, _EMPTY, dtype=np.int32)
        #: Places of the table that are not empty.
        self._used = 0
        self._free = Fifo(np.int64)
        self._capacity = 0

    def __len__(self) -> int:
        return self._capacity - len(self._free)

    @property
    def capacity(self) -> int:
        """Every slot ever given is below."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Memory held."""
        own = self._codes.nbytes + self._places.nbytes + self._table.nbytes + self._free.nbytes
        return own + sum(column.nbytes for column in self._stores)

    def find(self, columns: Sequence[pa.Array]) -> I64:
        """The slot of each row's key; -1 if there is none, or a null in the key."""
        columns = plain(columns)
        usable = keycodes.usable(columns)
        if usable is None:
            return self._find(columns)
        rows = np.flatnonzero(usable)
        slots = np.full(len(usable), -1, dtype=np.int64)
        slots[rows] = self._find(take(columns, rows))
        return slots

    def next_slots(self, count: int) -> I64:
        """Those that the next so many keys will be given."""
        old = self._free.values[:count]
        return np.concatenate([old, np.arange(self._capacity, self._capacity + count - len(old))])

    def add(self, columns: Sequence[pa.Array]) -> I64:
        """Give each row's key a slot: those free for longest first, then new ones. Keys are distinct, new, not null."""
        columns = plain(columns)
        invariant(keycodes.usable(columns) is None, "a key to add has a null")
        slots = self._give(len(columns[0]))
        self._codes = with_room(self._codes, self._capacity)
        self._places = with_room(self._places, self._capacity)
        self._codes[slots] = keycodes.codes(columns, self._finish)
        for values, column in zip(self._stores, columns, strict=not self._exact):
            values.put(slots, column, self._capacity)
        if 2 * (self._used + len(slots)) > len(self._table):
            self._rebuild(len(slots))
        self._insert(slots, check=True)
        return slots

    def remove(self, slots: I64) -> None:
        """Forget the keys of live, distinct slots, which are free from now on, in this order."""
        self._check_live(slots)
        places, marks = self._places[slots], ~np.arange(len(slots), dtype=np.int32)
        self._places[slots] = marks
        invariant(bool((self._places[slots] == marks).all()), "a slot is removed twice")
        self._table[places] = _GONE
        self._sweep(places.astype(np.int64))
        for values in self._stores:
            values.drop(slots)
        self._free.append(slots)

    def keys(self, slots: I64) -> list[pa.Array]:
        """The key columns of live slots."""
        self._check_live(slots)
        if self._exact:
            return [keycodes.from_integers(self._codes[slots], self._kinds[0])]
        return [values.take(slots).cast(kind) for values, kind in zip(self._stores, self._kinds, strict=True)]

    def live_slots(self) -> I64:
        """All of them, ascending."""
        return np.flatnonzero(self._places[: self._capacity] >= 0)

    def is_live(self, slots: I64) -> Mask:
        """Which of these are the slots of keys."""
        live = (slots >= 0) & (slots < self._capacity)
        live[live] = self._places[slots[live]] >= 0
        return live

    def _find(self, columns: Sequence[pa.Array]) -> I64:
        codes = keycodes.codes(columns, self._finish)
        found = np.full(len(codes), -1, dtype=np.int64)
        rows, places = np.arange(len(codes)), self._homes(codes)
        while rows.size:
            rows, places, slots = self._find_codes(codes, rows, places)
            if self._exact:
                found[rows] = slots
                break
            same = self._equal(slots, columns, rows)
            found[rows[same]] = slots[same]
            other = np.flatnonzero(~same)
            rows, places = rows[other], self._wrap(places[other] + 1)
        return found

    def _find_codes(self, codes: I64, rows: I64, places: I64) -> tuple[I64, I64, I64]:
        """Those of the rows whose code comes in the table, from the given places on; where it first does; the slots."""
        hits: list[tuple[I64, I64, I64]] = []
        wanted = codes.take(rows)
        while rows.size:
            places, slots, ended = self._look(wanted, places)
            hit = np.flatnonzero(ended & (slots >= 0))
            hits.append((rows.take(hit), places.take(hit), slots.take(hit)))
            going = np.flatnonzero(~ended)
            rows, places, wanted = rows.take(going), self._wrap(places.take(going) + 1), wanted.take(going)
        if len(hits) == 1:
            return hits[0]
        all_rows, all_places, all_slots = zip(*hits, strict=True)
        return np.concatenate(all_rows), np.concatenate(all_places), np.concatenate(all_slots)

    def _look(self, codes: I64, places: I64) -> tuple[I64, I64, Mask]:
        """Go along each chain to its code or its end, though not far.

        Returns where that is, what is there, and whether it is the code or the end.
        """
        if places.size > _FEW:
            slots = self._table.take(places).astype(np.int64)
            return places, slots, ((self._codes.take(slots) == codes) & (slots >= 0)) | (slots == _EMPTY)
        ahead = self._wrap(places[:, None] + _AHEAD)
        slots = self._table.take(ahead).astype(np.int64)
        ends = ((self._codes.take(slots) == codes[:, None]) & (slots >= 0)) | (slots == _EMPTY)
        ended = ends.any(axis=1)
        first = np.where(ended, ends.argmax(axis=1), len(_AHEAD) - 1)
        first += np.arange(0, ends.size, len(_AHEAD))
        return ahead.take(first), slots.take(first), ended

    def _equal(self, slots: I64, columns: Sequence[pa.Array], rows: I64) -> Mask:
        """Whether the given rows have the keys of the slots."""
        if not rows.size:
            return np.empty(0, dtype=np.bool_)
        return keycodes.equal_keys(take(columns, rows), [values.take(slots) for values in self._stores])

    def _insert(self, slots: I64, check: bool) -> None:
        """Put slots into the table by their codes; ``check`` that no key is there already."""
        codes = self._codes.take(slots)
        places = self._homes(codes)
        self._used += len(slots)
        while slots.size:
            places, there, ended = self._look(codes, places)
            empty = np.flatnonzero(there == _EMPTY)
            # Of several slots for one place the last is written. The others see that they were not, and look again.
            self._table[places.take(empty)] = slots.take(empty)
            done = self._table.take(places) == slots
            self._places[slots[done]] = places[done]
            if check:
                self._check_new(slots, there, np.flatnonzero(ended & (there >= 0)))
            going = np.flatnonzero(~done)
            places = self._wrap(places.take(going) + (there.take(going) != _EMPTY))
            slots, codes = slots.take(going), codes.take(going)

    def _check_new(self, slots: I64, there: I64, doubtful: I64) -> None:
        if doubtful.size:
            invariant(not self._exact, "a key to add is there already")
            ours = [values.take(slots[doubtful]) for values in self._stores]
            theirs = [values.take(there[doubtful]) for values in self._stores]
            invariant(not keycodes.equal_keys(ours, theirs).any(), "a key to add is there already")

    def _sweep(self, places: I64) -> None:
        """Take away the marks at the end of chains, the given ones and those before them.

        Without it, a key that comes and goes would find its chain longer each time.
        """
        while places.size:
            last = self._table.take(self._wrap(places + 1)) == _EMPTY
            places = places[last & (self._table.take(places) == _GONE)]
            self._table[places] = _EMPTY
            self._used -= len(places)
            places = self._wrap(places - 1)

    def _rebuild(self, more: int) -> None:
        """A table of all keys, less than a third full with so many more: the next one is far."""
        slots = self._table[self._table >= 0].astype(np.int64)
        size = max(_SIZE_MIN, 1 << (3 * (len(slots) + more)).bit_length())
        self._table = np.full(size, _EMPTY, dtype=np.int32)
        self._used = 0
        self._insert(slots, check=False)

    def _homes(self, codes: I64) -> I64:
        """Where the chains of codes begin. Codes that are not keys are hashes already."""
        spread = self._finish(codes.view(np.uint64)) if self._exact else codes.view(np.uint64)
        return (spread & np.uint64(len(self._table) - 1)).view(np.int64)

    def _wrap(self, places: I64) -> I64:
        wrapped: I64 = places & (len(self._table) - 1)
        return wrapped

    def _give(self, count: int) -> I64:
        slots = self.next_slots(count)
        self._capacity += count - len(self._free.pop(count))
        invariant(self._capacity <= _SLOTS_MAX, "too many keys")
        return slots

    def _check_live(self, slots: I64) -> None:
        if len(slots):
            within = int(slots.min()) >= 0 and int(slots.max()) < self._capacity
            invariant(within and bool((self._places[slots] >= 0).all()), "no key has this slot")


def distinct(columns: Sequence[pa.Array], finish: Finish = scramble) -> tuple[I64, I64]:
    """(rows, inverse): the first row of each distinct key, and for each row its key's index in ``rows``.

    A row with a null in its key has -1. A single integer-like key is ascending by value in ``rows``.
    """
    columns = plain(columns)
    exact = keycodes.exact([column.type for column in columns])
    codes = keycodes.codes(columns, finish)
    usable = keycodes.usable(columns)
    pending = np.arange(len(codes)) if usable is None else np.flatnonzero(usable)
    sortable = codes.view(np.uint64) if columns[0].type == pa.uint64() else codes
    inverse = np.full(len(codes), -1, dtype=np.int64)
    found: list[I64] = [pending[:0]]
    count = 0
    # Of the keys that share a code, each round takes one; almost always there is but one.
    while pending.size:
        firsts, group = _grouped(sortable[pending])
        chosen = pending[firsts]
        found.append(chosen)
        inverse[pending] = group + count
        count += len(chosen)
        pending = pending[:0] if exact else _others(columns, pending, chosen[group])
    return np.concatenate(found), inverse


def _grouped(codes: NDArray[np.int64] | NDArray[np.uint64]) -> tuple[I64, I64]:
    """The first index of each distinct code, ascending by code, and the group of each. Assumes at least one."""
    order = np.argsort(codes)
    ordered = codes[order]
    steps = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    heads = np.concatenate([[0], steps])
    group = np.empty(len(codes), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(codes)))
    # The least, because NumPy's fast sorts leave equal codes in an order that depends on the processor.
    return np.minimum.reduceat(order, heads), group


def _others(columns: Sequence[pa.Array], rows: I64, chosen: I64) -> I64:
    """Those of the rows that have not the key of the row chosen for them."""
    doubtful = np.flatnonzero(rows != chosen)
    if not doubtful.size:
        return doubtful
    rows, chosen = rows[doubtful], chosen[doubtful]
    return rows[~keycodes.equal_keys(take(columns, rows), take(columns, chosen))]
