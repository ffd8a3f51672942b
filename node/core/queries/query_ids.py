"""Ids of queries name their home, so no site can take an id that another one will use."""

from __future__ import annotations

import re

#: What a home puts behind its name, and a dash: numbers.
_NUMBERED = re.compile(r"-[0-9]+$")


def may_be_of(query_id: str, site: str) -> bool:
    """Whether a site may be the home of a query with this id. Any may, if it is not of the form that sites give."""
    if not _NUMBERED.search(query_id):
        return True
    return re.fullmatch(re.escape(site) + r"(-[0-9]+){1,2}", query_id) is not None
