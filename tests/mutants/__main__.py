"""``python -m tests.mutants``: the mutation score of the simulator, as a table.

Survivors are then shown to the unit tests, so that it is known which bugs nothing sees.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.mutants.mutants import MUTANTS
from tests.mutants.score import Score, killed_by_unit_tests, scores


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds a mutant may survive")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--workers", type=int, help="processes at a time (default: all cores)")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    began = time.monotonic()
    found: dict[str, Score] = {}
    for score in scores(chosen, options.seeds, options.workers):
        found[score.mutant.name] = score
        print(f"{len(found)} of {len(chosen)}: {score.mutant.name}", file=sys.stderr, flush=True)
    unexpected = 0
    for mutant in chosen:
        score = found[mutant.name]
        fate = f"seed {score.seed:<4} {score.how}" if score.killed else f"survived  {mutant.survives or 'WHY?'}"
        unexpected += not score.killed and not mutant.survives
        print(f"{mutant.name:<55} {fate}", flush=True)
        if not score.killed:
            test = killed_by_unit_tests(mutant)
            print(f"{'':<55}           {'unit tests: ' + test if test else 'and no unit test sees it'}", flush=True)
    killed = sum(score.killed for score in found.values())
    print(f"{killed} of {len(chosen)} killed by the simulator in {time.monotonic() - began:.0f} s")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
