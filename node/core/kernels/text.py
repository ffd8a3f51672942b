"""Functions of strings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from node.core.kernels.values import Kernel
from planner.model.query import Call, Literal


def _concat(_call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*args, pa.scalar("", pa.string()), null_handling="emit_null")


def _lower(_call: Call, args: list[pa.Array]) -> pa.Array:
    return _in_case(args[0], pc.ascii_lower, str.lower)


def _upper(_call: Call, args: list[pa.Array]) -> pa.Array:
    return _in_case(args[0], pc.ascii_upper, str.upper)


def _in_case(texts: pa.Array, ascii_case: Callable[[pa.Array], pa.Array], case: Callable[[str], str]) -> pa.Array:
    """Texts in lower or upper case, by Python's rules: Arrow's own map letter by letter (no SS, no final sigma)."""
    other = pc.invert(pc.fill_null(pc.string_is_ascii(texts), True))
    if not pc.any(other, min_count=0).as_py():
        return ascii_case(texts)
    coded = pc.filter(texts, other).dictionary_encode()
    cased = pa.array([case(text) for text in coded.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(ascii_case(texts), other, cased.take(coded.indices))


def _trim(call: Call, args: list[pa.Array]) -> pa.Array:
    trim = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[call.function]
    return trim(args[0], characters=" ")


def _length(_call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.utf8_length(args[0]).cast(pa.int64())


def _substring(call: Call, args: list[pa.Array]) -> pa.Array:
    """From 1, where 0 is 1 too; from the end if negative."""
    start, *rest = (arg.value for arg in call.args[1:] if isinstance(arg, Literal) and isinstance(arg.value, int))
    first = start - 1 if start > 0 else start
    stop = None if not rest else first + max(rest[0], 0)
    if first < 0 and stop is not None and stop >= 0:
        stop = None
    if rest and rest[0] <= 0:
        first, stop = 0, 0
    return pc.utf8_slice_codeunits(args[0], start=first, stop=stop)


def _texts(call: Call) -> list[str]:
    """The constant strings after the first argument."""
    return [arg.value for arg in call.args[1:] if isinstance(arg, Literal) and isinstance(arg.value, str)]


def _replace(call: Call, args: list[pa.Array]) -> pa.Array:
    old, new = _texts(call)
    return pc.replace_substring(args[0], pattern=old, replacement=new) if old else args[0]


def _affix(call: Call, args: list[pa.Array]) -> pa.Array:
    match = {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}[call.function]
    return match(args[0], pattern=_texts(call)[0])


def _like(call: Call, args: list[pa.Array]) -> pa.Array:
    return pc.match_substring_regex(args[0], pattern=like_regex(_texts(call)[0]))


@lru_cache(maxsize=256)
def like_regex(pattern: str) -> str:
    """The regular expression, for RE2, of a LIKE pattern whose escape is a backslash."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            # Several in a row say the same as one.
            parts += [] if parts and parts[-1] == ".*" else [".*"]
        elif character == "_":
            parts.append(".")
        else:
            parts.append(_quoted(next(characters, "\\") if character == "\\" else character))
    return f"(?s)\\A{''.join(parts)}\\z"


def _quoted(character: str) -> str:
    """A character that stands for itself."""
    return r"\x00" if character == "\0" else re.escape(character)


KERNELS: dict[str, Kernel] = {
    "||": _concat,
    "lower": _lower,
    "upper": _upper,
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _trim),
    "length": _length,
    "substring": _substring,
    "replace": _replace,
    **dict.fromkeys(("starts_with", "ends_with", "contains"), _affix),
    "like": _like,
}
