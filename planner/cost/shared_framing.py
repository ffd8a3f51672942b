"""Which messages of a plan leave together, so that what frames them is shared: known only for a plan as a whole.

A search decides step by step, and takes each message to cost the usual framing (``planner.algorithms.traffic``). Plans
that run together, of a query and of the joins that are kept for it, share it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from planner.algorithms.framing import Mail, posted
from planner.algorithms.kinds import Kind
from planner.algorithms.traffic import ENDING_BYTES
from planner.cost.estimates import CopyEstimate, CopyKey, Flow, HeadEstimate
from planner.cost.wire_model import WireSpace
from planner.model.query import Plan

#: Our own part of the sink's news of what is done.
_DONE_BYTES = 20.0

#: To what mail belongs: a head's step, a head's rows, a copy, or to none of them.
_Part = tuple[str, int] | str | CopyKey | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan's parts, with the usual framing."""

    space: WireSpace
    plan: Plan
    heads: list[HeadEstimate]
    copies: tuple[CopyEstimate, ...]


@dataclass(frozen=True, slots=True)
class Framed:
    """The parts of an estimate with the framing that they have in this plan."""

    heads: list[HeadEstimate]
    copies: tuple[CopyEstimate, ...]
    #: What comes with any plan: the sink's news of what is done.
    control: tuple[Flow, ...]


def with_framing(drafts: Sequence[Draft], costed: bool) -> list[Framed]:
    """Framing as it is shared in these plans in place of the usual one, and news of walks that end without rows."""
    posts = [(place, part, mail) for place, draft in enumerate(drafts) for part, mail in _posts(draft)]
    tick_s = min(batch_s for draft in drafts for batch_s in draft.space.estimator.batches_s)
    flows: list[dict[_Part, list[Flow]]] = [{} for _ in drafts]
    for (place, part, mail), found in zip(posts, posted([mail for _, _, mail in posts], tick_s), strict=True):
        own = flows[place].setdefault(part, [])
        own.append(Flow(mail.source, mail.target, Kind.FRAMING, found.framing_bytes))
        if mail.news:
            kind, size = (Kind.CONTROL, _DONE_BYTES) if part is None else (Kind.RESULTS, ENDING_BYTES)
            own.append(Flow(mail.source, mail.target, kind, found.messages * size))
    return [_framed(draft, own, costed) for draft, own in zip(drafts, flows, strict=True)]


def _posts(draft: Draft) -> Iterator[tuple[_Part, Mail]]:
    """All mail of a plan."""
    space, plan = draft.space, draft.plan
    for head in draft.heads:
        yield from _walks(space, head)
    for each in draft.copies:
        # A copy that runs, and grows, is sent its part in messages that leave anyway.
        if each.flows and not each.already_there and not each.grows:
            yield each.copy, _sync(space, each)
    for site in plan.sites:
        if site != plan.sink:
            yield None, _done(space, plan, site)


def _framed(draft: Draft, flows: dict[_Part, list[Flow]], costed: bool) -> Framed:
    return Framed(
        [_framed_head(draft.space, head, flows, costed) for head in draft.heads],
        tuple(_framed_copy(draft.space, each, flows.get(each.copy, ())) for each in draft.copies),
        _summed(flows.get(None, ())),
    )


def _framed_head(space: WireSpace, head: HeadEstimate, flows: dict[_Part, list[Flow]], costed: bool) -> HeadEstimate:
    steps = []
    for number, step in enumerate(head.steps):
        changed = _replaced(step.flows, flows.get((head.head, number), ()))
        more = space.cost_of(changed) - space.cost_of(step.flows) if costed else 0.0
        steps.append(replace(step, flows=changed, cost=step.cost + more))
    return replace(head, steps=tuple(steps), results=_replaced(head.results, flows.get(head.head, ())))


def _framed_copy(space: WireSpace, each: CopyEstimate, framing: Iterable[Flow]) -> CopyEstimate:
    flows = _replaced(each.flows, framing)
    return replace(each, flows=flows, cost=each.cost + space.cost_of(flows) - space.cost_of(each.flows))


def _replaced(flows: Iterable[Flow], others: Iterable[Flow]) -> tuple[Flow, ...]:
    return _summed([*(flow for flow in flows if flow.kind is not Kind.FRAMING), *others])


def _summed(flows: Iterable[Flow]) -> tuple[Flow, ...]:
    """Flows of the same kind by the same way as one."""
    sums: dict[tuple[str, str, Kind], float] = {}
    for flow in flows:
        way = (flow.source, flow.target, flow.kind)
        sums[way] = sums.get(way, 0.0) + flow.bytes_per_s
    return tuple(Flow(*way, size) for way, size in sums.items() if size > 0)


# -- mail -------------------------------------------------------------------------------------


def _walks(space: WireSpace, head: HeadEstimate) -> Iterator[tuple[_Part, Mail]]:
    """A head's messages, step by step, its rows, and where it ends without any."""
    estimator, number = space.estimator, space.aliases.index(head.head)
    own = space.sites[number]
    path = (own,) if head.start == own else (own, head.start)
    joined, left = 1 << number, estimator.carry(number, 1 << number).batches
    yield from _ended(space, head, head.start, head.batches_per_s - left)
    for place, step in enumerate(head.steps):
        following = space.aliases.index(step.alias)
        if step.source != step.owner:
            sent = space.step_bytes(number, joined, following)
            turns = space.traffic_of(sent, step.algorithm, step.copy).turns
            for turn, per_s in enumerate(turns):
                way = (step.source, step.owner) if turn % 2 == 0 else (step.owner, step.source)
                yield (
                    (head.head, place),
                    Mail(*way, per_s, head.head, (*path, *_visited(step.source, step.owner, turn))),
                )
            if not step.algorithm.spec.mostly_silent:
                path = (*path, *_visited(step.source, step.owner, len(turns)))
        joined |= 1 << following
        remaining = min(left, estimator.carry(number, joined).batches)
        ending = step.owner if step.algorithm.spec.ends_there else step.source
        yield from _ended(space, head, ending, left - remaining)
        left = remaining
    last = head.steps[-1].site if head.steps else head.start
    if last != space.sink:
        yield head.head, Mail(last, space.sink, left, head.head, path)


def _visited(source: str, owner: str, turns: int) -> tuple[str, ...]:
    """The sites at which a step has been when ``turns`` of its messages have gone, from the owner on."""
    return tuple(owner if turn % 2 == 0 else source for turn in range(turns))


def _ended(space: WireSpace, head: HeadEstimate, site: str, per_s: float) -> Iterator[tuple[_Part, Mail]]:
    if site != space.sink and per_s > 0:
        yield head.head, Mail(site, space.sink, per_s, news=True)


def _sync(space: WireSpace, each: CopyEstimate) -> Mail:
    alias = each.copy.alias
    batches = 1 / space.estimator.batches_s[space.aliases.index(alias)]
    return Mail(each.owner, each.copy.holder, batches, alias, (each.owner,))


def _done(space: WireSpace, plan: Plan, site: str) -> Mail:
    """Each walk that is done is news for all sites."""
    return Mail(plan.sink, site, sum(1 / batch_s for batch_s in space.estimator.batches_s), news=True)
