"""Sustained load on one cluster while everything happens to it, one thing after another, again and again.

Three sites behind Toxiproxy, a two-way and a three-way query whose plans are chosen, recordings that are paced and a
stream that Spark reads as it comes. Whatever happens: at the end every query has exactly the oracle's rows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.figures import Figures, measured
from tests.chaos.load import SITES, load
from tests.chaos.rig import RSS_MAX, Ask, Played, Rig, play, rigged
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.oracle.compare import same_rows

#: Tuples a second in each stream; a tick on Spark takes longer, and three of them share the machine.
PER_S = {"native": 300, "spark": 100}
CALM_S = 4.0
#: By then everything that is kept for a while has been kept that long: retained tuples, and those to plan by.
GROWN_S = 300.0
#: What the last scenario may take: after that only the load goes on to its end.
_LAST_S = 20.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sustained:
    """What to run."""

    seconds: int
    seed: int
    engine: str = "native"


def sustained(wanted: Sustained, folder: Path, say: Say) -> Figures:
    """Run it; the figures, with what went wrong, if anything did. Does not raise: figures are wanted all the same."""
    given = load(wanted.seconds, PER_S[wanted.engine], wanted.seed)
    asks = [Ask(given.pair), Ask(given.triple, at="alpha")]
    played: list[Played] = []
    wrong: list[str] = []
    figures = Figures(wanted.seconds, wanted.seed, wanted.engine, given.tuples)
    began = time.monotonic()
    try:
        with rigged(folder, given, asks, live=True, engine=wanted.engine) as rig:
            say(f"{time.monotonic() - began:6.0f} s  the cluster is up, {len(asks)} queries run")
            try:
                _play_all(wanted, rig, played, say)
                say("        the streams come to their end")
                rig.finish(timeout_s=300 + wanted.seconds)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
            rig.watch.fresh()
            figures = measured(figures, rig, played)
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    else:
        # Without its end a query has not all of its rows.
        wrong += _unbounded(rig) if wrong else [*_unlike_the_oracle(rig, say), *_unbounded(rig)]
    wrong += [each.wrong for each in played if each.wrong]
    return figures.with_wrong(wrong)


def _play_all(wanted: Sustained, rig: Rig, played: list[Played], say: Say) -> None:
    began = rig.began_s
    for scenario in in_turn(SCENARIOS, wanted.seed):
        _calm(CALM_S)
        if time.monotonic() - began > wanted.seconds - _LAST_S:
            break
        at = time.monotonic() - began
        one = play(scenario, rig)
        played.append(one)
        heard = f'said after {one.said_after_s:.1f} s: "{one.line}"' if one.line else "nothing was to be said"
        say(f"{at:6.0f} s  {one.name}; {heard}; well {one.settled_after_s:.1f} s after its end")
        if one.wrong:
            say(f"        WRONG: {one.wrong}")
    _calm(max(0.0, wanted.seconds - (time.monotonic() - began)))


def in_turn(scenarios: Sequence[Scenario], seed: int) -> Iterator[Scenario]:
    """All of them in one order, then in another, for ever."""
    draw = random.Random(seed)
    while True:
        order = list(scenarios)
        draw.shuffle(order)
        yield from order


def _calm(seconds: float) -> None:
    time.sleep(seconds)


def _unlike_the_oracle(rig: Rig, say: Say) -> Iterator[str]:
    for each in rig.followed:
        rows, want = each.rows(), each.ask.query.expected()
        difference = same_rows(rows, want)
        say(f"        {each.query_id}: {rows.num_rows:,} rows, the oracle has {want.num_rows:,}")
        if difference is not None:
            yield f"{each.query_id} differs from the oracle: {difference}"


def _unbounded(rig: Rig) -> Iterator[str]:
    """Memory beyond what is allowed, or that grows: the least of the last minute is more than all that was before."""
    for site in SITES:
        samples = rig.memory.samples[site]
        peak, end_s = rig.memory.peak(site), samples[-1][0]
        if peak >= RSS_MAX:
            yield f"{site} had {peak >> 20} MB, required less than {RSS_MAX >> 20}"
        if end_s > GROWN_S + 60:
            grown = max(size for at, size in samples if at <= GROWN_S)
            least = min(size for at, size in samples if at > end_s - 60)
            if least > grown:
                yield f"{site} grows: {least >> 20} MB at least in the last minute, {grown >> 20} MB at most at first"
