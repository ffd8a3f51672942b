"""What the runs have shown: first whether it is what was wanted, then case by case; and all epochs as CSV."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.adaptive.cases import Case
from bench.adaptive.measurements import LOOKING, Ran, Switch
from bench.commit import commit

STATIC, ADAPTIVE, CLAIRVOYANT = NAMES = ("static", "adaptive", "clairvoyant")
#: Epochs after a shift in which the plan before may run still: in the first it is measured, in the second prepared.
SETTLED_EPOCHS = 2
RATIO_MAX = 1.15
#: By so much what a plan sends differs from window to window.
_VARIES = 0.05
#: On a busy machine latencies differ, but not so many times.
_SLOW = 10.0
_BYTES_COLUMNS = (
    *("case", "static, kB", "adaptive, kB", "clairvoyant, kB"),
    *("static / clairvoyant", "adaptive / clairvoyant", "everything: adaptive / clairvoyant"),
    "planning and looking, share of adaptive",
)

Runs = Mapping[str, Ran]
Found = Sequence[tuple[Case, Runs]]


@dataclass(frozen=True)
class Verdict:
    """Something that was wanted of a case; ``met`` is None if it does not say anything here."""

    wanted: str
    met: bool | None
    figures: str


@dataclass(frozen=True)
class Phase:
    """Event time between two shifts."""

    number: int
    first_s: float
    #: From here on the two epochs after the shift are over. The first phase has them too: it plans, and fills windows.
    settled_s: float
    last_s: float


def phases(case: Case) -> list[Phase]:
    """Before the first shift, between two, and after the last one."""
    bounds = itertools.pairwise((0.0, *case.shifts_s, case.length_s))
    settling_s = SETTLED_EPOCHS * case.epoch_s
    return [Phase(number, first, min(last, first + settling_s), last) for number, (first, last) in enumerate(bounds, 1)]


def ratio(case: Case, runs: Runs, one: str, other: str, within: Sequence[Phase] = ()) -> float:
    """Bytes of one way to run a case over those of another, without the two epochs after each shift."""
    sent = {
        name: sum(runs[name].sent(each.settled_s, each.last_s) for each in within or phases(case))
        for name in (one, other)
    }
    return sent[one] / max(1.0, sent[other])


def made_in(phase: Phase, ran: Ran) -> list[Switch]:
    """The switches that were begun in a phase, and made."""
    return [each for each in ran.switches if each.made and phase.first_s <= each.begun_s < phase.last_s]


# -- what was wanted --------------------------------------------------------------------------


def verdicts(case: Case, runs: Runs) -> list[Verdict]:
    """In the order in which they are told."""
    return [_same_rows(runs), _few_bytes(case, runs), _in_time(case, runs), _calm(case, runs), _cheap(case, runs)]


def _same_rows(runs: Runs) -> Verdict:
    counts = {name: ran.rows.num_rows for name, ran in runs.items()}
    same = all(ran.rows.equals(runs[STATIC].rows) for ran in runs.values())
    wanted = "the same rows whichever way it runs"
    return Verdict(wanted, same and counts[STATIC] > 0, f"{counts[STATIC]:,}" if same else str(counts))


def _few_bytes(case: Case, runs: Runs) -> Verdict:
    found = ratio(case, runs, ADAPTIVE, CLAIRVOYANT)
    each = ", ".join(f"{ratio(case, runs, ADAPTIVE, CLAIRVOYANT, [phase]):.3f}" for phase in phases(case))
    wanted = f"adaptive sends at most {RATIO_MAX} times what clairvoyant does, two epochs after each shift left out"
    return Verdict(wanted, found <= RATIO_MAX, f"{found:.3f}; by phase {each}")


def _in_time(case: Case, runs: Runs) -> Verdict:
    """A phase in which the plan before is as good, in bytes and by the clock, needs no other one."""
    told, late = [], False
    for phase in phases(case)[1:]:
        switches = made_in(phase, runs[ADAPTIVE])
        if switches:
            epochs = (_live_s(switches[0]) - phase.first_s) / case.epoch_s
            late = late or epochs > SETTLED_EPOCHS
            told.append(f"{epochs:.1f}")
        else:
            slow, quick = (
                runs[each].latency_ms(phase.settled_s, phase.last_s, 0.99) for each in (ADAPTIVE, CLAIRVOYANT)
            )
            late = late or ratio(case, runs, ADAPTIVE, CLAIRVOYANT, [phase]) > RATIO_MAX or slow > _SLOW * quick
            told.append("no switch")
    wanted = f"the new plan is live {SETTLED_EPOCHS} epochs after a shift at the latest"
    return Verdict(wanted, not late, f"epochs: {', '.join(told)}")


def _live_s(switch: Switch) -> float:
    return math.inf if switch.live_s is None else switch.live_s


def _calm(case: Case, runs: Runs) -> Verdict:
    made = [len(made_in(phase, runs[ADAPTIVE])) for phase in phases(case)]
    others = len(runs[ADAPTIVE].switches) - sum(made)
    figures = f"by phase {', '.join(map(str, made))}" + (f"; {others} not made" if others else "")
    return Verdict("not to and fro: at most one switch in a phase", max(made) <= 1, figures)


def _cheap(case: Case, runs: Runs) -> Verdict:
    """What is sent anyway is not the same at any time, and what a switch costs is what is more."""
    met, told = True, []
    for switch in runs[ADAPTIVE].switches:
        found = runs[ADAPTIVE].cost(switch, case.window_s, _until_s(case, runs[ADAPTIVE], switch))
        expected = switch.snapshot_bytes
        if switch.made and found is not None and expected is not None:
            cost, usual = found
            met = met and cost <= expected + _VARIES * usual
            told.append(f"{_kb(cost)} of {_kb(expected)} kB (beside {_kb(usual)})")
    wanted = f"a switch costs at most its snapshots and messages, and {_VARIES:.0%} of what is sent anyway meanwhile"
    return Verdict(wanted, met if told else None, ", ".join(told) or "none to say")


def _until_s(case: Case, ran: Ran, switch: Switch) -> float:
    """How long the plan of a switch runs undisturbed."""
    ends = [*case.shifts_s, *(each.begun_s for each in ran.switches), case.length_s]
    return min((end for end in ends if end > _live_s(switch)), default=case.length_s)


# -- the report -------------------------------------------------------------------------------


def report(found: Found, notes: Sequence[str]) -> str:
    """All of it, as Markdown."""
    lines = [
        "# Plans that change while queries run",
        "",
        f"`make bench-adaptive`, {commit()}. Real daemons on one machine, native. Three runs of each case: **static**,",
        "by the plan that is best before the first shift; **adaptive**, by the same and others that it goes over to by",
        "itself; **clairvoyant**, by the best plan of each phase, changed by hand at the shift. Bytes are those of all",
        "links, everything included: planning, looking and switching too. A query is looked at once in an epoch.",
        "",
        *(f"{note}\n" for note in notes),
        "![bytes and latency over event time](adaptive.svg) The same as figures: [adaptive.csv](adaptive.csv).",
        "",
        "## What was wanted",
        "",
        "| case | wanted | | measured |",
        "|---|---|---|---|",
        *(
            f"| {case.name} | {each.wanted} | {_said(each.met)} | {each.figures} |"
            for case, runs in found
            for each in verdicts(case, runs)
        ),
        "",
        "## Bytes",
        "",
        "Two epochs after each shift are left out, but in the last column.",
        "",
        f"| {' | '.join(_BYTES_COLUMNS)} |",
        f"|---|{'---:|' * 7}",
        *(_bytes_line(case, runs) for case, runs in found),
    ]
    for case, runs in found:
        lines += ["", f"## {case.name}", "", *_case_lines(case, runs)]
    return "\n".join(lines) + "\n"


def _said(met: bool | None) -> str:
    return "" if met is None else "met" if met else "**not met**"


def _bytes_line(case: Case, runs: Runs) -> str:
    sent = [sum(runs[name].sent(each.settled_s, each.last_s) for each in phases(case)) for name in NAMES]
    ratios = [ratio(case, runs, name, CLAIRVOYANT) for name in (STATIC, ADAPTIVE)]
    everything = runs[ADAPTIVE].nbytes / runs[CLAIRVOYANT].nbytes
    looking = runs[ADAPTIVE].samples[-1].by_run.get(LOOKING, 0.0) / runs[ADAPTIVE].nbytes
    cells = [*map(_kb, sent), *(f"{each:.3f}" for each in (*ratios, everything, looking))]
    return f"| {case.name} | {' | '.join(cells)} |"


def _case_lines(case: Case, runs: Runs) -> Iterator[str]:
    shifts = ", ".join(f"{at:,g} s" for at in case.shifts_s)
    yield f"{case.about} Event time, played {case.speed:g} times as fast as it was: shifts at {shifts}; tau"
    yield f"{case.tau_ms / 1000:g} s, an epoch {case.epoch_s:,g} s, windows {case.window_s:,g} s."
    yield ""
    yield "```sql"
    yield case.text
    yield "```"
    yield ""
    yield "| | " + " | ".join(f"{name}: {what}" for what in ("kB/s", "p50 ms", "p99 ms") for name in NAMES) + " |"
    yield f"|---|{'---:|' * 9}"
    for phase in phases(case):
        for name, first_s, last_s in (
            (f"phase {phase.number}, first two epochs", phase.first_s, phase.settled_s),
            (f"phase {phase.number}, after that", phase.settled_s, phase.last_s),
        ):
            yield f"| {name} | {' | '.join(_stretch(runs, first_s, last_s))} |"
    yield ""
    yield from _switch_lines(case, runs)


def _stretch(runs: Runs, first_s: float, last_s: float) -> list[str]:
    rates = [f"{runs[name].sent(first_s, last_s) / max(1e-9, last_s - first_s) / 1000:,.3g}" for name in NAMES]
    return rates + [f"{runs[name].latency_ms(first_s, last_s, share):,.0f}" for share in (0.5, 0.99) for name in NAMES]


def _switch_lines(case: Case, runs: Runs) -> Iterator[str]:
    yield "Switches. *Sent first* is what was sent for the new plan before heads went over, snapshots and messages;"
    yield "*cost* is that and what came up to a window later, beyond what the plan is sent in as long a time then."
    yield ""
    yield "| switch of | begun, live, over (s) | expected first, kB | sent first, kB | cost, kB | why; from, to |"
    yield "|---|---|---:|---:|---:|---|"
    for name in (ADAPTIVE, CLAIRVOYANT):
        ran = runs[name]
        for switch in ran.switches:
            moments = (switch.begun_s, switch.live_s, switch.ended_s)
            when = ", ".join("never" if at_s is None else f"{at_s:,.1f}" for at_s in moments)
            cost = ran.cost(switch, case.window_s, _until_s(case, ran, switch))
            sizes = [_kb(size) for size in (switch.snapshot_bytes, ran.sent_before(switch), cost and cost[0])]
            became = "" if switch.made else f"**{switch.state}** ({switch.reason}): "
            ways = f"from `{switch.before}`, to `{switch.after}`"
            yield f"| {name} | {when} | {' | '.join(sizes)} | {became}{switch.why}; {ways} |"


def _kb(size: float | None) -> str:
    return "" if size is None else f"{size / 1000:,.1f}"


def write_csv(found: Found, path: Path) -> None:
    """Each epoch of each run: bytes, and latencies."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", "run", "from_s", "to_s", "bytes", "p50_ms", "p99_ms"])
        for case, runs in found:
            for name in NAMES:
                for first_s, last_s in epochs(case):
                    latency = [f"{runs[name].latency_ms(first_s, last_s, share):.1f}" for share in (0.5, 0.99)]
                    sent = f"{runs[name].sent(first_s, last_s):.0f}"
                    writer.writerow([case.name, name, f"{first_s:g}", f"{last_s:g}", sent, *latency])


def epochs(case: Case) -> list[tuple[float, float]]:
    """Of the length at which a query is looked at, from the beginning on."""
    edges = [number * case.epoch_s for number in range(round(case.length_s / case.epoch_s) + 1)]
    return list(itertools.pairwise(edges))
