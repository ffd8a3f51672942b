"""A query at its home that goes from one plan to another without a stop.

The sites of the new plan prepare a successor of the run that there is, and fill what it looks at, while that one goes
on. When all of them could go on with it, the site of each head cuts: batches from there on are the successor's. The run
before ends what it has under way. Once that is done the query has the new plan alone.

Until heads are cut the switch can be given up, and nothing has happened. After that only a new generation can end it
earlier, by either plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import SwitchState
from node.core.errors import PeerProtocolError
from node.core.links.messages import Prepared, Resumed, Start, Ticks, require_ticks
from node.core.queries.query_id import successor_of
from planner.model.query import Plan


class PlanSwitch:
    """How far one has got."""

    def __init__(self, query_id: str, generation: int, plan: Plan, why: str, begun_us: int) -> None:
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
        if self.state is not SwitchState.SWITCHING or head in self._cuts:
            required = f"{self.run_id} requires one cut of each head, after all sites were ready"
            raise PeerProtocolError(f"{required}; got {head}={tick}")
        self._cuts[head] = tick

    def unfinished(self, done: Ticks) -> tuple[str, ...]:
        """The heads of which walks of the run before are not done, or that did not go over yet."""
        return tuple(head for head, tick in done if head not in self._cuts or tick < self._cuts[head])

    def is_over(self, done: Ticks) -> bool:
        """Whether all walks of the run before are done."""
        return not self.unfinished(done)


def of_own(plan: Plan, answers: Mapping[str, Ticks]) -> Ticks:
    """Ticks by alias, as the sites of their streams named them."""
    owners = {ref.alias: ref.stream.site for ref in plan.query.streams}
    found = {alias: tick for site, ticks in answers.items() for alias, tick in ticks if owners.get(alias) == site}
    return tuple(sorted(found.items()))
