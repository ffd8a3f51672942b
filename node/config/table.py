"""Reading a table of the file, and noting everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from node.config.problems import Problem, RefusedError, dotted, one_of, shown
from node.config.units import size_bytes

T = TypeVar("T")


class Table:
    """One table of the file: reads its keys and notes what is wrong with them.

    Readers return a placeholder for a wrong value so that checking goes on; ``load_cluster`` raises
    when anything was noted, so no placeholder leaves this module.
    """

    def __init__(self, file: str, key: tuple[str, ...], values: dict[str, Any], problems: list[Problem]) -> None:
        self._file = file
        self._key = key
        self._values = values
        self._problems = problems

    @property
    def key(self) -> str:
        return dotted(*self._key)

    def has(self, name: str) -> bool:
        return name in self._values

    def is_table(self, name: str) -> bool:
        """Whether what stands under ``name`` is a table."""
        return isinstance(self._values.get(name), dict)

    def is_empty(self, name: str) -> bool:
        """Whether nothing stands under ``name``, not even something wrong."""
        return bool(self._values.get(name, {}) == {})

    def note(self, name: str, required: str, got: str) -> None:
        """Record a problem of one key of this table."""
        self._problems.append(Problem(self._file, dotted(*self._key, name), required, got))

    def check_name(self, parse: Callable[[str], str]) -> None:
        """Check the last part of this table's own key."""
        try:
            parse(self._key[-1])
        except RefusedError as error:
            self._problems.append(Problem(self._file, self.key, error.required, error.got))

    def only(self, *known: str) -> None:
        """Refuse every key that is not in ``known``: a misspelt option must not be ignored."""
        for name in self._values:
            if name not in known:
                self.note(name, one_of(known, name), f"the unknown key {shown(name)}")

    def text(self, name: str, what: str, parse: Callable[[str], T], default: T, *, required: bool = False) -> T:
        """The parsed value of a text key; ``what`` says in messages what the key is for."""
        if name not in self._values:
            if required:
                self.note(name, what, "nothing")
            return default
        value = self._values[name]
        if not isinstance(value, str):
            self.note(name, what, shown(value))
            return default
        try:
            return parse(value)
        except RefusedError as error:
            self.note(name, error.required, error.got)
            return default

    def number(self, name: str, what: str, *, zero: bool = False) -> float | None:
        """A number above 0, or from 0 on; None when the key is not there."""
        if name not in self._values:
            return None
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not (0 if zero else 1e-9) <= value < 1e15:
            self.note(name, what, shown(value))
            return None
        return float(value)

    def size(self, name: str, what: str, default: int) -> int:
        """Bytes: a text that says how many, or the number 0 for none."""
        if self._values.get(name) == 0 and not isinstance(self._values[name], bool):
            return 0
        return self.text(name, what, size_bytes, default)

    def whole(self, name: str, most: int) -> int | None:
        """A whole number from 1 on; None when the key is not there."""
        if name not in self._values:
            return None
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.note(name, f"a whole number from 1 to {most}", shown(value))
            return None
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._values.get(name, default)
        if not isinstance(value, bool):
            self.note(name, "true or false", shown(value))
            return default
        return value

    def scalar(self, name: str, what: str) -> str | None:
        """A value that is no table or array, as text the way Spark writes it."""
        value = self._values[name]
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        self.note(name, what, shown(value))
        return None

    def texts(self, name: str, what: str) -> tuple[str, ...]:
        """An array of texts, none of them empty; empty when the key is not there."""
        if name not in self._values:
            return ()
        values = self._values[name]
        if not isinstance(values, list) or not values:
            self.note(name, what, "an empty array" if values == [] else shown(values))
            return ()
        for value in values:
            if not isinstance(value, str) or not value.strip():
                self.note(name, what, f"an array with {shown(value)}")
                return ()
        return tuple(values)

    def names(self) -> list[str]:
        """The keys of this table, in the order of the file."""
        return list(self._values)

    def table(self, name: str) -> Table:
        """The table under ``name``, empty when there is none."""
        values = self._values.get(name, {})
        if not isinstance(values, dict):
            self.note(name, "a table", shown(values))
            values = {}
        return Table(self._file, (*self._key, name), values, self._problems)

    def tables(self, name: str) -> list[tuple[str, Table]]:
        """The tables under ``name``; wrong types are noted and left out."""
        group = self._values.get(name, {})
        if not isinstance(group, dict):
            self.note(name, f"tables [{dotted(*self._key, name)}.NAME]", shown(group))
            return []
        inner = Table(self._file, (*self._key, name), group, self._problems)
        found = []
        for child, values in group.items():
            if isinstance(values, dict):
                found.append((child, Table(self._file, (*inner._key, child), values, self._problems)))
            else:
                inner.note(child, "a table", shown(values))
        return found
