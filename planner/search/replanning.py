"""Whether a query that runs should go over to another plan: what that saves soon must pay for what it sends first.

Right means: a switch is proposed only to a plan that is expected to cost less than the one that runs, by enough to be
no accident, and what it saves within so many windows is more than the snapshots of its new copies. What runs is taken
at what was measured of it. Other plans are taken at what they are expected to cost; by as much more as the one that
runs was underestimated, so that a wrong model does not hold on to a bad plan. What ran before is taken as it was then
beside what was expected, so that a wrong model neither goes back to a bad plan nor stays away from a good one. Shipping
everything is measured too.

A link that is cut carries nothing: a plan that needs it is worth nothing while another one does not. A link that
carries less than a plan sends makes each byte that is too many count as several.

No other plan is one that keeps joins: a query does not go over to such a plan, or from it, while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, log

from planner.algorithms.kinds import Kind
from planner.cost.estimates import CopyKey, PlanEstimate
from planner.estimate.statistics import LinkStats, Statistics
from planner.model.copies import RunningCopy
from planner.model.plans import links_of, ship_all_plan
from planner.model.query import Plan
from planner.search.choice import Alternative, Choice, Costs, Options, choose

Way = tuple[str, str]

#: A link is left so much of its bandwidth for what is not this query's, and for bursts.
_USABLE_SHARE = 0.8
#: A byte beyond that counts so many times: it waits for ever, as more come behind it.
_EXCESS_WEIGHT = 100.0
#: A link is slow if a round trip takes so long; something is held up there if less than this share of it was sent.
_LONG_US, _HELD_UP_SHARE = 1_000_000, 0.8
#: A byte on a link that is cut, for the search; plans that need such a link are not taken at all.
_CUT_WEIGHT = 1000.0
#: About what the messages of a switch take with each other site.
_MESSAGES_BYTES = 400.0
#: What runs is worse than shipping everything only if by more than a measurement can be off.
_WORSE_SHARE = 0.05
#: A figure is worth telling that has changed by this factor. Shares that are smaller are not compared.
_TOLD_FACTOR = 1.3
_MATCH_MIN = 0.005
_WHOLE_PERCENT = 0.095


@dataclass(frozen=True, slots=True)
class Rules:
    """When a switch is worth it."""

    #: Within so many windows what it saves must pay for its snapshots.
    payback_windows: float = 10.0
    #: It must save at least this share of what is sent now, and so many bytes in a second by the clock. By about that
    #: share a plan that never ran is not what was expected; one that did is known.
    gain_share: float = 0.15
    known_gain_share: float = 0.05
    gain_min: float = 50.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a query's plan did in the last while. Bytes are those of a second of event time."""

    sent: Mapping[Way, float]
    #: What shipping each stream to the sink would have sent.
    ship_all: Mapping[str, float]
    #: So many seconds of event time go by in one of the clock: what links carry is counted by the clock.
    pace: float = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """A query's plan as it runs."""

    plan: Plan
    #: None while it is not known.
    measured: Measured | None = None
    #: All copies that run: those that only this query uses too, which statistics leave out as they would go with it.
    copies: tuple[RunningCopy, ...] = ()
    #: Pairs of sites, each by name, that have not reached each other for long.
    cut: frozenset[Way] = frozenset()
    #: What the plan was chosen by, or what was measured first while it ran; and which of these it is.
    chosen_by: Statistics | None = None
    then: str = "when planned"
    #: Plans that ran before, with how many times as much they sent as was expected of them.
    known: Mapping[Plan, float] = field(default_factory=dict)
    #: It falls behind its streams.
    lags: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a query's plan. Costs are in bytes a second, each weighed as its link is."""

    #: None: the one that runs stays.
    plan: Plan | None
    #: One sentence for people.
    why: str
    #: What the plan that runs costs, infinite if a link is cut which it needs, and what the other one would; 0 as long
    #: as nobody has looked for one.
    before: float = 0.0
    after: float = 0.0
    #: What is sent first, if it is made.
    snapshot_bytes: float = 0.0
    #: What shipping everything would cost now.
    ship_all: float = 0.0
    #: How many times as much the plan that runs sends as is expected of it.
    ratio: float = 1.0
    #: The plan that runs by the same statistics, and the other one with what it was compared with.
    estimate: PlanEstimate | None = None
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    estimate: PlanEstimate
    #: What it is expected to send, and that with what links do not carry.
    sends: float
    cost: float
    snapshot_bytes: float
    snapshot_cost: float
    #: All that it costs in the time in which a switch has to pay.
    total: float


