"""What people declare about streams and links: it wins over what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """What the configuration says of a stream; what it leaves out is measured."""

    #: Tuples in a second of event time, before any filter of a query.
    rate: float | None = None
    #: Distinct values of columns.
    distinct: Mapping[str, float] = field(default_factory=dict)
    #: Bytes on the wire of a value of columns.
    column_bytes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclaredLink:
    """What the configuration says of the way from ``source`` to ``target``."""

    source: str
    target: str
    bytes_per_s: float | None = None
    latency_us: int | None = None
    price_per_gb: float | None = None
