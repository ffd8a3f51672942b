"""Conditions and expressions from one description: as SQL for the system, as plain Python for the oracle.

The Python side says what SQL means by it, in three values: null is None, a condition holds only if it is True.
It knows nothing of how the system evaluates anything.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: By alias the values of one tuple.
Rows = Mapping[str, Mapping[str, Any]]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@dataclass(frozen=True)
class Col:
    alias: str
    column: str

    def sql(self) -> str:
        return f"{self.alias}.{self.column}"

    def value(self, rows: Rows) -> Any:
        return rows[self.alias][self.column]


@dataclass(frozen=True)
class Lit:
    literal: int | str

    def sql(self) -> str:
        if isinstance(self.literal, str):
            return "'" + self.literal.replace("'", "''") + "'"
        return str(self.literal) if self.literal >= 0 else f"({self.literal})"

    def value(self, rows: Rows) -> Any:
        return self.literal


@dataclass(frozen=True)
class Arithmetic:
    sign: Literal["+", "-", "*"]
    left: Term
    right: Term

    def sql(self) -> str:
        return f"({self.left.sql()} {self.sign} {self.right.sql()})"

    def value(self, rows: Rows) -> Any:
        left, right = self.left.value(rows), self.right.value(rows)
        return None if left is None or right is None else _ARITHMETIC[self.sign](left, right)


@dataclass(frozen=True)
class Case:
    condition: Predicate
    then: Term
    otherwise: Term

    def sql(self) -> str:
        return f"CASE WHEN {self.condition.sql()} THEN {self.then.sql()} ELSE {self.otherwise.sql()} END"

    def value(self, rows: Rows) -> Any:
        return (self.then if self.condition.value(rows) is True else self.otherwise).value(rows)


@dataclass(frozen=True)
class Compare:
    sign: str
    left: Term
    right: Term

    def sql(self) -> str:
        return f"{self.left.sql()} {self.sign} {self.right.sql()}"

    def value(self, rows: Rows) -> bool | None:
        left, right = self.left.value(rows), self.right.value(rows)
        return None if left is None or right is None else _COMPARE[self.sign](left, right)


@dataclass(frozen=True)
class IsNull:
    term: Term
    negated: bool

    def sql(self) -> str:
        return f"{self.term.sql()} IS {'NOT ' if self.negated else ''}NULL"

    def value(self, rows: Rows) -> bool | None:
        return (self.term.value(rows) is None) != self.negated


@dataclass(frozen=True)
class In:
    term: Term
    literals: tuple[int | str, ...]

    def sql(self) -> str:
        return f"{self.term.sql()} IN ({', '.join(Lit(literal).sql() for literal in self.literals)})"

    def value(self, rows: Rows) -> bool | None:
        value = self.term.value(rows)
        return None if value is None else value in self.literals


@dataclass(frozen=True)
class Like:
    term: Term
    pattern: str

    def sql(self) -> str:
        return f"{self.term.sql()} LIKE {Lit(self.pattern).sql()}"

    def value(self, rows: Rows) -> bool | None:
        value = self.term.value(rows)
        if value is None:
            return None
        parts = [{"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in self.pattern]
        return re.fullmatch("".join(parts), value, re.DOTALL) is not None


@dataclass(frozen=True)
class Between:
    term: Term
    low: Term
    high: Term

    def sql(self) -> str:
        return f"{self.term.sql()} BETWEEN {self.low.sql()} AND {self.high.sql()}"

    def value(self, rows: Rows) -> bool | None:
        low, high = Compare(">=", self.term, self.low).value(rows), Compare("<=", self.term, self.high).value(rows)
        return _and(low, high)


@dataclass(frozen=True)
class Both:
    left: Predicate
    right: Predicate

    def sql(self) -> str:
        return f"({self.left.sql()} AND {self.right.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return _and(self.left.value(rows), self.right.value(rows))


@dataclass(frozen=True)
class Either:
    left: Predicate
    right: Predicate

    def sql(self) -> str:
        return f"({self.left.sql()} OR {self.right.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return _not(_and(_not(self.left.value(rows)), _not(self.right.value(rows))))


@dataclass(frozen=True)
class Not:
    inner: Predicate

    def sql(self) -> str:
        return f"NOT ({self.inner.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return _not(self.inner.value(rows))


Term = Col | Lit | Arithmetic | Case
Predicate = Compare | IsNull | In | Like | Between | Both | Either | Not


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


# -- random ones ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """What a condition may be about: columns of each alias that hold numbers, and those that hold text."""

    numbers: Mapping[str, Sequence[str]]
    texts: Mapping[str, Sequence[str]]

    def number(self, rng: random.Random, alias: str) -> Term:
        return Col(alias, rng.choice(self.numbers[alias]))

    def text(self, rng: random.Random, alias: str) -> Term:
        return Col(alias, rng.choice(self.texts[alias]))


def random_filter(rng: random.Random, columns: Columns, alias: str) -> Predicate:
    """A condition on one stream that mostly holds for a good part of it."""
    number = columns.number(rng, alias)
    kinds: list[Callable[[], Predicate]] = [
        lambda: Compare(rng.choice(["<", ">=", "<>", "<="]), number, Lit(rng.randint(0, 12))),
        lambda: IsNull(Col(alias, "v"), rng.random() < 0.7),
        lambda: In(number, tuple(rng.randint(-1, 9) for _ in range(rng.randint(2, 6)))),
        lambda: Like(columns.text(rng, alias), rng.choice(["%1%", "%", "_%", "a%", "%·_", "%2"])),
        lambda: Between(number, Lit(rng.randint(-2, 3)), Lit(rng.randint(3, 20))),
        lambda: Compare(rng.choice(["<", "<>", ">"]), number, columns.number(rng, alias)),
    ]
    return _combined(rng, kinds)


def random_residual(rng: random.Random, columns: Columns, aliases: Sequence[str]) -> Predicate:
    """A condition between two or three streams that mostly holds for a good part of the pairs."""
    one, other = rng.sample(list(aliases), 2)
    left, right = columns.number(rng, one), columns.number(rng, other)
    third = columns.number(rng, rng.choice(list(aliases)))
    kinds: list[Callable[[], Predicate]] = [
        lambda: Compare(rng.choice(["<", ">=", "<>", "<="]), left, right),
        lambda: Compare("<", left, Arithmetic("+", right, Lit(rng.randint(-2, 6)))),
        lambda: Compare(rng.choice(["<=", ">"]), Arithmetic("-", left, right), third),
        lambda: Compare(rng.choice(["<>", "<"]), columns.text(rng, one), columns.text(rng, other)),
        lambda: Between(left, Arithmetic("-", right, Lit(5)), Arithmetic("+", right, Lit(7))),
        lambda: In(Arithmetic("+", left, right), tuple(range(-2, rng.randint(2, 12)))),
        lambda: Compare("<>", Case(Compare("<", left, right), Lit(1), third), Lit(1)),
        lambda: IsNull(Arithmetic("*", left, right), True),
    ]
    return _combined(rng, kinds)


def random_output(rng: random.Random, columns: Columns, aliases: Sequence[str]) -> Term:
    """An expression on one row of the result."""
    one, other = rng.choice(list(aliases)), rng.choice(list(aliases))
    left, right = columns.number(rng, one), columns.number(rng, other)
    kinds: list[Callable[[], Term]] = [
        lambda: Arithmetic(rng.choice(["+", "-", "*"]), left, right),
        lambda: Arithmetic("-", left, Lit(rng.randint(0, 5))),
        lambda: Case(Compare("<", left, right), left, Lit(0)),
        lambda: Case(IsNull(right, False), Lit("none"), columns.text(rng, one)),
    ]
    return rng.choice(kinds)()


def _combined(rng: random.Random, kinds: Sequence[Callable[[], Predicate]]) -> Predicate:
    chosen = rng.choice(kinds)()
    roll = rng.random()
    if roll < 0.15:
        return Either(chosen, rng.choice(kinds)())
    if roll < 0.25:
        return Not(chosen)
    if roll < 0.3:
        return Not(Both(chosen, rng.choice(kinds)()))
    return chosen
