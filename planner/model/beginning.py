"""Where a query is asked to begin. How far back it can is up to its streams, and to what their logs still have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BeginAt(StrEnum):
    """What was asked for."""

    #: Nothing: with what streams retain for queries that come later, else now.
    DEFAULT = ""
    #: With the oldest tuples that all its streams still have.
    START = "start"
    #: With what comes from now on.
    NOW = "now"
    #: With an event time, which may be still to come.
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a query begins. A row is a result if all its tuples are from there on.

    A query that looks back has its newest tuple from there on, and of the others all that its windows show, as far
    back as its sites still have them.
    """

    at: BeginAt = BeginAt.DEFAULT
    #: For ``TIME``, milliseconds since 1970: the query begins with the tick that has it.
    time_ms: int = 0
    looks_back: bool = False


#: With nothing of what was before.
DEFAULT_BEGINNING = Beginning()
#: Unless something else is asked for.
AT_ONCE = Beginning(looks_back=True)
