"""The in-process engine: windows as sorted runs, all work vectorised over Arrow and NumPy.

Pure computation. The order of an answer's rows depends on the operations only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from node.core import payload
from node.core.engine import Append, CloseWindow, Expire, Find, Op, OpenWindow, Outcome, Probe
from node.core.evaluate import holds
from node.core.hashing import scramble
from node.core.keycodes import Finish
from node.engine import checks
from node.engine.window import Window

#: Probes are answered together up to so many carry rows: measured, it pays up to there (50 probes of
#: 10 rows cost about a tenth), and beyond hardly, while the answer has to be copied once more to part it.
_FUSED_ROWS = 32768


class NativeEngine:
    """An ``Engine``. Raises ValueError for an operation that does not fit; those before it are done then."""

    def __init__(self, finish: Finish = scramble) -> None:
        """``finish`` is the last step of the hash of keys that are hashed; any function is correct."""
        self._finish = finish
        self._windows: dict[str, Window] = {}

    def run(self, ops: Sequence[Op]) -> list[pa.RecordBatch]:
        """Perform the operations in order; the answers of the probes and finds among them, in order."""
        answers: list[pa.RecordBatch] = []
        for group in _groups(ops):
            first = group[0]
            if isinstance(first, Probe):
                answers += self._probe([op for op in group if isinstance(op, Probe)])
            elif isinstance(first, Find):
                answers.append(self._find(first))
            else:
                self._change(first)
        return answers

    def run_all(self, groups: Sequence[Sequence[Op]]) -> list[Outcome]:
        """Perform groups of operations in order; what fails in one is that group's alone."""
        outcomes: list[Outcome] = []
        for ops in groups:
            try:
                outcomes.append(self.run(ops))
            except Exception as error:
                outcomes.append(error)
        return outcomes

    def close(self) -> None:
        """There is nothing but memory to let go of, and whoever holds the engine does that."""

    def rows(self, window: str) -> int:
        """Live rows of a window: not expired, and without a null in a key."""
        return self._window("rows", window).rows

    def nbytes(self, window: str) -> int:
        """Bytes that a window's rows and index take."""
        return self._window("nbytes", window).nbytes

    def _window(self, who: str, name: str) -> Window:
        if name not in self._windows:
            raise ValueError(f"{who}: an open window required, got {name!r}; open are {sorted(self._windows)}")
        return self._windows[name]

    def _change(self, op: Op) -> None:
        if isinstance(op, OpenWindow):
            self._open(op)
        elif isinstance(op, Append):
            window = self._window("append", op.window)
            checks.check_append(op.window, window.schema, op.rows)
            window.append(op.rows)
        elif isinstance(op, Expire):
            self._window("expire", op.window).expire(op.before_ts)
        elif isinstance(op, CloseWindow):
            self._window("close", op.window)
            del self._windows[op.window]

    def _open(self, op: OpenWindow) -> None:
        if op.window in self._windows:
            raise ValueError(f"open: a new name required, got {op.window!r}, which is open")
        checks.check_open(op)
        self._windows[op.window] = Window(op.schema, op.keys, self._finish)

    def _probe(self, probes: Sequence[Probe]) -> list[pa.RecordBatch]:
        """Answer probes that differ in nothing but their rows."""
        first = probes[0]
        window = self._window("probe", first.window)
        for probe in probes:
            checks.check_probe(probe, window.schema, window.key_names)
        carry = first.rows if len(probes) == 1 else pa.concat_batches([probe.rows for probe in probes])
        ranges = first.position, first.range_length, first.include_ties, first.low
        answer, origin = window.probe(carry, first.carry_keys, *ranges)
        if first.residual is not None and answer.num_rows:
            held = np.flatnonzero(holds(first.residual, answer))
            answer, origin = payload.take_batch(answer, held), origin[held]
        if first.columns is not None:
            answer = answer.select(first.columns)
        if len(probes) == 1:
            return [answer]
        order = np.argsort(origin, kind="stable")
        answer = payload.take_batch(answer, order)
        ends = np.searchsorted(origin[order], np.cumsum([probe.rows.num_rows for probe in probes]))
        starts = [0, *ends[:-1]]
        return [answer.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]

    def _find(self, op: Find) -> pa.RecordBatch:
        window = self._window("find", op.window)
        checks.check_find(op, window.schema, window.key_names)
        return window.find(op.keys, op.low, op.high)


def _groups(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """The operations in order, each by itself but for neighbouring probes that can be answered as one."""
    group: list[Op] = []
    for op in ops:
        if group and not _fusible(group, op):
            yield group
            group = []
        group.append(op)
    if group:
        yield group


def _fusible(group: Sequence[Op], op: Op) -> bool:
    probes = [other for other in group if isinstance(other, Probe)]
    if not probes or not isinstance(op, Probe):
        return False
    return _alike(probes[0], op) and sum(other.rows.num_rows for other in probes) + op.rows.num_rows <= _FUSED_ROWS


def _alike(one: Probe, other: Probe) -> bool:
    return (
        one.window == other.window
        and one.carry_keys == other.carry_keys
        and one.position == other.position
        and one.range_length == other.range_length
        and one.include_ties == other.include_ties
        and one.residual == other.residual
        and one.columns == other.columns
        and one.low == other.low
        and one.rows.schema.equals(other.rows.schema, check_metadata=True)
    )
