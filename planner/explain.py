"""A chosen plan in words and figures: what each step is expected to do, and what else there would have been.

``explain_text`` is for people, ``explain_dict`` for programs; pictures are in ``planner.picture``. With what was
measured (``planner.measured``), each figure stands beside the expected one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.alternatives import Compared, compared
from planner.choose import Choice, Model
from planner.cost import HeadEstimate, Objective, PlanEstimate, ReplicaEstimate, StepEstimate
from planner.measured import Measured, bytes_of
from planner.picture import explain_dot, explain_svg
from planner.plans import plan_dict, policy_text, window_text
from planner.selectivity import selectivity

__all__ = ["explain_dict", "explain_dot", "explain_svg", "explain_text"]


def explain_text(choice: Choice, measured: Measured | None = None) -> str:
    """The plan as tables of plain text."""
    others = compared(choice)
    lines = [*_summary(choice, measured), "", *_streams(choice)]
    for head in choice.estimate.heads:
        lines += ["", *_head(choice, head, measured)]
    lines += ["", *_replicas(choice.estimate, measured), "", *_links(choice.estimate, measured)]
    lines += ["", *_alternatives(choice, others), "", *_assumed(choice)]
    return "\n".join(line.rstrip() for line in lines)


# -- text -------------------------------------------------------------------------------------


def _summary(choice: Choice, measured: Measured | None) -> list[str]:
    estimate, ship_all, options = choice.estimate, choice.ship_all, choice.options
    share = _share(estimate.bytes_per_s, ship_all.bytes_per_s)
    chosen = f"search {options.search.value}, cost {options.model.value}, objective {options.objective.value}"
    sent = f"{_rate(estimate.bytes_per_s)} on all links, {share} of shipping everything ({_rate(ship_all.bytes_per_s)})"
    rows = _number(sum(head.rows_out for head in estimate.heads))
    lines = [
        f"{chosen}, policy {policy_text(choice.plan.policy)}, rows to {choice.plan.sink}",
        f"expected  {sent}; lower bound {_rate(estimate.lower_bound_bytes_per_s)}",
        f"rows      {rows} a second, {estimate.delay_s * 1e3:.0f} ms after their batch at the latest",
    ]
    if estimate.money_per_month is not None:
        saved = f"shipping everything {ship_all.money_per_month or 0.0:.2f}"
        lines.append(f"money     {estimate.money_per_month:.2f} a month on links with a price; {saved}")
    if choice.options.model is Model.PAPER:
        lines.append(f"time      {estimate.cost:.4f} s of execution a second by the paper's formulas")
    if measured is not None and measured.seconds > 0:
        found = measured.nbytes / measured.seconds
        lines.append(
            f"measured  {_rate(found)} over {measured.seconds:.1f} s of event time, "
            f"{_times(estimate.bytes_per_s, found)} of that expected; shipping everything "
            f"{_rate(measured.ship_all_bytes / measured.seconds)} without framing"
        )
    return lines


def _streams(choice: Choice) -> list[str]:
    rows = []
    for ref in choice.plan.query.streams:
        profile = choice.statistics.profiles[ref.alias]
        rows.append(
            [
                ref.alias,
                ref.stream.name,
                ref.stream.site,
                window_text(ref.window).strip("[]"),
                _number(profile.rate),
                f"{sum(profile.column_bytes.values()):.1f}",
                f"{profile.rows:,}",
                f"{profile.span_us / 1e6:.1f}",
            ]
        )
    heads = ["stream", "name", "site", "window", "rows/s", "bytes/row", "rows looked at", "over s"]
    return _table(heads, rows, left=4)


def _head(choice: Choice, head: HeadEstimate, measured: Measured | None) -> list[str]:
    seconds = measured.seconds if measured is not None else 0.0
    site = choice.plan.query.ref(head.head).stream.site
    shipped = f", shipped to {head.start}" if head.start != site else ""
    came = f"{_number(head.rows_per_s)} rows in {_number(head.batches_per_s)} batches a second"
    lines = [f"head {head.head} at {site}{shipped}: {came}, {head.delay_s * 1e3:.0f} ms to the sink"]
    rows = []
    for number, step in enumerate(head.steps):
        row = [
            str(number + 1),
            step.alias,
            "local" if step.source == step.owner else step.algorithm.value,
            _way(step),
            _number(step.rows_in),
            _number(step.keys),
            f"{step.match:.1%}",
            _number(step.rows_out),
            _number(step.bytes_per_s),
            f"{step.delay_s * 1e3:.0f}",
        ]
        if seconds and measured is not None:
            found = measured.steps.get((head.head, number))
            if found is not None:
                sent = found.nbytes / seconds
                row += [_number(found.rows_out / seconds), _number(sent), _times(step.bytes_per_s, sent)]
            else:
                row += ["", "", ""]
        rows.append(row)
    sent_rows = [
        "",
        "rows",
        "",
        _sink_way(choice, head),
        _number(head.rows_out),
        "",
        "",
        "",
        _number(_results(head)),
        "",
    ]
    if seconds and measured is not None:
        sent = bytes_of(measured.results.get(head.head, ())) / seconds
        sent_rows += ["", _number(sent), _times(_results(head), sent)]
    heads = ["step", "join", "by", "where", "rows in/s", "keys/s", "match", "rows out/s", "bytes/s", "ms"]
    heads += ["measured rows out/s", "bytes/s", "found/expected"] if seconds else []
    return [*lines, *_table(heads, [*rows, sent_rows], left=4)]


def _way(step: StepEstimate) -> str:
    if step.source == step.owner:
        return f"at {step.site}"
    return f"{step.source} - {step.owner}, joined at {step.site}"


def _sink_way(choice: Choice, head: HeadEstimate) -> str:
    last = head.steps[-1].site if head.steps else head.start
    return f"at {last}" if last == choice.plan.sink else f"{last} to {choice.plan.sink}"


def _results(head: HeadEstimate) -> float:
    return sum(flow.bytes_per_s for flow in head.results)


def _replicas(estimate: PlanEstimate, measured: Measured | None) -> list[str]:
    if not estimate.replicas:
        return ["no copies are kept"]
    seconds = measured.seconds if measured is not None else 0.0
    rows = []
    for each in estimate.replicas:
        row = [str(each.replica), each.owner, ", ".join(dict.fromkeys(each.users)), _number(each.bytes_per_s)]
        if seconds and measured is not None:
            sent = bytes_of(measured.replicas.get(each.replica, ())) / seconds
            row += [_number(sent), _times(each.bytes_per_s, sent)]
        rows.append(row)
    heads = ["copies", "from", "for heads", "bytes/s", *(["measured", "found/expected"] if seconds else [])]
    return _table(heads, rows, left=3)


def _links(estimate: PlanEstimate, measured: Measured | None) -> list[str]:
    seconds = measured.seconds if measured is not None else 0.0
    rows = []
    for (source, target), size in estimate.by_link.items():
        row = [f"{source} to {target}", _number(size)]
        if seconds and measured is not None:
            sent = measured.by_link.get((source, target), 0.0) / seconds
            row += [_number(sent), _times(size, sent)]
        rows.append(row)
    heads = ["link", "bytes/s", *(["measured", "found/expected"] if seconds else [])]
    return _table(heads, rows, left=1)


def _alternatives(choice: Choice, others: Compared) -> list[str]:
    """Other plans with what they would cost more; only differences tell why they lost."""
    chosen, unit = choice.estimate.cost, _unit(choice)
    rows = [
        [f"{item.name} for every step" if item.name != "ship-all" else "ship-all", _more(item.estimate.cost, chosen)]
        for item in choice.alternatives
    ]
    found = {(other.head, other.number): "" for other in others.steps}
    for place in found:
        own = sorted((each for each in others.steps if (each.head, each.number) == place), key=lambda each: each.cost)
        shown = ", ".join(f"{each.algorithm.value} {_more(each.cost, chosen)}" for each in own)
        rows.append([f"head {place[0]}, step {place[1] + 1} only", shown])
    if others.tree is not None:
        rows.append([f"a tree: {others.tree}", f"{_more(others.tree.cost, chosen)}; planned, not executed"])
    return _table([f"instead ({unit})", "costs"], rows, left=2) if rows else []


def _assumed(choice: Choice) -> list[str]:
    query = choice.plan.query
    lines = [
        f"assumed: a predicate between streams that is not an equality keeps {selectivity(expr):.0%} of rows"
        for expr in query.residuals
    ]
    timed = all(
        sketch.first_us is not None
        for profile in choice.statistics.profiles.values()
        for sketch in profile.keys.values()
    )
    if not timed:
        lines.append("assumed: each key comes evenly over the time that was looked at")
    lines.append("assumed: keys of different predicates are independent of each other")
    return lines


def _unit(choice: Choice) -> str:
    if choice.options.model is Model.PAPER:
        return "execution time"
    match choice.options.objective:
        case Objective.BYTES:
            return "bytes"
        case Objective.TIME:
            return "seconds of delay"
        case Objective.MONEY:
            return "money"


def _more(cost: float, chosen: float) -> str:
    if chosen <= 0:
        return "the same" if cost <= 0 else "more"
    change = cost / chosen - 1
    return "the same" if abs(change) < 5e-4 else f"{change:+.1%}"


def _times(expected: float, found: float) -> str:
    if expected <= 0:
        return "" if found <= 0 else "not expected"
    return f"{found / expected:.2f} times"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole > 0 else "100.0%"


def _rate(size: float) -> str:
    return f"{_number(size)} bytes/s"


def _number(value: float) -> str:
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Columns under their names; the first ``left`` are text."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        pairs = enumerate(zip(cells, widths, strict=True))
        return "  ".join(cell.ljust(width) if place < left else cell.rjust(width) for place, (cell, width) in pairs)

    return [line(heads), "  ".join("-" * width for width in widths), *(line(row) for row in rows)]


# -- values -----------------------------------------------------------------------------------


def explain_dict(choice: Choice, measured: Measured | None = None) -> dict[str, Any]:
    """The same as JSON-able values; the plan among it can be read back by ``planner.plan_file``."""
    others = compared(choice)
    tree = others.tree
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
        "tree": None if tree is None else {"order": str(tree), "cost": tree.cost, "executed": False},
    }
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
        "heads": [_head_dict(head) for head in estimate.heads],
        "replicas": [_replica_dict(each) for each in estimate.replicas],
    }


def _head_dict(head: HeadEstimate) -> dict[str, Any]:
    return {
        "head": head.head,
        "start": head.start,
        "rows_per_s": head.rows_per_s,
        "batches_per_s": head.batches_per_s,
        "rows_out_per_s": head.rows_out,
        "results_bytes_per_s": _results(head),
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
        "replica": None if step.replica is None else str(step.replica),
    }


def _replica_dict(each: ReplicaEstimate) -> dict[str, Any]:
    return {
        "kind": each.replica.kind,
        "alias": each.replica.alias,
        "keys": list(each.replica.keys),
        "owner": each.owner,
        "holder": each.replica.holder,
        "heads": list(dict.fromkeys(each.users)),
        "bytes_per_s": each.bytes_per_s,
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
        "replicas": [{"replica": str(replica), "bytes": bytes_of(sent)} for replica, sent in measured.replicas.items()],
        "control_bytes": bytes_of(measured.control),
    }
