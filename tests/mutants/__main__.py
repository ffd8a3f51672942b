"""``python -m tests.mutants``: bugs that are planted in the system, and which test notices each.

Those that no test notices must have a reason in their list; without one it is the tests that have a bug.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.functions import ROOT
from tests.mutants.mutants import PARTS, files_of, named
from tests.mutants.verdict import NO_BUG, Verdict, verdicts

#: Whoever works at the machine meanwhile comes first.
NICE = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=150, help="how many seeds a mutant may pass")
    parser.add_argument("--only", default="", help="mutants whose name has this in it, or the part they are in")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--sim", action="store_true", help="let the simulator alone notice them")
    parser.add_argument("--here", action="store_true", help="use these files, not a copy of them")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a bug first")
    options = parser.parse_args()
    os.nice(max(0, NICE - os.nice(0)))
    if options.here:
        return run(options.seeds, options.only, options.workers, not options.no_baseline, options.sim)
    with tempfile.TemporaryDirectory() as folder:
        snapshot(Path(folder))
        command = [sys.executable, "-m", "tests.mutants", "--here", *sys.argv[1:]]
        return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": folder}, check=False).returncode


def snapshot(folder: Path) -> None:
    """Copy everything that a run needs, so that edits in the meantime change nothing."""
    for name in ("node", "planner", "netsim", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run(seeds: int, only: str, workers: int, baseline: bool, sim: bool = False) -> int:
    """Judge the mutants and print what became of them; 1 if one was not noticed for no reason, 2 if none can be."""
    began = time.monotonic()
    chosen = [
        mutant for part, (mutants, _) in PARTS.items() for mutant in mutants if only == part or only in mutant.name
    ]
    tests = {} if sim else {mutant.name: files_of(mutant) for mutant in chosen}
    files = tuple(dict.fromkeys(file for of_one in tests.values() for file in of_one))
    if baseline:
        for verdict in verdicts([NO_BUG], {NO_BUG.name: files}, seeds, 1):
            if verdict.noticed:
                print(f"mutants require tests that pass without a bug; got {verdict.what}", file=sys.stderr)
                return 2
    found: list[Verdict] = []
    for verdict in verdicts(chosen, tests, seeds, workers):
        found.append(verdict)
        print(line_of(verdict), flush=True)
    unexplained = [each.mutant for each in found if not each.noticed and not named(each.mutant).unnoticed]
    by = [sum(each.by == kind for each in found) for kind in ("unit", "sim", "")]
    print(
        f"{len(found)} mutants in {time.monotonic() - began:.0f} s: {by[0]} noticed by unit tests, {by[1]} by the "
        f"simulator, {by[2]} by none, of those {len(unexplained)} without a reason"
    )
    return 1 if unexplained else 0


def line_of(verdict: Verdict) -> str:
    """A line of the table."""
    what = verdict.what or named(verdict.mutant).unnoticed or "WHY?"
    return f"{verdict.mutant:<62} {verdict.by or 'NOT':<5} {verdict.seconds:4.0f} s  {what}"


if __name__ == "__main__":
    sys.exit(main())
