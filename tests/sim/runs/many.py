"""Many seeds on all cores. A module of its own, so that worker processes can import it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping

from tests.sim.check import check_seed
from tests.sim.crashes import KINDS
from tests.sim.runs.record import record

#: So many seeds let a daemon die at every kind of step.
SEEDS_FOR_ALL_KINDS = 5_000


def run_many(seeds: range, workers: int | None = None, stop: bool = False, recorded: bool = False) -> int:
    """Judge the seeds and print what they did; with ``stop`` only up to the first that is wrong, or up to Ctrl-C."""
    began = time.monotonic()
    totals: Counter[str] = Counter()
    failed = number = 0
    with multiprocessing.get_context("spawn").Pool(workers or os.cpu_count()) as pool:
        try:
            for number, (counts, trouble) in enumerate(pool.imap(totals_of, seeds, chunksize=20), 1):
                totals.update(counts)
                if trouble:
                    failed += 1
                    print(trouble, file=sys.stderr, flush=True)
                    if stop:
                        break
                if number % 1000 == 0:
                    print(
                        f"{number} of {len(seeds)} seeds, {failed} wrong, {time.monotonic() - began:.0f} s", flush=True
                    )
        except KeyboardInterrupt:
            print(f"stopped by Ctrl-C after {number} of {len(seeds)} seeds", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    hours = totals["virtual seconds"] / 3600
    head = f"{number:,} seeds, {failed} wrong, in {seconds:.0f} s, {hours:.1f} virtual hours"
    table = table_of(totals)
    print("\n".join([head, *table]))
    if recorded:
        record("Seeds", [f"From seed {seeds.start} on: {head}.", "", "```text", *table, "```"])
    never = [kind for kind in KINDS if not totals[f"crash {kind}"]]
    if number >= SEEDS_FOR_ALL_KINDS and never:
        print(f"required a daemon that dies at every kind of step; got none at {', '.join(never)}", file=sys.stderr)
        return 1
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


def table_of(totals: Mapping[str, int]) -> list[str]:
    """The figures: what happened, then how often a daemon died at each kind of step."""
    steps = {f"crash {kind}" for kind in KINDS}
    lines = [f"{count:9}  {what}" for what, count in sorted(totals.items()) if what not in steps]
    lines += ["", "   before     after  a daemon died"]
    others = []
    for kind in KINDS:
        moment, _, what = kind.partition(" ")
        count = totals.get(f"crash {kind}", 0)
        if moment == "before":
            lines.append(f"{count:9} {totals.get(f'crash after {what}', 0):9}  {what}")
        elif moment != "after":
            others.append(f"{count:9}            {kind}")
    return lines + others
