"""The table of ``bench.queries``: what was measured, what was asked, and whether that is met."""

from __future__ import annotations

import json
import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.queries.results import DASHBOARD, DURABLE, FORCED, LONG, NULL_LOG, PLANNED, Results, median
from bench.queries.runs import Climb
from bench.releases import FIRST, NOW

#: A load average above this before the start, on a machine of some cores, makes the figures worthless.
LOAD_MAX = 0.7
UNDER_LOAD = "under load, not for publication"
#: "No worse" allows for what two runs of the same tree differ by.
NOISE = 1.05
SIDES = (FIRST, NOW)
#: So much behind the clock is within one or two ticks of measuring.
_BEHIND_S_MAX = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One measure; ``met`` is None where nothing was asked or nothing is known."""

    measure: str
    first: str
    now: str
    asked: str
    met: bool | None

    def markdown(self) -> str:
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        return f"| {self.measure} | {self.first} | {self.now} | {self.asked} | {met} |"


def write_report(folder: Path, commits: Mapping[str, str], results: Results) -> str:
    """Write both files; the text of the Markdown one. ``commits`` are those of the two sides."""
    text = report(results, commits)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "queries.md").write_text(text)
    raw = {"machine": machine(), "commits": dict(commits), **_plain(results)}
    (folder / "queries.json").write_text(json.dumps(raw, indent=1, allow_nan=False) + "\n")
    return text


def report(results: Results, commits: Mapping[str, str]) -> str:
    """The whole page."""
    lines = [
        "# Many queries over the same streams",
        "",
        *([f"**{UNDER_LOAD}** (load average {results.load:.2f} at the start)", ""] if results.load > LOAD_MAX else []),
        *(["**A quick run: shows that it works, and nothing else.**", ""] if results.quick else []),
        "`python -m bench.queries`: the first release and this tree in turns, in one run, medians. Two daemons on",
        f"loopback, {_engines(results)} engine, 300 tuples/s a stream unless said. Any two queries differ in filter,",
        "select list, aliases and windows (5 to 20 s, for memory so long that nothing expires). They are issued at the",
        "site of stream a, for memory at that of the large window. Rows of every query are compared with an exact",
        "count. One query is the first of the many; its windows, rows and bytes are about the mean of theirs. Select",
        "lists have 3 to 6 of the 18 columns; long ones 12 to 15; those of a dashboard 4 of 10, and its filters differ",
        "only in constants. Forced algorithms, long select lists and memory run once, the rest several times.",
        "",
        f"| measure | first release ({commits[FIRST]}) | now ({commits[NOW]}) | asked | met |",
        "|---|---|---|---|---|",
        *(line.markdown() for line in table(results)),
        "",
        *_rows_text(results),
        "",
        "## What the queries need",
        "",
        "Of stream b, which is not at their home, in bytes a second: each value once, encoded and compressed as on a",
        "link, without frames. What is selected of tuples in results is the lower bound; what is selected of all that",
        "pass, with times and keys, is shipping everything.",
        "",
        *_needed(results),
        "",
        "## Processor, bytes and latency, by number of queries",
        "",
        "Processor is that of both daemons in a second; latency is from sealing a batch to storing its rows;",
        "behind is by how much event time fell behind the clock while it was measured.",
        "",
        *_details(results),
        "",
        "## Plans",
        "",
        *_plans(results),
        "",
        "## Memory, full speed, log",
        "",
        *_others(results),
        "",
        f"{machine()}; load average {results.load:.2f} at the start; {results.seconds:,.0f} s in all.",
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What it ran on."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "grpcio"))
    cores = f"{os.cpu_count()} processors ({platform.machine()}), {memory_gib:.0f} GiB"
    return f"{cores}, Python {platform.python_version()}, {versions}"


# -- the table ----------------------------------------------------------------------------------


def table(results: Results) -> list[Line]:
    """Every measure that was asked, and the same with forced algorithms."""
    processor, nbytes = results.processor_ratio, results.bytes_ratio
    lines = [_ratio_line("both daemons' processor, 20 queries / 1, tau 100 ms", processor, 20, PLANNED, 4.0)]
    lines += [_ratio_line("the same", processor, 20, plan, None) for plan in (DASHBOARD, LONG, *FORCED)]
    lines.append(_memory_line(results))
    lines.append(_ratio_line("bytes on the link, 10 queries / 1", nbytes, 10, PLANNED, 3.0))
    lines += [_ratio_line("the same", nbytes, 10, plan, 3.0) for plan in (DASHBOARD, LONG)]
    lines += [_ratio_line("the same", nbytes, 10, plan, None) for plan in FORCED]
    lines.append(_latency_line(results))
    tuples = f"2 x {results.full_rows:,} tuples"
    lines.append(_no_worse(f"full speed, {tuples}, one query, planned: seconds", results.full_speed_s, "{:.2f} s"))
    lines.append(_no_worse(f"full speed, {tuples}, one query, planned: bytes", results.full_speed_bytes, "{:,.0f}"))
    ratio, more_ms = results.durable_cpu_ratio(), results.durable_more_ms()
    live = "durable against a null log, live 2 x 10,000 tuples/s"
    change = None if ratio is None else 100 * (ratio - 1)
    lines.append(_line(f"{live}: processor", "no log", change, "{:+.0f} %", "at most +20 %", 20.0))
    lines.append(_line(f"{live}: p50 latency", "no log", more_ms, "{:+.1f} ms", "at most +5 ms", 5.0))
    # What was asked is about the full size: a quick run can neither meet nor miss it.
    return [replace(line, met=None) for line in lines] if results.quick else lines


def _ratio_line(what: str, ratio: Any, queries: int, plan: str, most: float | None) -> Line:
    first, now = (ratio(side, plan, queries) for side in SIDES)
    asked = "" if most is None else f"at most {most:g}"
    name = f"{plan} forced" if plan in FORCED else plan
    return _line(f"{what}, {name}", said(first, "{:.1f}"), now, "{:.1f}", asked, most)


def _line(measure: str, first: str, now: float | None, form: str, asked: str, most: float | None) -> Line:
    met = None if now is None or most is None else now <= most
    return Line(measure, first, said(now, form), asked, met)


def _no_worse(measure: str, of: Any, form: str) -> Line:
    first, now = (of(side) for side in SIDES)
    met = None if first is None or now is None else now <= NOISE * first
    return Line(measure, said(first, form), said(now, form), f"no worse (within {NOISE - 1:.0%})", met)


def _memory_line(results: Results) -> Line:
    measure = (
        f"memory of a site, {results.memory_queries} queries / 1, a window of {results.memory_rows:,} rows, {PLANNED}"
    )
    first = said(results.memory_ratio(FIRST), "{:.2f}")
    return _line(measure, first, results.memory_ratio(NOW), "{:.2f}", "at most 1.3", 1.3)


def _latency_line(results: Results) -> Line:
    texts = []
    for side in SIDES:
        behind = results.behind_s(side)
        text = said(results.p99_ms(side), "{:,.0f} ms")
        late = behind is not None and behind > _BEHIND_S_MAX
        texts.append(results.too_slow.get(side) or (f"{text}, and {behind:.1f} s behind the clock" if late else text))
    p99, behind = results.p99_ms(NOW), results.behind_s(NOW)
    met = None if p99 is None or behind is None else p99 <= 500 and behind <= _BEHIND_S_MAX
    measure = f"{results.many_queries} queries live on two sites, tau 250 ms: p99 emit latency"
    return Line(measure, texts[0], texts[1], "at most 500 ms", False if NOW in results.too_slow else met)


def said(value: float | None, form: str) -> str:
    """The value as the form says; nothing if there is none."""
    return "" if value is None or math.isnan(value) else form.format(value)


# -- beside the table ---------------------------------------------------------------------------


def _engines(results: Results) -> str:
    names = {climb.engine for runs in (*results.climbs.values(), *results.many.values()) for climb in runs}
    return ", ".join(sorted(names)) or "native"


def _rows_text(results: Results) -> list[str]:
    """Whether rows were as they must be, and what failed."""
    lines = [f"- {side}: {trouble}" for side in SIDES for trouble in dict.fromkeys(results.troubles(side))]
    lines += [f"- failed: {failure}" for failure in results.failures]
    return ["Not as it must be:", "", *lines] if lines else ["Rows of all queries in all runs were exact."]


def _needed(results: Results) -> list[str]:
    lines = ["| set | queries | in results | / 1 | all that passes | / 1 | sent | / 1 |", "|---|" + "---:|" * 7]
    for plan, found in results.needed.items():
        one, climbs = found[1], results.climbs.get((NOW, plan), [])
        sent = {count: median(climb.at(count).bytes_total for climb in climbs) for count in found}
        for count, needed in found.items():
            cells = [plan, str(count)]
            for mine, first in (*zip(needed, one, strict=True), (sent[count], sent[1])):
                ratio = None if mine is None or not first else mine / first
                cells += [said(mine, "{:,.0f}"), said(ratio, "{:.1f}")]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _all_climbs(results: Results) -> Iterable[tuple[str, str, list[Climb]]]:
    """(side, plan, runs)."""
    for plan in (PLANNED, DASHBOARD, LONG, *FORCED):
        yield from ((side, plan, results.climbs.get((side, plan), [])) for side in SIDES)
    yield from ((side, f"{PLANNED}, tau 250 ms", results.many.get(side, [])) for side in SIDES)
    yield from ((f"{NOW}, {log}", f"{PLANNED}, 10,000/s", results.durable.get(log, [])) for log in (DURABLE, NULL_LOG))


def _details(results: Results) -> list[str]:
    kinds = sorted({k for _, _, runs in _all_climbs(results) for c in runs for s in c.stretches for k in s.bytes_per_s})
    head = ["side", "plan", "queries", "processor", "p50 ms", "p99 ms", "behind s", "rows/s", "bytes/s", *kinds]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * 2}{'---:|' * (len(head) - 2)}"]
    for side, plan, runs in _all_climbs(results):
        for place in range(len(runs[0].stretches) if runs else 0):
            found = [climb.stretches[place] for climb in runs]
            cells = [side, plan, str(found[0].queries)]
            cells += [said(median(stretch.cpu for stretch in found), "{:.3f}")]
            cells += [said(median(stretch.p50_ms for stretch in found), "{:,.0f}")]
            cells += [said(median(stretch.p99_ms for stretch in found), "{:,.0f}")]
            cells += [said(median(stretch.behind_s for stretch in found), "{:.1f}")]
            cells += [said(median(stretch.rows_per_s for stretch in found), "{:,.0f}")]
            cells += [said(median(stretch.bytes_total for stretch in found), "{:,.0f}")]
            cells += [said(median(s.bytes_per_s.get(kind, 0.0) for s in found), "{:,.0f}") for kind in kinds]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _plans(results: Results) -> list[str]:
    lines = ["| side | plan | what runs, all runs together |", "|---|---|---|"]
    for side, plan, runs in _all_climbs(results):
        counted: Counter[str] = Counter()
        for climb in runs:
            counted.update(climb.plans)
        if counted:
            lines.append(f"| {side} | {plan} | {_counted(counted)} |")
    return lines


def _counted(plans: Counter[str]) -> str:
    return "<br>".join(f"{count} x `{plan}`" for plan, count in plans.most_common())


def _others(results: Results) -> list[str]:
    lines = ["| side | queries | idle MiB | memory MiB | peak MiB | plans |", "|---|---:|---:|---:|---:|---|"]
    for side in SIDES:
        for held in results.held.get(side, ()):
            figures = [f"{n / 2**20:,.0f}" for n in (held.idle_bytes, held.rss_bytes, held.rss_peak_bytes)]
            lines.append(f"| {side} | {held.queries} | {' | '.join(figures)} | {_counted(Counter(held.plans))} |")
    lines += [
        "",
        "| full speed | seconds | processor s | bytes | rows | bytes by kind |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for side in SIDES:
        for run in results.full_speed.get(side, ()):
            kinds = ", ".join(f"{kind} {nbytes:,}" for kind, nbytes in sorted(run.by_kind.items()) if nbytes)
            lines.append(f"| {side} | {run.seconds:.2f} | {run.cpu_s:.1f} | {run.nbytes:,} | {run.rows:,} | {kinds} |")
    return lines


def _plain(results: Results) -> dict[str, Any]:
    """All of it as JSON has it: texts for keys, null for what is not a number."""
    return {key: _json(value) for key, value in asdict(results).items()}


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {", ".join(key) if isinstance(key, tuple) else str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
