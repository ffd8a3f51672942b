"""What can be computed from one row: for each function the types it takes and the type it gives.

The meaning is that of SQL as Spark has it, made total: no row can end a stream.

- **Null.** Logic has three values. Every function of a null is null, but for AND, OR, IS, CASE,
  COALESCE, NULLIF, GREATEST and LEAST, which skip nulls (the last two are null only if all arguments are).
- **Whatever cannot be computed is null**: an integer beyond 64 bits, a division by zero (also of doubles),
  a remainder by zero, a cast of something that has no such value, the square root of a negative number,
  the logarithm of one that is not positive, a power that is no number.
- **Integers** are 64 bits; ``/`` always divides doubles; ``%`` has the sign of the dividend.
- **Doubles** are IEEE and overflow to infinity. NaN equals NaN and is greater than every other number; -0.0
  equals 0.0. An integer or decimal that meets a double becomes one, also in comparisons.
- **Decimals** are added, subtracted, multiplied and compared exactly, by digits that grow as needed; where
  they would be more than 38, and for ``/``, ``%``, POWER and the like, they are doubles. ROUND is half up
  (away from zero); FLOOR and CEIL of a double are integers.
- **Strings** are compared by code points. LENGTH and SUBSTRING count code points; SUBSTRING counts from 1, or
  from the end if its start is negative. TRIM removes spaces. LIKE knows ``%``, ``_`` and the escape ``\\``;
  ILIKE is LIKE of both in lower case, with ``ς`` taken for ``σ``. LOWER and UPPER know letters that become two, and
  the sigma that ends a word: ``UPPER('ß')`` is ``SS``, ``LOWER('ΟΔΟΣ')`` is ``οδος``.
- **Times.** A date is the instant at which it begins; zones are UTC; times of different units are compared in
  the finer one. EXTRACT knows the years 1 to 9999, SECOND is whole, EPOCH is seconds as a double.
- **Casts** to integers cut off the fraction; to coarser times, what is finer (towards the past); to decimals,
  they round half up; a double is not cast to a decimal, nor a number with a fraction or a time to a string,
  because engines write them differently. Strings are read with spaces around them removed.
- LN, EXP and POWER are the platform's: their last bit may differ between machines.

``node.core.kernels.evaluation`` has the kernel of each name here and of ``cast``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from planner.model import type_rules
from planner.model.type_rules import LOGIC, TEXT, Rule
from planner.model.types import TIME_FIELDS, is_instant, is_number

CAST = "cast"


@dataclass(frozen=True, slots=True)
class Function:
    """How many arguments a function takes (``most`` None: any number) and the rule of its types."""

    least: int
    most: int | None
    rule: Rule


#: Every function by its name in a Call.
FUNCTIONS: dict[str, Function] = {
    **{name: Function(2, 2, type_rules.comparison) for name in ("=", "<>", "<", "<=", ">", ">=")},
    "and": Function(1, None, LOGIC),
    "or": Function(1, None, LOGIC),
    "not": Function(1, 1, LOGIC),
    "is null": Function(1, 1, type_rules.anything),
    "is distinct": Function(2, 2, type_rules.comparison),
    "between": Function(3, 3, type_rules.comparison),
    "in": Function(2, None, type_rules.comparison),
    "case": Function(1, None, type_rules.case),
    "coalesce": Function(1, None, type_rules.choice),
    "nullif": Function(2, 2, type_rules.choice),
    "greatest": Function(1, None, type_rules.choice),
    "least": Function(1, None, type_rules.choice),
    "+": Function(2, 2, partial(type_rules.sums, "+")),
    "-": Function(2, 2, partial(type_rules.sums, "-")),
    "*": Function(2, 2, type_rules.product),
    "/": Function(2, 2, type_rules.doubles),
    "%": Function(2, 2, type_rules.remainder),
    "unary -": Function(1, 1, type_rules.signed),
    "abs": Function(1, 1, type_rules.signed),
    "round": Function(1, 2, type_rules.rounded),
    "floor": Function(1, 1, type_rules.whole),
    "ceil": Function(1, 1, type_rules.whole),
    "sqrt": Function(1, 1, type_rules.doubles),
    "power": Function(2, 2, type_rules.doubles),
    "ln": Function(1, 1, type_rules.doubles),
    "exp": Function(1, 1, type_rules.doubles),
    "||": Function(1, None, partial(TEXT, pa.string())),
    "lower": Function(1, 1, partial(TEXT, pa.string())),
    "upper": Function(1, 1, partial(TEXT, pa.string())),
    "trim": Function(1, 1, partial(TEXT, pa.string())),
    "ltrim": Function(1, 1, partial(TEXT, pa.string())),
    "rtrim": Function(1, 1, partial(TEXT, pa.string())),
    "length": Function(1, 1, partial(TEXT, pa.int64())),
    "substring": Function(2, 3, type_rules.substring),
    "replace": Function(3, 3, partial(type_rules.with_constant_text, pa.string())),
    "starts_with": Function(2, 2, partial(type_rules.with_constant_text, pa.bool_())),
    "ends_with": Function(2, 2, partial(type_rules.with_constant_text, pa.bool_())),
    "contains": Function(2, 2, partial(type_rules.with_constant_text, pa.bool_())),
    "like": Function(2, 2, type_rules.like),
    **{
        name: Function(1, 1, partial(type_rules.time_field, pa.float64() if name == "epoch" else pa.int64()))
        for name in TIME_FIELDS
    },
}

#: Other names for them.
SYNONYMS = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "concat": "||",
    "endswith": "ends_with",
    "ifnull": "coalesce",
    "lcase": "lower",
    "mod": "%",
    "nvl": "coalesce",
    "pow": "power",
    "startswith": "starts_with",
    "substr": "substring",
    "ucase": "upper",
}

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "variance", "array_agg", "first", "last", "median")

#: What a user may call, for messages.
_OPERATORS = ("and", "or", "not", "between", "in", "case", "like")
LISTED = ", ".join(
    sorted(
        [
            *(name.upper() for name in FUNCTIONS if name.isidentifier() and name not in _OPERATORS),
            *("CAST", "CONCAT", "EXTRACT", "IF", "MOD"),
        ]
    )
)


def castable(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether a value type can be cast: where engines would write or read the same value in different ways, not."""
    types = pa.types
    numeric = is_number(kind) or types.is_boolean(kind)
    if types.is_null(kind) or kind == target:
        return True
    if types.is_decimal(target) and types.is_float64(kind):
        return False
    if types.is_integer(target) or types.is_floating(target) or types.is_decimal(target) or types.is_boolean(target):
        return numeric or bool(types.is_string(kind))
    if types.is_string(target):
        return bool(types.is_int64(kind) or types.is_boolean(kind) or types.is_date32(kind))
    if types.is_timestamp(target) or types.is_date32(target):
        return is_instant(kind) or bool(types.is_string(kind))
    return False
