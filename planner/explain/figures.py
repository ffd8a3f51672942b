"""A chosen plan as values that become JSON: what is expected of each step, what it did, and what else there was."""

from __future__ import annotations

from typing import Any

from planner.cost.estimates import CopyEstimate, HeadEstimate, KeptEstimate, PlanEstimate, StepEstimate
from planner.explain.measurements import Measured, bytes_of
from planner.model.plans import plan_dict
from planner.search.alternatives import Compared
from planner.search.choice import Choice


def explain_dict(choice: Choice, others: Compared, measured: Measured | None = None) -> dict[str, Any]:
    """What explain says, as values that become JSON; ``planner.model.plan_file`` reads the plan among them back."""
    document: dict[str, Any] = {
        **plan_dict(choice.plan),
        "options": {
            "search": choice.options.search.value,
            "model": choice.options.model.value,
            "objective": choice.options.objective.value,
        },
        "expected": _estimate_dict(choice.estimate),
        "ship_all": {"bytes_per_s": choice.ship_all.bytes_per_s, "cost": choice.ship_all.cost},
        "alternatives": [
            {"name": item.name, "bytes_per_s": item.estimate.bytes_per_s, "cost": item.estimate.cost}
            for item in choice.alternatives
        ],
        "other_steps": [
            {
                "head": other.head,
                "step": other.number,
                "algorithm": other.algorithm.value,
                "bytes_per_s": other.bytes_per_s,
                "cost": other.cost,
            }
            for other in others.steps
        ],
    }
    if choice.estimate.kept:
        document["expected"]["kept"] = [_kept_dict(choice, each) for each in choice.estimate.kept]
    if measured is not None:
        document["measured"] = _measured_dict(measured)
    return document


def _estimate_dict(estimate: PlanEstimate) -> dict[str, Any]:
    return {
        "bytes_per_s": estimate.bytes_per_s,
        "cost": estimate.cost,
        "delay_s": estimate.delay_s,
        "money_per_month": estimate.money_per_month,
        "lower_bound_bytes_per_s": estimate.lower_bound_bytes_per_s,
        "by_kind": {kind.value: size for kind, size in estimate.by_kind.items()},
        "by_link": [{"from": link[0], "to": link[1], "bytes_per_s": size} for link, size in estimate.by_link.items()],
        "heads": [_head_dict(head) for part in estimate.parts for head in part.heads],
        "copies": [_copy_dict(each) for part in estimate.parts for each in part.copies],
    }


def _kept_dict(choice: Choice, each: KeptEstimate) -> dict[str, Any]:
    """A join that is kept; its heads and copies are among those of the plan."""
    profile, site = each.rows.profile, each.join.site
    return {
        "name": each.join.name,
        "aliases": list(each.join.aliases),
        "site": site,
        "heads": [head.head for head in each.estimate.heads],
        "window_us": round(each.rows.window_s * 1e6),
        "rows_per_s": profile.rate,
        "row_bytes": sum(profile.column_bytes.values()),
        "visible": profile.visible,
        "bytes_per_s": each.estimate.bytes_per_s,
        "cost": each.estimate.cost,
        "stored_bytes": each.rows.stored_bytes,
        "stored_before": choice.statistics.stored.get(site, 0.0),
        "storage_bytes": choice.options.storage_bytes,
    }


def _head_dict(head: HeadEstimate) -> dict[str, Any]:
    return {
        "head": head.head,
        "start": head.start,
        "rows_per_s": head.rows_per_s,
        "batches_per_s": head.batches_per_s,
        "rows_out_per_s": head.rows_out,
        "results_bytes_per_s": head.results_bytes_per_s,
        "delay_s": head.delay_s,
        "steps": [_step_dict(step) for step in head.steps],
    }


def _step_dict(step: StepEstimate) -> dict[str, Any]:
    return {
        "alias": step.alias,
        "algorithm": step.algorithm.value,
        "from": step.source,
        "owner": step.owner,
        "site": step.site,
        "rows_in_per_s": step.rows_in,
        "keys_per_s": step.keys,
        "match": step.match,
        "rows_out_per_s": step.rows_out,
        "delay_s": step.delay_s,
        "cost": step.cost,
        "bytes_per_s": step.bytes_per_s,
        "flows": [
            {"from": flow.source, "to": flow.target, "kind": flow.kind.value, "bytes_per_s": flow.bytes_per_s}
            for flow in step.flows
        ],
        "copy": None if step.copy is None else str(step.copy),
    }


def _copy_dict(each: CopyEstimate) -> dict[str, Any]:
    return {
        "kind": each.copy.kind,
        "alias": each.copy.alias,
        "keys": list(each.copy.keys),
        "owner": each.owner,
        "holder": each.copy.holder,
        "heads": list(dict.fromkeys(each.users)),
        "bytes_per_s": each.bytes_per_s,
        "already_there": each.already_there,
    }


def _measured_dict(measured: Measured) -> dict[str, Any]:
    return {
        "seconds": measured.seconds,
        "bytes": measured.nbytes,
        "ship_all_bytes": measured.ship_all_bytes,
        "by_link": [{"from": link[0], "to": link[1], "bytes": size} for link, size in measured.by_link.items()],
        "steps": [
            {"head": head, "step": number, "rows_in": step.rows_in, "rows_out": step.rows_out, "bytes": step.nbytes}
            for (head, number), step in measured.steps.items()
        ],
        "results": {head: bytes_of(sent) for head, sent in measured.results.items()},
        "copies": [{"copy": str(copy), "bytes": bytes_of(sent)} for copy, sent in measured.copies.items()],
        "control_bytes": bytes_of(measured.control),
    }
