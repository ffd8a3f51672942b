"""What explain says is what was estimated, in all its forms."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from bench.planner.cases import wire_case
from node.io import control as control_module
from node.io.control import Control
from node.io.planning.outcome import Planned
from node.io.reports.explanation import explained
from node.io.results.issued_queries import Queries
from node.rpc import control_pb2 as pb
from planner.cost.estimates import Flow
from planner.estimate.statistics import LinkStats
from planner.explain.figures import explain_dict
from planner.explain.measurements import Measured, MeasuredStep, Sent
from planner.explain.text import explain_text, rate_text
from planner.model.plan_file import read_plan
from planner.model.plans import forced_plan
from planner.model.query import Algorithm, Call, ColumnRef, Literal
from planner.search.alternatives import Compared, compared
from planner.search.choice import SEQUENCES, TREE, Alternative, Choice, Model, Options, choose, estimate_plan
from tests.unit.files import AtOnce

CASE = wire_case(np.random.default_rng(4), "chain", 3)
CHOICE = choose(CASE.query, CASE.sink, CASE.statistics)
OTHERS = compared(CHOICE)


def _text(choice: Choice) -> str:
    return explain_text(choice, compared(choice))


def test_the_text_has_every_step_with_its_figures() -> None:
    text = explain_text(CHOICE, OTHERS)
    for head in CHOICE.estimate.heads:
        assert f"head {head.head} at " in text
        for step in head.steps:
            assert any(step.alias in line and step.algorithm.value in line for line in text.splitlines())
    assert "search optimal, cost wire, objective bytes, policy frontier" in text
    assert f"{CHOICE.ship_all.bytes_per_s:,.0f} bytes/s" in text
    table = [line.split() for line in text.splitlines()]
    every = next(line for line in table if line[:2] == ["every", "step"])
    forced = next(item for item in CHOICE.alternatives if item.name == "SP-D")
    assert f"{forced.estimate.cost / CHOICE.estimate.cost - 1:+.1%}" in every
    for head in CHOICE.estimate.heads:
        for number in range(len(head.steps)):
            assert any(line[:3] == [f"{head.head},", "step", str(number + 1)] and "chosen" in line for line in table)
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_same_choice_gives_the_same_text() -> None:
    assert explain_text(CHOICE, OTHERS) == _text(choose(CASE.query, CASE.sink, CASE.statistics))


def test_values_can_be_written_and_the_plan_read_back() -> None:
    text = json.dumps(explain_dict(CHOICE, OTHERS))
    assert read_plan(text, CASE.query, CASE.sink) == CHOICE.plan
    expected = json.loads(text)["expected"]
    assert expected["bytes_per_s"] == pytest.approx(CHOICE.estimate.bytes_per_s)
    flows = [flow for head in expected["heads"] for step in head["steps"] for flow in step["flows"]]
    steps = [step for head in CHOICE.estimate.heads for step in head.steps]
    assert sum(flow["bytes_per_s"] for flow in flows) == pytest.approx(sum(step.bytes_per_s for step in steps))


def test_all_that_explain_writes_is_let_be_where_a_plan_is_read() -> None:
    planned = Planned(CHOICE.plan, CHOICE, ("rate of s0: 5 tuples/s",), ("a warning",))
    assert read_plan(explained(planned, OTHERS, "", ()).json, CASE.query, CASE.sink) == CHOICE.plan
    assert read_plan(explained(planned, None, "n0-1", ()).json, CASE.query, CASE.sink) == CHOICE.plan
    measured = explain_dict(CHOICE, OTHERS, _measured(2.0))
    assert read_plan(json.dumps(measured), CASE.query, CASE.sink) == CHOICE.plan


def test_what_was_guessed_is_named_and_nothing_else() -> None:
    assumed = [line for line in explain_text(CHOICE, OTHERS).splitlines() if line.startswith("assumed")]
    assert assumed == ["assumed: keys of different predicates are independent of each other"]
    pair = wire_case(np.random.default_rng(4), "chain", 2)
    text = _text(choose(pair.query, pair.sink, pair.statistics))
    assert "assumed" not in text, "there is one predicate"
    assert text == text.strip()
    less = Call("<", (ColumnRef("s0", "v"), ColumnRef("s1", "v")), pa.bool_())
    long = Call("<>", (ColumnRef("s0", "v"), Literal("a\n" * 90, pa.string())), pa.bool_())
    guessed = replace(pair.query, residuals=(less, long))
    lines = _text(choose(guessed, pair.sink, pair.statistics)).splitlines()
    assert lines[-2:] == [
        "assumed: s0.v < s1.v holds for 33% of rows",
        f"assumed: s0.v <> '{'a ' * 16}a... holds for 90% of rows",
    ]


def test_other_steps_are_plans_that_differ_in_one_step_and_are_not_better() -> None:
    remote = [step for head in CHOICE.estimate.heads for step in head.steps if step.source != step.owner]
    assert len(OTHERS.steps) == 5 * len(remote)
    assert all(other.cost >= CHOICE.estimate.cost - 1e-6 for other in OTHERS.steps)


KEEPING = Options(storage_bytes=256e6)


def _tree() -> Choice:
    """The first of these random queries for which a join is kept."""
    cases = (wire_case(np.random.default_rng([seed, 7]), "chain", 4) for seed in range(40))
    choices = (choose(case.query, case.sink, case.statistics, KEEPING) for case in cases)
    return next(choice for choice in choices if choice.plan.kept)


def test_a_join_that_is_kept_is_told_with_what_it_takes_and_saves() -> None:
    choice = _tree()
    (kept, *_), others = choice.estimate.kept, compared(choice)
    text = explain_text(choice, others)
    lines = [line.split() for line in text.splitlines()]
    heads = ["kept", "joined", "at", "window", "rows/s", "bytes/row", "bytes/s", "takes", "of"]
    (row,) = [lines[place + 2] for place, line in enumerate(lines) if line == heads]
    assert row[0] == kept.join.name
    assert row[-2:] == ["256", "MB"]
    without = next(item.estimate for item in choice.alternatives if item.name == SEQUENCES)
    saved = without.bytes_per_s - choice.estimate.bytes_per_s
    assert f"saves {rate_text(saved)}, {saved / without.bytes_per_s:.1%} of the best plan that keeps none" in text
    assert f"without a join that is kept: {without.cost / choice.estimate.cost - 1:+.1%}"[:30] in text
    for alias in kept.join.aliases:
        assert f"head {alias} at " in text
        assert f"to {kept.join.name}" in text
    assert f"head {kept.join.name} at {kept.join.site}: " in text
    assert max(map(len, text.splitlines())) <= 90
    used = replace(choice, statistics=replace(choice.statistics, stored={kept.join.site: 200e6}))
    assert "56 MB" in explain_text(used, others)


def test_the_values_of_a_plan_that_keeps_joins_add_up_and_are_a_plan() -> None:
    choice = _tree()
    document = explain_dict(choice, compared(choice))
    plan = choice.plan
    assert read_plan(json.dumps(document), plan.asked, plan.sink) == plan
    expected = document["expected"]
    (kept, *_) = expected["kept"]
    assert kept["storage_bytes"] == 256e6
    assert 0 < kept["stored_bytes"] < 256e6
    assert set(kept["heads"]) < {head["head"] for head in expected["heads"]}
    steps = sum(step["bytes_per_s"] for head in expected["heads"] for step in head["steps"])
    rest = sum(head["results_bytes_per_s"] for head in expected["heads"])
    copies = sum(copy["bytes_per_s"] for copy in expected["copies"])
    control = sum(flow.bytes_per_s for part in choice.estimate.parts for flow in part.control)
    assert steps + rest + copies + control == pytest.approx(expected["bytes_per_s"])
    assert {item["name"] for item in document["alternatives"]} >= {SEQUENCES, "ship-all"}


def test_a_plan_that_keeps_a_join_and_was_not_chosen_is_told_with_the_reason() -> None:
    choice = choose(CASE.query, CASE.sink, CASE.statistics, KEEPING)
    assert not choice.plan.kept
    tree = next(item.estimate for item in choice.alternatives if item.name == TREE)
    (join,) = tree.plan.kept
    told = f"with a join that is kept, {', '.join(join.aliases)} at {join.site}: "
    assert told in _text(choice)
    cheaper = replace(tree, cost=0.95 * choice.estimate.cost)
    others = (*(item for item in choice.alternatives if item.name != TREE), Alternative(TREE, cheaper))
    assert f"{told}-5.0%, and 10% less is asked" in _text(replace(choice, alternatives=others))


def _measured(factor: float) -> Measured:
    """As if everything had been sent ``factor`` times as expected, for ten seconds."""

    def sent(flows: tuple[Flow, ...]) -> tuple[Sent, ...]:
        return tuple(Sent(each.source, each.target, each.kind, each.bytes_per_s * 10 * factor) for each in flows)

    steps, results = {}, {}
    for head in CHOICE.estimate.heads:
        for number, step in enumerate(head.steps):
            steps[head.head, number] = MeasuredStep(100, 50, sent(step.flows))
        results[head.head] = sent(head.results)
    copies = {each.copy: sent(each.flows) for each in CHOICE.estimate.copies}
    return Measured(10.0, steps, results, copies, (), 5_000.0)


def test_what_was_measured_stands_beside_what_was_expected() -> None:
    text = explain_text(CHOICE, OTHERS, _measured(2.0))
    assert "measured" in text.splitlines()[4]
    assert "over 10.0 s of event time" in text
    lines = text.splitlines()
    below = [after for line, after in pairwise(lines) if line[:1].isdigit() and " S" in line]
    assert len(below) == sum(step.source != step.owner for head in CHOICE.estimate.heads for step in head.steps)
    assert all(line.split()[0] == "measured" and line.endswith("x 2.00") for line in below)
    assert max(map(len, lines)) <= 80
    document = explain_dict(CHOICE, OTHERS, _measured(2.0))["measured"]
    assert document["seconds"] == 10.0
    assert document["steps"][0]["rows_out"] == 50


def test_money_is_shown_where_links_have_a_price() -> None:
    assert "money" not in explain_text(CHOICE, OTHERS)
    links = {link: LinkStats(each.rtt_us, each.bytes_per_s, 0.08) for link, each in CASE.statistics.links.items()}
    priced = choose(CASE.query, CASE.sink, replace(CASE.statistics, links=links))
    assert "a month on links with a price" in _text(priced)


def test_a_plan_that_was_given_and_the_papers_costs_are_explained_too() -> None:
    options = Options(model=Model.PAPER)
    plan = forced_plan(CASE.query, CASE.sink, Algorithm.SM_D1)
    estimate = estimate_plan(plan, CASE.statistics, options)
    text = _text(Choice(plan, estimate, CHOICE.ship_all, options, CASE.statistics))
    assert "by the paper's formulas" in text
    assert "SM-D1" in text


def test_a_query_is_compared_with_others_once_however_often_it_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Choice, bool]] = []

    def counted(choice: Choice) -> Compared:
        seen.append((choice, threading.current_thread() is threading.main_thread()))
        return compared(choice)

    monkeypatch.setattr(control_module, "compared", counted)
    queries = Queries("n0", tmp_path, AtOnce())
    query = queries.new(Planned(CHOICE.plan, CHOICE))
    runner = SimpleNamespace(put=lambda _: None, stack=SimpleNamespace(links={}))
    nothing, desk = cast("Any", None), cast("Any", SimpleNamespace(search=asyncio.to_thread, outlook=lambda _: ""))
    control = Control(cast("Any", runner), nothing, nothing, nothing, queries, desk, lambda: None)

    async def explained() -> list[str]:
        request = pb.ExplainRequest(query_id=query.query_id)
        return [(await control.Explain(request, nothing)).text for _ in range(2)]

    assert asyncio.run(explained()) == [explain_text(CHOICE, OTHERS)] * 2
    assert seen == [(CHOICE, False)], "once, and not on the event loop's thread"
