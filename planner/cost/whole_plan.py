"""What a whole plan is expected to send: its walks, its copies once each, its rows, and what comes with any plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.algorithms.descriptions import LOCAL_CPU_S, Algorithm, CopyKind
from planner.algorithms.kinds import Kind
from planner.cost.estimates import (
    CopyEstimate,
    CopyKey,
    Flow,
    HeadEstimate,
    KeptEstimate,
    PlanEstimate,
    StepEstimate,
)
from planner.cost.link_weights import MONTH_S
from planner.cost.paper_model import PaperSpace
from planner.cost.shared_framing import Draft, with_framing
from planner.cost.wire_model import WireSpace
from planner.estimate.derived import KeptRows
from planner.model.plans import route, start_of
from planner.model.query import Plan


def plan_estimate(space: WireSpace, plan: Plan, paper: PaperSpace | None = None) -> PlanEstimate:
    """Estimate a plan; with ``paper``, its cost is what the paper's formulas say, and only bytes are ours."""
    (estimate,) = _estimates([_draft(space, plan, paper)], paper)
    return estimate


def tree_estimate(
    asked: WireSpace, plan: Plan, outer: WireSpace, inners: Sequence[WireSpace], rows: Sequence[KeptRows]
) -> PlanEstimate:
    """Estimate a plan that keeps joins, all of it together.

    ``asked`` has the costs of the query as it was asked, ``outer`` those of the query that reads what is kept; of each
    kept join ``inners`` has those of the query that makes it, and ``rows`` what is expected of its rows.
    """
    drafts = [_draft(space, inner, None) for space, inner in zip(inners, plan.inners, strict=True)]
    *made, own = _estimates([*drafts, _draft(outer, plan, None)], None)
    found = tuple(KeptEstimate(*each) for each in zip(plan.kept, made, rows, strict=True))
    cost = sum(estimate.cost for estimate in (*made, own))
    whole = replace(own, kept=found, cost=cost, lower_bound_bytes_per_s=_lower_bound(asked))
    return replace(whole, money_per_month=_money(outer, whole))


def _draft(space: WireSpace, plan: Plan, paper: PaperSpace | None) -> Draft:
    heads = [_head(space, plan, head, paper) for head in plan.query.aliases]
    shares = _sent_once(space, heads)
    heads = [_with_shares(space, head, shares, paper is None) for head in heads]
    copies = _copies(space, plan, heads)
    return Draft(space, plan, *_pushed(space, heads, copies, paper is None))


def _estimates(drafts: Sequence[Draft], paper: PaperSpace | None) -> list[PlanEstimate]:
    """Of plans that run together."""
    found = []
    for draft, framed in zip(drafts, with_framing(drafts, paper is None), strict=True):
        space, plan, heads, copies = draft.space, draft.plan, framed.heads, framed.copies
        cost = sum(step.cost for head in heads for step in head.steps)
        if paper is None:
            cost += sum(copy.cost for copy in copies) + space.cost_of(framed.control)
            cost += sum(_ends_cost(space, plan, head) for head in heads)
        else:
            cost += sum(paper.start_cost(space.aliases.index(head.head), head.start) for head in heads)
        estimate = PlanEstimate(plan, tuple(heads), copies, framed.control, cost, None, _lower_bound(space))
        found.append(replace(estimate, money_per_month=_money(space, estimate)))
    return found


def _head(space: WireSpace, plan: Plan, head: str, paper: PaperSpace | None) -> HeadEstimate:
    number, estimator = space.aliases.index(head), space.estimator
    joined, site = 1 << number, start_of(plan, head)
    delay = space.links.delay_s(space.sites[number], site)
    steps: list[StepEstimate] = []
    for hop in route(plan, head):
        following = space.aliases.index(hop.alias)
        step = _step(space, number, joined, following, hop.algorithm, site)
        if paper is not None:
            step = replace(step, cost=_paper_cost(paper, number, joined, site, following, hop.algorithm))
        steps.append(step)
        delay += step.delay_s
        joined, site = joined | 1 << following, hop.site
    results = space.row_flows(number, site)
    delay += space.links.delay_s(site, space.sink)
    return HeadEstimate(
        head=head,
        start=start_of(plan, head),
        rows_per_s=estimator.rates[number],
        batches_per_s=1 / estimator.batches_s[number],
        steps=tuple(steps),
        results=results,
        rows_out=estimator.rows(number, estimator.all_streams),
        delay_s=delay,
    )


def _step(space: WireSpace, head: int, joined: int, following: int, algorithm: Algorithm, site: str) -> StepEstimate:
    step, owner = space.step_bytes(head, joined, following), space.sites[following]
    stats = step.stats
    remote = site != owner
    copy = space.copy_key(algorithm, following, step.keys, site) if remote else None
    traffic = space.traffic_of(step, algorithm, copy)
    flows = space.step_flows(traffic, site, owner)
    delay = space.step_delay_s(stats, traffic, site, owner) if remote else 0.0
    cpu_s = stats.carry.rows * (algorithm.spec.cpu_s if remote else LOCAL_CPU_S)
    cost = space.cost_of(flows) + delay * space.links.delay_weight + cpu_s * space.links.cpu_weight
    return StepEstimate(
        alias=space.aliases[following],
        algorithm=algorithm,
        source=site,
        owner=owner,
        site=site if algorithm.at_source else owner,
        rows_in=stats.carry.rows,
        keys=stats.keys,
        match=stats.match,
        rows_out=stats.rows_out,
        flows=flows,
        delay_s=delay,
        cost=cost,
        copy=copy,
    )


def _paper_cost(paper: PaperSpace, head: int, joined: int, site: str, following: int, algorithm: Algorithm) -> float:
    moves = paper.moves(head, joined, site, following)
    return next((move.cost for move in moves if move.algorithm is algorithm), moves[0].cost)


