"""Gives the names in a query a meaning: streams with their windows, and columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from planner.model.errors import QueryError, UnknownStreamError
from planner.model.query import ColumnRef, StreamInfo, StreamRef, Window
from planner.sql.text import WINDOW_FORM, QueryText, is_window, quote, shown, window_of
from planner.sql.tree import ColumnNode, Name, TableNode

_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 20


def bind_streams(
    source: QueryText, tables: tuple[TableNode, ...], catalogue: Mapping[str, StreamInfo]
) -> tuple[StreamRef, ...]:
    """The streams in FROM order, each with its own alias and window."""
    refs: list[StreamRef] = []
    windows: list[int] = []
    for table in tables:
        name = _resolve(source, "stream", table.name, sorted(catalogue))
        alias = _alias(source, table, name)
        _check_alias_is_new(source, table, alias, refs)
        window, at = _window(source, table, name, alias)
        windows.append(at)
        refs.append(StreamRef(alias, catalogue[name], window))
    for bracket in source.brackets:
        if bracket.start not in windows:
            what = "a window" if is_window(bracket) else "a bracket"
            raise source.error(f"{what} is only supported once, directly after a stream's name", bracket.start)
    return tuple(refs)


def checked_name(source: QueryText, what: str, name: Name) -> str:
    """The text of a name that the query gives to something."""
    if not _NAME.fullmatch(name.text):
        raise source.error(
            f"{what} {quote(name.text)} cannot be used: required letters, digits and _, "
            "starting with a letter or a single _",
            name.at,
        )
    return name.text


def _alias(source: QueryText, table: TableNode, name: str) -> str:
    if table.alias is not None:
        return checked_name(source, "alias", table.alias)
    if not _NAME.fullmatch(name):
        raise source.error(f"stream {quote(name)} needs an alias made of letters, digits and _", table.name.at)
    return name


def _check_alias_is_new(source: QueryText, table: TableNode, alias: str, refs: list[StreamRef]) -> None:
    """Aliases that differ only in case are one name too many for a case-insensitive language."""
    if any(ref.alias.casefold() == alias.casefold() for ref in refs):
        at = (table.alias or table.name).at
        raise source.error(f"two streams are named {quote(alias)}: required a different alias for each, with AS", at)


def _window(source: QueryText, table: TableNode, name: str, alias: str) -> tuple[Window, int]:
    """The window of a stream and the offset of its bracket."""
    bracket = source.bracket_after(table.name.end)
    if bracket is not None:
        return window_of(source, bracket), bracket.start
    example = f"{name} {WINDOW_FORM} AS {alias}"
    misplaced = None if table.alias is None else source.bracket_after(table.alias.end)
    if misplaced is not None:
        raise source.error(f"a window goes before the alias: required {example}", misplaced.start)
    raise source.error(f"stream {quote(name)} has no window: required {example}", table.name.at)


def _resolve(source: QueryText, what: str, name: Name, known: list[str], owner: str = "") -> str:
    """The one of ``known`` that a name in the query means, or an error that lists them."""
    matches = _matches(name, known)
    if len(matches) == 1:
        return matches[0]
    if matches:
        message = f"{what} {quote(name.text)}{owner} is ambiguous: it can be {_listing(matches)}"
        raise source.error(message, name.at)
    raise _unknown(source, what, name, known, owner)


def _unknown(source: QueryText, what: str, name: Name, known: list[str], owner: str = "") -> QueryError:
    close = difflib.get_close_matches(name.text[:100].casefold(), [item.casefold() for item in known], n=1)
    guess = next((item for item in known if [item.casefold()] == close), None)
    hint = "" if guess is None else f"; did you mean {quote(guess)}?"
    if guess is None and name.quoted and not owner and what == "column":
        hint = f"; text is written in single quotes, such as '{shown(name.text)}'"
    message = f"unknown {what} {quote(name.text)}{owner}: required one of {_listing(known)}{hint}"
    error = source.error(message, name.at)
    return UnknownStreamError(str(error)) if what == "stream" else error


def _matches(name: Name, known: Iterable[str]) -> list[str]:
    """An exact match wins; without one, an unquoted name may differ in case."""
    candidates = list(known)
    exact = [item for item in candidates if item == name.text]
    if exact or name.quoted:
        return exact
    return [item for item in candidates if item.casefold() == name.text.casefold()]


def _listing(names: list[str]) -> str:
    if not names:
        return "(none are known)"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(shown(name) for name in names[:_LISTED]) + more


@dataclass(frozen=True, slots=True)
class Scope:
    """The streams whose columns an expression may use."""

    source: QueryText
    streams: tuple[StreamRef, ...]

    def stream(self, name: Name) -> StreamRef:
        """The stream that a qualifier names."""
        return self.ref(_resolve(self.source, "alias", name, [ref.alias for ref in self.streams]))

    def ref(self, alias: str) -> StreamRef:
        """The stream of this alias."""
        return next(ref for ref in self.streams if ref.alias == alias)

    def column(self, node: ColumnNode) -> ColumnRef:
        """The column that a name, with or without its stream, means."""
        if node.stream is None:
            return self._unqualified(node.name)
        return self.column_of(self.stream(node.stream), node.name)

    def column_of(self, ref: StreamRef, name: Name) -> ColumnRef:
        """The column of one stream that a name means."""
        owner = f" of {ref.alias}" if ref.alias == ref.stream.name else f" of {ref.alias} (stream {ref.stream.name})"
        return ColumnRef(ref.alias, _resolve(self.source, "column", name, list(ref.stream.schema.names), owner))

    def using(self, place: int, name: Name, merged: Collection[str]) -> tuple[ColumnRef, ColumnRef]:
        """The two columns that USING makes equal: of a stream before, and of the joined one.

        Several streams before may have it if USING has made theirs equal, as it has for those in ``merged``;
        then the first stands for all.
        """
        before = [ref for ref in self.streams[:place] if _matches(name, ref.stream.schema.names)]
        choices = [self.column_of(ref, name) for ref in before]
        if not choices:
            every = [ColumnRef(ref.alias, column) for ref in self.streams[:place] for column in ref.stream.schema.names]
            raise _unknown(self.source, "column", name, [str(column) for column in every])
        if len([column for column in choices if column.alias not in merged]) > 1:
            found = " or ".join(str(column) for column in choices)
            raise self.source.error(f"column {quote(name.text)} is ambiguous: required ON with {found}", name.at)
        return choices[0], self.column_of(self.streams[place], name)

    def _unqualified(self, name: Name) -> ColumnRef:
        """The columns of all streams compete, so an exact match in one stream beats another's case."""
        every = [ColumnRef(ref.alias, column) for ref in self.streams for column in ref.stream.schema.names]
        names = _matches(name, [column.column for column in every])
        owners = [column for column in every if column.column in names]
        if len(owners) == 1:
            return owners[0]
        if owners:
            found = " or ".join(str(column) for column in owners)
            raise self.source.error(f"column {quote(name.text)} is ambiguous: required {found}", name.at)
        raise _unknown(self.source, "column", name, [str(column) for column in every])

    def position(self, alias: str) -> int:
        """Place of a stream in FROM."""
        return [ref.alias for ref in self.streams].index(alias)

    def type_of(self, column: ColumnRef) -> pa.DataType:
        """The type of a column."""
        return self.ref(column.alias).stream.schema.field(column.column).type
