"""Many seeds on all cores. A module of its own, so that worker processes can import it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.sim.check import check_seed


def run_many(seeds: range) -> int:
    began = time.monotonic()
    totals: Counter[str] = Counter()
    failed = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for number, (counts, trouble) in enumerate(pool.imap_unordered(totals_of, seeds, chunksize=20), 1):
            totals.update(counts)
            if trouble:
                failed += 1
                print(trouble, file=sys.stderr)
            if number % 1000 == 0:
                print(f"{number} of {len(seeds)} seeds, {failed} wrong, {time.monotonic() - began:.0f} s", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{len(seeds)} seeds, {failed} wrong, in {seconds:.0f} s; " + ", ".join(f"{k} {v}" for k, v in totals.items())
    )
    return 1 if failed else 0


def totals_of(seed: int) -> tuple[dict[str, int], str]:
    """What a seed did, in figures, or what went wrong."""
    try:
        outcome = check_seed(seed)
    except AssertionError as error:
        return {}, str(error)
    rows = sum(query.rows.num_rows for query in outcome.queries if query.schema is not None)
    counts = {
        "queries": len(outcome.queries),
        "rows": rows,
        "virtual seconds": outcome.virtual_us // 1_000_000,
        **outcome.counts,
    }
    return counts, ""
