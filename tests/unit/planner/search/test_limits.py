"""Searches that would not end are refused at once, and those that do are not."""

from __future__ import annotations

import numpy as np
import pytest

from bench.planner.cases import paper_case, wire_case
from planner.algorithms.paper_terms import PaperSystem
from planner.cost.paper_model import PaperSpace
from planner.model.errors import PlanError
from planner.search.choice import Model, Options, Search, choose
from planner.search.limits import check_exhaustive, check_optimal


def space(topology: str, streams: int) -> PaperSpace:
    return paper_case(np.random.default_rng(1), topology, streams)


def product(streams: int) -> PaperSpace:
    """Streams that nothing links."""
    return PaperSpace(space("chain", streams).streams, (), PaperSystem())


@pytest.mark.parametrize(("topology", "streams"), [("chain", 16), ("cycle", 16), ("star", 11), ("clique", 10)])
def test_dynamic_programming_over_few_sets_is_let_be(topology: str, streams: int) -> None:
    check_optimal(space(topology, streams))


@pytest.mark.parametrize("case", [space("star", 12), space("clique", 11), space("clique", 16), product(16)])
def test_dynamic_programming_over_many_sets_is_refused(case: PaperSpace) -> None:
    with pytest.raises(PlanError) as refused:
        check_optimal(case)
    assert str(refused.value) == (
        "search optimal: required at most 1,100 sets of streams that can be joined, as ten streams have that are all "
        f"linked, got more with {len(case.aliases)} streams: ask for the search greedy"
    )


@pytest.mark.parametrize(("topology", "streams"), [("chain", 10), ("cycle", 9), ("star", 8), ("clique", 8)])
def test_trying_few_sequences_is_let_be(topology: str, streams: int) -> None:
    check_exhaustive(space(topology, streams))


@pytest.mark.parametrize("case", [space("chain", 11), space("star", 9), space("clique", 9), space("clique", 16)])
def test_trying_many_sequences_is_refused(case: PaperSpace) -> None:
    with pytest.raises(PlanError) as refused:
        check_exhaustive(case)
    assert str(refused.value) == (
        "search exhaustive: required at most 1,000,000,000 join sequences, as eight streams have that are all linked, "
        f"got more with {len(case.aliases)} streams: ask for the search optimal or greedy"
    )


@pytest.mark.parametrize("model", Model)
@pytest.mark.parametrize("search", [Search.EXHAUSTIVE, Search.OPTIMAL])
def test_who_asks_for_a_search_that_would_not_end_is_told(model: Model, search: Search) -> None:
    case = wire_case(np.random.default_rng(2), "clique", 16, sites=3, shared=True)
    with pytest.raises(PlanError, match=f"search {search.value}: required at most .* ask for the search"):
        choose(case.query, case.sink, case.statistics, Options(model, search))


def test_sixteen_streams_are_planned_greedily() -> None:
    case = wire_case(np.random.default_rng(2), "chain", 16, sites=3)
    choice = choose(case.query, case.sink, case.statistics, Options(search=Search.GREEDY))
    assert choice.estimate.cost <= choice.ship_all.cost
