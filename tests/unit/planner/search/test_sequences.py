"""Searches against each other: exact ones agree, greedy is never better, and pruning loses nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.planner.cases import TOPOLOGIES, edges_of, paper_case, wire_case
from planner.algorithms.descriptions import CopyKind
from planner.cost.estimates import CopyKey, Move, Objective, Space
from planner.cost.wire_model import WireSpace
from planner.model.plans import forced_plan, ship_all_plan
from planner.model.query import Algorithm
from planner.search.joint import found_of, improved, total_cost
from planner.search.sequences import NONE_FREE, exhaustive, greedy, optimal
from tests.examples import new_examples


@dataclass
class RandomSpace:
    """Any graph with any costs: what a search must be right for."""

    seed: int
    streams: int
    edges: tuple[tuple[int, int], ...]
    _moves: dict[tuple[int, int, str, int], tuple[Move, ...]] = field(default_factory=dict)

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(f"s{number}" for number in range(self.streams))

    def candidates(self, joined: int) -> tuple[int, ...]:
        rest = [number for number in range(self.streams) if not joined >> number & 1]
        linked = [
            number for number in rest if any(number in edge and joined >> sum(edge) - number & 1 for edge in self.edges)
        ]
        return tuple(linked or rest)

    def openings(self, head: int) -> tuple[Move, ...]:
        copy = CopyKey(CopyKind.FULL, self.aliases[head], (), "sink")
        return (Move(Algorithm.SP_D, f"n{head}", 0.0), Move(Algorithm.SP_D, "sink", 0.0, copy, 5.0))

    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        key = (head, joined, site, following)
        if key not in self._moves:
            random = np.random.default_rng([self.seed, head, joined, following, sum(map(ord, site))])
            self._moves[key] = tuple(
                Move(
                    algorithm,
                    site if algorithm.at_source else f"n{following}",
                    float(random.integers(0, 10)),
                    CopyKey(CopyKind.KEYS, self.aliases[following], ("k",), site)
                    if algorithm is Algorithm.SM_D1
                    else None,
                    float(random.integers(0, 5)) if algorithm is Algorithm.SM_D1 else 0.0,
                )
                for algorithm in Algorithm
            )
        return self._moves[key]

    def closing(self, head: int, site: str) -> float:
        return 0.0 if site == "sink" else float(np.random.default_rng([self.seed, head, len(site)]).integers(0, 6))


def _brute_force(space: Space, head: int, free: frozenset[CopyKey]) -> float:
    """Every order and every algorithm, without a thought."""
    best = float("inf")
    rest = [number for number in range(len(space.aliases)) if number != head]
    for opening in space.openings(head):
        for order in itertools.permutations(rest):
            ways = [(1 << head, opening.site, opening.with_free(free))]
            for number in order:
                ways = [
                    (joined | 1 << number, move.site, cost + move.with_free(free))
                    for joined, site, cost in ways
                    if number in space.candidates(joined)
                    for move in space.moves(head, joined, site, number)
                ]
            best = min([best, *(cost + space.closing(head, site) for _, site, cost in ways)])
    return best


EDGES = st.integers(2, 4).flatmap(
    lambda streams: st.tuples(
        st.just(streams),
        st.lists(st.tuples(st.integers(0, streams - 1), st.integers(0, streams - 1)).filter(lambda e: e[0] != e[1])),
    )
)


@given(EDGES, st.integers(0, 2**20), st.booleans())
@new_examples(60)
def test_exact_searches_find_what_brute_force_finds(
    graph: tuple[int, list[tuple[int, int]]], seed: int, shared: bool
) -> None:
    space = RandomSpace(seed, graph[0], tuple(graph[1]))
    free = frozenset({CopyKey(CopyKind.KEYS, "s1", ("k",), "n0")}) if shared else NONE_FREE
    for head in range(graph[0]):
        cost = _brute_force(space, head, free)
        assert optimal(space, head, free).cost == exhaustive(space, head, free).cost == pytest.approx(cost)
        assert greedy(space, head, free).cost >= cost - 1e-9


@given(st.integers(5, 6), st.sampled_from(TOPOLOGIES), st.integers(0, 2**20))
@new_examples(15)
def test_optimal_equals_exhaustive_for_more_streams(streams: int, topology: str, seed: int) -> None:
    space = RandomSpace(seed, streams, edges_of(topology, streams))
    assert optimal(space, 0, NONE_FREE).cost == pytest.approx(exhaustive(space, 0, NONE_FREE).cost)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_same_with_the_papers_costs_and_with_ours(topology: str) -> None:
    for seed in range(6):
        random = np.random.default_rng(seed)
        case = wire_case(random, topology, 4, sites=3 if seed % 2 else None)
        wire = WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)
        for space in (paper_case(random, topology, 4), wire):
            for head in range(4):
                best = exhaustive(space, head, NONE_FREE).cost
                assert optimal(space, head, NONE_FREE).cost == pytest.approx(best)
                assert greedy(space, head, NONE_FREE).cost >= best - 1e-9


class _Unpruned(WireSpace):
    def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
        return self.every_move(head, joined, site, following)


@pytest.mark.parametrize("seed", range(8))
def test_algorithms_that_are_left_out_could_not_have_been_chosen(seed: int) -> None:
    case = wire_case(np.random.default_rng(seed), TOPOLOGIES[seed % 4], 4)
    arguments = (case.query, case.sink, case.statistics, Objective.BYTES)
    pruned, whole = WireSpace(*arguments), _Unpruned(*arguments)
    assert any(
        len(pruned.moves(head, 1 << head, pruned.sites[head], number)) < len(Algorithm)
        for head in range(4)
        for number in pruned.candidates(1 << head)
    )
    everything = optimal(whole, 0, NONE_FREE)
    for free in (NONE_FREE, everything.copies, optimal(whole, 1, NONE_FREE).copies):
        for head in range(4):
            assert optimal(pruned, head, free).cost == pytest.approx(optimal(whole, head, free).cost)


def test_heads_that_share_a_copy_are_planned_together() -> None:
    """Planned alone nobody buys the copy; together they do."""

    class Shared(RandomSpace):
        def openings(self, head: int) -> tuple[Move, ...]:
            return (Move(Algorithm.SP_D, "n0", 0.0),)

        def moves(self, head: int, joined: int, site: str, following: int) -> tuple[Move, ...]:
            copy = CopyKey(CopyKind.FULL, f"s{following}", (), site)
            return (Move(Algorithm.SP_D, site, 3.0), Move(Algorithm.SP_S, site, 0.0, copy, 4.0))

        def closing(self, head: int, site: str) -> float:
            return 0.0

    space = Shared(0, 3, ((0, 1), (1, 2), (0, 2)))
    alone = tuple(optimal(space, head, NONE_FREE) for head in range(3))
    assert total_cost(space, alone) == 18
    from_copies = tuple(
        type(found)(0.0, found.head, found.opening, tuple((n, space.moves(0, 0, "n0", n)[1]) for n, _ in found.steps))
        for found in alone
    )
    assert total_cost(space, improved(space, from_copies, optimal)) == 12


@pytest.mark.parametrize("seed", range(4))
def test_improving_never_makes_a_plan_dearer(seed: int) -> None:
    case = wire_case(np.random.default_rng(seed), TOPOLOGIES[seed % 4], 4, sites=3)
    space = WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)
    plans = [ship_all_plan(case.query, case.sink)]
    plans += [forced_plan(case.query, case.sink, algorithm) for algorithm in Algorithm]
    for plan in plans:
        heads = tuple(found_of(space, plan, head) for head in case.query.aliases)
        assert total_cost(space, improved(space, heads, optimal)) <= total_cost(space, heads) + 1e-9


def test_a_plan_that_starts_at_the_site_of_another_stream_is_costed_as_any_other() -> None:
    case = wire_case(np.random.default_rng(1), "chain", 3)
    space = WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)
    plan = forced_plan(case.query, case.sink, Algorithm.SP_D)
    elsewhere = next(site for site in space.sites if site not in (space.sites[0], case.sink))
    moved = replace(plan, sequences=(replace(plan.sequences[0], start=elsewhere), *plan.sequences[1:]))
    found = found_of(space, moved, "s0")
    assert found.opening.site == elsewhere
    assert found.opening.copy == CopyKey(CopyKind.FULL, "s0", (), elsewhere)
    assert found.opening.copy_cost > 0
    assert found.sequence(case.query) == moved.sequences[0]
