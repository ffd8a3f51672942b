"""Plans that someone wrote down: JSON or TOML with the ``sequences`` that ``planner.model.plans.plan_dict`` writes.

A plan may keep joins: ``kept`` has of each its ``name``, ``aliases``, ``site`` and own ``sequences``; the others then
have the names of kept joins instead of their streams'. Each sequence has a ``head``, its ``steps`` (``alias`` and
``algorithm``) and, optionally, the site at which it starts. The ``policy`` is the file's if it has one.

What else ``plan_dict`` and ``explain`` write follows from the query or was only told, so it is not needed, and checked
only where a contradiction would mean that the plan is for something else: the sink, and the sites of steps. A key that
neither of them writes is refused: it may be meant to say something.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.model.errors import PlanError
from planner.model.kept import check_kept, inner_plan, inner_query, outer_query, tree_plan
from planner.model.plans import algorithm_named, checked_plan, policy_text, route, start_at
from planner.model.query import FRONTIER_POLICY, JoinQuery, KeptJoin, Plan, Policy, PolicyName, Sequence, Step

#: What ``plan_dict`` writes, and what explain adds to it; only the first three are read.
_KEYS = (
    *("sequences", "sink", "policy", "query", "streams"),
    *("options", "expected", "ship_all", "alternatives", "other_steps", "tree", "measured"),
    *("query_id", "warnings", "declared", "switches", "adaptive", "kept"),
)
_POLICIES = tuple(name.value for name in PolicyName)


def read_plan(text: str, query: JoinQuery, sink: str, policy: Policy | None = None) -> Plan:
    """The plan of a file's text for a query; ``policy`` is what was asked for beside the file, None: nothing.

    Raises PlanError that says where the file is wrong.
    """
    document = _document(text)
    _check_keys("plan file", document, _KEYS)
    asked_sink = document.get("sink", sink)
    if asked_sink != sink:
        raise PlanError(f'plan file: required the sink "{sink}", at which the query is asked, got {_shown(asked_sink)}')
    agreed = _agreed_policy(_policy(document.get("policy")), policy)
    if document.get("kept"):
        return _read_tree(document, query, sink, agreed)
    plan = checked_plan(Plan(query, sink, _sequences(document, query, "plan file"), agreed), "plan file")
    _check_sites(plan, document, "plan file")
    return plan


def _read_tree(document: Mapping[str, Any], query: JoinQuery, sink: str, policy: Policy) -> Plan:
    """A plan that keeps joins."""
    kept: list[KeptJoin] = []
    for place, item in enumerate(_tables(document, "kept", "plan file"), 1):
        who = f"plan file, kept join {place}"
        _check_keys(who, item, ("name", "aliases", "site", "sequences"))
        name, aliases, site = item.get("name"), item.get("aliases"), item.get("site")
        if not isinstance(name, str) or not isinstance(site, str):
            raise PlanError(f"{who}: required a name and a site, got {_shown(name)} and {_shown(site)}")
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            raise PlanError(f"{who}: required aliases, a list of streams of the query, got {_shown(aliases)}")
        join = KeptJoin(name, tuple(alias for alias in query.aliases if alias in aliases), site, ())
        unknown = [alias for alias in aliases if alias not in query.aliases]
        check_kept(query, (replace(join, aliases=(*join.aliases, *unknown)),))
        inner = inner_query(query, join)
        join = replace(join, sequences=_sequences(item, inner, who))
        _check_sites(inner_plan(query, join), item, who)
        kept.append(join)
    outer = outer_query(query, tuple(kept))
    plan = tree_plan(query, sink, _sequences(document, outer, "plan file"), tuple(kept), policy)
    _check_sites(plan, document, "plan file")
    return plan


def _tables(table: Mapping[str, Any], key: str, who: str) -> list[dict[str, Any]]:
    written = table.get(key)
    if not isinstance(written, list) or not all(isinstance(item, dict) for item in written):
        raise PlanError(f"{who}: required {key}, a list of tables, got {_shown(written)}")
    return written


def _sequences(table: Mapping[str, Any], query: JoinQuery, who: str) -> tuple[Sequence, ...]:
    """In the order of the query."""
    written = _tables(table, "sequences", who)
    sequences = [_sequence(item, f"{who}, sequence {place}", query) for place, item in enumerate(written, 1)]
    return tuple(sorted(sequences, key=lambda item: query.aliases.index(item.head)))


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


def _check_keys(who: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key[:100], known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise PlanError(f"{who}: required no keys but {', '.join(known)}, got {_shown(key)}{hint}")


def _policy(written: object) -> Policy | None:
    """The policy that the file says, as ``plan_dict`` writes it; None if it says nothing."""
    if written is None:
        return None
    if not isinstance(written, dict) or written.get("name") not in _POLICIES:
        required = f"a policy with a name out of {', '.join(_POLICIES)}"
        raise PlanError(f"plan file: required {required}, got {_shown(written)}")
    name, delta_us = PolicyName(written["name"]), written.get("delta_us")
    _check_keys("plan file, policy", written, ("name",) if name is PolicyName.FRONTIER else ("name", "delta_us"))
    if delta_us is not None and (not isinstance(delta_us, int) or isinstance(delta_us, bool)):
        raise PlanError(f"plan file, policy: required whole microseconds as delta_us, got {_shown(delta_us)}")
    return Policy(name, delta_us)


def _agreed_policy(written: Policy | None, asked: Policy | None) -> Policy:
    """What the file and whoever asks say together; ``delta`` without a length does not contradict one with a length."""
    if written is None or asked is None:
        return written or asked or FRONTIER_POLICY
    lengths = [policy.delta_us for policy in (written, asked) if policy.delta_us is not None]
    if written.name is not asked.name or len(dict.fromkeys(lengths)) > 1:
        raise PlanError(
            f"plan file: required the policy that is asked for, {policy_text(asked)}, got {policy_text(written)}: "
            f"ask for --policy {policy_text(written).replace(' ', '')}, or take the policy out of the file"
        )
    return Policy(asked.name, next(iter(lengths), None))


def _sequence(item: Mapping[str, Any], who: str, query: JoinQuery) -> Sequence:
    head = item.get("head")
    if head not in query.aliases:
        raise PlanError(f"{who}: required a head out of {', '.join(query.aliases)}, got {_shown(head)}")
    who = f'{who.rpartition(",")[0]}, head "{head}"'
    _check_keys(who, item, ("head", "start", "steps"))
    start = item.get("start")
    if start is not None and not isinstance(start, str):
        raise PlanError(f"{who}: required the name of a site as start, got {_shown(start)}")
    steps = item.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise PlanError(f"{who}: required steps, a list of tables with alias and algorithm, got {_shown(steps)}")
    made = tuple(_step(step, f"{who}, step {number}") for number, step in enumerate(steps, 1))
    return Sequence(str(head), made, None if start is None else start_at(query, str(head), start))


def _step(step: Mapping[str, Any], who: str) -> Step:
    _check_keys(who, step, ("alias", "algorithm", "site"))
    alias, name = step.get("alias"), step.get("algorithm")
    if not isinstance(alias, str):
        raise PlanError(f"{who}: required the alias of a stream, got {_shown(alias)}")
    if not isinstance(name, str):
        raise PlanError(f"{who}: required the name of an algorithm, got {_shown(name)}")
    return Step(alias, algorithm_named(f"{who}, algorithm", name))


def _check_sites(plan: Plan, table: Mapping[str, Any], who: str) -> None:
    """Where the file says at which site a step is joined, it must be where it will be."""
    for item in _tables(table, "sequences", who):
        for hop, step in zip(route(plan, item["head"]), item["steps"], strict=True):
            if step.get("site", hop.site) != hop.site:
                raise PlanError(
                    f'{who}, head "{item["head"]}": required that "{hop.alias}" is joined at {hop.site}, where '
                    f"{hop.algorithm.value} puts it, got {_shown(step['site'])}"
                )


def _shown(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:80]}..."
