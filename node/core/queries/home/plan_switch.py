"""A query at its home that goes from one plan to another without a stop.

The sites of the new plan prepare a successor of the run that there is, and fill what it looks at, while that one goes
on. When all of them could go on with it, the site of each head cuts: batches from there on are the successor's. The run
before ends what it has under way. Once that is done the query has the new plan alone.

Until heads are cut the switch can be given up, and nothing has happened. After that only a new generation can end it
earlier, by either plan.

A plan that keeps joins has **other heads**: a row is found by that of its newest part, or, if several parts are as
new, perhaps by another than before. So heads cannot be cut each for itself. But by any plan a row is found in the tick
of its newest part. When all sites are ready their streams are *held*, each from where it is; the highest of these ticks
is where all heads of the plan before end, and all of the new one begin. What the new plan finds waits at home until the
plan before has found all that is before that tick. Then it is stored, and one record says that the query goes on by the
new plan, from that tick. So until then the plan before can go on, and does after any loss.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import SwitchState
from node.core.errors import PeerProtocolError
from node.core.links.messages import Prepared, Resumed, Start, Ticks, require_ticks
from node.core.queries.query_id import successor_of
from node.core.queries.waiting import Walk
from planner.model.query import Plan


class PlanSwitch:
    """How far one has got."""

    def __init__(self, query_id: str, generation: int, plan: Plan, why: str, begun_us: int, before: Plan) -> None:
        self.run_id = successor_of(query_id, generation)
        self.generation = generation
        self.plan = plan
        self.why = why
        self.begun_us = begun_us
        self.state = SwitchState.PREPARING
        #: When all sites were prepared, and began to fill what is missing.
        self.started_us: int | None = None
        self._answers: dict[str, Prepared] = {}
        self._level: dict[str, None] = {}
        #: By head, where its walks become the successor's.
        self._cuts: dict[str, int] = {}
        #: Whether the two plans have other heads. Then: the site of each stream that either has, and from which tick on
        #: it is held; the tick at which all heads go over; and walks of the new plan that were taken.
        self.holds = bool(before.keeps or plan.keeps)
        refs = (*before.query.streams, *plan.query.streams) if self.holds else ()
        self._streams = {ref.stream.name: ref.stream.site for ref in refs}
        self._held: dict[str, int] = {}
        self.over_at: int | None = None
        self.walks: list[Walk] = []

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Sites that have not said that they are prepared, or that they could go on with the new plan."""
        said = self._answers if self.started_us is None else self._level
        return tuple(site for site in self.plan.sites if site not in said)

    def prepared(self, site: str, answer: Prepared, first_tick: int, done: Ticks, now_us: int) -> Start | None:
        """A site is prepared; the start of the successor once it was the last. ``done``: by head, what is by now.

        Raises PeerProtocolError if it does not say where its streams are.
        """
        if self.started_us is not None or site not in self.plan.sites or site in self._answers:
            return None
        own = [ref.alias for ref in self.plan.query.streams if ref.stream.site == site]
        require_ticks(f"a site that is ready for {self.run_id}", "begins", answer.begins, own)
        require_ticks(f"a site that is ready for {self.run_id}", "frontiers", answer.frontiers, own)
        self._answers[site] = answer
        if self.waiting_for:
            return None
        self.started_us = now_us
        begins = of_own(self.plan, {name: one.begins for name, one in self._answers.items()})
        frontiers = of_own(self.plan, {name: one.frontiers for name, one in self._answers.items()})
        resumed = Resumed(done, begins)
        return Start(self.run_id, first_tick, None, 0, frontiers, self.generation, resumed)

    def ready(self, site: str) -> bool:
        """A site could go on with the new plan; whether it was the last."""
        if self.started_us is None or self.state is not SwitchState.PREPARING or site not in self.plan.sites:
            return False
        self._level[site] = None
        return not self.waiting_for

    def switch(self) -> None:
        """The sites are told to go over."""
        self.state = SwitchState.SWITCHING

    def cut(self, head: str, tick: int) -> None:
        """The site of a head says where it went over.

        Raises PeerProtocolError if it was not asked to, or has said it already.
        """
        if self.state is not SwitchState.SWITCHING or self.holds or head in self._cuts:
            required = f"{self.run_id} requires one cut of each head, after all sites were ready"
            raise PeerProtocolError(f"{required}; got {head}={tick}")
        self._cuts[head] = tick

    def hold(self, site: str, stream: str, tick: int) -> int | None:
        """The site of a stream says from where on it is held; where all heads go over, once it was the last.

        Raises PeerProtocolError if it was not asked to, or has said it already.
        """
        is_asked = self.state is SwitchState.SWITCHING and self._streams.get(stream) == site
        if not is_asked or stream in self._held:
            required = f"{self.run_id} requires its streams to be held once, by their sites, after all were ready"
            raise PeerProtocolError(f"{required}; got {stream}={tick} from {site}")
        self._held[stream] = tick
        if len(self._held) == len(self._streams):
            self.over_at = max(self._held.values())
        return self.over_at

    def take(self, walk: Walk) -> None:
        """A walk of the new plan is over; its rows wait for those of the plan before.

        Raises PeerProtocolError if it is of no head of the plan.
        """
        if walk.head not in self.plan.query.aliases:
            raise PeerProtocolError(f"{self.run_id} requires rows of its heads, at its sink; got {walk.head!r}")
        self.walks.append(walk)

    def unfinished(self, done: Ticks) -> tuple[str, ...]:
        """The heads of which walks of the run before are not done, or that did not go over yet."""
        if self.holds:
            return tuple(head for head, tick in done if self.over_at is None or tick < self.over_at)
        return tuple(head for head, tick in done if head not in self._cuts or tick < self._cuts[head])

    def is_over(self, done: Ticks) -> bool:
        """Whether all walks of the run before are done."""
        return not self.unfinished(done)


def of_own(plan: Plan, answers: Mapping[str, Ticks]) -> Ticks:
    """Ticks by alias, as the sites of their streams named them."""
    owners = {ref.alias: ref.stream.site for ref in plan.query.streams}
    found = {alias: tick for site, ticks in answers.items() for alias, tick in ticks if owners.get(alias) == site}
    return tuple(sorted(found.items()))
