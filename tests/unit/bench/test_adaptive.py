"""What the bench of plans that change says of a run follows from what was seen of it."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from bench.adaptive.cases import Case, shifting
from bench.adaptive.measurements import Ran, Sample
from bench.adaptive.report import (
    ADAPTIVE,
    CLAIRVOYANT,
    STATIC,
    made_in,
    phases,
    ratio,
    report,
    verdicts,
    write_csv,
)
from node.core.queries.query_id import successor_of
from node.rpc import control_pb2 as pb

QUERY = "dan-1nfvvgv-1"
SECOND = successor_of(QUERY, 7)
#: Event time goes twice as fast as the clock, which says so at the start.
BEGAN_MS = 1_000_000.0
SHIFT_S, LENGTH_S = 40.0, 90.0
#: Bytes in a second before the shift, after it, and by the plan that is right then.
USUAL, BAD, GOOD = 1_000, 5_000, 2_000
SNAPSHOT = 6_000


def at_ms(at_s: float) -> int:
    return round(BEGAN_MS + 500 * at_s)


@cache
def case() -> Case:
    return shifting("one shift", "dan", (SHIFT_S,), LENGTH_S, 2.0)


def ran(live_s: float = math.inf, why: str = "", rows: int = 3) -> Ran:
    """One that goes over at a moment, within a second of event time."""
    found = Ran(query_id=QUERY, rows=pa.table({"n": list(range(rows))}))
    first = second = 0.0
    for tick in range(4 * round(LENGTH_S) + 1):
        at_s = tick / 4
        latency = {1_000: tick, 50_000: tick // 10}
        found.samples.append(Sample(at_s, at_ms(at_s), round(first + second), {QUERY: first, SECOND: second}, latency))
        if live_s - 1 <= at_s < live_s:
            second += SNAPSHOT / 4
        if at_s < live_s:
            first += (USUAL if at_s < SHIFT_S else BAD) / 4
        else:
            second += GOOD / 4
    if live_s < LENGTH_S:
        found.statuses[7] = pb.SwitchStatus(
            number=7,
            state="switched",
            why=why,
            before="p",
            after="q",
            begun_ms=at_ms(live_s - 1),
            switching_ms=at_ms(live_s),
            ended_ms=at_ms(live_s + 0.5),
        )
    return found


def runs(live_s: float, sent_first: str = "6 kB") -> dict[str, Ran]:
    why = f"SM-S1 sends 5 kB/s, SM-D1 2 kB/s; {sent_first} are sent first"
    return {STATIC: ran(), ADAPTIVE: ran(live_s, why), CLAIRVOYANT: ran(SHIFT_S + 1)}


def met(found: dict[str, Ran]) -> list[bool | None]:
    return [each.met for each in verdicts(case(), found)]


def test_two_epochs_after_each_shift_are_left_out() -> None:
    first, second = phases(case())
    assert (first.first_s, first.settled_s, first.last_s) == (0.0, 10.0, SHIFT_S)
    assert (second.first_s, second.settled_s, second.last_s) == (SHIFT_S, 50.0, LENGTH_S)
    found = runs(48.0)
    best = 30 * USUAL + 40 * GOOD
    assert ratio(case(), found, STATIC, CLAIRVOYANT) == pytest.approx((30 * USUAL + 40 * BAD) / best)
    assert ratio(case(), found, ADAPTIVE, CLAIRVOYANT) == pytest.approx(1.0)


def test_a_switch_is_told_in_event_time_with_what_it_cost_beyond_what_its_plan_is_sent_anyway() -> None:
    found = ran(48.0, "because; 6.0 kB are sent first")
    (switch,) = found.switches
    assert (switch.begun_s, switch.live_s, switch.ended_s) == pytest.approx((47.0, 48.0, 48.5))
    assert (switch.run, switch.snapshot_bytes) == (SECOND, 6_000)
    assert found.sent_before(switch) == pytest.approx(SNAPSHOT)
    assert found.cost(switch, 4.0, LENGTH_S) == pytest.approx((SNAPSHOT, 4.5 * GOOD))
    assert found.cost(switch, 4.0, 55.0) is None, "too short to say"
    assert made_in(phases(case())[1], found) == [switch]
    assert made_in(phases(case())[0], found) == []


def test_latency_is_that_of_rows_of_the_time() -> None:
    found = ran()
    assert found.latency_ms(10.0, 20.0, 0.5) == pytest.approx(1.0, rel=0.1)
    assert found.latency_ms(10.0, 20.0, 0.99) == pytest.approx(50.0, rel=0.1)
    assert math.isnan(Ran().latency_ms(0.0, 1.0, 0.5))


def test_what_was_wanted_is_met_by_one_switch_in_time() -> None:
    assert met(runs(48.0)) == [True] * 5
    late = runs(70.0)
    assert met(late) == [True, False, False, True, True]
    assert met(runs(48.0, sent_first="5.0 kB")) == [True, True, True, True, False]
    never = {**late, ADAPTIVE: ran()}
    assert met(never) == [True, False, False, True, None]


def test_rows_that_differ_and_plans_that_go_to_and_fro_are_not_what_was_wanted() -> None:
    found = runs(48.0)
    assert met({**found, ADAPTIVE: ran(48.0, rows=4)})[0] is False
    assert met({each: ran(rows=0) for each in found})[0] is False, "a run without rows shows nothing"
    again = runs(48.0)
    back = pb.SwitchStatus()
    back.CopyFrom(again[ADAPTIVE].statuses[7])
    back.number, back.begun_ms, back.switching_ms, back.ended_ms = 9, at_ms(60.0), at_ms(61.0), at_ms(62.0)
    again[ADAPTIVE].statuses[9] = back
    assert met(again)[3] is False


def test_the_report_and_the_figures_have_every_phase_and_switch(tmp_path: Path) -> None:
    found = [(case(), runs(48.0))]
    text = report(found, ["a note"])
    assert text.count("| **not met** |") == 0
    assert "| adaptive | 47.0, 48.0, 48.5 | 6.0 | 6.0 | 6.0 | SM-S1 sends 5 kB/s, SM-D1 2 kB/s" in text
    assert "phase 2, after that" in text
    path = tmp_path / "adaptive.csv"
    write_csv(found, path)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 3 * 18
    assert lines[1] == "one shift,static,0,5,5000,1.0,50.0"
