"""Who reads the rows of a query: each reader has a name and a place of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.model.errors import QueryError

#: The reader of whoever does not say another name.
DEFAULT_READER = "default"
#: The one that writes the file of ``query --detach --to``.
FILE_READER = "file"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def reader_name(name: str) -> str:
    """The name, if it can be one; nothing stands for the default. Raises QueryError."""
    name = name or DEFAULT_READER
    if not _NAME.fullmatch(name):
        raise QueryError(f"a reader's name requires 1 to 64 letters, digits, '_', '.' or '-'; got {name!r}")
    if name == FILE_READER:
        raise QueryError(f"a reader's name requires another one than that of the site's own file; got {name!r}")
    return name


def ways_on(query_id: str) -> str:
    """What to do about a file that cannot be written on."""
    return (
        f"narrows follow {query_id} --as NAME takes rows that are kept, --forget {FILE_READER} then gives the file up"
    )


@dataclass
class Reader:
    """One reader."""

    name: str
    #: Rows before this number are safe with it, or forgotten.
    place: int = 0
    #: What it calls itself while it is connected, and which of its connections counts.
    client: str = ""
    connection: int = 0
    #: Rows before these numbers were sent to its connection, and read there.
    sent: int = 0
    seen: int = 0
    #: What keeps it from taking rows, if that is known here.
    trouble: str = ""
    #: Of the one that writes a file: what is noted together with its place.
    note: Mapping[str, Any] = field(default_factory=dict)
    #: The place that is noted: only on a full disk, where rows are forgotten first, is it not the same.
    durable: int = -1

    def __post_init__(self) -> None:
        self.durable = max(self.durable, self.place)

    @property
    def attached(self) -> bool:
        return bool(self.client)

    @property
    def passed(self) -> int:
        """Rows before this number are not waited for: they were sent, or taken."""
        return max(self.place, self.sent)

    @property
    def read(self) -> int:
        """Rows before this number were read or taken."""
        return max(self.place, self.seen)

    @property
    def writes(self) -> bool:
        """Whether it is a file that the site still has to write on."""
        return "file" in self.note and not self.note["whole"] and not self.note.get("given_up")

    def give_up(self, query_id: str, why: str) -> None:
        """Its file is not written any more, and stays as it is; its rows are kept until it is forgotten."""
        self.trouble = f"{why}: it is not written any more ({ways_on(query_id)})"
        self.note = {**self.note, "given_up": self.trouble}

    def attach(self, client: str, row: int) -> int:
        """A connection begins to read at ``row``, instead of the one before; its number."""
        self.client, self.sent, self.seen = client, row, row
        self.connection += 1
        return self.connection

    def detach(self, connection: int) -> None:
        """It is over, unless another one has taken its place."""
        if self.connection == connection:
            self.client, self.sent, self.seen = "", 0, 0

    def facts(self) -> dict[str, Any]:
        """As it is noted."""
        return {"reader": self.name, "place": self.place, **self.note}


def noted_reader(facts: Mapping[str, Any]) -> Reader:
    """As it was noted."""
    note = {name: value for name, value in facts.items() if name not in ("reader", "place")}
    return Reader(facts["reader"], facts["place"], trouble=note.get("given_up", ""), note=note)
