"""A plan as home sends and stores it, bound again against the streams that it names."""

from __future__ import annotations

from node.core.links.messages import Prepare
from planner.model.plans import checked_plan
from planner.model.query import Plan
from planner.sql.parser import parse_query


def plan_of(message: Prepare) -> Plan:
    """The plan that a message is about; raises NarrowsError if it is none."""
    query = parse_query(message.text, {info.name: info for info in message.streams})
    return checked_plan(Plan(query, message.sink, message.sequences, message.policy))
