"""The in-process engine: tables as sorted runs, all work vectorised over Arrow and NumPy.

Pure computation. The order of an answer's rows depends on the operations only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from node.core.engine import (
    Append,
    Change,
    CloseIndex,
    CloseTable,
    Expire,
    Op,
    OpenIndex,
    OpenTable,
    Outcome,
    Probe,
    Question,
)
from node.core.keys.hashing import scramble
from node.core.keys.keycodes import Finish
from node.engine import checks, fusion
from node.engine.shapes import Shape, Shapes
from node.engine.table import Table

#: Questions are answered together up to so many asking rows: measured, it pays up to there (50 probes of
#: 10 rows cost about a tenth), and beyond hardly, while the answer has to be copied once more to part it.
_FUSED_ROWS = 32768
#: Batches are appended together up to so many bytes: who fills a table from a log would merge thousands of small runs.
_APPENDED_BYTES = 16 << 20

#: What questions have in common that are answered together: the table first.
_Group = tuple[str, tuple[str, ...], type[Question], tuple[str, ...]]
#: A question that waits for its answer: its place among the outcomes, and how it is answered.
_Waiting = tuple[int, Question, Shape]
#: Rows to be appended, and the place of their operation among the outcomes.
_Coming = tuple[int, pa.RecordBatch]


class NativeEngine:
    """An ``Engine``."""

    def __init__(self, finish: Finish = scramble) -> None:
        """``finish`` is the last step of the hash of keys that are hashed; any function is correct."""
        self._finish = finish
        self._tables: dict[str, Table] = {}
        self._shapes: dict[str, Shapes] = {}

    def run(self, ops: Sequence[Op]) -> list[Outcome]:
        """Perform the operations; for each of them what became of it."""
        outcomes: list[Outcome] = [None] * len(ops)
        waiting: dict[_Group, list[_Waiting]] = {}
        coming: dict[str, list[_Coming]] = {}
        for place, op in enumerate(ops):
            try:
                if isinstance(op, Question):
                    shape = self._shape(op)
                    group = (op.table, op.keys, type(op), shape.key_types)
                    waiting.setdefault(group, []).append((place, op, shape))
                    continue
                if isinstance(op, Append):
                    checks.check_append(op.table, self._table("append", op.table).schema, op.rows)
                    coming.setdefault(op.table, []).append((place, op.rows))
                    continue
                self._append(op.table, coming.pop(op.table, ()), outcomes)
                if isinstance(op, Expire | CloseIndex | CloseTable):
                    for group in [group for group in waiting if group[0] == op.table]:
                        self._answer(op.table, waiting.pop(group), outcomes)
                self._change(op)
            except Exception as error:  # whatever it is, the other operations go on
                outcomes[place] = error
        for table, batches in coming.items():
            self._append(table, batches, outcomes)
        for group, asked in waiting.items():
            self._answer(group[0], asked, outcomes)
        return outcomes

    def close(self) -> None:
        """There is nothing but memory to let go of, and whoever holds the engine does that."""

    def rows(self, table: str) -> int:
        """Live rows of a table."""
        return self._table("rows", table).rows

    def nbytes(self, table: str) -> int:
        """Bytes that a table and its indexes take."""
        return self._table("nbytes", table).nbytes

    def _table(self, who: str, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            raise ValueError(f"{who}: an open table required, got {name!r}; open are {sorted(self._tables)}")
        return table

    def _append(self, name: str, batches: Sequence[_Coming], outcomes: list[Outcome]) -> None:
        """Batches that come one after the other are one run. If that fails none of them is there."""
        for part in _portions(batches):
            try:
                self._tables[name].append([rows for _, rows in part])
            except Exception as error:
                for place, _ in part:
                    outcomes[place] = error

    def _change(self, op: Change) -> None:
        match op:
            case OpenTable():
                if op.table in self._tables:
                    raise ValueError(f"open: a new name required, got {op.table!r}, which is open")
                checks.check_table(op)
                self._tables[op.table] = Table(op.schema, self._finish)
                self._shapes[op.table] = Shapes(op.schema)
            case OpenIndex():
                table = self._table("open index", op.table)
                checks.check_index(op, table.schema, table.indexes)
                table.open_index(op.keys)
            case CloseIndex():
                table = self._table("close index", op.table)
                checks.check_opened("close index", op.table, op.keys, table.indexes)
                table.close_index(op.keys)
            case Append():
                raise AssertionError("what is appended waits for what follows it")
            case Expire():
                self._table("expire", op.table).expire(op.before)
            case CloseTable():
                self._table("close", op.table)
                del self._tables[op.table], self._shapes[op.table]

    def _shape(self, op: Question) -> Shape:
        who = "probe" if isinstance(op, Probe) else "find"
        checks.check_opened(who, op.table, op.keys, self._table(who, op.table).indexes)
        return self._shapes[op.table].of(op)

    def _answer(self, name: str, waiting: Sequence[_Waiting], outcomes: list[Outcome]) -> None:
        """Answer questions that can be answered together. If that fails, one by one: most are innocent."""
        table = self._tables[name]
        for part in _parts(waiting):
            places = [place for place, _, _ in part]
            asked = [(op, shape) for _, op, shape in part]
            try:
                answers = fusion.answer(table, asked)
            except Exception as error:
                answers = [error] if len(part) == 1 else [_alone(table, *each) for each in asked]
            for place, answer in zip(places, answers, strict=True):
                outcomes[place] = answer


def _portions(batches: Sequence[_Coming]) -> Iterator[list[_Coming]]:
    """The batches in their order, no more at once than fit into a run."""
    part: list[_Coming] = []
    nbytes = 0
    for each in batches:
        size = each[1].nbytes
        if part and nbytes + size > _APPENDED_BYTES:
            yield part
            part, nbytes = [], 0
        part.append(each)
        nbytes += size
    if part:
        yield part


def _alone(table: Table, op: Question, shape: Shape) -> pa.RecordBatch | Exception:
    try:
        return fusion.answer(table, [(op, shape)])[0]
    except Exception as error:
        return error


def _parts(waiting: Sequence[_Waiting]) -> Iterator[list[_Waiting]]:
    """The questions in their order, no more at once than pays."""
    part: list[_Waiting] = []
    count = 0
    for each in waiting:
        rows = fusion.asking_rows(each[1]).num_rows
        if part and count + rows > _FUSED_ROWS:
            yield part
            part, count = [], 0
        part.append(each)
        count += rows
    if part:
        yield part
