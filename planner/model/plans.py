"""Plans as they are forced, read and checked, and what any plan means in terms of sites.

A plan that is chosen by cost comes from ``planner.search``. Here a plan is forced by naming an algorithm, checked,
followed from site to site, and put into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.algorithms.descriptions import COPYING, PRODUCT_ALGORITHMS, Algorithm, product_like
from planner.model.durations import DAYS_MAX, DURATION_US_MAX, duration_text, duration_us
from planner.model.errors import PlanError
from planner.model.graph import is_linked
from planner.model.query import (
    FRONTIER_POLICY,
    JoinQuery,
    Plan,
    Policy,
    PolicyName,
    RangeWindow,
    Sequence,
    Step,
    StreamRef,
    Window,
)

_ALGORITHMS = ", ".join(algorithm.value for algorithm in Algorithm)
_PRODUCTS = " or ".join(algorithm.value for algorithm in PRODUCT_ALGORITHMS)


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a walk with the site at which its join is computed; the carry is there afterwards."""

    alias: str
    algorithm: Algorithm
    site: str


def forced_plan(
    query: JoinQuery, sink: str, choice: Mapping[str, Algorithm] | Algorithm, policy: Policy = FRONTIER_POLICY
) -> Plan:
    """The plan in which every step of a head's sequence uses the algorithm chosen for that head."""
    by_head = dict.fromkeys(query.aliases, choice) if isinstance(choice, Algorithm) else choice
    _check_heads("algorithm choice", query, list(by_head))
    return Plan(query, sink, tuple(_sequence(query, head, by_head[head]) for head in query.aliases), policy)


def checked_plan(plan: Plan, who: str = "plan") -> Plan:
    """The plan, if each head has one sequence that visits every other stream once, each linked to one before it.

    Its policy must make sense too. Raises PlanError otherwise, in the name of ``who``: plans come from other sites too.
    """
    query = plan.query
    _check_heads(who, query, [sequence.head for sequence in plan.sequences])
    places = (plan.sink, *(ref.stream.site for ref in query.streams))
    for sequence in plan.sequences:
        if sequence.start is not None and sequence.start not in places:
            raise PlanError(
                f'head "{sequence.head}": required a start at the sink or at a stream\'s site, got "{sequence.start}"'
            )
        _check_steps(query, sequence)
    delta_us = plan.policy.delta_us
    if delta_us is not None and not 0 < delta_us <= DURATION_US_MAX:
        raise PlanError(f"policy: required a delta above 0 and at most {DAYS_MAX} days, got {delta_us} us")
    return plan


def _check_steps(query: JoinQuery, sequence: Sequence) -> None:
    visited: tuple[str, ...] = (sequence.head,)
    for step in sequence.steps:
        alias = step.alias
        if alias not in query.aliases or alias in visited:
            raise PlanError(f'head "{sequence.head}": required each other stream once, got "{alias}"')
        if step.algorithm.spec.needs_key and not is_linked(query, alias, visited):
            raise PlanError(
                f'head "{sequence.head}": required {_PRODUCTS} to join "{alias}", which no equality links '
                f"to {', '.join(visited)}, got {step.algorithm.value}"
            )
        visited = (*visited, alias)
    if len(visited) != len(query.aliases):
        raise PlanError(f'head "{sequence.head}": required all of {query.aliases}, got {visited}')


def parse_algorithm(text: str, query: JoinQuery) -> Mapping[str, Algorithm]:
    """Read ``SP-D``, for all heads, or ``o=SP-S,p=SP-D``, which must name every head once."""
    if "=" not in text:
        return dict.fromkeys(query.aliases, algorithm_named("algorithm of every head", text))
    chosen: dict[str, Algorithm] = {}
    for part in text.split(","):
        head, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise PlanError(f'algorithm choice "{text}": required head=algorithm, got "{part.strip()}"')
        if head in chosen:
            raise PlanError(f'algorithm choice "{text}": required each head once, got "{head}" twice')
        chosen[head] = algorithm_named(f'algorithm of head "{head}"', name)
    _check_heads("algorithm choice", query, list(chosen))
    return {alias: chosen[alias] for alias in query.aliases}


