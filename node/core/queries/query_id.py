"""Names of queries: SITE-LIFE-COUNT, as in ``frankfurt-1mhqyjj-1``.

No two queries ever have the same one: the home's life rises with every start of its daemon, even when the site's folder
was emptied. A life is written with 32 digits, so that it is short; letters that look like others are none of them.

At its sites a query is a run, which has the query's name, ``frankfurt-1mhqyjj-1``. When it goes over to another plan
there are two for a while: the **successor**'s name ends with its generation, ``frankfurt-1mhqyjj-1~1r5wq3p0001``.

A join that is kept for a query is a query of the site that keeps it, ``frankfurt-1mhqyjj-1.pairs@virginia``; its rows
are the stream ``frankfurt-1mhqyjj-1.pairs`` of that site. What comes before the point is its **owner**: the query, or
of a plan that the query went over to the run that began it, ``frankfurt-1mhqyjj-1+1r5wq3p0001``. So no stream of a plan
has the name of one that an earlier plan had.
"""

from __future__ import annotations

import re

_MARK = "~"
_OWNED_BY = "+"
_KEPT_AT = "@"
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
#: A site's name has up to 64 characters, a folder's up to 255.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,149}")


def new_query_id(site: str, life: int, count: int) -> str:
    """The name of a query that was issued at a site, in a life of its daemon."""
    return f"{site}-{_short(life)}-{count}"


def successor_of(query: str, generation: int) -> str:
    """The name of the run that takes a query over from the one before, by another plan."""
    return f"{query}{_MARK}{_short(generation)}"


def query_of(run: str) -> str:
    """The query of a run."""
    return run.partition(_MARK)[0]


def is_successor(run: str) -> bool:
    """Whether a run took its query over, or is to, from one that was there before."""
    return _MARK in run


def is_plain(query: str) -> bool:
    """Whether a name, which may come from anywhere, can be part of that of a folder, and leads nowhere else there."""
    return _PLAIN.fullmatch(query) is not None


def is_plain_owner(owner: str) -> bool:
    """The same of what comes before the point in the name of a kept join's stream."""
    return all(map(is_plain, owner.split(_OWNED_BY)))


def kept_join_of(query: str, name: str, site: str) -> str:
    """The name of the query that makes a join which a site keeps for another one."""
    return f"{query}.{name}{_KEPT_AT}{site}"


def kept_stream_of(query: str) -> str:
    """The stream that the rows are of a kept join of this name."""
    return query.rpartition(_KEPT_AT)[0]


def owner_of_run(run: str) -> str:
    """Whose the streams are of the joins that are kept for a run since it was first prepared."""
    return run.replace(_MARK, _OWNED_BY)


def owner_of_stream(stream: str) -> str:
    """Whose the stream of a kept join is; empty if it is none."""
    return stream.rpartition(".")[0]


def reader_of(stream: str) -> str:
    """The query that reads the stream of a kept join; empty if it is none."""
    return owner_of_stream(stream).partition(_OWNED_BY)[0]


def is_kept_stream(stream: str) -> bool:
    """Whether a stream's rows are those of a kept join: it has a dot in its name, as no stream of a site has."""
    return "." in stream


def keeping_of(query: str) -> str:
    """The query for which a join is kept that has this name; empty if it is no such name."""
    return reader_of(kept_stream_of(query))


def home_of(query: str) -> str:
    """The site whose name a query's starts with; empty if it is no such name."""
    if _KEPT_AT in query:
        return query.rpartition(_KEPT_AT)[2]
    parts = query.rsplit("-", 2)
    return parts[0] if len(parts) == 3 else ""


def _short(number: int) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text
