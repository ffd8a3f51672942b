"""A run: an immutable stretch of a table, its rows once, with one order of them for each index.

The payload keeps the order of arrival, and an order knows its rows by their places there. So a table with
several indexes has its rows once, and a merge copies them once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from node.core.encoding import payload as payloads
from node.core.keys.hashing import I64
from node.engine import orders
from node.engine.orders import Order

#: The columns of an index.
Keys = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Never empty. An index that finds none of its rows, because all have a null in a key, has no order here."""

    payload: pa.RecordBatch
    #: Of the rows of the payload.
    positions: I64
    orders: Mapping[Keys, Order]
    least: int
    greatest: int
    #: Of payload and positions alone, without the orders.
    bare_nbytes: int

    @cached_property
    def nbytes(self) -> int:
        return self.bare_nbytes + sum(order.nbytes for order in self.orders.values())

    @cached_property
    def half(self) -> int:
        """More than half of the rows have a position not above this."""
        middle = self.positions.size // 2
        return int(np.partition(self.positions, middle)[middle])


def make(payload: pa.RecordBatch, positions: I64, orders_: Mapping[Keys, Order]) -> Run:
    """A run of at least one row."""
    bare = payload.nbytes + positions.nbytes
    return Run(payload, positions, orders_, int(positions.min()), int(positions.max()), bare)


def with_order(run: Run, keys: Keys, order: Order | None) -> Run:
    """The run with the order of one more index."""
    return _with_orders(run, run.orders if order is None else {**run.orders, keys: order})


def without_order(run: Run, keys: Keys) -> Run:
    """The run without the order of an index."""
    return _with_orders(run, {other: order for other, order in run.orders.items() if other != keys})


def merge(runs: Sequence[Run], before: int) -> Run:
    """One run for neighbouring ones, in order of arrival, without rows before a position. Assumes one is left."""
    parts = [trim(run, before) for run in runs]
    bases = [0, *itertools.accumulate(part.positions.size for part in parts)]
    in_order = all(one.greatest <= other.least for one, other in itertools.pairwise(parts))
    merged: dict[Keys, Order] = {}
    for keys in dict.fromkeys(keys for part in parts for keys in part.orders):
        of_keys = [(base, part.orders[keys]) for base, part in zip(bases, parts, strict=False) if keys in part.orders]
        merged[keys] = orders.merge(of_keys, in_order)
    positions = np.concatenate([part.positions for part in parts])
    return make(payloads.concat([part.payload for part in parts]), positions, merged)


def trim(run: Run, before: int) -> Run:
    """The run without rows before a position. Assumes one is left."""
    if run.least >= before:
        return run
    alive = run.positions >= before
    keep = np.flatnonzero(alive)
    moved = np.cumsum(alive, dtype=np.int32) - np.int32(1)
    left = {keys: orders.live(order, before, moved) for keys, order in run.orders.items()}
    found = {keys: order for keys, order in left.items() if order is not None}
    return make(run.payload.take(pa.array(keep)), run.positions[keep], found)


def _with_orders(run: Run, orders_: Mapping[Keys, Order]) -> Run:
    return Run(run.payload, run.positions, orders_, run.least, run.greatest, run.bare_nbytes)
