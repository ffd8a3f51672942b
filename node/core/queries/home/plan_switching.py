"""How queries go over to another plan, at their home: who is asked, who is told, and when it is given up.

``plan_switch`` has how far each has got. Until heads are cut the plan before stays, and nothing has happened. After
that only a new generation can end it earlier: by the new plan, for nothing is known of the cuts then; or, if the plans
have other heads, by the plan before, for nothing that the new one found is stored.

A query that does not get on by its plan, as that needs a link which is cut, has nothing that should not be stopped: it
begins another generation by the other plan at once.
"""

from __future__ import annotations

from collections.abc import Callable

from node.core.effects import IgnoreReason, QueryState, ReportSwitch, SwitchState
from node.core.events import ReplanRequested
from node.core.limits import Limits
from node.core.links.messages import Cut, Drop, Floor, GoOver, Held, Hold, Prepared, Ready, Switch
from node.core.links.outbox import Outbox
from node.core.queries.home.generations import Generations
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.home_records import HomeRecords
from node.core.queries.home.plan_switch import PlanSwitch
from node.core.queries.query_id import owner_of_run, query_of, successor_of
from node.core.queries.waiting import Walk
from planner.model.kept import owned_by, owner_of
from planner.model.query import PolicyName

_AT_ONCE = "it goes on by another plan, as it did not by the one before"


