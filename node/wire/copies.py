"""Copies that run, with their filters, to protobuf and back.

What the functions of a filter are is checked where it is computed (``owned_copies``); what it is
made of is checked here, and how deep it goes, for those who walk it by recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from node.core.errors import PeerProtocolError
from node.rpc import link_pb2 as pb
from planner.algorithms.descriptions import CopyKind
from planner.model.copies import CopyAxis, RunningCopy
from planner.model.query import Call, ColumnRef, Expr, Literal

#: What a query can have is less deep, and has numbers of fewer digits.
DEPTH_MAX = 256
_DIGITS_MAX = 100


def copy_out(copy: RunningCopy) -> pb.RunningCopy:
    """A copy that runs."""
    out = pb.RunningCopy(
        kind=copy.kind,
        stream=copy.stream,
        keys=copy.keys,
        columns=copy.columns,
        axis=copy.axis,
        owner=copy.owner,
        holder=copy.holder,
        share=copy.share,
    )
    if copy.filter is not None:
        parts = list(_parts(copy.filter))
        types = [part.type for part in parts if not isinstance(part, ColumnRef)]
        schema = pa.schema([pa.field("", kind) for kind in types])
        out.filter.CopyFrom(pb.Filter(parts=map(_part_out, parts), types=schema.serialize().to_pybytes()))
    return out


def copy_in(copy: pb.RunningCopy) -> RunningCopy:
    """A copy that a peer says runs.

    Raises PeerProtocolError if it cannot be.
    """
    try:
        kind, axis = CopyKind(copy.kind), CopyAxis(copy.axis)
    except ValueError as error:
        raise PeerProtocolError(f"a copy requires a kind and an axis that this version knows; got {error}") from None
    where = _filter(copy.stream, copy.filter) if copy.HasField("filter") else None
    share = copy.share if copy.HasField("share") else None
    if share is not None and not 0 <= share <= 1:
        raise PeerProtocolError(f"a copy requires a share from 0 to 1; got {share}")
    keys, columns = tuple(copy.keys), tuple(copy.columns)
    return RunningCopy(kind, copy.stream, keys, columns, where, axis, copy.owner, copy.holder, share)


def _parts(expr: Expr) -> Iterator[Expr]:
    """The expression and all in it, arguments before what is applied to them."""
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _parts(arg)
    yield expr


def _part_out(part: Expr) -> pb.FilterPart:
    if isinstance(part, ColumnRef):
        return pb.FilterPart(column=part.column)
    if isinstance(part, Call):
        return pb.FilterPart(applied=pb.Applied(function=part.function, args=len(part.args)))
    match part.value:
        case None:
            return pb.FilterPart(null=0)
        case bool(truth):
            return pb.FilterPart(truth=truth)
        case float(real):
            return pb.FilterPart(real=real)
        case str(text):
            return pb.FilterPart(text=text)
        case bytes(binary):
            return pb.FilterPart(binary=binary)
        case number:
            return pb.FilterPart(number=str(number))


def _filter(stream: str, message: pb.Filter) -> Expr:
    types = iter(_types(message.types))
    made: list[tuple[Expr, int]] = []
    for part in message.parts:
        if part.WhichOneof("what") == "column":
            made.append((ColumnRef(stream, part.column), 1))
            continue
        kind = next(types, None)
        if kind is None:
            raise PeerProtocolError("a filter requires a type for each part that is no column; got fewer")
        if part.WhichOneof("what") != "applied":
            made.append((Literal(_value(part, kind), kind), 1))
            continue
        count = part.applied.args
        if count > len(made):
            raise PeerProtocolError(
                f"a filter requires {count} parts to apply {part.applied.function!r} to; got {len(made)}"
            )
        args = made[len(made) - count :]
        depth = 1 + max((depth for _, depth in args), default=0)
        if depth > DEPTH_MAX:
            raise PeerProtocolError(f"a filter requires at most {DEPTH_MAX} functions upon one another; got more")
        del made[len(made) - count :]
        made.append((Call(part.applied.function, tuple(arg for arg, _ in args), kind), depth))
    if len(made) != 1 or next(types, None) is not None:
        raise PeerProtocolError(f"a filter requires one expression and no more types than parts; got {len(made)}")
    return made[0][0]


def _types(data: bytes) -> list[pa.DataType]:
    try:
        return [field.type for field in pa.ipc.read_schema(pa.py_buffer(data))]
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise PeerProtocolError(f"a filter requires the types of its parts; got {error}") from error


def _value(part: pb.FilterPart, kind: pa.DataType) -> bool | int | float | Decimal | str | bytes | None:
    match part.WhichOneof("what"):
        case "null":
            return None
        case "truth":
            return bool(part.truth)
        case "number":
            return _number(part.number, kind)
        case "real":
            return float(part.real)
        case "text":
            return str(part.text)
        case "binary":
            return bytes(part.binary)
    raise PeerProtocolError("a part of a filter requires something that this version knows; got nothing")


def _number(text: str, kind: pa.DataType) -> int | Decimal:
    if len(text) <= _DIGITS_MAX:
        try:
            number = Decimal(text) if pa.types.is_decimal(kind) else int(text)
            if isinstance(number, int) or number.is_finite():
                return number
        except (ValueError, InvalidOperation):
            pass
    raise PeerProtocolError(f"a number in a filter requires at most {_DIGITS_MAX} digits; got {text[:_DIGITS_MAX]!r}")
