"""``--from``: the words that say where a query begins. A timestamp is written as SQL writes one."""

from __future__ import annotations

from planner.model.beginning import AT_ONCE, BeginAt, Beginning
from planner.model.errors import QueryError
from planner.model.types import UNITS
from planner.sql.literals import constant
from planner.sql.text import QueryText, quote
from planner.sql.tree import ConstantNode

_REQUIRED = (
    "a query begins (--from) with start, now, or a timestamp of the calendar such as '2026-03-01' or "
    "'2026-03-01 12:30:00', in UTC unless it says its zone"
)


def parse_beginning(text: str) -> Beginning:
    """Where a query begins; nothing is the default. Raises QueryError."""
    if not text:
        return AT_ONCE
    if text.strip().lower() in (BeginAt.START, BeginAt.NOW):
        return Beginning(BeginAt(text.strip().lower()))
    try:
        found = constant(QueryText(text, (), ()), ConstantNode(0, "TIMESTAMP", text))
    except QueryError:
        raise QueryError(f"{_REQUIRED}; got {quote(text)}") from None
    assert isinstance(found.value, int)
    return Beginning(BeginAt.TIME, found.value * 1_000 // UNITS[found.type.unit])
