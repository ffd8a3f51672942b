"""Plans that someone wrote down: JSON or TOML with the ``sequences`` that ``planner.plans.plan_dict`` writes.

Each sequence has a ``head``, its ``steps`` (``alias`` and ``algorithm``) and, optionally, the site at which it
starts. What else ``plan_dict`` says follows from the query, so it is not needed, and checked only where a
contradiction would mean that the plan is for something else: the sink, and the sites of steps.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from planner.errors import PlanError
from planner.model import FRONTIER_POLICY, Algorithm, JoinQuery, Plan, Policy, Sequence, Step
from planner.plans import checked_plan, route

_ALGORITHMS = ", ".join(algorithm.value for algorithm in Algorithm)


def read_plan(text: str, query: JoinQuery, sink: str, policy: Policy = FRONTIER_POLICY) -> Plan:
    """The plan of a file's text for a query.

    Raises PlanError that says where the file is wrong.
    """
    document = _document(text)
    asked_sink = document.get("sink", sink)
    if asked_sink != sink:
        raise PlanError(f'plan file: required the sink "{sink}", at which the query is asked, got {_shown(asked_sink)}')
    written = document.get("sequences")
    if not isinstance(written, list) or not all(isinstance(item, dict) for item in written):
        raise PlanError(f"plan file: required sequences, a list of tables, got {_shown(written)}")
    sequences = [_sequence(item, place, query) for place, item in enumerate(written, 1)]
    heads = [sequence.head for sequence in sequences]
    for head in heads:
        if heads.count(head) > 1:
            raise PlanError(f'plan file: required one sequence for each head, got several for "{head}"')
    in_order = sorted(sequences, key=lambda item: query.aliases.index(item.head))
    plan = checked_plan(Plan(query, sink, tuple(in_order), policy))
    _check_sites(plan, written)
    return plan


def _document(text: str) -> Mapping[str, Any]:
    json_error = toml_error = ""
    try:
        document = json.loads(text)
        if isinstance(document, dict):
            return document
        json_error = f"not a table but {_shown(document)}"
    except (ValueError, RecursionError) as error:
        json_error = str(error)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        toml_error = str(error)
    if text.lstrip().startswith(("{", "[[{")) or json_error.startswith("not a table"):
        raise PlanError(f"plan file: required a JSON object or TOML, got JSON that cannot be read: {json_error}")
    raise PlanError(f"plan file: required a JSON object or TOML, got TOML that cannot be read: {toml_error}")


def _sequence(item: Mapping[str, Any], place: int, query: JoinQuery) -> Sequence:
    who = f"plan file, sequence {place}"
    head = item.get("head")
    if head not in query.aliases:
        raise PlanError(f"{who}: required a head out of {', '.join(query.aliases)}, got {_shown(head)}")
    who = f'plan file, head "{head}"'
    start = item.get("start")
    if start is not None and not isinstance(start, str):
        raise PlanError(f"{who}: required the name of a site as start, got {_shown(start)}")
    steps = item.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise PlanError(f"{who}: required steps, a list of tables with alias and algorithm, got {_shown(steps)}")
    own_site = query.ref(str(head)).stream.site
    made = tuple(_step(step, f"{who}, step {number}") for number, step in enumerate(steps, 1))
    return Sequence(str(head), made, None if start == own_site else start)


def _step(step: Mapping[str, Any], who: str) -> Step:
    alias, name = step.get("alias"), step.get("algorithm")
    if not isinstance(alias, str):
        raise PlanError(f"{who}: required the alias of a stream, got {_shown(alias)}")
    if not isinstance(name, str) or name.upper() not in tuple(Algorithm):
        raise PlanError(f"{who}: required an algorithm out of {_ALGORITHMS}, got {_shown(name)}")
    return Step(alias, Algorithm(name.upper()))


def _check_sites(plan: Plan, written: list[dict[str, Any]]) -> None:
    """Where the file says at which site a step is joined, it must be where it will be."""
    for item in written:
        for hop, step in zip(route(plan, item["head"]), item["steps"], strict=True):
            if step.get("site", hop.site) != hop.site:
                raise PlanError(
                    f'plan file, head "{item["head"]}": required that "{hop.alias}" is joined at {hop.site}, where '
                    f"{hop.algorithm.value} puts it, got {_shown(step['site'])}"
                )


def _shown(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:80]}..."
