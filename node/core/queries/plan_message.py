"""A plan as home sends and stores it, bound again against the streams that it names."""

from __future__ import annotations

from node.core.links.messages import Prepare
from node.core.queries.query_id import query_of, reader_of
from planner.model.errors import PlanError
from planner.model.kept import derived_name, inner_plan, tree_plan
from planner.model.plans import checked_plan
from planner.model.query import Plan
from planner.sql.parser import parse_query


def plan_of(message: Prepare) -> Plan:
    """The plan that a message is about; raises NarrowsError if it is none."""
    query = parse_query(message.text, {info.name: info for info in message.streams})
    if message.part:
        joins = [join for join in message.kept if join.name == message.part]
        if len(joins) != 1 or joins[0].site != message.sink or joins[0].sequences != message.sequences:
            raise PlanError(f'plan: required the kept join "{message.part}" of {message.sink}, got another')
        return inner_plan(query, joins[0])
    if message.kept:
        asked = query_of(message.query_id)
        owner = message.owner or asked
        if reader_of(derived_name(owner, message.kept[0].name)) != asked:
            raise PlanError(f"plan: required kept joins that are called after query {asked}, got {message.owner!r}")
        return tree_plan(query, message.sink, message.sequences, message.kept, message.policy, owner)
    return checked_plan(Plan(query, message.sink, message.sequences, message.policy))
