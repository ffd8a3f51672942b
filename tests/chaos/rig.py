"""A cluster under load, with everything that scenarios need and everything that is measured; and how one is played."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from netsim.binary import server_path
from netsim.network import found, take_down
from netsim.proxies import Proxies, WanError
from spark_jobs.source.state import StateFolder
from tests.chaos.disks import SIZE, Disks
from tests.chaos.load import BASE_MS, LAST_MS, LIVE, SITES, Feeder, Load, Query, write_chaos_cluster
from tests.chaos.memory import Memory
from tests.chaos.reader import AnyReader, FileReader, HomeReader, Reader
from tests.chaos.scenarios import Scenario, Stage
from tests.chaos.switches import CUT, Trouble
from tests.chaos.watch import Watch
from tests.e2e.harness import Daemons, eventually, narrows

#: A daemon that has just started has about 120 MB; what waits anywhere is bounded by limits far below this.
RSS_MAX = 500 << 20
#: How long status may take to notice, and a cluster to be well again, on a busy machine.
NOTICED_S_MAX = 45.0
SETTLED_S_MAX = 150.0
#: A query keeps up that is no further behind its streams than this, or than it was before plus this.
_BEHIND_S = 3.0
_POLL_S = 0.1
#: Each tick of a site on Spark is a job.
TAU_MS = {"native": 100, "spark": 500}
SPARK_S = 240.0
#: Where daemons die, better plans are looked for more often than that.
_EPOCH_TICKS = 20


@dataclass(frozen=True)
class Ask:
    """A query, where it is issued, and how it is planned."""

    query: Query
    at: str = "gamma"
    options: tuple[str, ...] = ("--plan", "auto")
    #: Its home writes the rows to a file, and nobody else reads them.
    to_file: bool = False
    #: It goes over to better plans by itself, also from one that somebody named.
    adaptive: bool = False


@dataclass(frozen=True)
class Followed:
    """A query that was issued, and who reads it."""

    ask: Ask
    query_id: str
    readers: tuple[AnyReader, ...]

    def rows(self, reader: AnyReader | None = None) -> pa.Table:
        """What a reader got; the first, if none is named."""
        return (reader or self.readers[0]).table(self.ask.query.schema())


@dataclass(frozen=True)
class Rig:
    """A cluster under load."""

    stage: Stage
    followed: tuple[Followed, ...]
    memory: Memory
    watch: Watch
    tau_ms: int
    #: When the recordings began to play.
    began_s: float

    def finish(self, timeout_s: float = 300.0) -> None:
        """Let the streams come to their end, and take every row."""
        if self.stage.feeder is not None:
            self.stage.feeder.finish()
        for each in self.followed:
            if self.stage.feeder is not None and self.stage.feeder.stream in each.ask.query.streams:
                eventually(f"{each.query_id} has all rows", lambda each=each: self._delivered(each), timeout_s)  # type: ignore[misc]
                for reader in each.readers:
                    reader.detach()
            for reader in each.readers:
                reader.end(timeout_s)

    def _delivered(self, each: Followed) -> bool:
        """Whether every row of a query whose live stream does not end is stored, and read."""
        for reader in each.readers:
            reader.alive()
        last_tick = (BASE_MS + LAST_MS) // self.tau_ms
        status = self.watch.last.get(each.ask.at)
        briefs = () if status is None else status.queries
        return any(
            brief.query_id == each.query_id
            and brief.done_tick >= last_tick
            and not any(reader.lag_rows for reader in brief.readers)
            for brief in briefs
        )


@contextmanager
def rigged(
    folder: Path,
    given: Load,
    asks: Sequence[Ask],
    *,
    live: bool,
    engine: str = "native",
    deadly: bool = False,
    small_disks: bool = False,
) -> Iterator[Rig]:
    """A cluster whose network and daemons are up and whose queries run; all is gone afterwards.

    If it is ``deadly`` its daemons will be killed: each has a small disk, and queries have readers with names too.
    With ``small_disks`` it has only those.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores it, and so would the readers, which are told by it to leave.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    tau_ms = TAU_MS[engine]
    epoch = _EPOCH_TICKS if deadly else None
    config = write_chaos_cluster(folder, given, live=live, engine=engine, tau=f"{tau_ms}ms", epoch_ticks=epoch)
    # Building it takes minutes on a busy machine, once: longer than a command may take here.
    server_path()
    with ExitStack() as stack:
        disks = Disks(folder / "state", SITES, SIZE[engine]) if deadly or small_disks else None
        if disks is not None:
            stack.callback(disks.close)
        stack.callback(_wan_down, config)
        narrows("wan", "up", "--config", config).ok()
        daemons = stack.enter_context(Daemons(config, None, ("--speed", "1"), ready_s=SPARK_S))
        watch = Watch({site: daemons.client(site) for site in SITES}, tau_ms)
        stack.callback(watch.stop)
        feeder = Feeder(folder / "in", given.live, lambda: watch.read(LIVE)) if live else None
        if feeder is not None:
            feeder.first()
            stack.callback(feeder.stop)
        daemons.start(*SITES).linked()
        if live:
            # A plan is chosen by what is there.
            batches = StateFolder(folder / "state" / "beta" / LIVE)
            eventually("Spark has read the first tuples", batches.waiting, SPARK_S)
        memory = Memory(lambda: {site: node.process.pid for site, node in daemons.nodes.items()})
        stack.callback(memory.stop)
        watch.look()
        watch.start()
        followed = []
        began_s = 0.0
        for number, ask in enumerate(asks):
            issued = _with_names if deadly else _with_pipe
            followed.append(issued(config, daemons, ask, number))
            for reader in followed[-1].readers:
                stack.callback(reader.kill)
            if not number:
                began_s = time.monotonic()
                if feeder is not None:
                    feeder.begin()
        eventually("rows come", lambda: _rows_come(watch, len(asks)), SPARK_S)
        proxies, piped = Proxies(found(config).port), followed[0].readers[0]
        assert isinstance(piped, Reader)
        stage = Stage(proxies, daemons, watch, piped, feeder, _delta_ms(watch), disks)
        yield Rig(stage, tuple(followed), memory, watch, tau_ms, began_s)


