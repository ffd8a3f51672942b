"""``python -m tests.chaos --seconds 600 --seed 1``: sustained load and faults; figures are printed and kept in out/."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path

from tests.chaos.sustained import PER_S, Sustained, sustained
from tests.e2e.harness import new_tag, none_left

OUT = Path(__file__).parents[2] / "out" / "chaos"


def main() -> int:
    """0 if all went as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="how long tuples come (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="of the data and of the order of faults (default: 1)")
    parser.add_argument("--engine", choices=tuple(PER_S), default="native", help="what joins at all sites")
    options = parser.parse_args()
    # What was started is stopped also then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    name = f"{options.engine}-{options.seconds}s-seed{options.seed}"
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tag = new_tag()
    try:
        wanted = Sustained(options.seconds, options.seed, options.engine)
        figures = sustained(wanted, folder, lambda text: print(text, flush=True))
        report = OUT / f"{name}.md"
        report.write_text(figures.text())
        print(f"\n{figures.text()}\n{report.relative_to(OUT.parents[1])}")
    finally:
        none_left(tag)
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
