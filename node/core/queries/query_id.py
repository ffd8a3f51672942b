"""Names of queries: SITE-LIFE-COUNT, as in ``frankfurt-1mhqyjj-1``.

No two queries ever have the same one: the home's life rises with every start of its daemon, even when the site's folder
was emptied. A life is written with 32 digits, so that it is short; letters that look like others are none of them.
"""

from __future__ import annotations

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_query_id(site: str, life: int, count: int) -> str:
    """The name of a query that was issued at a site, in a life of its daemon."""
    return f"{site}-{_short(life)}-{count}"


def home_of(query: str) -> str:
    """The site whose name a query's starts with; empty if it is no such name."""
    parts = query.rsplit("-", 2)
    return parts[0] if len(parts) == 3 else ""


def _short(number: int) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