def _wan_down(config: Path) -> None:
    """In this process: a command may be too slow, and it may not be up if something failed before."""
    with suppress(WanError):
        take_down(config)


def _query(config: Path, ask: Ask, *options: str | Path) -> tuple[str | Path, ...]:
    return ("query", "--config", config, "--at", ask.at, ask.query.text, *ask.options, *options)


def _with_pipe(config: Path, _: Daemons, ask: Ask, number: int) -> Followed:
    reader = Reader(*_query(config, ask), name=f"query{number}", folder=config.parent)
    return Followed(ask, reader.query_id, (reader,))


def _with_names(config: Path, daemons: Daemons, ask: Ask, number: int) -> Followed:
    """Whoever issued it is gone, and readers come that live as long as it does."""
    folder = config.parent
    if ask.to_file:
        path = folder / f"query{number}.arrows"
        query_id = narrows(*_query(config, ask, "--detach", "--to", path)).ok().out.strip()
        return Followed(ask, query_id, (HomeReader(daemons, query_id, path),))
    query_id = narrows(*_query(config, ask, "--detach")).ok().out.strip()
    file = FileReader(config, query_id, "ledger", folder)
    # Rows stay until every reader that is known has taken them.
    eventually("the reader is known", lambda: len(daemons.query_info(query_id).readers) > 1)
    pipe = Reader("follow", "--config", config, query_id, name=f"query{number}", folder=folder)
    return Followed(ask, query_id, (pipe, file))


def _rows_come(watch: Watch, queries: int) -> bool:
    briefs = [brief for status in watch.last.values() for brief in status.queries]
    return len(briefs) == queries and all(brief.rows for brief in briefs) and watch.well


def _delta_ms(watch: Watch) -> int | None:
    """What a query under policy delta goes by, if there is one."""
    found_us = [probes.delta_us for status in watch.last.values() for probes in status.probes if probes.delta_us]
    return max(found_us) // 1000 if found_us else None


@dataclass(frozen=True)
class Played:
    """What became of a scenario."""

    name: str
    #: What status said of it, and after how long; nothing if nothing had to be said.
    line: str
    said_after_s: float
    #: From its end until queries kept up again and status found nothing.
    settled_after_s: float
    #: Why it did not go as it should; nothing if it did.
    wrong: str = ""
    #: When no link carried anything, if it cut one.
    cut: Trouble | None = None


def play_beside_kills(scenario: Scenario, rig: Rig) -> Played:
    """Let it happen and end. Daemons die meanwhile, so nobody can tell what status must say and when all is well."""
    began_ms = 1000 * time.time()
    try:
        scenario.begin(rig.stage)
        time.sleep(scenario.lasts_s)
    finally:
        scenario.end(rig.stage)
    return Played(scenario.name, "", 0.0, 0.0, cut=_cut(scenario, began_ms))


def _cut(scenario: Scenario, began_ms: float) -> Trouble | None:
    return Trouble(CUT, began_ms, 1000 * time.time()) if scenario.cuts else None


def play(scenario: Scenario, rig: Rig) -> Played:
    """Let it happen, until it was noticed; then let it end, until all is well."""
    usual_s = max(_BEHIND_S, rig.watch.behind_s) + _BEHIND_S
    began, began_ms = time.monotonic(), 1000 * time.time()
    line, said_after = "", 0.0
    wrong = ""
    try:
        scenario.begin(rig.stage)
        while True:
            elapsed = time.monotonic() - began
            if scenario.said and not line:
                line, said_after = rig.watch.says(scenario.said), elapsed
            if elapsed >= scenario.lasts_s and (line or not scenario.said):
                break
            if elapsed >= NOTICED_S_MAX:
                wrong = f"status did not say {scenario.said!r} within {elapsed:.0f} s, but {rig.watch.lines}"
                break
            time.sleep(_POLL_S)
    finally:
        scenario.end(rig.stage)
    return _settled(Played(scenario.name, line, said_after, 0.0, wrong, _cut(scenario, began_ms)), rig, usual_s)


def _settled(played: Played, rig: Rig, usual_s: float) -> Played:
    healed = time.monotonic()
    while True:
        rig.watch.fresh()
        elapsed = time.monotonic() - healed
        if rig.watch.well and rig.watch.behind_s <= usual_s:
            return replace(played, settled_after_s=elapsed)
        if elapsed >= SETTLED_S_MAX:
            rest = f"not well {elapsed:.0f} s after {played.name}: {rig.watch.lines}, {rig.watch.behind_s:.1f} s behind"
            wrong = "; ".join(filter(None, [played.wrong, rest]))
            return replace(played, settled_after_s=elapsed, wrong=wrong)
