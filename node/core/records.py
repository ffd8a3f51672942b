"""Small records that a site keeps over a crash: under a kind and a key, a value that only who wrote it understands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Put:
    """Keep this value, instead of the one that was there."""

    kind: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Keep nothing under this key any more; there may be nothing."""

    kind: str
    key: str


RecordChange = Put | Delete
