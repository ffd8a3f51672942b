"""A query as it is written: what the parser makes of the tokens, before any name has a meaning.

Every node knows where it starts in the text, so that every later error can point at it,
and how deep it is, so that nobody who walks it by recursion meets a surprise.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Name:
    """A name as the user wrote it; quoted names are taken exactly."""

    at: int
    end: int
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class ColumnNode:
    """``column`` or ``stream.column``."""

    at: int
    stream: Name | None
    name: Name
    depth: int = 1


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A constant: its text, and whether it is a NUMBER, STRING, TRUE, FALSE, NULL, DATE, TIMESTAMP or INTERVAL."""

    at: int
    kind: str
    text: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class ApplyNode:
    """An operator or a function, by its name in upper case, with what it is applied to."""

    at: int
    name: str
    args: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class CastNode:
    """``CAST(x AS type)`` or ``x::type``."""

    at: int
    arg: Node
    type: pa.DataType
    depth: int


Node = ColumnNode | ConstantNode | ApplyNode | CastNode


@dataclass(frozen=True, slots=True)
class StarNode:
    """``*`` or ``stream.*``."""

    at: int
    stream: Name | None


@dataclass(frozen=True, slots=True)
class ItemNode:
    """One item of the select list."""

    at: int
    value: Node | StarNode
    name: Name | None


@dataclass(frozen=True, slots=True)
class TableNode:
    """One stream in FROM; ``crossed`` says that it was joined by CROSS JOIN, so a product is meant."""

    name: Name
    alias: Name | None
    crossed: bool = False
    using: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectNode:
    """A whole query. ON and WHERE say the same in inner joins, so their terms are in one list."""

    items: tuple[ItemNode, ...]
    tables: tuple[TableNode, ...]
    terms: tuple[Node, ...]
