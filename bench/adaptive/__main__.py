"""Plans that change while queries run, beside plans that do not, and plans that somebody changes who knew it before.

``python -m bench.adaptive`` runs each case of ``bench.adaptive.cases`` three times with real daemons, native:
**static**, by the plan that is best for what is there before the first shift; **adaptive**, by the same, and others
that it goes over to by itself; **clairvoyant**, by the best plan of each phase,
changed by hand at the shift. Bytes are those of all links, everything included: planning, looking and switching too.
Rows must be the same in all three, or it fails. Figures and plots are written to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.adaptive.cases import Case, narrow, recorded, shifting
from bench.adaptive.measurements import Ran
from bench.adaptive.plots import plot_adaptive
from bench.adaptive.report import ADAPTIVE, CLAIRVOYANT, STATIC, report, verdicts, write_csv
from bench.adaptive.runs import best_plan, plan_name, run

RESULTS = Path(__file__).parents[1] / "results"


def measure(case: Case, folder: Path) -> dict[str, Ran]:
    """The three runs of a case."""
    if case.narrowed is None:
        phases = range(len(case.shifts_s) + 1)
        plans = [best_plan(case.phase(number), folder / f"phase{number}") for number in phases]
    else:
        # Afterwards the best is what does without the link.
        plans = [best_plan(case.phase(0), folder / "phase0"), _without_link(case, folder / "phase1")]
    for number, plan in enumerate(plans, 1):
        _say(f"{case.name}, phase {number}: {plan_name(plan)}")
    runs = {}
    for name, later in ((STATIC, []), (ADAPTIVE, []), (CLAIRVOYANT, plans[1:])):
        runs[name] = run(case, folder / name, plans[0], later, adaptive=name == ADAPTIVE)
        _say(f"{case.name}, {name}: {runs[name].nbytes:,} bytes, {runs[name].rows.num_rows:,} rows")
        for switch in runs[name].switches:
            _say(f"    at {switch.begun_s:,.1f} s {switch.state} {switch.reason}: {switch.why}")
    return runs


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _without_link(case: Case, folder: Path) -> str:
    """Everything to the home, as a plan file."""
    return best_plan(case, folder, "--plan", "ship-all")


def main() -> int:
    """Run the cases, write the report; 1 if rows differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one case, in two minutes")
    parser.add_argument("--case", help="only the cases whose name has this in it")
    parser.add_argument("--out", type=Path, default=RESULTS / "adaptive.md")
    given = parser.parse_args()
    notes = []
    cases = [shifting("one shift", "dan", (35.0,), 80.0, 2.0)]
    if not given.short:
        cases += [shifting("there and back", "dan", (32.0, 64.0), 96.0, 2.0), narrow(80.0, 1.0)]
        played = recorded(40_000.0)
        if played is None:
            notes.append("The recordings are not on this machine, so that case is left out.")
        else:
            cases.append(played)
    cases = [case for case in cases if given.case is None or given.case in case.name]
    if not cases:
        parser.error(f"--case: required part of a case's name, got {given.case}")
    with tempfile.TemporaryDirectory(prefix="narrows-adaptive-") as name:
        found = [(case, measure(case, Path(name) / str(number))) for number, case in enumerate(cases)]
    given.out.write_text(report(found, notes))
    write_csv(found, given.out.with_suffix(".csv"))
    plot_adaptive(found, given.out.with_suffix(".svg"))
    print(given.out.read_text())
    same_rows = all(verdicts(case, runs)[0].met for case, runs in found)
    return 0 if same_rows else 1


if __name__ == "__main__":
    sys.exit(main())
