"""Plans that someone asked for, and what any plan means in terms of sites.

Choosing a plan by cost is the planner's later business; here a plan is forced by
naming the algorithm, checked, walked from site to site, and put into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import PlanError
from planner.model import Algorithm, JoinQuery, Plan, Sequence, Step, StreamRef

_ALGORITHMS = ", ".join(algorithm.value for algorithm in Algorithm)


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a walk with the site at which its join is computed; the carry is there afterwards."""

    alias: str
    algorithm: Algorithm
    site: str


def forced_plan(query: JoinQuery, sink: str, choice: Mapping[str, Algorithm] | Algorithm) -> Plan:
    """The plan in which every step of a head's sequence uses the algorithm chosen for that head."""
    by_head = dict.fromkeys(query.aliases, choice) if isinstance(choice, Algorithm) else choice
    _check_heads(query, list(by_head))
    return Plan(query, sink, tuple(_sequence(query, head, by_head[head]) for head in query.aliases))


def checked_plan(plan: Plan) -> Plan:
    """The plan, if it has one sequence per head that visits every other stream once, each linked to one before it.

    Raises PlanError otherwise: a plan may come from another site.
    """
    query = plan.query
    _check_heads(query, [sequence.head for sequence in plan.sequences])
    for sequence in plan.sequences:
        visited: tuple[str, ...] = (sequence.head,)
        for alias in [step.alias for step in sequence.steps]:
            if alias not in query.aliases or alias in visited:
                raise PlanError(f'head "{sequence.head}": required each other stream once, got "{alias}"')
            if not any(edge.joins(alias, visited) for edge in query.edges):
                raise PlanError(f'head "{sequence.head}": required a stream linked to {visited}, got "{alias}"')
            visited = (*visited, alias)
        if len(visited) != len(query.aliases):
            raise PlanError(f'head "{sequence.head}": required all of {query.aliases}, got {visited}')
    return plan


def parse_algorithm(text: str, query: JoinQuery) -> Mapping[str, Algorithm]:
    """Read ``SP-D``, for all heads, or ``o=SP-S,p=SP-D``, which must name every head once."""
    if "=" not in text:
        return dict.fromkeys(query.aliases, _algorithm("every head", text))
    chosen: dict[str, Algorithm] = {}
    for part in text.split(","):
        head, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise PlanError(f'algorithm choice "{text}": required head=algorithm, got "{part.strip()}"')
        if head in chosen:
            raise PlanError(f'algorithm choice "{text}": required each head once, got "{head}" twice')
        chosen[head] = _algorithm(f'head "{head}"', name)
    _check_heads(query, list(chosen))
    return {alias: chosen[alias] for alias in query.aliases}


def route(plan: Plan, head: str) -> tuple[Hop, ...]:
    """Where each step of a head's sequence is joined.

    The carry starts at the head's site. It moves only for a ``D`` algorithm to a stream
    elsewhere: then the rows of the step come into being at that stream's site.
    """
    site = plan.query.ref(head).stream.site
    hops: list[Hop] = []
    for step in plan.sequence(head).steps:
        if step.algorithm is Algorithm.SP_D:
            site = plan.query.ref(step.alias).stream.site
        hops.append(Hop(step.alias, step.algorithm, site))
    return tuple(hops)


def describe(plan: Plan) -> str:
    """The plan in words, one line per head, the same text for equal plans."""
    return "\n".join(_describe_head(plan, head) for head in plan.query.aliases)


def plan_dict(plan: Plan) -> dict[str, object]:
    """The plan as JSON-able values."""
    return {
        "query": plan.query.text,
        "sink": plan.sink,
        "streams": [
            {
                "alias": ref.alias,
                "stream": ref.stream.name,
                "site": ref.stream.site,
                "window_us": ref.window.length_us,
            }
            for ref in plan.query.streams
        ],
        "sequences": [
            {
                "head": head,
                "steps": [
                    {"alias": hop.alias, "algorithm": hop.algorithm.value, "site": hop.site}
                    for hop in route(plan, head)
                ],
            }
            for head in plan.query.aliases
        ],
    }


def _check_heads(query: JoinQuery, heads: list[str]) -> None:
    required = ", ".join(query.aliases)
    for head in heads:
        if head not in query.aliases:
            raise PlanError(f'algorithm choice: required heads {required}, got unknown head "{head}"')
    for alias in query.aliases:
        if alias not in heads:
            raise PlanError(f'algorithm choice: required heads {required}, got none for "{alias}"')


def _algorithm(who: str, name: str) -> Algorithm:
    try:
        return Algorithm(name.strip().upper())
    except ValueError:
        raise PlanError(f'algorithm of {who}: required one of {_ALGORITHMS}, got "{name.strip()}"') from None


def _sequence(query: JoinQuery, head: str, algorithm: Algorithm) -> Sequence:
    """The other streams in FROM order, except that each waits until a predicate links it to the carry."""
    joined: tuple[str, ...] = (head,)
    while len(joined) < len(query.aliases):
        rest = [alias for alias in query.aliases if alias not in joined]
        linked = next((alias for alias in rest if _is_linked(query, alias, joined)), None)
        if linked is None:
            raise PlanError(
                f'sequence of head "{head}": required an equality that links {", ".join(rest)} '
                f"with {', '.join(joined)}, got none"
            )
        joined = (*joined, linked)
    return Sequence(head, tuple(Step(alias, algorithm) for alias in joined[1:]))


def _is_linked(query: JoinQuery, alias: str, joined: tuple[str, ...]) -> bool:
    return any(edge.joins(alias, joined) for edge in query.edges)


def _describe_head(plan: Plan, head: str) -> str:
    parts = [_describe_stream(plan.query.ref(head))]
    parts += [
        f"{_describe_stream(plan.query.ref(hop.alias))} by {hop.algorithm.value}, joined at {hop.site}"
        for hop in route(plan, head)
    ]
    return f"{' -> '.join(parts)}, rows to {plan.sink}"


def _describe_stream(ref: StreamRef) -> str:
    name = ref.stream.name if ref.alias == ref.stream.name else f"{ref.stream.name} {ref.alias}"
    return f"{name} @{ref.stream.site}"
