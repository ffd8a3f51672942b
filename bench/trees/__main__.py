"""Joins that are kept, beside plans of sequences, by what real daemons send: ``python -m bench.trees``.

MultiStream's chains, and a few stars, over three to five streams at three sites (``bench.trees.cases``). For each query
the planner chooses with three budgets: none, so that there are only sequences; a small one; and the one that it has
if nothing is said. Each plan that it chose runs as a plan file, native, and so do trees that were not chosen: those
that keep the lightest joins, each at the site where that is expected to cost least. Bytes are those of all links,
everything included but planning. Rows must be the same by all plans of a query. ``--quick`` makes four queries.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.sites import BenchError
from bench.trees.cases import Case, make_case
from bench.trees.report import report
from bench.trees.runs import Ran, chosen, forced_trees, run, same_rows

RESULTS = Path(__file__).parents[1] / "results" / "trees.md"
#: As a cluster file has them; with nothing there are only sequences.
BUDGETS = {"0": "0", "20 kB": '"20kB"', "256 MB": '"256MB"'}
#: Trees of a query that run although they were not chosen.
TREES = 3
_SEEDS = 2
_CHAINS = ("LL", "MM", "HH", "LLL", "MMM", "HHH", "LLLL", "MMMM", "HHMM", "LMH", "HML", "MHL", "LHL", "MLM")
_STARS = ("LL", "MM", "LMH", "HHL")
_QUICK = (("chain", "LL"), ("chain", "MHL"), ("chain", "HH"), ("star", "LMH"))


@dataclass(frozen=True)
class Compared:
    """All runs of one query."""

    case: Case
    #: By budget: what explain says of the plan that was chosen, and its run.
    choices: dict[str, tuple[dict[str, Any], Ran]]
    #: By what they keep.
    forced: dict[str, Ran]

    @property
    def sequences(self) -> Ran:
        """The best plan that keeps no join, as far as is expected."""
        return self.choices["0"][1]

    @property
    def best_tree(self) -> int:
        """Bytes of the forced tree that sent least."""
        return min((ran.nbytes for ran in self.forced.values()), default=self.sequences.nbytes)

    def over_best(self, budget: str) -> float:
        """Bytes of what was chosen over those of the best forced plan."""
        return self.choices[budget][1].nbytes / min(self.sequences.nbytes, self.best_tree)


def compare(case: Case) -> Compared:
    """Plan and run a query in all ways. Raises BenchError if two plans deliver different rows."""
    told = {budget: chosen(case, case.folder, storage) for budget, storage in BUDGETS.items()}
    runs: dict[str, Ran] = {}
    choices = {budget: (said, _once(case, said, runs)) for budget, said in told.items()}
    forced = {name: _once(case, plan, runs) for name, plan in forced_trees(case, TREES).items()}
    first = choices["0"][1]
    if not first.rows.num_rows:
        raise BenchError(f"{case.name}: rows are required; got none\n{case.text}")
    for name, ran in (*((name, ran) for name, (_, ran) in choices.items()), *forced.items()):
        if not same_rows(first.rows, ran.rows):
            raise BenchError(f"{case.name}: the same rows are required by all plans; got others by {name}\n{case.text}")
    found = Compared(case, choices, forced)
    texts = [
        f"{budget}: {ran.nbytes:,}{' (tree)' if said.get('kept') else ''}" for budget, (said, ran) in choices.items()
    ]
    trees = ", ".join(f"{name}: {ran.nbytes:,}" for name, ran in forced.items())
    print(f"{case.name}: {'; '.join(texts)}; forced {trees}", file=sys.stderr, flush=True)
    return found


def _once(case: Case, plan: dict[str, Any], runs: dict[str, Ran]) -> Ran:
    """What a plan sends; plans that are the same run once."""
    key = json.dumps([plan.get("kept"), plan["sequences"]])
    if key not in runs:
        runs[key] = run(case, plan)
    return runs[key]


def _cases(folder: Path, quick: bool) -> Iterator[Case]:
    if quick:
        wanted: list[tuple[str, str, int]] = [(shape, edges, 0) for shape, edges in _QUICK]
    else:
        shapes = [*(("chain", edges) for edges in _CHAINS), *(("star", edges) for edges in _STARS)]
        wanted = [(shape, edges, seed) for (shape, edges), seed in itertools.product(shapes, range(_SEEDS))]
    for number, (shape, edges, seed) in enumerate(wanted):
        yield make_case(folder / str(number), seed, edges, shape)


def main() -> None:
    """Make the queries, run them, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four queries, nothing written")
    parser.add_argument("--alone", action="store_true", help="nobody else uses the machine: the file need not say so")
    parser.add_argument("--case", help="only the queries whose name has this in it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="narrows-trees-data-") as name:
        cases = _cases(Path(name), given.quick)
        found = [compare(case) for case in cases if given.case is None or given.case in case.name]
    text = report(found, list(BUDGETS), alone=given.alone)
    print(text)
    if not given.quick:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
