"""What the halves of the algorithms and the replicas may ask of the query run they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from node.core.engine import Op, Question
from node.core.gate import Gate
from node.core.limits import Limits
from node.core.messages import (
    AskMatches,
    Carry,
    Fetch,
    Fetched,
    KeyAnswer,
    ReplicaSync,
    Rows,
    Sync,
    TupleAnswer,
)
from node.core.walk import Walk

#: Messages of a running query, between the sites that take part in it.
Shipment = Sync | Carry | AskMatches | KeyAnswer | TupleAnswer | ReplicaSync | Fetch | Fetched
Then = Callable[[pa.RecordBatch], None]


class Desk(Protocol):
    """One query at one site."""

    query_id: str
    gate: Gate
    limits: Limits

    def run(self, op: Op) -> None:
        """Give the engine something to do, after what it was given before."""

    def ask(self, question: Question, then: Then) -> None:
        """Ask the engine; its answers come in the order of the questions."""

    def send(self, peer: str, message: Shipment | Rows) -> None:
        """Give the link with ``peer`` a message, after those before."""

    def advance(self, walk: Walk) -> None:
        """A walk has done a step, or lost its last row: on with it."""
