"""What is said about a plan: its text, JSON and pictures, with what was measured beside if the query runs or ran."""

from __future__ import annotations

import json
from collections.abc import Sequence

from node.io.planning.outcome import Planned
from node.io.reports.measurements import measured_of
from node.io.reports.switch_report import history_dicts, history_lines
from node.io.results.switch_history import PlanChange
from node.rpc import control_pb2 as pb
from planner.explain.figures import explain_dict
from planner.explain.picture import explain_dot, explain_svg
from planner.explain.text import explain_text
from planner.model.plans import describe, plan_dict
from planner.search.alternatives import Compared


def explained(
    planned: Planned,
    others: Compared | None,
    query_id: str,
    measured: Sequence[pb.StatusReply],
    troubles: Sequence[str] = (),
    *,
    run_id: str = "",
    changes: Sequence[PlanChange] = (),
    adaptive: str = "",
) -> pb.ExplainReply:
    """The reply; ``measured`` are the statuses of the sites, in which ``run_id``, or else ``query_id``, is looked for.

    ``troubles`` are things to warn of; ``changes`` the query's switches to other plans; ``adaptive`` says whether there
    will be more. Without a choice there is a
    plan, but nobody knows what it costs, and it was compared with nothing.
    """
    found = measured_of(planned.plan, run_id or query_id, measured) if measured else None
    choice = planned.choice
    reply = pb.ExplainReply()
    if choice is None or others is None:
        text, document = describe(planned.plan), plan_dict(planned.plan)
    else:
        text, document = explain_text(choice, others, found), explain_dict(choice, others, found)
        reply.svg, reply.dot = explain_svg(choice, found), explain_dot(choice, found)
    warnings = [*planned.warnings, *troubles]
    lines = [*(f"warning: {warning}" for warning in warnings), *(f"declared: {name}" for name in planned.declared)]
    history = [*history_lines(changes, measured), *([f"adaptive: {adaptive}"] if adaptive else [])]
    reply.text = "\n".join([text, *(["", *history] if history else []), *(["", *lines] if lines else [])])
    document |= {"switches": history_dicts(changes, measured)}
    document |= {"adaptive": adaptive or None}
    document |= {"query_id": query_id or None, "warnings": warnings, "declared": list(planned.declared)}
    reply.json = json.dumps(document, indent=2)
    return reply
