"""Sustained load on one cluster while everything happens to it, one thing after another, again and again.

Three sites behind Toxiproxy, two-way and three-way queries whose plans are chosen, recordings that are paced and, where
there is Spark, a stream that it reads as it comes. Beside that daemons are killed and started again, and queries go
over to other plans. Whatever happens:
at the end every reader of every query has exactly the oracle's rows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.chaos.figures import Figures, measured
from tests.chaos.kills import Killer
from tests.chaos.load import SITES, Load, load
from tests.chaos.recoveries import Recoveries, completed
from tests.chaos.rig import RSS_MAX, Ask, Played, Rig, play, play_beside_kills, rigged
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.switches import BY_HAND, WENT_OVER, Switched, Switcher, SwitchFigures, Trouble
from tests.oracle.compare import same_rows

#: Tuples a second in each stream; a tick on Spark takes longer, and three of them share the machine.
PER_S = {"native": 300, "spark": 100}
#: Seconds between two kills, on the mean: more than a site takes to come back, on two cores with two others.
KILL_MEAN_S = {"native": 10.0, "spark": 180.0}
#: How long tuples come: on Spark long enough for the recoveries that a run requires.
SECONDS = {"native": 600, "spark": 3600}
CALM_S = 4.0
#: A run in which less recovered shows too little: on Spark so often, else so large a share of the kills that a run of
#: its length has when they are as far apart as usual. Of those that are closer together most interrupt a recovery.
SPARK_RECOVERIES_MIN = 10
_RECOVERED_SHARE = 0.25
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
    #: None: nothing is killed.
    kill_mean_s: float | None = None

    @property
    def live(self) -> bool:
        """Whether Spark reads a stream. It takes half a minute to start: too long for a daemon that soon dies again."""
        return self.kill_mean_s is None or self.engine == "spark"

    @property
    def recoveries_min(self) -> int:
        """How many recoveries must have been completed; with fewer the run fails."""
        if self.kill_mean_s is None:
            return 0
        if self.engine == "spark":
            return SPARK_RECOVERIES_MIN
        kills = self.seconds / max(self.kill_mean_s, KILL_MEAN_S[self.engine])
        return max(1, int(_RECOVERED_SHARE * kills))

    def asks(self, given: Load) -> list[Ask]:
        asks = [Ask(given.pair, adaptive=True), Ask(given.triple, at="alpha")]
        return asks if self.kill_mean_s is None else [*asks, Ask(given.pair, at="beta", to_file=True)]


def sustained(wanted: Sustained, folder: Path, say: Say) -> Figures:
    """Run it; the figures, with what went wrong, if anything did. Does not raise: figures are wanted all the same."""
    given = load(wanted.seconds, PER_S[wanted.engine], wanted.seed)
    asks, deadly = wanted.asks(given), wanted.kill_mean_s is not None
    played: list[Played] = []
    wrong: list[str] = []
    finished = False
    switches = SwitchFigures()
    figures = Figures(wanted.seconds, wanted.seed, wanted.engine, given.tuples, kill_mean_s=wanted.kill_mean_s)
    began = time.monotonic()
    try:
        with rigged(folder, given, asks, live=wanted.live, engine=wanted.engine, deadly=deadly) as rig:
            say(f"{time.monotonic() - began:6.0f} s  the cluster is up, {len(asks)} queries run, seed {wanted.seed}")
            recoveries = Recoveries({each.query_id: each.ask.at for each in rig.followed})
            try:
                ended, switches = _play_all(wanted, rig, recoveries, played, say)
                wrong += ended
                say("        the streams come to their end")
                rig.finish(timeout_s=300 + wanted.seconds)
                finished = True
            except Exception as error:
                wrong.append(_said(error, say))
            done = len(completed(recoveries.all))
            if done < wanted.recoveries_min:
                wrong.append(f"recoveries required: {wanted.recoveries_min}; got {done} of {len(recoveries.all)}")
            rig.watch.fresh()
            figures = measured(replace(figures, switches=switches), rig, played, recoveries.all)
    except Exception as error:
        wrong.append(_said(error, say))
    else:
        # Without its end a query has not all of its rows.
        wrong += [*(_unlike_the_oracle(rig, say) if finished else ()), *_unbounded(rig)]
    wrong += [each.wrong for each in played if each.wrong]
    if wanted.engine == "native":
        # Of a Spark that was killed the daemon tells its last words, which are a stack trace.
        wrong += _traces(folder)
    return figures.with_wrong(wrong)


def _switched(rig: Rig) -> tuple[Switched, ...]:
    """The queries, as those who change their plans know them."""
    return tuple(
        Switched(
            each.query_id,
            each.ask.at,
            tuple(f"s{at}" for at in range(len(each.ask.query.streams))),
            each.ask.adaptive,
        )
        for each in rig.followed
    )


def _said(error: Exception, say: Say) -> str:
    """Told at once, too: what comes after it may be worse, and hide it."""
    text = f"{type(error).__name__}: {error}"
    say(f"        WRONG: {text}")
    return text


def _play_all(
    wanted: Sustained, rig: Rig, recoveries: Recoveries, played: list[Played], say: Say
) -> tuple[list[str], SwitchFigures]:
    """Daemons that ended without having been killed, and plans that never changed; and how many plans did."""
    switcher = Switcher(rig.watch, _switched(rig), wanted.seed, say)
    switcher.start()
    try:
        ended, kills = _play_beside_kills(wanted, rig, recoveries, played, say)
    finally:
        switcher.stop()
    figures = switcher.figures([*kills, *(each.cut for each in played if each.cut is not None)])
    none = "" if figures.counts.get((BY_HAND, WENT_OVER)) else "queries required to go over to other plans; got none"
    return [*ended, *switcher.wrong, *([none] if none else [])], figures


def _play_beside_kills(
    wanted: Sustained, rig: Rig, recoveries: Recoveries, played: list[Played], say: Say
) -> tuple[list[str], list[Trouble]]:
    if wanted.kill_mean_s is None:
        _play_scenarios(wanted, rig, played, say)
        return [], []
    daemons, watch = rig.stage.daemons, rig.watch
    killer = Killer(daemons, watch, recoveries, wanted.kill_mean_s, wanted.seed, say)
    killer.start()
    try:
        _play_scenarios(wanted, rig, played, say)
    finally:
        killer.stop()
    return killer.ended, killer.kills


def _possible(wanted: Sustained, rig: Rig, say: Say) -> list[Scenario]:
    disks = rig.stage.disks
    if disks is not None and disks.unmounted:
        say(f"        no disk is filled: a small file system cannot be mounted here ({disks.unmounted})")
    small = disks is not None and not disks.unmounted
    return [each for each in SCENARIOS if (wanted.live or not each.live) and (small or not each.disk)]


def _play_scenarios(wanted: Sustained, rig: Rig, played: list[Played], say: Say) -> None:
    began = rig.began_s
    for scenario in in_turn(_possible(wanted, rig, say), wanted.seed):
        _calm(CALM_S)
        if time.monotonic() - began > wanted.seconds - _LAST_S:
            break
        at = time.monotonic() - began
        if wanted.kill_mean_s is not None:
            say(f"{at:6.0f} s  {scenario.name}")
            played.append(play_beside_kills(scenario, rig))
            continue
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
        want = each.ask.query.expected()
        for reader in each.readers:
            rows, who = each.rows(reader), f"{each.query_id}, {type(reader).__name__}"
            difference = same_rows(rows, want)
            say(f"        {who}: {rows.num_rows:,} rows, the oracle has {want.num_rows:,}")
            if difference is not None:
                yield f"{who}, differs from the oracle: {difference}"


def _traces(folder: Path) -> Iterator[str]:
    """What no process may say, whatever happened to it."""
    for file in sorted(folder.glob("*.err")):
        text = file.read_text(errors="replace")
        if "Traceback" in text:
            yield f"{file.name} has a stack trace: {text[text.index('Traceback') :]}"


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
