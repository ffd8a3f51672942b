"""``python -m tests.sim --seeds 10000``: many seeds on all cores; ``--seed N``: one, with its story."""

from __future__ import annotations

import argparse
import sys

from tests.sim.check import check_seed
from tests.sim.runs.exhaustive import run_exhaustive
from tests.sim.runs.many import run_many


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one seed and print its story")
    parser.add_argument("--workers", type=int, help="processes at a time; as many as there are cores if not said")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    parser.add_argument(
        "--exhaustive", action="store_true", help="every crash, and every two, of two sites and five ticks"
    )
    parser.add_argument("--record", action="store_true", help="write what came of it to bench/results too")
    options = parser.parse_args()
    if options.exhaustive:
        return run_exhaustive(options.workers, options.record)
    if options.seed is not None:
        outcome = check_seed(options.seed)
        print("\n".join(outcome.story))
        for query in outcome.queries:
            print(f"{query.query_id} {query.state}: {query.rows.num_rows} rows, as the oracle says")
        return 0
    seeds = range(options.first, options.first + options.seeds)
    return run_many(seeds, options.workers, options.stop, options.record)


if __name__ == "__main__":
    sys.exit(main())
