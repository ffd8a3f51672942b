"""Has random queries go over to random other plans, whatever else happens to the cluster meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from node.client import Client
from node.rpc import control_pb2 as pb
from planner.algorithms.descriptions import Algorithm
from planner.model.errors import NarrowsError
from tests.chaos.watch import Watch

#: Seconds between two questions, on the mean.
MEAN_S = 4.0
#: How long those that are under way at the end may take.
_OVER_S_MAX = 60.0
_POLL_S = 0.25

WENT_OVER, GIVEN_UP, BY_A_LOSS, REFUSED, UNKNOWN = KINDS = (
    "went over",
    "given up, nothing was lost",
    "ended by a crash or a lost session, in either plan",
    "refused",
    "not known what became of it",
)
#: What is said of a site that lost what it knew.
_LOSSES = ("restarted", "anew", "lost")


@dataclass(frozen=True)
class Switched:
    """A query whose plans change: its streams' aliases in the order of their chain, and sites where heads may start."""

    query_id: str
    home: str
    aliases: tuple[str, ...]


class Switcher:
    """One thread that asks, at times between which some seconds pass; the plans and times are drawn by a seed."""

    def __init__(self, watch: Watch, queries: tuple[Switched, ...], seed: int, say: Callable[[str], None]) -> None:
        self._watch = watch
        self._queries = queries
        self._draw = random.Random(f"switches {seed}")
        self._say = say
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: By query, the number of its switch that is under way.
        self._under_way: dict[str, int] = {}
        self.counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
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
        while self._under_way and time.monotonic() < deadline:
            self._note_ends()
            time.sleep(_POLL_S)
        self.counts[UNKNOWN] += len(self._under_way)
        self._under_way.clear()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._draw.expovariate(1 / MEAN_S)):
                self._note_ends()
                self._ask(self._draw.choice(self._running() or self._queries))
        except Exception as error:
            # A run in which no plan changes any more would pass.
            self.wrong.append(f"switching ended: {type(error).__name__}: {error}")

    def _running(self) -> list[Switched]:
        """Those that were well at the last look: others only refuse."""
        briefs = [brief for status in list(self._watch.last.values()) for brief in status.queries]
        well = {brief.query_id for brief in briefs if brief.state == "running" and not brief.HasField("recovery")}
        return [query for query in self._queries if query.query_id in well]

    def _ask(self, query: Switched) -> None:
        # Drawn even if it is not asked for, so that what comes later is the same plan.
        plan = any_plan(self._draw, query.aliases, query.home)
        if query.query_id in self._under_way:
            return
        request = pb.ReplanRequest(query_id=query.query_id, plan=pb.IssueRequest(plan_file=plan), why="chaos")
        client: Client = self._watch.clients[query.home]
        try:
            reply = client.replan(request)
        except NarrowsError:
            # A site is away, or the query catches up. A daemon that dies now may have begun it.
            self.counts[REFUSED] += 1
            return
        if reply.number:
            self._under_way[query.query_id] = reply.number
            self._say(f"        query {query.query_id} is to go to {reply.after.brief}")

    def _note_ends(self) -> None:
        briefs = {brief.query_id: brief for status in list(self._watch.last.values()) for brief in status.queries}
        for query_id, number in list(self._under_way.items()):
            brief = briefs.get(query_id)
            last = None if brief is None else brief.last_switch
            if last is None or last.number < number:
                continue
            if last.number > number:
                self.counts[UNKNOWN] += 1
                del self._under_way[query_id]
            elif last.HasField("ended_ms"):
                self.counts[kind_of(last)] += 1
                del self._under_way[query_id]


def kind_of(status: pb.SwitchStatus) -> str:
    """What became of a switch that is over."""
    if status.state == "switched":
        return BY_A_LOSS if status.reason else WENT_OVER
    return BY_A_LOSS if any(word in status.reason for word in _LOSSES) else GIVEN_UP


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


def switch_lines(counts: Mapping[str, int]) -> list[str]:
    """For people; nothing if nobody asked."""
    if not counts:
        return []
    asked = f"Queries were asked {sum(counts.values())} times to go over to another plan, one every {MEAN_S:g} s:"
    return [f"{asked} {'; '.join(f'{counts[kind]} {kind}' for kind in KINDS)}.", ""]
