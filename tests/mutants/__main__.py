"""``python -m tests.mutants``: the mutation score of the simulator, as a table.

Survivors are then shown to the unit tests, so that it is known which bugs nothing sees.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import MUTANTS
from tests.mutants.score import NO_BUG, Score, killed_by_unit_tests, score, scores, snapshot


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds a mutant may survive")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--workers", type=int, help="processes at a time (default: all cores)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(snapshot(Path(folder).resolve()), options.seeds, options.only, options.workers)


def run(root: Path, seeds: int, only: str, workers: int | None) -> int:
    began = time.monotonic()
    trouble = score(NO_BUG, seeds, root).how or killed_by_unit_tests(NO_BUG, root=root)
    if trouble:
        print(f"a mutation score requires tests that pass without a bug; got {trouble}", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in MUTANTS if only in mutant.name]
    found: dict[str, Score] = {}
    for result in scores(chosen, seeds, root, workers):
        found[result.mutant.name] = result
        print(f"{len(found)} of {len(chosen)}: {result.mutant.name}", file=sys.stderr, flush=True)
    unexplained = [report(found[mutant.name], root) for mutant in chosen].count(False)
    killed = sum(result.killed for result in found.values())
    print(f"{killed} of {len(chosen)} killed by the simulator in {time.monotonic() - began:.0f} s")
    return 1 if unexplained else 0


def report(result: Score, root: Path) -> bool:
    """Print a mutant's lines; whether it was killed or is known to survive."""
    mutant = result.mutant
    if result.killed:
        print(f"{mutant.name:<55} seed {result.seed:<4} {result.how}", flush=True)
        return True
    test = killed_by_unit_tests(mutant, root=root)
    print(f"{mutant.name:<55} survived  {mutant.survives or 'WHY?'}")
    print(f"{'':<55}           {'unit tests: ' + test if test else 'and no unit test sees it'}", flush=True)
    return bool(mutant.survives)


if __name__ == "__main__":
    sys.exit(main())
