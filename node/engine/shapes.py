"""What does not change from one question of a query to the next: where its columns are, and which it needs.

Making a shape checks a question and costs as much as answering a small one, so shapes are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from node.core.encoding import payload
from node.core.engine import HIGH, KEY, LOW, POSITION, Find, Probe, Question, find_schema, joined_schema
from node.engine import checks
from planner.model.query import Expr, columns_of

#: Queries come and go; beyond so many shapes all are forgotten, and those in use are made anew.
_KEPT = 1024
#: What is quickly compared of a question: alias, columns, keys and carry keys.
_Alike = tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Some columns of a joined row, and where they come from."""

    #: Places in the asking row.
    own: list[int]
    #: Names in the table; POSITION and KEY are among them in a find.
    theirs: list[str]
    #: For each of the columns its place in ``own`` and ``theirs``, one behind the other.
    order: list[int]
    schema: pa.Schema
    #: Whether all have types that Arrow can take from.
    plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How a question is answered, but for its rows."""

    asking: pa.Schema
    condition: Expr | None
    #: Places of the keys in the asking rows, and their types, in words, which are quicker to compare.
    keys: tuple[int, ...]
    key_types: tuple[str, ...]
    #: Places of LOW and HIGH in the asking rows; a find has none there.
    bounds: tuple[int, int] | None
    #: What the condition reads.
    read: Columns
    #: What the answer has.
    given: Columns
    #: All columns of the table that are read or given.
    needed: tuple[str, ...]
    empty: pa.RecordBatch


class Shapes:
    """The shapes of a table's questions."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._kept: dict[_Alike, list[Shape]] = {}
        self._count = 0

    def of(self, op: Question) -> Shape:
        """The shape of a question to an open index. Raises ValueError if it does not fit the table."""
        if isinstance(op, Probe):
            alike: _Alike = (op.alias, op.columns, op.keys, op.carry_keys)
            asking = op.rows.schema
        else:
            alike, asking = (op.alias, op.columns, op.keys, None), op.wanted.schema
        known = self._kept.get(alike)
        for shape in known or ():
            # The same object: comparing expressions would cost more than making the shape anew.
            if shape.condition is op.condition and shape.asking.equals(asking, check_metadata=True):
                return shape
        shape = _probe_shape(op, self._schema) if isinstance(op, Probe) else _find_shape(op, self._schema)
        if self._count >= _KEPT:
            self._kept, self._count = {}, 0
        self._kept.setdefault(alike, []).append(shape)
        self._count += 1
        return shape


def _probe_shape(op: Probe, table: pa.Schema) -> Shape:
    checks.check_probe(op, table)
    carry = op.rows.schema
    joined = joined_schema(carry, table, op.alias)
    read = _columns(_names(op.condition), carry, joined, op.alias)
    given = _columns(op.columns, carry, joined, op.alias)
    bounds = carry.get_field_index(LOW), carry.get_field_index(HIGH)
    return _shape(op, carry, [carry.get_field_index(name) for name in op.carry_keys], bounds, read, given)


def _find_shape(op: Find, table: pa.Schema) -> Shape:
    checks.check_find(op, table)
    nothing = pa.schema([])
    read = _columns(_names(op.condition), nothing, joined_schema(nothing, table, op.alias), op.alias)
    answer = find_schema(op, table)
    given = Columns([], answer.names, list(range(len(answer))), answer, _is_plain(answer))
    wanted = op.wanted.schema
    return _shape(op, wanted, range(len(wanted)), None, read, given)


def _shape(
    op: Question,
    asking: pa.Schema,
    keys: Sequence[int],
    bounds: tuple[int, int] | None,
    read: Columns,
    given: Columns,
) -> Shape:
    types = tuple(str(asking.field(place).type) for place in keys)
    needed = tuple(name for name in dict.fromkeys((*read.theirs, *given.theirs)) if name not in (POSITION, KEY))
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in given.schema.types], schema=given.schema)
    return Shape(asking, op.condition, tuple(keys), types, bounds, read, given, needed, empty)


def _names(condition: Expr | None) -> list[str]:
    return [] if condition is None else sorted(str(column) for column in columns_of(condition))


def _columns(names: Sequence[str], asking: pa.Schema, joined: pa.Schema, alias: str) -> Columns:
    own = [name for name in dict.fromkeys(names) if asking.get_field_index(name) >= 0]
    theirs = [name for name in dict.fromkeys(names) if asking.get_field_index(name) < 0]
    together = [*own, *theirs]
    schema = pa.schema([joined.field(name) for name in names])
    return Columns(
        [asking.get_field_index(name) for name in own],
        [name.removeprefix(f"{alias}.") for name in theirs],
        [together.index(name) for name in names],
        schema,
        _is_plain(schema),
    )


def _is_plain(schema: pa.Schema) -> bool:
    return all(payload.plain_type(kind) == kind for kind in schema.types)