def decide(running: Running, statistics: Statistics, options: Options, rules: Rules) -> Decision:
    """Look for a plan that is worth a switch.

    What is measured has to be of this plan alone: not of one that it goes over to, or has only just left.
    """
    return _Judge(running, statistics, replace(options, storage_bytes=0.0), rules).decision()


def worse_than_ship_all(measured: Measured, plan: Plan) -> float:
    """How many times as much as shipping everything a plan was measured to send; 0 if it is that plan, or not known."""
    sink = plan.sink
    shipped = sum(size for alias, size in measured.ship_all.items() if plan.query.ref(alias).stream.site != sink)
    if shipped <= 0 or plan == ship_all_plan(plan.query, sink, plan.policy):
        return 0.0
    return sum(measured.sent.values()) / shipped


class _Judge:
    """One decision."""

    def __init__(self, running: Running, statistics: Statistics, options: Options, rules: Rules) -> None:
        if running.plan.kept:
            raise ValueError(f"another plan requires one that keeps no joins; got {running.plan}")
        self._running, self._statistics, self._options, self._rules = running, statistics, options, rules
        self._plan = running.plan
        query, sink, policy = self._plan.query, self._plan.sink, self._plan.policy
        self._costs = Costs(query, sink, statistics, options, policy)
        self._space = self._costs.wire
        self._pace = 1.0 if running.measured is None else running.measured.pace
        self._horizon_s = rules.payback_windows * max(self._space.estimator.windows_s)
        self._now = self._costs.estimate(self._plan)
        self._all = self._costs.estimate(ship_all_plan(query, sink, policy))
        self._ship_all = self._ship_all_cost()
        self._ratio = 1.0
        self._sends, self._factor, self._needed = self._measured_cost()
        self._before = inf if self._is_cut(self._plan) else self._sends + self._excess(self._needed)

    # -- what things cost ---------------------------------------------------------------------

    def _measured_cost(self) -> tuple[float, float, Mapping[Way, float]]:
        """What runs sends; how many times as much that is as expected, if it is more; and what it needs of links."""
        found, expected = self._running.measured, max(1e-9, self._now.cost)
        if found is None or self._is_cut(self._plan):
            # What is measured while nothing gets on is no measure.
            return self._now.cost, 1.0, self._now.by_link
        cost = sum(size * self._space.links.weight(*way) for way, size in found.sent.items())
        # What waits in front of a link that is too narrow has not been sent.
        ways = dict.fromkeys([*found.sent, *self._now.by_link])
        needed = {way: max(found.sent.get(way, 0.0), self._now.by_link.get(way, 0.0)) for way in ways}
        self._ratio = cost / expected
        return cost, max(1.0, self._ratio), needed

    def _ship_all_cost(self) -> float:
        """As it is metered, with the framing that is expected of it."""
        found = self._running.measured
        if found is None:
            return self._all.cost
        cost = self._all.cost
        for copy in self._all.copies:
            metered = found.ship_all.get(copy.copy.alias)
            if metered is None or copy.already_there or copy.grows:
                continue
            weight = self._space.links.weight(copy.owner, copy.copy.holder)
            cost += weight * (metered - sum(flow.bytes_per_s for flow in copy.flows if flow.kind is Kind.SYNC))
        return cost

    def _excess(self, by_link: Mapping[Way, float]) -> float:
        """What bytes beyond what links carry count more than others."""
        over = self._over(by_link)
        return sum(size * self._space.links.weight(*way) for way, size in over.items()) * (_EXCESS_WEIGHT - 1)

    def _over(self, by_link: Mapping[Way, float]) -> dict[Way, float]:
        """By way, the bytes that are more than it carries for this query."""
        found = {}
        for way, size in by_link.items():
            carried = self._carried(way)
            if carried is not None and size * self._pace > _USABLE_SHARE * carried:
                found[way] = size - _USABLE_SHARE * carried / self._pace
        return found

    def _carried(self, way: Way) -> float | None:
        """Bytes in a second by the clock; None is not known.

        If a query lags, and sends less than it should on a way on which everything takes long, that is what it carries.
        """
        known, found = self._known(way), self._running.measured
        if (
            found is None
            or not self._running.lags
            or max(known.rtt_us or 0, self._known(way[::-1]).rtt_us or 0) < _LONG_US
        ):
            return known.bytes_per_s
        sent = found.sent.get(way, 0.0)
        if sent >= _HELD_UP_SHARE * self._now.by_link.get(way, 0.0):
            return known.bytes_per_s
        return sent * self._pace

    def _known(self, way: Way) -> LinkStats:
        return self._statistics.links.get(way, LinkStats())

    def _is_cut(self, plan: Plan) -> bool:
        return not self._running.cut.isdisjoint(links_of(plan))

    def _candidate(self, plan: Plan) -> _Candidate:
        estimate = self._costs.estimate(plan)
        # That one is not taken at what the model says.
        factor = self._running.known.get(plan, self._factor)
        expected = self._ship_all if plan == self._all.plan else estimate.cost * factor
        cost = expected + self._excess(estimate.by_link)
        nbytes, weighed = 0.0, sum(_MESSAGES_BYTES * self._space.links.weight(plan.sink, site) for site in plan.sites)
        for owner, holder, size in self._snapshots(estimate):
            nbytes += size
            weighed += size * self._space.links.weight(owner, holder)
        return _Candidate(estimate, expected, cost, nbytes, weighed, cost * self._horizon_s + weighed)

    def _snapshots(self, estimate: PlanEstimate) -> Iterator[tuple[str, str, float]]:
        """What each new copy is sent first: its own contents, and again the tuples that are asked for."""
        for each in estimate.copies:
            if self._space.syncs.runs_among(each.copy, self._running.copies):
                continue
            kept_s = self._space.estimator.kept_s[self._space.aliases.index(each.copy.alias)]
            again = self._asked_again(estimate, each.copy) * kept_s
            yield each.owner, each.copy.holder, again + self._space.syncs.snapshot(each.copy, self._running.copies)

    @staticmethod
    def _asked_again(estimate: PlanEstimate, copy: CopyKey) -> float:
        """Tuples that the owner of a copy is asked for, in a second: they have to come again into one that is empty."""
        steps = [step for head in estimate.heads for step in head.steps if step.copy == copy]
        flows = [flow for step in steps for flow in step.flows if flow.source == step.owner]
        return sum(flow.bytes_per_s for flow in flows if flow.kind is Kind.TUPLES)

    # -- what there is to choose from ---------------------------------------------------------

    def _strained(self) -> dict[Way, float]:
        found = dict.fromkeys(self._over(self._now.by_link), _EXCESS_WEIGHT)
        for one, other in self._running.cut:
            found[one, other] = found[other, one] = _CUT_WEIGHT
        return found

    def _plans(self) -> dict[Plan, str]:
        """All that are worth a look, by how they were found, without those that cannot run now."""
        plan, strained = self._plan, self._strained()
        asked = [self._statistics, *([replace(self._statistics, strained=strained)] if strained else [])]
        found = {self._all.plan: "ship-all"}
        for statistics in asked:
            choice = choose(plan.query, plan.sink, statistics, self._options, plan.policy)
            for item in choice.alternatives:
                found.setdefault(item.estimate.plan, item.name)
            found.setdefault(choice.plan, self._options.search.value)
        others = [other for other in found if other != plan and not other.kept and not self._is_cut(other)]
        return {other: found[other] for other in others}

    # -- the decision -------------------------------------------------------------------------

    def decision(self) -> Decision:
        """The plan that is cheapest over the time in which a switch has to pay, if that is worth it."""
        plans = self._plans()
        candidates = [self._candidate(plan) for plan in plans]
        if not candidates:
            return self._stay("no other plan can run now", None)
        worth = [each for each in candidates if not self._refusal(each)]
        if not worth:
            cheapest = min(candidates, key=lambda item: item.cost)
            return self._stay(self._refusal(cheapest), cheapest)
        best = min(worth, key=lambda item: item.total)
        plan = best.estimate.plan
        others = tuple(Alternative(plans[each.estimate.plan], each.estimate) for each in candidates if each is not best)
        choice = Choice(plan, best.estimate, self._all, self._options, self._statistics, others)
        figures = (self._before, best.cost, best.snapshot_bytes, self._ship_all, self._ratio)
        return Decision(plan, self._why(best), *figures, self._now, choice)

    def _stay(self, why: str, best: _Candidate | None) -> Decision:
        after, snapshot = (0.0, 0.0) if best is None else (best.cost, best.snapshot_bytes)
        return Decision(None, why, self._before, after, snapshot, self._ship_all, self._ratio, self._now)

    @property
    def _is_worse(self) -> bool:
        """Whether what runs was measured to be worse than shipping everything."""
        measured = self._running.measured is not None and self._plan != self._all.plan
        return measured and self._before > (1 + _WORSE_SHARE) * self._ship_all

    def _refusal(self, other: _Candidate) -> str:
        """Why another plan is not worth a switch; empty if it is."""
        if self._before == inf:
            return ""
        saved = self._before - other.cost
        is_known = other.estimate.plan in self._running.known
        share = self._rules.known_gain_share if is_known else self._rules.gain_share
        share = min(share, _WORSE_SHARE) if self._is_worse else share
        figures = f"the plan that runs sends {self._rate(self._sends)}, the cheapest other {self._rate(other.sends)}"
        if over := self._over(self._needed):
            figures = f"{self._too_much(over)}; {figures}"
        if saved < max(share * self._before, self._rules.gain_min / self._pace):
            return f"{figures}: a switch has to save {share:.0%}, and {_rate(self._rules.gain_min)}"
        if saved * self._horizon_s < other.snapshot_cost:
            horizon = f"{self._rules.payback_windows:g} windows, {self._horizon_s:g} s"
            return f"{figures}: within {horizon} that does not pay for {_size(other.snapshot_bytes)} of snapshots"
        return ""

    def _why(self, best: _Candidate) -> str:
        mine, other = name_of(self._now), name_of(best.estimate)
        if self._before == inf:
            ways = sorted(self._running.cut & {*links_of(self._plan)})
            links = " and ".join("-".join(way) for way in ways)
            sends = self._rate(best.sends)
            text = f"the link {links} is cut, which {mine} needs: {other} does without, and sends {sends}"
            return self._sent_first(text, best)
        over = self._over(self._needed)
        lead = self._too_much(over) if over else self._change()
        text = f"{mine} sends {self._rate(self._sends)}, {other} {self._rate(best.sends)}"
        if self._is_worse and best.estimate.plan != self._all.plan:
            text += f", shipping everything {self._rate(self._ship_all)}"
        return self._sent_first(f"{lead}: {text}" if lead else text, best)

    @staticmethod
    def _sent_first(text: str, best: _Candidate) -> str:
        plan = best.estimate.plan
        messages = _MESSAGES_BYTES * len([site for site in plan.sites if site != plan.sink])
        return f"{text}; {_size(best.snapshot_bytes + messages)} are sent first"

    def _too_much(self, over: Mapping[Way, float]) -> str:
        """Of the link that is furthest from carrying what the plan that runs needs."""
        way = max(over, key=lambda each: over[each])
        carried = (self._carried(way) or 0.0) / self._pace
        return f"the way {way[0]} to {way[1]} carries {_rate(carried)}, and {_rate(self._needed[way])} are needed there"

    def _rate(self, cost: float) -> str:
        """Where links have prices a byte counts as much as it costs."""
        return f"{_rate(cost)}{' weighed by price' if self._space.links.priced else ''}"

    def _change(self) -> str:
        """What has changed most since the plan was chosen, with both figures; nothing if little has."""
        then = self._running.chosen_by
        if then is None:
            return ""
        plan = self._plan
        before = Costs(plan.query, plan.sink, then, self._options, plan.policy).estimate(plan)
        figures = [*_streams_told(plan, then, self._statistics), *_steps_told(before, self._now)]
        figures += _links_told(self._now, then, self._statistics)
        factor, text = max(figures, key=lambda item: item[0], default=(0.0, ""))
        return f"{text} {self._running.then}" if factor >= log(_TOLD_FACTOR) else ""


