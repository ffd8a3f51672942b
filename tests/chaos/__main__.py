"""``python -m tests.chaos --seed 1``: load, kills and faults; figures are printed and kept in out/."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.commit import commit
from bench.parts import put_part
from tests.chaos.figures import Figures
from tests.chaos.sustained import KILL_MEAN_S, PER_S, SECONDS, Sustained, sustained
from tests.e2e.harness import new_tag, none_left

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "chaos"
#: A part for each engine.
RESULTS = ROOT / "bench" / "results" / "chaos.md"


def main() -> int:
    """0 if all went as it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    lengths = ", ".join(f"{name} {seconds}" for name, seconds in SECONDS.items())
    parser.add_argument("--seconds", type=int, help=f"how long tuples come (default: {lengths})")
    parser.add_argument("--seed", type=int, default=1, help="of the data, the faults and the kills (default: 1)")
    parser.add_argument("--engine", choices=tuple(PER_S), default="native", help="what joins at all sites")
    means = ", ".join(f"{name} {mean_s:g}" for name, mean_s in KILL_MEAN_S.items())
    parser.add_argument("--kill-mean", type=float, help=f"seconds between two kills; 0: none (default: {means})")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RESULTS.relative_to(ROOT)} too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    mean_s = KILL_MEAN_S[options.engine] if options.kill_mean is None else options.kill_mean
    seconds = options.seconds or SECONDS[options.engine]
    name = f"{options.engine}-{seconds}s-seed{options.seed}" + ("" if mean_s else "-no-kills")
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tag = new_tag()
    wanted = Sustained(seconds, options.seed, options.engine, mean_s or None)
    print(f"engine {wanted.engine}, {wanted.seconds} s, seed {wanted.seed}, kills every {mean_s:g} s", flush=True)
    try:
        figures = sustained(wanted, folder, lambda text: print(text, flush=True))
    except BaseException:
        # That it was interrupted is the cause; what that has left is ended, and no other cause.
        with suppress(AssertionError):
            none_left(tag)
        raise
    try:
        none_left(tag)
    except AssertionError as error:
        figures = figures.with_wrong([*figures.wrong, str(error)])
    figures = replace(figures, commit=commit())
    report = OUT / f"{name}.md"
    report.write_text(figures.text())
    if options.record and mean_s:
        record(figures, RESULTS)
    print(f"\n{figures.text()}\n{report.relative_to(ROOT)}")
    if figures.wrong:
        print(f"FAILED, first because of this: {figures.wrong[0]}", file=sys.stderr)
    return 1 if figures.wrong else 0


def _terminated(*_: object) -> None:
    """What was started is stopped also then, and that is not interrupted by another signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def record(figures: Figures, file: Path) -> None:
    """Take the place of what the file has of that engine."""
    rest = figures.text().split("\n", 2)[2].strip()
    text = f"{figures.seconds} s of load, seed {figures.seed}.\n\n{rest}"
    put_part(file, "Chaos: daemons that are killed, written by make chaos", f"Engine {figures.engine}", text)


if __name__ == "__main__":
    sys.exit(main())
