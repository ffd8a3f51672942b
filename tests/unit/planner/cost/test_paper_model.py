"""Appendix B by hand, for one set of figures."""

from __future__ import annotations

import pytest

from planner.algorithms.paper_terms import PaperSystem
from planner.cost.paper_model import PaperSpace, PaperStream, distinct
from planner.model.query import Algorithm

#: Latency 0.025 s, 128,000 bytes per second, ten batches per second; per-tuple costs that can be told apart.
SYSTEM = PaperSystem(0.1, 0.025, 128_000.0, probe_s=1e-7, update_s=2e-6, hash_s=3e-6, insert_s=5e-6)
ONE = PaperStream("a", "n1", 100.0, 2.0, 500.0, 5.0, 0.02)
TWO = PaperStream("b", "n2", 50.0, 0.8, 250.0, 5.0, 0.04)


def _costs(*streams: PaperStream) -> dict[Algorithm, float]:
    space = PaperSpace(streams, ((0, 1),), SYSTEM)
    return {move.algorithm: move.cost for move in space.moves(0, 0b01, "n1", 1)}


def test_the_six_formulas() -> None:
    # r_1 = 100, wp_1 = 10, F_1 = 500; r_2 = 50, w_2 = 40, wp_2 = 5, F_2 = 250; P = 5;
    # f_12 = min(1, 0.02 / 0.04) = 0.5, f_21 = min(1, 0.04 / 0.02) = 1.
    m_1 = 50 * (1 - (1 - 1 / 50) ** 10)
    k_2 = 25 * (1 - (1 - 1 / 25) ** 40)
    costs = _costs(ONE, TWO)

    def ship(size: float) -> float:
        return 10 * (0.025 + size / 128_000)

    assert costs[Algorithm.SP_S] == pytest.approx(100 * 2e-6 + 100 * 1e-7 * 40 + ship(5 * 250) + 50 * 2e-6)
    assert costs[Algorithm.SP_D] == pytest.approx(100 * 5e-6 + ship(10 * 500) + 100 * 1e-7 * 40 + 50 * 2e-6)
    assert costs[Algorithm.SM_S1] == pytest.approx(
        100 * 5e-6
        + ship(m_1 * 5)
        + 10 * m_1 * 1e-7 * 40
        + ship(5 * 250)
        + 10 * 5 * 5e-6
        + 50 * 5e-6
        + 100 * 1e-7 * 40
        + ship(4)
    )
    assert costs[Algorithm.SM_S2] == pytest.approx(
        100 * 5e-6
        + 100 * 3e-6
        + ship(k_2 * 0.5 * 5)
        + 10 * k_2 * 0.5 * 1e-7 * 40
        + ship(k_2 * 0.5 * 250)
        + 50 * 1e-7 * k_2
        + 100 * 3e-6
        + 50 * 5e-6
        + ship(5 * 250)
    )
    assert costs[Algorithm.SM_D1] == pytest.approx(
        100 * 5e-6
        + 100 * 1e-7 * k_2
        + ship(10 * 0.5 * 500)
        + 100 * 0.5 * 1e-7 * 40
        + 50 * 1e-7 * k_2
        + 50 * 5e-6
        + ship(0)
    )
    assert costs[Algorithm.SM_D2] == pytest.approx(
        100 * 5e-6
        + ship(m_1 * 5)
        + 10 * m_1 * 1e-7 * 40
        + ship(m_1 * 0.5 * 5)
        + 10 * m_1 * 0.5 * 1e-7 * 10
        + ship(10 * 0.5 * 500)
        + 10 * 10 * 0.5 * 1e-7 * 40
        + 50 * 2e-6
    )


def test_new_keys_are_synced_where_not_all_match() -> None:
    """The other way round f_21 is a half, so half of the batch's keys are new to V."""
    m_2 = 50 * (1 - (1 - 1 / 50) ** 10)
    k_2 = 50 * (1 - (1 - 1 / 50) ** 200)
    space = PaperSpace((TWO, ONE), ((0, 1),), SYSTEM)
    cost = next(move.cost for move in space.moves(0, 0b01, "n2", 1) if move.algorithm is Algorithm.SM_D1)
    assert cost == pytest.approx(
        50 * 5e-6
        + 50 * 1e-7 * k_2
        + 10 * (0.025 + 5 * 250 / 128_000)
        + 50 * 1e-7 * 200
        + 100 * 1e-7 * k_2
        + 100 * 5e-6
        + 2 * 10 * m_2 * 0.5 * 5e-6
        + 10 * (0.025 + m_2 * 0.5 * 5 / 128_000)
    )


def test_distinct_values_are_at_most_all_and_at_most_one_each() -> None:
    assert distinct(10, 1) == pytest.approx(1)
    assert distinct(10, 1_000) == pytest.approx(10)
    assert distinct(1e9, 5) == pytest.approx(5)
    assert distinct(1, 7) == 1


def test_the_carry_grows_by_the_window_and_the_smaller_factor() -> None:
    space = PaperSpace((ONE, TWO), ((0, 1),), SYSTEM)
    assert space.rate(0, 0b11) == pytest.approx(100 * 40 * 0.02)


def test_streams_of_one_site_ship_nothing() -> None:
    near = PaperStream("b", "n1", 50.0, 0.8, 250.0, 5.0, 0.04)
    (move,) = PaperSpace((ONE, near), ((0, 1),), SYSTEM).moves(0, 0b01, "n1", 1)
    assert move.cost < 0.01
    assert move.site == "n1"


def test_what_no_edge_links_is_joined_by_simple_algorithms_only() -> None:
    space = PaperSpace((ONE, TWO), (), SYSTEM)
    assert [move.algorithm for move in space.moves(0, 0b01, "n1", 1)] == [Algorithm.SP_S, Algorithm.SP_D]


def test_a_step_costs_the_same_wherever_its_streams_stand_in_the_query() -> None:
    there = PaperSpace((ONE, TWO), ((0, 1),), SYSTEM).moves(1, 0b10, "n2", 0)
    swapped = PaperSpace((TWO, ONE), ((0, 1),), SYSTEM).moves(0, 0b01, "n2", 1)
    assert there == swapped
    assert [move.algorithm for move in there] == list(Algorithm)


@pytest.mark.parametrize(("head", "joined", "following", "away"), [(0, 0b0011, 2, 3), (3, 0b1100, 1, 0)])
def test_only_streams_that_are_joined_are_asked_by(head: int, joined: int, following: int, away: int) -> None:
    """A chain of four: what is beyond the stream that comes next does not matter to its step."""
    chain = [PaperStream(f"s{place}", f"n{place}", 100.0, 2.0, 500.0, 5.0, 0.02) for place in range(4)]
    other = [*chain]
    other[away] = PaperStream(f"s{away}", f"n{away}", 10.0, 1.0, 50.0, 50.0, 0.1)
    edges = ((0, 1), (1, 2), (2, 3))
    here, there = (PaperSpace(each, edges, SYSTEM).moves(head, joined, "n9", following) for each in (chain, other))
    assert here == there
    assert [move.algorithm for move in here] == list(Algorithm)
