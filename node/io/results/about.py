"""What a query is, in values that can be written down: for those who ask about one of an earlier life of the site."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from planner.model.plans import brief, describe, links_of
from planner.model.query import Plan


@dataclass(frozen=True, slots=True)
class About:
    """What is said about a query, and the columns of its rows."""

    text: str
    #: Arrow IPC.
    schema: bytes
    plan_text: str
    plan_brief: str
    streams: tuple[str, ...]
    sites: tuple[str, ...]
    #: That its plan uses: the names of both sites, with a - between.
    links: tuple[str, ...]

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.schema))

    def facts(self) -> dict[str, Any]:
        """To be written down."""
        return asdict(self) | {"schema": base64.b64encode(self.schema).decode()}


def about_plan(plan: Plan) -> About:
    """Of a query that is issued with this plan; what makes the joins that it keeps belongs to it."""
    parts = (*plan.inners, plan)
    return About(
        text=plan.query.text,
        schema=plan.query.output_schema().serialize().to_pybytes(),
        plan_text=describe(plan),
        plan_brief=brief(plan),
        streams=tuple(dict.fromkeys(ref.stream.name for ref in plan.asked.streams)),
        sites=tuple(sorted({site for part in parts for site in part.sites})),
        links=tuple("-".join(pair) for pair in sorted({pair for part in parts for pair in links_of(part)})),
    )


def about_facts(facts: Mapping[str, Any]) -> About:
    """As it was written down."""
    return About(
        text=facts["text"],
        schema=base64.b64decode(facts["schema"]),
        plan_text=facts["plan_text"],
        plan_brief=facts["plan_brief"],
        streams=tuple(facts["streams"]),
        sites=tuple(facts["sites"]),
        links=tuple(facts["links"]),
    )