class PlanSwitching:
    """The switches of the queries of one home, at most one of each at a time."""

    def __init__(
        self,
        homes: dict[str, HomeQuery],
        limits: Limits,
        outbox: Outbox,
        records: HomeRecords,
        generations: Generations,
        begin_again: Callable[[HomeQuery, str], None],
    ) -> None:
        """``begin_again`` begins another generation of a query."""
        self._homes = homes
        self._limits = limits
        self._outbox = outbox
        self._records = records
        self._generations = generations
        self._begin_again = begin_again

    # -- forwards -----------------------------------------------------------------------------

    def replan(self, event: ReplanRequested) -> None:
        """Have a query go on with another plan."""
        home = self._homes.get(event.query_id)
        number = self._generations.next()
        if refusal := self._refusal(home, event):
            report = ReportSwitch(event.query_id, number, SwitchState.GIVEN_UP, event.plan, event.why, refusal)
            self._outbox.do(report)
            return
        assert home is not None
        plan = owned_by(event.plan, owner_of_run(successor_of(home.query_id, number)))
        switch = PlanSwitch(home.query_id, number, plan, event.why, self._outbox.now_us, home.plan)
        home.going_over(switch)
        self._report(home.query_id, switch)
        if event.at_once:
            switch.switch()
            self._begin_again(home, _AT_ONCE)
            return
        self._records.keep_news(home)
        question = home.prepare_successor(switch)
        for site in event.plan.sites:
            self._outbox.send(site, question)

    def _refusal(self, home: HomeQuery | None, event: ReplanRequested) -> str:
        """Why a query cannot go on with another plan; empty if it can."""
        who = f"query {event.query_id} requires for another plan"
        if home is None:
            return f"{who} that it was issued here; got none of that name"
        if home.state is not QueryState.RUNNING or home.catching_up:
            state = "one that is catching up" if home.state is QueryState.RUNNING else f"one that is {home.state}"
            return f"{who} that it runs; got {state}"
        if home.switch is not None:
            return f"{who} that it is not going over to one; got one that is, because: {home.switch.why}"
        policies = {home.plan.policy.name, event.plan.policy.name}
        if PolicyName.DELTA in policies:
            return f"{who} policy frontier: by policy delta its probes go by the clock; got delta"
        if event.at_once and (home.plan.kept or event.plan.kept):
            return f"{who} at once that neither keeps joins: their heads are others; got one that does"
        if event.plan.asked != home.plan.asked or event.plan.sink != home.plan.sink:
            return f"{who} one of the same query, for {home.plan.sink}; got another"
        if owned_by(event.plan, owner_of(home.plan)) == home.plan:
            return f"{who} another one; got that by which it runs"
        if unlinked := self._outbox.unlinked(event.plan.sites):
            return f"{who} links with all its sites; got none with {', '.join(unlinked)}"
        return ""

    def on_prepared(self, home: HomeQuery, peer: str, message: Prepared) -> None:
        """A site is prepared for another plan; after the last one, all fill what it looks at."""
        switch = home.switch
        if switch is None or message.generation != switch.generation or home.sink is None or home.first_tick is None:
            self._outbox.ignore(IgnoreReason.OTHER_GENERATION, message)
            return
        now_us = self._outbox.now_us
        start = switch.prepared(peer, message, home.first_tick, home.done_for(switch), now_us)
        if start is not None:
            self._records.keep_news(home)
            for site in switch.plan.sites:
                self._outbox.send(site, start)

    def on_ready(self, peer: str, message: Ready) -> None:
        """A site could go on with another plan; after the last one, all go over."""
        home = self._switching(message)
        if home is not None and home.switch is not None and home.switch.ready(peer):
            switch = home.switch
            switch.switch()
            self._report(home.query_id, switch)
            if switch.holds:
                for site in home.sites:
                    self._outbox.send(site, Hold(home.query_id, switch.generation))
            else:
                for site in switch.plan.sites:
                    self._outbox.send(site, Switch(home.query_id, switch.generation))

    def on_cut(self, message: Cut) -> None:
        """The site of a head, as ``Successors`` made sure, went over."""
        home = self._switching(message)
        if home is not None and home.switch is not None:
            home.switch.cut(message.head, message.tick)
            self.raise_floor(home)

    def on_held(self, peer: str, message: Held) -> HomeQuery | None:
        """The site of a stream holds it; after the last one, all heads go over. The query of which they do."""
        home = self._switching(message)
        if home is None or home.switch is None:
            return None
        tick = home.switch.hold(peer, message.stream, message.tick)
        if tick is None:
            return None
        for site in home.sites:
            self._outbox.send(site, GoOver(home.query_id, home.switch.generation, tick))
        return home

    def _switching(self, message: Ready | Cut | Held) -> HomeQuery | None:
        home = self._homes.get(message.query_id)
        if home is not None and home.switch is not None and home.switch.generation == message.generation:
            return home
        return None

    def raise_floor(self, home: HomeQuery) -> list[Walk]:
        """When all walks by the plan before are done, it goes on by the new one alone; walks of that which waited."""
        switch = home.switch
        if switch is None or home.sink is None or not switch.is_over(home.sink.frontiers):
            return []
        before = home.plan.sites
        home.adopt(switch)
        self._records.keep(home)
        # Of other heads nothing else is known.
        self._records.keep_news(home)
        for site in before:
            is_left = site in home.plan.sites
            self._outbox.send(site, Floor(home.query_id, home.generation) if is_left else Drop(home.query_id))
        self._report(home.query_id, switch)
        return switch.walks

    # -- an early end -------------------------------------------------------------------------

    def end(self, home: HomeQuery, reason: str) -> None:
        """Another generation begins: by the new plan if heads may have gone over to it, else by the one before."""
        switch = home.switch
        if switch is None:
            return
        if switch.state is SwitchState.PREPARING or switch.holds:
            self.give_up(home, reason)
            return
        before = home.plan.sites
        home.adopt(switch)
        self._records.keep(home)
        for site in before:
            if site not in home.plan.sites:
                self._outbox.send(site, Drop(home.query_id))
        self._report(home.query_id, switch, reason)

    def give_up_for(self, peer: str, run_id: str, reason: str) -> bool:
        """A site cannot go on with another plan; whether that is all there is to say, as the one before runs on."""
        home = self._homes.get(query_of(run_id))
        if home is None or home.switch is None or home.switch.run_id != run_id or not home.is_preparing_switch:
            return False
        if peer not in home.switch.plan.sites:
            return False
        self.give_up(home, reason)
        return True

    def give_up_slow(self, home: HomeQuery) -> None:
        """Whoever prepares for another plan holds what it may need, and some site may be away for long."""
        switch, now_us = home.switch, self._outbox.now_us
        if switch is None or switch.state is not SwitchState.PREPARING:
            return
        since_us, most_us = switch.begun_us, self._limits.prepare_us
        if switch.started_us is not None:
            since_us, most_us = switch.started_us, self._limits.fill_us
        if now_us - since_us >= most_us:
            silent = ", ".join(switch.waiting_for)
            required = f"another plan requires every site ready within {most_us / 1e6:g} s"
            self.give_up(home, f"{required}; got no word of {silent}")

    def give_up(self, home: HomeQuery, reason: str) -> None:
        """The plan by which a query runs stays."""
        switch = home.switch
        assert switch is not None
        home.stays(switch)
        for site in switch.plan.sites:
            # At one that has nothing to do by the plan that stays nothing else is left of the query.
            name = switch.run_id if site in home.plan.sites else home.query_id
            self._outbox.send(site, Drop(name))
        self._report(home.query_id, switch, reason)

    def _report(self, query_id: str, switch: PlanSwitch, reason: str = "") -> None:
        # Whoever reads it asked for a plan that has no name yet.
        plan = owned_by(switch.plan, "")
        self._outbox.do(ReportSwitch(query_id, switch.generation, switch.state, plan, switch.why, reason))