# -- words ------------------------------------------------------------------------------------


def name_of(estimate: PlanEstimate) -> str:
    """How a plan joins what is at different sites, in a few words."""
    plan = estimate.plan
    if plan == ship_all_plan(plan.query, plan.sink, plan.policy):
        return "shipping everything"
    steps = [step for head in estimate.heads for step in head.steps if step.source != step.owner]
    names = list(dict.fromkeys(step.algorithm.value for step in steps))
    return " and ".join(names) or "joining in place"


def _streams_told(plan: Plan, then: Statistics, now: Statistics) -> Iterator[tuple[float, str]]:
    for ref in plan.query.streams:
        before, after = then.profiles[ref.alias].rate, now.profiles[ref.alias].rate
        text = f"{ref.stream.name} now has {after:,.3g} tuples/s, {before:,.3g}"
        yield _factor(before, after), text


def _steps_told(then: PlanEstimate, now: PlanEstimate) -> Iterator[tuple[float, str]]:
    for before, after in zip(then.heads, now.heads, strict=True):
        head = now.plan.query.ref(after.head).stream.name
        for number, (old, new) in enumerate(zip(before.steps, after.steps, strict=True)):
            stream = now.plan.query.ref(new.alias).stream.name
            of = head if number == 0 else f"what {head} has found"
            text = f"{stream} now matches {_percent(new.match)} of {of}, {_percent(old.match)}"
            yield _factor(max(old.match, _MATCH_MIN), max(new.match, _MATCH_MIN)), text


def _links_told(estimate: PlanEstimate, then: Statistics, now: Statistics) -> Iterator[tuple[float, str]]:
    for way in estimate.by_link:
        before, after = (known.links.get(way, LinkStats()).bytes_per_s for known in (then, now))
        if before and after:
            yield _factor(before, after), f"the way {way[0]} to {way[1]} now carries {_rate(after)}, {_rate(before)}"
        before, after = (known.links.get(way, LinkStats()).price_per_gb for known in (then, now))
        if before and after:
            text = f"a GB from {way[0]} to {way[1]} now costs {after:.3g}, {before:.3g}"
            yield _factor(before, after), text


def _factor(before: float, after: float) -> float:
    return abs(log(after / before)) if before > 0 and after > 0 else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= _WHOLE_PERCENT else f"{100 * share:.2g} %"


def _rate(bytes_per_s: float) -> str:
    return f"{_size(bytes_per_s)}/s"


def _size(nbytes: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} B"
