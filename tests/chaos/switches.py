"""Has random queries go over to random other plans, whatever else happens to the cluster meanwhile.

Queries that are adaptive go on from there by themselves, since most plans that are drawn are not good. What became of
each switch is what its home says of it.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from node.client import Client
from node.rpc import control_pb2 as pb
from planner.algorithms.descriptions import Algorithm
from planner.model.errors import NarrowsError
from tests.chaos.load import SITES
from tests.chaos.watch import Watch

#: Seconds between two questions, on the mean.
MEAN_S = 4.0
#: How long those that are under way at the end may take.
_OVER_S_MAX = 60.0
_POLL_S = 0.25

WENT_OVER, GIVEN_UP, BY_A_LOSS, UNKNOWN = KINDS = (
    "went over",
    "given up, nothing was lost",
    "ended by a crash or a lost session, in either plan",
    "not known what became of it",
)
#: What is said of a site that lost what it knew.
_LOSSES = ("restarted", "anew", "lost")
#: Why one is asked for here; all others are begun by homes themselves.
WHY = "chaos"
BY_HAND, BY_ITSELF = BEGINNERS = ("narrows replan, to any plan", "a home by itself, to a better plan")
#: What happened while they were under way.
CUT, KILLED = TROUBLES = ("a link was cut", "something was killed")


@dataclass(frozen=True)
class Switched:
    """A query whose plans change: its streams' aliases in the order of their chain, and sites where heads may start."""

    query_id: str
    home: str
    aliases: tuple[str, ...]
    #: It may leave the plan that it was given for a better one.
    adaptive: bool = False


@dataclass(frozen=True)
class Trouble:
    """Something that happened between two moments, in milliseconds since 1970."""

    kind: str
    from_ms: float
    to_ms: float


@dataclass(frozen=True)
class SwitchFigures:
    """How many switches were begun, and what became of them."""

    #: By who began it and what became of it.
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: By who began it and what happened meanwhile, with those that were made all the same.
    meanwhile: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    #: Why some were given up, and why some were not begun; names and numbers left out.
    given_up: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)

    def begun(self, beginner: str) -> int:
        """All that were begun."""
        return sum(count for (who, _), count in self.counts.items() if who == beginner)


class Switcher:
    """One thread that asks, at times between which some seconds pass; the plans and times are drawn by a seed."""

    def __init__(self, watch: Watch, queries: tuple[Switched, ...], seed: int, say: Callable[[str], None]) -> None:
        self._watch = watch
        self._queries = queries
        self._draw = random.Random(f"switches {seed}")
        self._say = say
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: By query and number, what its home said last; None: nothing yet.
        self.told: dict[tuple[str, int], pb.SwitchStatus | None] = {}
        self.refused: Counter[str] = Counter()
        #: Why asking ended too early; nothing if it did not.
        self.wrong: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for nothing more, and see how those end that are under way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        deadline = time.monotonic() + _OVER_S_MAX
        while self._under_way() and time.monotonic() < deadline:
            self._note()
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            self._ask_on()
        except Exception as error:
            # A run in which no plan changes any more would pass.
            self.wrong.append(f"switching ended: {type(error).__name__}: {error}")

    def _ask_on(self) -> None:
        due_s = time.monotonic() + self._draw.expovariate(1 / MEAN_S)
        while not self._stopped.wait(_POLL_S):
            self._note()
            if time.monotonic() >= due_s:
                self._ask(self._draw.choice(self._running() or self._queries))
                due_s = time.monotonic() + self._draw.expovariate(1 / MEAN_S)

    def _running(self) -> list[Switched]:
        """Those that were well at the last look: others only refuse."""
        well = {
            query_id
            for query_id, brief in self._briefs().items()
            if brief.state == "running" and not brief.HasField("recovery")
        }
        return [query for query in self._queries if query.query_id in well]

    def _briefs(self) -> dict[str, pb.QueryBrief]:
        return {brief.query_id: brief for status in list(self._watch.last.values()) for brief in status.queries}

    def _under_way(self) -> set[str]:
        """Queries with one that is not over, as far as is known; of one that began another what was before is."""
        last = dict(sorted(self.told))
        return {each for each, number in last.items() if not _is_over(self.told[each, number])}

    def _ask(self, query: Switched) -> None:
        # Drawn even if it is not asked for, so that what comes later is the same plan.
        plan = any_plan(self._draw, query.aliases, query.home)
        if query.query_id in self._under_way():
            return
        other = pb.IssueRequest(plan_file=plan, adaptive=query.adaptive)
        client: Client = self._watch.clients[query.home]
        try:
            reply = client.replan(pb.ReplanRequest(query_id=query.query_id, plan=other, why=WHY))
        except NarrowsError as error:
            # A site is away, or the query catches up. A daemon that dies now may have begun it.
            self.refused[without_names(str(error))] += 1
            return
        if reply.number:
            self.told[query.query_id, reply.number] = None
            self._say(f"        query {query.query_id} is to go to {reply.after.brief}")

    def _note(self) -> None:
        """What homes say of switches, those too that nobody asked for."""
        for query_id, brief in self._briefs().items():
            last = brief.last_switch
            if not last.number:
                continue
            if (query_id, last.number) not in self.told and last.why != WHY:
                self._say(f"        query {query_id} goes to {last.after} by itself: {last.why}")
            self.told[query_id, last.number] = last

    def figures(self, troubles: Sequence[Trouble]) -> SwitchFigures:
        """Of all that were begun."""
        return figures_of(list(self.told.values()), self.refused, troubles)


