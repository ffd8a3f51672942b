"""A chosen plan as plain text: what each step is expected to do, what it did, and what else there would have been.

Fits 80 columns unless names are long.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.algorithms.descriptions import Algorithm
from planner.cost.estimates import HeadEstimate, Objective, PlanEstimate
from planner.estimate.sketches import key_groups
from planner.explain.measurements import Measured, bytes_of
from planner.model.plans import policy_text, window_text
from planner.model.query import Expr, Plan
from planner.model.rendering import expr_text
from planner.model.selectivity import selectivity
from planner.search.alternatives import Compared
from planner.search.choice import SEQUENCES, TREE, TREE_GAIN_MIN, Choice, Model
from planner.sql.text import printable

#: Of a predicate that is shown: as much as fits a line with what is said of it.
_PREDICATE_LETTERS = 45


def explain_text(choice: Choice, others: Compared, measured: Measured | None = None) -> str:
    """The plan, and what it was compared with, as tables of plain text."""
    lines = [*_summary(choice, measured), "", *_streams(choice)]
    if choice.estimate.kept:
        lines += ["", *_kept(choice)]
    for part in choice.estimate.parts:
        for head in part.heads:
            lines += ["", *_head(part, head, measured)]
    lines += ["", *_copies(choice.estimate, measured), "", *_links(choice.estimate, measured)]
    lines += ["", *_alternatives(choice, others)]
    if assumed := _assumed(choice):
        lines += ["", *assumed]
    return "\n".join(line.rstrip() for line in lines)


def _summary(choice: Choice, measured: Measured | None) -> list[str]:
    estimate, ship_all, options = choice.estimate, choice.ship_all, choice.options
    share = _share(estimate.bytes_per_s, ship_all.bytes_per_s)
    chosen = f"search {options.search.value}, cost {options.model.value}, objective {options.objective.value}"
    sent = f"{rate_text(estimate.bytes_per_s)}, {share} of shipping everything ({rate_text(ship_all.bytes_per_s)})"
    rows = _number(sum(head.rows_out for head in estimate.heads))
    lines = [
        f"{chosen}, policy {policy_text(choice.plan.policy)}, rows to {choice.plan.sink}",
        f"expected  {sent}",
        f"at least  {rate_text(estimate.lower_bound_bytes_per_s)}: every tuple that is in some result, once",
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
            f"measured  {rate_text(found)} over {measured.seconds:.1f} s of event time, "
            f"{_times(estimate.bytes_per_s, found)} of that expected"
        )
        if measured.ship_all_bytes is not None:
            everything = measured.ship_all_bytes / measured.seconds
            share = _share(found, everything)
            lines.append(f"          {share} of shipping everything, {rate_text(everything)} without framing")
    return lines


def _streams(choice: Choice) -> list[str]:
    rows = []
    for ref in choice.plan.asked.streams:
        profile = choice.statistics.profiles[ref.alias]
        rows.append(
            [
                ref.alias,
                ref.stream.name,
                ref.stream.site,
                window_text(ref.window).strip("[]"),
                _number(profile.rate),
                f"{sum(profile.column_bytes.values()):.1f}",
                f"{profile.rows:,.0f}",
                f"{profile.span_us / 1e6:.1f}",
            ]
        )
    heads = ["stream", "name", "site", "window", "rows/s", "bytes/row", "looked at", "over s"]
    return _table(heads, rows, left=4)


def _kept(choice: Choice) -> list[str]:
    """The joins that are kept: where, what that takes there, what it costs to make them, and what it saves."""
    rows = []
    for each in choice.estimate.kept:
        profile = each.rows.profile
        rows.append(
            [
                each.join.name,
                ", ".join(each.join.aliases),
                each.join.site,
                f"{each.rows.window_s:g} s",
                _number(profile.rate),
                f"{sum(profile.column_bytes.values()):.1f}",
                _number(each.estimate.bytes_per_s),
                size_text(each.rows.stored_bytes),
                _room(choice, each.join.site),
            ]
        )
    heads = ["kept", "joined", "at", "window", "rows/s", "bytes/row", "bytes/s", "takes", "of"]
    lines = _table(heads, rows, left=4)
    without = next((item.estimate for item in choice.alternatives if item.name == SEQUENCES), None)
    if without is not None:
        saved = without.bytes_per_s - choice.estimate.bytes_per_s
        share = _share(saved, without.bytes_per_s)
        lines.append(f"saves {rate_text(saved)}, {share} of the best plan that keeps none")
    return lines


def _room(choice: Choice, site: str) -> str:
    """What joins that are kept at a site may take, less what is kept there for others."""
    if choice.options.storage_bytes <= 0:
        return ""
    return size_text(max(0.0, choice.options.storage_bytes - choice.statistics.stored.get(site, 0.0)))


def _head(part: PlanEstimate, head: HeadEstimate, measured: Measured | None) -> list[str]:
    seconds, plan = (measured.seconds if measured is not None else 0.0), part.plan
    site = plan.query.ref(head.head).stream.site
    shipped = f", shipped to {head.start}" if head.start != site else ""
    came = f"{_number(head.rows_per_s)} rows in {_number(head.batches_per_s)} batches a second"
    goal = plan.part or "the sink"
    lines = [f"head {head.head} at {site}{shipped}: {came}, {head.delay_s * 1e3:.0f} ms to {goal}"]
    rows = []
    for number, step in enumerate(head.steps):
        rows.append(
            [
                str(number + 1),
                step.alias,
                "local" if step.source == step.owner else step.algorithm.value,
                step.site,
                _number(step.rows_in),
                _number(step.keys),
                _percent(step.match),
                _number(step.rows_out),
                _number(step.bytes_per_s),
                f"{step.delay_s * 1e3:.0f}",
            ]
        )
        if seconds and measured is not None and (found := measured.steps.get((head.head, number))) is not None:
            sent = found.nbytes / seconds
            rows.append(_found(found.rows_out / seconds, sent, step.bytes_per_s))
    results = _number(head.results_bytes_per_s)
    rows.append(["", "rows", "", _sink_way(plan, head), _number(head.rows_out), "", "", "", results, ""])
    if seconds and measured is not None:
        rows.append(_found(None, bytes_of(measured.results.get(head.head, ())) / seconds, head.results_bytes_per_s))
    heads = ["#", "join", "by", "joined at", "rows/s", "keys/s", "match", "out/s", "bytes/s", "ms"]
    if seconds:
        # What was found stands under what was expected; at the end of its line how many times the bytes are those.
        heads.append("found")
        rows = [row + [""] * (len(heads) - len(row)) for row in rows]
    return [*lines, *_table(heads, rows, left=4)]


def _found(rows_out: float | None, sent: float, expected: float) -> list[str]:
    """The line with what was measured."""
    shown = "" if rows_out is None else _number(rows_out)
    return ["", "", "", "measured", "", "", "", shown, _number(sent), "", _times(expected, sent)]


def _sink_way(plan: Plan, head: HeadEstimate) -> str:
    last = head.steps[-1].site if head.steps else head.start
    return f"at {last}" if last == plan.sink else f"to {plan.sink}"


def _copies(estimate: PlanEstimate, measured: Measured | None) -> list[str]:
    copies = [each for part in estimate.parts for each in part.copies]
    if not copies:
        return ["no copies are kept"]
    seconds = measured.seconds if measured is not None else 0.0
    rows = []
    for each in copies:
        there = ", already there" if each.already_there else ""
        row = [f"{each.copy}{there}", ", ".join(dict.fromkeys(each.users)), _number(each.bytes_per_s)]
        if seconds and measured is not None:
            sent = bytes_of(measured.copies.get(each.copy, ())) / seconds
            row += [_number(sent), _times(each.bytes_per_s, sent)]
        rows.append(row)
    heads = ["copies", "for", "bytes/s", *(["measured", "found"] if seconds else [])]
    said = ["already there: costs nothing more"] if any(each.already_there for each in copies) else []
    return [*_table(heads, rows, left=2), *said]


def _links(estimate: PlanEstimate, measured: Measured | None) -> list[str]:
    seconds = measured.seconds if measured is not None else 0.0
    rows = []
    for (source, target), size in estimate.by_link.items():
        row = [f"{source} to {target}", _number(size)]
        if seconds and measured is not None:
            sent = measured.by_link.get((source, target), 0.0) / seconds
            row += [_number(sent), _times(size, sent)]
        rows.append(row)
    heads = ["link", "bytes/s", *(["measured", "found"] if seconds else [])]
    return _table(heads, rows, left=1)


def _alternatives(choice: Choice, others: Compared) -> list[str]:
    """What other plans would cost more: one algorithm for every step, or another one for a single step."""
    chosen = choice.estimate.cost
    whole = {item.name: _more(item.estimate.cost, chosen) for item in choice.alternatives}
    rows = [["every step", *(whole.get(algorithm.value, "") for algorithm in Algorithm)]]
    for head in (head for part in choice.estimate.parts for head in part.heads):
        for number, step in enumerate(head.steps):
            here = [each for each in others.steps if (each.head, each.number) == (head.head, number)]
            if here:
                cells = {each.algorithm: _more(each.cost, chosen) for each in here}
                cells.setdefault(step.algorithm, "chosen")
                rows.append([f"{head.head}, step {number + 1}", *(cells.get(each, "") for each in Algorithm)])
    lines = _table([f"{_unit(choice)}, by", *(algorithm.value for algorithm in Algorithm)], rows, left=1)
    if "ship-all" in whole:
        lines.append(f"shipping everything: {whole['ship-all']}")
    if SEQUENCES in whole:
        lines.append(f"without a join that is kept: {whole[SEQUENCES]}")
    tree = next((item.estimate for item in choice.alternatives if item.name == TREE), None)
    if tree is not None:
        joins = " and ".join(f"{', '.join(join.aliases)} at {join.site}" for join in tree.plan.kept)
        unsure = f", and {TREE_GAIN_MIN:.0%} less is asked" if tree.cost < chosen else ""
        lines.append(f"with a join that is kept, {joins}: {whole[TREE]}{unsure}")
    return lines if whole or others.steps else []


def _assumed(choice: Choice) -> list[str]:
    """What the figures rest on that nobody measured."""
    query = choice.plan.asked
    lines = [f"assumed: {_predicate(expr)} holds for {selectivity(expr):.0%} of rows" for expr in query.residuals]
    timed = all(
        sketch.first_us is not None
        for profile in choice.statistics.profiles.values()
        for sketch in profile.keys.values()
    )
    if not timed:
        lines.append("assumed: each key comes evenly over the time that was looked at")
    if len(key_groups(query)) > 1:
        lines.append("assumed: keys of different predicates are independent of each other")
    return lines


def _predicate(expr: Expr) -> str:
    """As SQL, on one line, and not too long."""
    text = printable(expr_text(expr))
    return text if len(text) <= _PREDICATE_LETTERS else f"{text[: _PREDICATE_LETTERS - 3]}..."


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
    if abs(change) < 5e-4:
        return "the same"
    return f"{change:+.1%}" if change < 1 else f"x {1 + change:.1f}"


def _times(expected: float, found: float) -> str:
    if expected <= 0:
        return "" if found <= 0 else "new"
    times = found / expected
    if times >= 999.5:
        return "x 999+"
    return f"x {times:.2f}" if times < 9.995 else f"x {times:.1f}" if times < 99.95 else f"x {times:.0f}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole > 0 else "100.0%"


def _percent(share: float) -> str:
    return "100%" if share > 0.9995 else f"{share:.1%}"


def rate_text(size: float) -> str:
    """So many bytes in a second."""
    return f"{_number(size)} bytes/s"


def size_text(size: float) -> str:
    """So many bytes."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


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
