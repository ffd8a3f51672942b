"""Plans that change while queries run, beside plans that do not, and plans that somebody changes who knew it before.

``python -m bench.adaptive`` runs each case of ``bench.adaptive.cases`` three times with real daemons, native:
**static**, by the plan that is best for what is there before the first shift; **adaptive**, by the same, and others
that it goes over to by itself; **clairvoyant**, by the best plan of each phase,
changed by hand at the shift. Bytes are those of all links, everything included: planning, looking and switching too.
Rows must be as many in all three. Figures and plots are written to ``bench/results``. ``--short`` makes one case.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.adaptive.cases import Case, chain, narrow, recorded
from bench.adaptive.plots import plot_adaptive
from bench.adaptive.runs import Ran, best_plan, plan_name, run
from bench.commit import commit
from bench.sites import BenchError

RESULTS = Path(__file__).parents[1] / "results"
_SETTLED_EPOCHS = 2
_WANTED = 1.15
_COLUMNS = (
    *("case", "kB outside: static", "adaptive", "clairvoyant"),
    *("adaptive / clairvoyant", "static / clairvoyant", "all: adaptive / clairvoyant"),
)


def measure(case: Case, folder: Path) -> dict[str, Ran]:
    """The three runs of a case."""
    if case.narrowed is None:
        phases = range(len(case.shifts_s) + 1)
        plans = [best_plan(case.phase(number), folder / f"phase{number}") for number in phases]
    else:
        # Afterwards the best is what does without the link.
        plans = [best_plan(case.phase(0), folder / "phase0"), _without_link(case, folder / "phase1")]
    for number, plan in enumerate(plans):
        print(f"{case.name}, phase {number}: {plan_name(plan)}", file=sys.stderr, flush=True)
    runs = {
        "static": run(case, folder / "static", plans[0]),
        "adaptive": run(case, folder / "adaptive", plans[0], adaptive=True),
        "clairvoyant": run(case, folder / "clairvoyant", plans[0], plans[1:]),
    }
    rows = {name: ran.rows for name, ran in runs.items()}
    if len({*rows.values()}) != 1:
        raise BenchError(f"{case.name}: the same rows are required however it runs; got {rows}")
    for name, ran in runs.items():
        print(f"{case.name}, {name}: {ran.samples[-1].nbytes:,} bytes, {ran.rows:,} rows", file=sys.stderr, flush=True)
    return runs


def _without_link(case: Case, folder: Path) -> str:
    """Everything to the home, as a plan file."""
    return best_plan(case, folder, "--plan", "ship-all")


def stretches(case: Case) -> list[tuple[str, float, float]]:
    """Event time without the two epochs after each shift, and those by themselves. The first epochs plan and fill."""
    found = []
    bounds = (0.0, *case.shifts_s, case.length_s)
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        settled = min(last, first + _SETTLED_EPOCHS * case.epoch_s)
        found.append((f"phase {number + 1}, first two epochs", first, settled))
        found.append((f"phase {number + 1}, after that", settled, last))
    return found


def _outside(case: Case, ran: Ran) -> float:
    return sum(ran.sent(first, last) for name, first, last in stretches(case) if "after" in name)


def _extra(case: Case, ran: Ran, begun_s: float, ended_s: float) -> float:
    """Bytes around a switch beyond what is sent in as long a time afterwards."""
    first, last = begun_s - 0.2 * case.epoch_s, ended_s + case.window_s
    length = min(last - first, max(0.0, case.length_s - last))
    if length <= 0:
        return 0.0
    usual = ran.sent(last, last + length) / length
    return max(0.0, ran.sent(first, last) - usual * (last - first))


def report(found: list[tuple[Case, dict[str, Ran]]], notes: list[str]) -> str:
    """The tables."""
    lines = [
        "# Plans that change while queries run",
        "",
        f"`make bench-adaptive`, {commit()}. Real daemons on one machine, native. Three runs of each case: **static**,",
        "by the plan that is best before the first shift; **adaptive**, by the same and others that it goes over to;",
        "**clairvoyant**, by the best plan of each phase, changed by hand at the shift. Bytes are those of all links,",
        "everything included. A query is looked at once in an epoch; the two after a shift are left out of `outside`,",
        "as in CLASH: what is measured in one decides in the next. Wanted: adaptive at most 1.15 times clairvoyant.",
        "",
        "![bytes and latency over event time](adaptive.svg)",
        "",
        *(f"{note}\n" for note in notes),
        f"| {' | '.join(_COLUMNS)} |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, runs in found:
        outside = {name: _outside(case, ran) for name, ran in runs.items()}
        whole = {name: ran.samples[-1].nbytes for name, ran in runs.items()}
        ratio = outside["adaptive"] / outside["clairvoyant"]
        cells = [case.name, *(f"{outside[name] / 1000:,.1f}" for name in runs)]
        cells += [f"{ratio:.3f}{'' if ratio <= _WANTED else ' (missed)'}"]
        cells += [
            f"{outside['static'] / outside['clairvoyant']:.3f}",
            f"{whole['adaptive'] / whole['clairvoyant']:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for case, runs in found:
        lines += ["", f"## {case.name}", "", *_case_lines(case, runs)]
    return "\n".join(lines) + "\n"


def _case_lines(case: Case, runs: Mapping[str, Ran]) -> list[str]:
    about = f"tau {case.tau_ms / 1000:g} s, an epoch {case.epoch_s:g} s, windows {case.window_s:g} s of event time, "
    about += (
        f"played {case.speed:g} times as fast as it was; shifts at {', '.join(f'{at:g} s' for at in case.shifts_s)}."
    )
    names = list(runs)
    cells = [f"{name}: {what}" for what in ("kB/s", "p50 ms", "p99 ms") for name in names]
    lines = [about, "", f"| | {' | '.join(cells)} |", f"|---|{'---|' * len(cells)}"]
    for name, first, last in stretches(case):
        rates = [f"{runs[each].sent(first, last) / max(1e-9, last - first) / 1000:,.3g}" for each in names]
        latency = [f"{runs[each].latency_ms(first, last, share):,.0f}" for share in (0.5, 0.99) for each in names]
        lines.append(f"| {name} | {' | '.join([*rates, *latency])} |")
    lines += [
        "",
        "| switch of | from, to (s) | extra kB around it | its snapshots, expected kB | why |",
        "|---|---|---|---|---|",
    ]
    for each in ("adaptive", "clairvoyant"):
        for switch in runs[each].switches:
            extra = _extra(case, runs[each], switch.begun_s, switch.ended_s)
            when = f"{switch.begun_s:.1f} to {switch.ended_s:.1f}"
            expected = f"{switch.snapshot_bytes / 1000:,.1f}" if each == "adaptive" else ""
            lines.append(f"| {each} | {when} | {extra / 1000:,.1f} | {expected} | {switch.why} |")
    return lines


def main() -> None:
    """Run the cases, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one case, in half a minute")
    parser.add_argument("--case", help="only the cases whose name has this in it")
    parser.add_argument("--out", type=Path, default=RESULTS / "adaptive.md")
    given = parser.parse_args()
    notes = []
    cases = [chain("one shift", "dan", (40.0,), 90.0, 4.0)]
    if not given.short:
        cases += [chain("there and back", "dan", (32.0, 64.0), 96.0, 4.0), narrow(100.0, 2.0)]
        played = recorded(80_000.0)
        if played is None:
            notes.append("The recordings are not on this machine, so that case is left out.")
        else:
            cases.append(played)
    cases = [case for case in cases if given.case is None or given.case in case.name]
    with tempfile.TemporaryDirectory(prefix="narrows-adaptive-") as name:
        found = [(case, measure(case, Path(name) / str(number))) for number, case in enumerate(cases)]
    given.out.write_text(report(found, notes))
    plot_adaptive(found, given.out.with_suffix(".svg"))
    print(given.out.read_text())


if __name__ == "__main__":
    main()
