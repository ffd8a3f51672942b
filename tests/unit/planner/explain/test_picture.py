"""The picture of a plan shows its sites and what travels, in text that fits, whatever the query."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from bench.planner.cases import wire_case
from planner.algorithms.kinds import Kind
from planner.explain.measurements import Measured, MeasuredStep, Sent
from planner.explain.picture import explain_dot, explain_svg
from planner.model.query import Plan, StreamRef
from planner.search.choice import Choice, Options, choose
from tests.unit.svg_checks import labels_of, troubles_of

CASES = [("chain", 2, 1), ("chain", 3, 4), ("clique", 4, 3), ("star", 5, 2), ("chain", 8, 5)]


def chosen(topology: str, streams: int, seed: int) -> Choice:
    case = wire_case(np.random.default_rng(seed), topology, streams)
    return choose(case.query, case.sink, case.statistics)


def measured(choice: Choice, factor: float) -> Measured:
    """As if steps and copies had sent ``factor`` times as expected, for ten seconds."""
    steps = {
        (head.head, number): MeasuredStep(
            sent=tuple(Sent(flow.source, flow.target, flow.kind, flow.bytes_per_s * 10 * factor) for flow in step.flows)
        )
        for head in choice.estimate.heads
        for number, step in enumerate(head.steps)
    }
    return Measured(10.0, steps)


def named(choice: Choice, name: str) -> Choice:
    """The same plan, at sites and of streams with other names."""

    def ref(old: StreamRef) -> StreamRef:
        stream = replace(old.stream, name=f"{name}_{old.stream.name}")
        return replace(old, stream=stream)

    query = replace(choice.plan.query, streams=tuple(map(ref, choice.plan.query.streams)))
    plan: Plan = replace(choice.plan, query=query)
    return replace(choice, plan=plan)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sites_and_links_are_there_and_text_fits(case: tuple[str, int, int]) -> None:
    choice = chosen(*case)
    for found in (None, measured(choice, 1.3)):
        picture = explain_svg(choice, found)
        assert troubles_of(picture) == []
        root = ET.fromstring(picture)
        shown = [label.text for label in labels_of(root)]
        assert set(choice.plan.sites) <= set(shown)
        arrows = [element for element in root.iter() if element.attrib.get("class", "").startswith("arrow")]
        assert len(arrows) == len(choice.estimate.by_link)
        for head in choice.plan.query.aliases:
            assert any(text.startswith(f"{head} from ") for text in shown)


def test_what_was_measured_stands_beside_what_was_expected() -> None:
    choice = chosen(*CASES[0])
    found = measured(choice, 2.0)
    picture = explain_svg(choice, found)
    for link, size in found.by_link.items():
        assert f"{choice.estimate.by_link[link]:.0f} B/s → {size / 10:.0f} B/s" in picture
        assert f"{choice.estimate.by_link[link]:.0f} B/s → {size / 10:.0f} B/s" in explain_dot(choice, found)
    assert "over 10.0 s of event time" in picture
    assert "→ " not in "".join(re.findall(r"\d+ B/s → ", explain_svg(choice)))


def test_long_names_are_cut_and_stay_in_their_boxes() -> None:
    choice = named(chosen(*CASES[1]), "the_orders_of_all_customers_in_all_countries_" * 2)
    picture = explain_svg(choice)
    assert troubles_of(picture) == []
    assert "…" in picture
    assert "in_all_countries_stream0" not in picture


def test_dot_has_every_site_and_link() -> None:
    choice = chosen(*CASES[1])
    dot = explain_dot(choice)
    assert dot.startswith("digraph")
    for site in choice.plan.sites:
        assert f'"{site}" [label="{site}' in dot
    for source, target in choice.estimate.by_link:
        assert f'"{source}" -> "{target}" [label=' in dot


def test_a_join_that_is_kept_is_drawn_where_it_is_with_what_makes_it() -> None:
    cases = (wire_case(np.random.default_rng([seed, 7]), "chain", 4) for seed in range(40))
    choices = (choose(case.query, case.sink, case.statistics, Options(storage_bytes=256e6)) for case in cases)
    choice = next(choice for choice in choices if choice.plan.kept)
    (join, *_) = choice.plan.kept
    picture, graph = explain_svg(choice), explain_dot(choice)
    assert troubles_of(picture) == []
    shown = [label.text or "" for label in labels_of(ET.fromstring(picture))]
    sites = {site for plan in (choice.plan, *choice.plan.inners) for site in plan.sites}
    assert sites <= set(shown)
    assert any(text.startswith(f"kept: {', '.join(join.aliases)} [RANGE ") for text in shown)
    assert sum(f"→ kept as {join.name} at {join.site}" in text for text in shown) == len(join.aliases)
    assert f"kept: {', '.join(join.aliases)} [RANGE " in graph


def test_what_was_measured_where_nothing_was_expected_is_drawn() -> None:
    """All streams are at the sink, and yet something was sent."""
    case = wire_case(np.random.default_rng(1), "chain", 2, sites=1)
    choice = choose(case.query, "n0", case.statistics)
    assert choice.estimate.by_link == {}
    step = MeasuredStep(sent=(Sent("n0", "n1", Kind.TUPLES, 500.0),))
    first, second = choice.plan.query.streams
    elsewhere = replace(second, stream=replace(second.stream, site="n1"))
    query = replace(choice.plan.query, streams=(first, elsewhere))
    moved = replace(choice, plan=replace(choice.plan, query=query))
    picture = explain_svg(moved, Measured(10.0, {("s0", 0): step}))
    assert "0.0 B/s → 50 B/s" in picture
    assert troubles_of(picture) == []