def algorithm_named(who: str, name: str) -> Algorithm:
    """The algorithm of this name, in whatever case; ``who`` is whose name it is, for the error."""
    try:
        return Algorithm(name.strip().upper())
    except ValueError:
        raise PlanError(f'{who}: required one of {_ALGORITHMS}, got "{name.strip()}"') from None


def parse_policy(text: str) -> Policy:
    """Read ``frontier``, ``delta`` (measured when the query starts) or ``delta=250ms``."""
    name, equals, length = (piece.strip() for piece in text.partition("="))
    if name.lower() == PolicyName.FRONTIER and not equals:
        return FRONTIER_POLICY
    if name.lower() == PolicyName.DELTA and not equals:
        return Policy(PolicyName.DELTA)
    if name.lower() != PolicyName.DELTA:
        raise PlanError(f'policy: required frontier, delta or delta=DURATION such as delta=250ms, got "{text.strip()}"')
    delta_us = duration_us(length)
    if not delta_us:
        raise PlanError(
            f'policy delta: required a duration above 0 such as 250ms or 2s, at most {DAYS_MAX} days, got "{length}"'
        )
    return Policy(PolicyName.DELTA, delta_us)


def policy_text(policy: Policy) -> str:
    """The policy as ``parse_policy`` reads it."""
    if policy.delta_us is None:
        return policy.name.value
    return f"{policy.name.value}={duration_text(policy.delta_us)}"


def window_text(window: Window) -> str:
    """The window as a query may write it."""
    if isinstance(window, RangeWindow):
        return f"[RANGE {duration_text(window.length_us)}]"
    return f"[ROWS {window.count}]"


def route(plan: Plan, head: str) -> tuple[Hop, ...]:
    """Where each step of a head's sequence is joined.

    The carry starts at the head's site or where the sequence says. It moves only for a ``D`` algorithm to a stream
    elsewhere: then the rows of the step come into being at that stream's site. With an
    ``S`` algorithm keys and tuples may travel, but the carry stays.
    """
    site = start_of(plan, head)
    hops: list[Hop] = []
    for step in plan.sequence(head).steps:
        if not step.algorithm.at_source:
            site = plan.query.ref(step.alias).stream.site
        hops.append(Hop(step.alias, step.algorithm, site))
    return tuple(hops)


def start_of(plan: Plan, head: str) -> str:
    """Where the walks of a head start."""
    return plan.sequence(head).start or plan.query.ref(head).stream.site


def start_at(query: JoinQuery, head: str, site: str) -> str | None:
    """A sequence's ``start`` if it begins at this site: None for the head's own, so that plans can be compared."""
    return None if site == query.ref(head).stream.site else site


def links_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Pairs of sites between which something is sent for the plan, if only the sink's news that rows are done."""
    pairs = [(site, plan.sink) for site in plan.sites]
    for head in plan.query.aliases:
        site = start_of(plan, head)
        pairs.append((plan.query.ref(head).stream.site, site))
        for hop in route(plan, head):
            pairs.append((site, plan.query.ref(hop.alias).stream.site))
            site = hop.site
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}))


def ship_all_plan(query: JoinQuery, sink: str, policy: Policy = FRONTIER_POLICY) -> Plan:
    """Everything to the sink, once, and all joins there."""
    forced = forced_plan(query, sink, COPYING, policy)
    sequences = [replace(each, start=start_at(query, each.head, sink)) for each in forced.sequences]
    return replace(forced, sequences=tuple(sequences))


def describe(plan: Plan) -> str:
    """The plan in words, one line per head and one for the policy, the same text for equal plans."""
    lines = []
    for join, inner in zip(plan.keeps, plan.inners, strict=True):
        lines.append(f"kept as {join.name} @{join.site}: {', '.join(join.aliases)} joined")
        lines += [f"  {_describe_head(inner, head)}" for head in inner.query.aliases]
    lines += [_describe_head(plan, head) for head in plan.query.aliases]
    return "\n".join([*lines, f"policy {policy_text(plan.policy)}"])