def _is_over(status: pb.SwitchStatus | None) -> bool:
    return status is not None and status.HasField("ended_ms")


def figures_of(
    told: Iterable[pb.SwitchStatus | None], refused: Mapping[str, int], troubles: Sequence[Trouble]
) -> SwitchFigures:
    """From what homes said of each switch last; None: nothing, of one that was asked for."""
    counts: Counter[tuple[str, str]] = Counter()
    meanwhile: Counter[tuple[str, str]] = Counter()
    made: Counter[tuple[str, str]] = Counter()
    given_up: Counter[str] = Counter()
    for status in told:
        who = BY_HAND if status is None or status.why == WHY else BY_ITSELF
        kind = kind_of(status)
        counts[who, kind] += 1
        if status is None:
            continue
        if status.state == "given up":
            given_up[without_names(status.reason)] += 1
        until_ms = status.ended_ms if status.HasField("ended_ms") else float("inf")
        for trouble in {each.kind for each in troubles if each.from_ms <= until_ms and each.to_ms >= status.begun_ms}:
            meanwhile[who, trouble] += 1
            made[who, trouble] += kind == WENT_OVER
    both = {key: (count, made[key]) for key, count in meanwhile.items()}
    return SwitchFigures(dict(counts), both, dict(given_up), dict(refused))


def kind_of(status: pb.SwitchStatus | None) -> str:
    """What became of a switch, as far as is known."""
    if status is None or not status.HasField("ended_ms"):
        return UNKNOWN
    if status.state == "switched":
        return BY_A_LOSS if status.reason else WENT_OVER
    return BY_A_LOSS if any(word in status.reason for word in _LOSSES) else GIVEN_UP


def without_names(reason: str) -> str:
    """The last line of a reason, without what makes each of them another one."""
    text = reason.strip().splitlines()[-1] if reason.strip() else "no reason"
    text = re.sub(r"\b[a-z]+-[0-9a-z]{6,}-\d+(~\w+)?", "ID", text)
    text = re.sub(rf"\b({'|'.join(SITES)})\b", "SITE", text)
    text = re.sub(r"SITE(, SITE)+", "SITES", text)
    # Why another one is under way is told of that one.
    text = re.sub(r"because: .*", "because: ...", text)
    return re.sub(r"\d+(\.\d+)?", "N", text)


def any_plan(draw: random.Random, aliases: tuple[str, ...], home: str) -> str:
    """A plan file of any valid plan for a chain of streams; a head starts at home now and then."""
    products = [algorithm.value for algorithm in Algorithm if not algorithm.spec.needs_key]
    sequences: list[Mapping[str, object]] = []
    for head in aliases:
        joined, left, steps = [head], [alias for alias in aliases if alias != head], []
        while left:
            alias = left.pop(draw.randrange(len(left)))
            at = aliases.index(alias)
            linked = any(abs(aliases.index(other) - at) == 1 for other in joined)
            names = [algorithm.value for algorithm in Algorithm] if linked else products
            steps.append({"alias": alias, "algorithm": draw.choice(names)})
            joined.append(alias)
        start = {"start": home} if draw.random() < 0.2 else {}
        sequences.append({"head": head, **start, "steps": steps})
    return json.dumps({"sequences": sequences})


def switch_lines(figures: SwitchFigures) -> list[str]:
    """For people; nothing if none was begun and none was refused."""
    if not figures.counts and not figures.refused:
        return []
    lines = [
        f"Queries are asked to go over to other plans, one every {MEAN_S:g} s on the mean; those that are adaptive",
        "look for better ones too. In brackets: those that were made all the same.",
        "",
        f"| switches begun by | all | {' | '.join(KINDS)} | {' | '.join(f'while {each}' for each in TROUBLES)} |",
        f"|---|{'---:|' * (1 + len(KINDS) + len(TROUBLES))}",
    ]
    for who in BEGINNERS:
        counts = [figures.counts.get((who, kind), 0) for kind in KINDS]
        during = [figures.meanwhile.get((who, each), (0, 0)) for each in TROUBLES]
        cells = [figures.begun(who), *counts, *(f"{count} ({made})" for count, made in during)]
        lines.append(f"| {who} | {' | '.join(map(str, cells))} |")
    for what, reasons in (("given up", figures.given_up), ("refused", figures.refused)):
        if reasons:
            lines += ["", f"| {what} because | times |", "|---|---:|"]
            ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            lines += [f"| {reason.replace('|', '/')} | {count} |" for reason, count in ordered]
    return [*lines, ""]
