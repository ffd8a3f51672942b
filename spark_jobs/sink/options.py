"""The options of ``format("narrows")``, checked before a daemon is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from planner.model.durations import duration_us
from planner.model.errors import NarrowsError

_BOOLEANS = {"true": True, "false": False}
#: What is done with nanoseconds of columns that Spark has in microseconds; true: rounded down, false: refused.
_NANOSECONDS = {"exact": False, "floor": True}
_KNOWN = ("address", "query", "columns", "partitions", "maxRowsPerTrigger", "partial", "nanoseconds", "reader", "wait")


class SinkError(NarrowsError):
    """The rows of a query cannot be had as they were asked for."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What to read, and how."""

    address: str
    query: str
    #: None: all.
    columns: tuple[str, ...] | None = None
    #: How many tasks share the rows; None: as many as the bytes are worth.
    partitions: int | None = None
    #: None: each micro-batch takes all there is.
    rows_per_trigger: int | None = None
    #: Take what is left of a query whose first rows are gone, or that has failed.
    partial: bool = False
    floor_nanoseconds: bool = False
    #: The name under which rows are taken; nothing: the default reader.
    reader: str = ""
    #: The longest to wait for a site that is away; None: for ever.
    wait_s: float | None = None


def parse_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises SinkError that names the option, what it requires and what came."""
    options = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(options.keys() - {name.lower() for name in _KNOWN}):
        raise SinkError(f"narrows: required options of {', '.join(_KNOWN)}; got {', '.join(unknown)}")
    return SinkOptions(
        address=_required(options, "address", "HOST:PORT of the site at which the query was issued"),
        query=_required(options, "query", "the ID of a query, as narrows queries shows"),
        columns=_columns(options.get("columns")),
        partitions=_count(options, "partitions"),
        rows_per_trigger=_count(options, "maxRowsPerTrigger"),
        partial=_word(options, "partial", _BOOLEANS, "false"),
        floor_nanoseconds=_word(options, "nanoseconds", _NANOSECONDS, "exact"),
        reader=options.get("reader", "").strip(),
        wait_s=_wait_s(options.get("wait")),
    )


def _wait_s(text: str | None) -> float | None:
    if text is None:
        return None
    length_us = duration_us(text)
    if not length_us:
        raise SinkError(f"narrows: option wait requires a duration above 0 such as 10min; got {text!r}")
    return length_us / 1e6


def _required(options: Mapping[str, str], name: str, what: str) -> str:
    value = options.get(name, "").strip()
    if not value:
        raise SinkError(f"narrows: option {name} is required: {what}")
    return value


def _count(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdecimal() or not int(value):
        raise SinkError(f"narrows: option {name} requires a number above 0; got {value!r}")
    return int(value)


def _word(options: Mapping[str, str], name: str, words: Mapping[str, bool], default: str) -> bool:
    value = options.get(name, default)
    if value.lower() not in words:
        raise SinkError(f"narrows: option {name} requires {' or '.join(words)}; got {value!r}")
    return words[value.lower()]


def _columns(text: str | None) -> tuple[str, ...] | None:
    """Names between commas; or, where names have commas or spaces at their ends, a JSON array of them."""
    if text is None:
        return None
    required = 'column names between commas, or a JSON array of them such as ["a", "b"]'
    names: object = [name.strip() for name in text.split(",")]
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names) or not names:
        raise SinkError(f"narrows: option columns requires {required}; got {text!r}")
    if len(set(names)) < len(names):
        raise SinkError(f"narrows: option columns requires each column once; got {text!r}")
    return tuple(names)