def brief(plan: Plan) -> str:
    """The plan on one line: for each head where it starts and how it goes on."""
    heads = []
    for head in plan.query.aliases:
        steps = "".join(f" {hop.alias}({hop.algorithm.value})@{hop.site}" for hop in route(plan, head))
        heads.append(f"{head}@{start_of(plan, head)}{steps}")
    kept = [
        f"{join.name}@{join.site} = {{{brief(inner)}}}" for join, inner in zip(plan.keeps, plan.inners, strict=True)
    ]
    return "; ".join([*kept, *heads])


def plan_dict(plan: Plan) -> dict[str, object]:
    """The plan as JSON-able values."""
    return {
        "query": plan.query.text,
        "sink": plan.sink,
        "policy": _policy_dict(plan.policy),
        "streams": [
            {"alias": ref.alias, "stream": ref.stream.name, "site": ref.stream.site, **_window_dict(ref.window)}
            for ref in plan.asked.streams
        ],
        **_kept_dict(plan),
        "sequences": _sequences_dict(plan),
    }


def _sequences_dict(plan: Plan) -> list[dict[str, object]]:
    return [
        {
            "head": head,
            "start": start_of(plan, head),
            "steps": [
                {"alias": hop.alias, "algorithm": hop.algorithm.value, "site": hop.site} for hop in route(plan, head)
            ],
        }
        for head in plan.query.aliases
    ]


def _kept_dict(plan: Plan) -> dict[str, object]:
    """Nothing of a plan that keeps no joins."""
    kept = [
        {"name": join.name, "aliases": list(join.aliases), "site": join.site, "sequences": _sequences_dict(inner)}
        for join, inner in zip(plan.keeps, plan.inners, strict=True)
    ]
    return {"kept": kept} if kept else {}


def _check_heads(who: str, query: JoinQuery, heads: list[str]) -> None:
    """Whether each head is named once."""
    required = ", ".join(query.aliases)
    for head in heads:
        if head not in query.aliases:
            raise PlanError(f'{who}: required heads {required}, got unknown head "{head}"')
        if heads.count(head) > 1:
            raise PlanError(f'{who}: required one sequence for each head, got several for "{head}"')
    for alias in query.aliases:
        if alias not in heads:
            raise PlanError(f'{who}: required heads {required}, got none for "{alias}"')


def _sequence(query: JoinQuery, head: str, algorithm: Algorithm) -> Sequence:
    """The other streams in FROM order, except that each waits until a predicate links it to the carry.

    What nothing links is a product, which the query asked for: not every algorithm can compute it, so there
    the one that is most like the one asked for takes its place.
    """
    joined: tuple[str, ...] = (head,)
    steps: list[Step] = []
    while len(joined) < len(query.aliases):
        rest = [alias for alias in query.aliases if alias not in joined]
        linked = next((alias for alias in rest if is_linked(query, alias, joined)), None)
        steps.append(Step(linked or rest[0], algorithm if linked else product_like(algorithm)))
        joined = (*joined, steps[-1].alias)
    return Sequence(head, tuple(steps))


def _policy_dict(policy: Policy) -> dict[str, object]:
    """Without a delta under ``frontier``, or when it is yet to be measured."""
    return {"name": policy.name.value} | ({} if policy.delta_us is None else {"delta_us": policy.delta_us})


def _window_dict(window: Window) -> dict[str, object]:
    return {"window_us": window.length_us} if isinstance(window, RangeWindow) else {"window_rows": window.count}


def _describe_head(plan: Plan, head: str) -> str:
    """A walk looks into every window but its head's own."""
    parts = [_describe_stream(plan.query.ref(head))]
    if start_of(plan, head) != plan.query.ref(head).stream.site:
        parts.append(f"shipped to {start_of(plan, head)}")
    for hop in route(plan, head):
        ref = plan.query.ref(hop.alias)
        stream = _describe_stream(ref, window_text(ref.window))
        parts.append(f"{stream} by {hop.algorithm.value}, joined at {hop.site}")
    return f"{' -> '.join(parts)}, rows to {plan.sink}"


def _describe_stream(ref: StreamRef, window: str = "") -> str:
    names = [ref.stream.name] if ref.alias == ref.stream.name else [ref.stream.name, ref.alias]
    return " ".join([*names, *([window] if window else []), f"@{ref.stream.site}"])
