"""Searches of the planner compared: ``python -m bench.planner`` writes ``bench/results/planner.md`` and plots.

Table 3 of Tran & Lee again: queries with the parameters of their Table 2, four topologies, the costs of their
Appendix B; greedy over exhaustive, beside what they measured. Then the time it takes to plan, over the number of
streams, also with a look at plans that keep joins; and what these are expected to save. Times are processor time, so a
busy machine does not matter much.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.planner.cases import TOPOLOGIES, paper_case, wire_case
from planner.algorithms.paper_terms import PaperSystem
from planner.cost.estimates import Objective, Space
from planner.cost.wire_model import WireSpace
from planner.search.choice import SEQUENCES, TREE, Options, Search, choose
from planner.search.sequences import NONE_FREE, HeadSearch, exhaustive, greedy, optimal

RESULTS = Path("bench/results")
QUERIES = 100
STREAMS = 4
STREAMS_MAX = 12
TREE_QUERIES = 40
#: Enough for any join of such queries.
KEEPING = Options(storage_bytes=256e6)
#: A search that took longer than this is not tried with more streams: the next takes some three times as long, or,
#: if it is exhaustive, many times.
SECONDS_MAX = 17.0
EXHAUSTIVE_SECONDS_MAX = 1.5

#: Mean, median, standard deviation and maximum in Table 3.
PAPER = {
    "star": (1.02, 1.00, 0.11, 1.39),
    "chain": (1.06, 1.01, 0.23, 2.43),
    "cycle": (1.08, 1.01, 0.21, 2.19),
    "clique": (1.14, 1.04, 0.29, 2.33),
}
#: What the paper does not say: costs of a tuple. A hundred times ours, processors weigh about as much as links.
SLOW = PaperSystem(probe_s=1e-6, update_s=1e-4, hash_s=1e-5, insert_s=1e-4)
SEARCHES: dict[str, HeadSearch] = {"greedy": greedy, "optimal": optimal, "exhaustive": exhaustive}


class DisagreementError(Exception):
    """Two exact searches found different costs."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Processor time of planning one query."""

    model: str
    topology: str
    search: str
    streams: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is shown."""

    #: Greedy over exhaustive, by topology.
    ratios: dict[str, list[float]]
    ratios_slow: dict[str, list[float]]
    ratios_wire: dict[str, list[float]]
    times: list[Timed]
    #: The best plan that keeps a join over the best that keeps none, and whether it was chosen, by topology.
    trees: dict[str, list[tuple[float, bool]]]


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few queries, nothing written")
    options = parser.parse_args()
    queries, most, trees = (10, 5, 4) if options.quick else (QUERIES, STREAMS_MAX, TREE_QUERIES)
    outcome = Outcome(
        {topology: paper_ratios(topology, queries, PaperSystem()) for topology in TOPOLOGIES},
        {topology: paper_ratios(topology, queries, SLOW) for topology in TOPOLOGIES},
        {topology: wire_ratios(topology, queries // 2) for topology in TOPOLOGIES},
        planning_times(most),
        {topology: tree_ratios(topology, trees) for topology in TOPOLOGIES},
    )
    text = report(outcome, queries)
    print(text)
    if options.quick:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planner.md").write_text(text)
    from bench.planner.plots import plot_ratios, plot_times  # noqa: PLC0415 - only who draws needs matplotlib

    plot_ratios(outcome.ratios, RESULTS / "planner_ratios.svg")
    plot_times(outcome.times, RESULTS / "planner_times.svg")
    print(f"written: {RESULTS}/planner.md, planner_ratios.svg, planner_times.svg")


# -- Table 3 ------------------------------------------------------------------------------------


def paper_ratios(topology: str, queries: int, system: PaperSystem) -> list[float]:
    """Cost of the greedy plan over that of the exhaustive one, for random queries."""
    found = []
    for seed in range(queries):
        space = paper_case(np.random.default_rng([seed, TOPOLOGIES.index(topology)]), topology, STREAMS, system)
        found.append(_ratio(space))
    return found


def wire_ratios(topology: str, queries: int) -> list[float]:
    """The same with our costs, head by head, and queries of our own."""
    found = []
    for seed in range(queries):
        case = wire_case(np.random.default_rng([seed, TOPOLOGIES.index(topology)]), topology, STREAMS)
        found.append(_ratio(WireSpace(case.query, case.sink, case.statistics, Objective.BYTES)))
    return found


def _ratio(space: Space) -> float:
    """Raises DisagreementError if dynamic programming finds another cost than exhaustive search."""
    heads = range(len(space.aliases))
    costs = {name: [search(space, head, NONE_FREE).cost for head in heads] for name, search in SEARCHES.items()}
    for one, other in zip(costs["optimal"], costs["exhaustive"], strict=True):
        if abs(one - other) > 1e-9 * max(1.0, other):
            raise DisagreementError(f"optimal requires the cost of exhaustive, {other!r}; got {one!r}")
    return sum(costs["greedy"]) / sum(costs["exhaustive"])


# -- times --------------------------------------------------------------------------------------


def planning_times(streams_max: int) -> list[Timed]:
    """Of each search, with growing numbers of streams, as long as it is bearable."""
    found: list[Timed] = []
    for topology in ("chain", "clique"):
        for name, search in SEARCHES.items():
            found += _growing("paper", topology, name, streams_max, _paper_planning(topology, search))
        for name in (Search.GREEDY, Search.OPTIMAL, Search.EXHAUSTIVE):
            options = Options(search=name)
            found += _growing("wire", topology, name.value, streams_max, _wire_planning(topology, options))
        found += _growing("wire", topology, "optimal, kept joins", streams_max, _wire_planning(topology, KEEPING))
    return found


def _growing(
    model: str, topology: str, search: str, streams_max: int, make: Callable[[int], Callable[[], object]]
) -> list[Timed]:
    found = []
    for streams in range(2, streams_max + 1):
        plan = make(streams)
        began = time.process_time()
        plan()
        seconds = time.process_time() - began
        found.append(Timed(model, topology, search, streams, seconds))
        if seconds > (EXHAUSTIVE_SECONDS_MAX if search == "exhaustive" else SECONDS_MAX):
            break
    return found


def _paper_planning(topology: str, search: HeadSearch) -> Callable[[int], Callable[[], object]]:
    def make(streams: int) -> Callable[[], object]:
        space = paper_case(np.random.default_rng(streams), topology, streams)
        return lambda: [search(space, head, NONE_FREE) for head in range(streams)]

    return make


def _wire_planning(topology: str, options: Options) -> Callable[[int], Callable[[], object]]:
    """From statistics to the chosen plan, all included; a clique is one by one key."""

    def make(streams: int) -> Callable[[], object]:
        case = wire_case(np.random.default_rng(streams), topology, streams, shared=topology == "clique")
        return lambda: choose(case.query, case.sink, case.statistics, options)

    return make


# -- trees --------------------------------------------------------------------------------------


def tree_ratios(topology: str, queries: int) -> list[tuple[float, bool]]:
    """Cost of the best plan that keeps a join over that of the best that keeps none, and whether it was chosen."""
    found = []
    for seed in range(queries):
        random = np.random.default_rng([seed, TOPOLOGIES.index(topology), 7])
        case = wire_case(random, topology, STREAMS, sites=3 if seed % 2 else None)
        choice = choose(case.query, case.sink, case.statistics, KEEPING)
        costs = {item.name: item.estimate.cost for item in choice.alternatives}
        if choice.plan.kept:
            found.append((choice.estimate.cost / costs[SEQUENCES], True))
        elif TREE in costs and choice.estimate.cost > 0:
            found.append((costs[TREE] / choice.estimate.cost, False))
    return found


# -- report -------------------------------------------------------------------------------------


def report(outcome: Outcome, queries: int) -> str:
    """All tables."""
    return "\n".join([*_table3(outcome, queries), *_figure8(outcome), *_times(outcome), *_trees(outcome), ""])


def _table3(outcome: Outcome, queries: int) -> list[str]:
    rows = []
    for topology in TOPOLOGIES:
        rows.append([topology, "paper, measured", *(f"{value:.2f}" for value in PAPER[topology]), "", ""])
        for name, ratios in (
            ("`paper`", outcome.ratios),
            ("`paper`, slow processors", outcome.ratios_slow),
            ("`wire`", outcome.ratios_wire),
        ):
            rows.append([topology, name, *_summary(ratios[topology])])
    return [
        "# The planner",
        "",
        "Made by `python -m bench.planner`.",
        "",
        "## Greedy over exhaustive (Table 3)",
        "",
        f"{queries} random queries for each topology, {STREAMS} streams at {STREAMS} sites, parameters from Table 2,",
        "the paper's links (1024 kbit/s, 25 ms, a batch each 100 ms). The paper measured running times of its",
        "prototype; here costs are compared. `paper` is Appendix B; it does not say what a tuple costs a",
        "processor, so it is shown for processors that hardly matter and for a hundred times slower ones. `wire` is",
        f"our own model on queries of our own ({queries // 2} for each topology). `optimal` found the cost of",
        "`exhaustive` for every head of every query.",
        "",
        *_markdown(["topology", "costs", "mean", "median", "deviation", "max", "equal", "queries"], rows),
        "",
    ]


def _summary(ratios: Sequence[float]) -> list[str]:
    figures = [statistics.mean(ratios), statistics.median(ratios), statistics.stdev(ratios), max(ratios)]
    equal = sum(ratio < 1 + 1e-9 for ratio in ratios) / len(ratios)
    return [*(f"{value:.2f}" for value in figures), f"{equal:.0%}", str(len(ratios))]


def _figure8(outcome: Outcome) -> list[str]:
    """How often each ratio came, to one decimal."""
    counts = {topology: Counter(round(ratio, 1) for ratio in outcome.ratios[topology]) for topology in TOPOLOGIES}
    values = sorted({value for count in counts.values() for value in count})
    rows = [[f"{value:.1f}", *(str(counts[topology][value] or "") for topology in TOPOLOGIES)] for value in values]
    return [
        "## How often (Fig. 8)",
        "",
        "Queries by ratio, with `paper`; see planner_ratios.svg.",
        "",
        *_markdown(["greedy / exhaustive", *TOPOLOGIES], rows),
        "",
    ]


def _times(outcome: Outcome) -> list[str]:
    columns = list(dict.fromkeys((item.model, item.topology, item.search) for item in outcome.times))
    found = {(item.model, item.topology, item.search, item.streams): item.seconds for item in outcome.times}
    rows = []
    for streams in sorted({item.streams for item in outcome.times}):
        shown = [found.get((*column, streams)) for column in columns]
        rows.append([str(streams), *("" if seconds is None else f"{1000 * seconds:,.1f}" for seconds in shown)])
    heads = [f"{model} {topology} {search}" for model, topology, search in columns]
    return [
        "## Time to plan",
        "",
        "Milliseconds of processor time for one query, over the number of streams. `paper`: one search per head.",
        "`wire`: everything from the statistics on, the planning of heads together included; its cliques join by one",
        "key. A search that gets too slow is not tried with more streams.",
        "",
        *_markdown(["streams", *heads], rows),
        "",
    ]


def _trees(outcome: Outcome) -> list[str]:
    rows = []
    for topology in TOPOLOGIES:
        ratios = [ratio for ratio, _ in outcome.trees[topology]]
        wins = [ratio for ratio, chosen in outcome.trees[topology] if chosen]
        rows.append(
            [
                topology,
                str(len(ratios)),
                f"{sum(ratio < 1 for ratio in ratios) / len(ratios):.0%}",
                f"{len(wins) / len(ratios):.0%}",
                f"{1 - statistics.median(wins):.0%}" if wins else "",
                f"{1 - min(wins):.0%}" if wins else "",
                f"{statistics.median(ratios):.2f}",
            ]
        )
    return [
        "## Joins that are kept (Sect. 4.2)",
        "",
        "The best plan that keeps one join or two, beside the best that keeps none, by `wire`, on random queries most",
        "of whose streams are slow, so that what a message costs weighs much. It is chosen if it is expected to save a",
        "tenth. What such plans send when they run: trees.md, by `make bench-trees`.",
        "",
        *_markdown(
            ["topology", "queries", "cheaper", "chosen", "then saves (median)", "at most", "tree / sequences (median)"],
            rows,
        ),
        "",
    ]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---:|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


if __name__ == "__main__":
    main()