def _sent_once(space: WireSpace, heads: list[HeadEstimate]) -> Mapping[CopyKey, float]:
    """For each W' or M that several steps share: how much of what they would each be sent is sent.

    A tuple goes to a holder once, whoever asks.
    """
    asked: dict[CopyKey, list[float]] = {}
    for head in heads:
        joined = 1 << space.aliases.index(head.head)
        for step in head.steps:
            following = space.aliases.index(step.alias)
            share_of = None if step.copy is None else step.copy.kind.spec.share
            if step.copy is not None and share_of is not None:
                stats = space.step_bytes(space.aliases.index(head.head), joined, following).stats
                asked.setdefault(step.copy, []).append(min(1.0, share_of(stats)))
            joined |= 1 << following
    found = {}
    for copy, shares in asked.items():
        missed = 1.0
        for share in shares:
            missed *= 1 - share
        if len(shares) > 1 and sum(shares) > 0:
            found[copy] = (1 - missed) / sum(shares)
    return found


def _with_shares(space: WireSpace, head: HeadEstimate, shares: Mapping[CopyKey, float], costed: bool) -> HeadEstimate:
    steps = []
    for step in head.steps:
        share = shares.get(step.copy) if step.copy is not None else None
        if share is None:
            steps.append(step)
            continue
        flows = tuple(
            replace(flow, bytes_per_s=flow.bytes_per_s * share)
            if flow.source == step.owner and flow.kind in (Kind.TUPLES, Kind.SYNC)
            else flow
            for flow in step.flows
        )
        less = space.cost_of(step.flows) - space.cost_of(flows) if costed else 0.0
        steps.append(replace(step, flows=flows, cost=step.cost - less))
    return replace(head, steps=tuple(steps))


def _pushed(
    space: WireSpace, heads: list[HeadEstimate], copies: tuple[CopyEstimate, ...], costed: bool
) -> tuple[list[HeadEstimate], tuple[CopyEstimate, ...]]:
    """Tuples that are pushed to M because steps asked for their keys come with its sync, and are counted there."""
    pushed: dict[CopyKey, list[Flow]] = {}
    changed = []
    for head in heads:
        steps = []
        for step in head.steps:
            moved = tuple(flow for flow in step.flows if flow.kind is Kind.SYNC)
            if step.copy is not None and moved:
                pushed.setdefault(step.copy, []).extend(moved)
                kept = tuple(flow for flow in step.flows if flow.kind is not Kind.SYNC)
                less = space.cost_of(moved) if costed else 0.0
                steps.append(replace(step, flows=kept, cost=step.cost - less))
            else:
                steps.append(step)
        changed.append(replace(head, steps=tuple(steps)))
    grown = []
    for each in copies:
        more = tuple(pushed.get(each.copy, ()))
        grown.append(replace(each, flows=(*each.flows, *more), cost=each.cost + space.cost_of(more)))
    return changed, tuple(grown)


def _copies(space: WireSpace, plan: Plan, heads: list[HeadEstimate]) -> tuple[CopyEstimate, ...]:
    users: dict[CopyKey, list[str]] = {}
    for head in heads:
        site = plan.query.ref(head.head).stream.site
        if head.start != site:
            users.setdefault(CopyKey(CopyKind.FULL, head.head, (), head.start), []).append(head.head)
        for step in head.steps:
            if step.copy is not None:
                users.setdefault(step.copy, []).append(head.head)
    found, timed = [], dict[tuple[str, str], None]()
    for copy in sorted(users):
        flows = space.syncs.flows(copy)
        if times := space.syncs.times_bytes(copy):
            if (copy.alias, copy.holder) in timed:
                flows = _without_times(space, copy, times, flows)
            timed[copy.alias, copy.holder] = None
        owner = plan.query.ref(copy.alias).stream.site
        there, grows = space.syncs.running(copy) is not None, space.syncs.grows(copy)
        found.append(CopyEstimate(copy, owner, tuple(users[copy]), flows, space.cost_of(flows), there, grows))
    return tuple(found)


def _without_times(space: WireSpace, copy: CopyKey, times: float, flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """Times that another copy at the same site was sent before are not new to the compressor."""
    size = space.estimator.rates[space.aliases.index(copy.alias)] * times
    return tuple(
        replace(flow, bytes_per_s=flow.bytes_per_s - size) if flow.kind is Kind.SYNC else flow for flow in flows
    )


def _ends_cost(space: WireSpace, plan: Plan, head: HeadEstimate) -> float:
    """How the walks of a head get to their start, and its rows to the sink."""
    site = plan.query.ref(head.head).stream.site
    last = head.steps[-1].site if head.steps else head.start
    delay = space.links.delay_s(site, head.start) + space.links.delay_s(last, space.sink)
    return space.cost_of(head.results) + delay * space.links.delay_weight


def _money(space: WireSpace, estimate: PlanEstimate) -> float | None:
    if not space.links.priced:
        return None
    priced = [(size, space.links.price(*link)) for link, size in estimate.by_link.items()]
    return sum(size * price for size, price in priced if price is not None) * MONTH_S / 1e9


def _lower_bound(space: WireSpace) -> float:
    """Every tuple that is in some result, at a site other than the sink, once, without frames."""
    estimator, total = space.estimator, 0.0
    everything = estimator.all_streams
    for number, site in enumerate(space.sites):
        rate = estimator.rates[number]
        if site == space.sink or rate <= 0:
            continue
        missed = 1.0
        for head in range(len(space.aliases)):
            carry = estimator.carry(head, everything)
            missed *= 1 - min(1.0, (carry.heads if head == number else carry.rows) / rate)
        total += rate * (1 - missed) * space.sizes.tuple_bytes(number)
    return total
