"""What the sites counted of a query, put together from their statuses.

Fetches of an SM-S2 copy are asked for by walks, but only name the copy. They belong to the steps that use
it; where several do, each gets an equal share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.core.links.causes import Purpose
from node.core.queries.query_id import kept_join_of, query_of
from node.core.queries.shape import CopyNeed, Shape, needs, shape_of
from node.io.reports.switch_report import run_of
from node.rpc import control_pb2 as pb
from planner.algorithms.kinds import Kind
from planner.cost.estimates import CopyKey
from planner.explain.measurements import Measured, MeasuredStep, Sent
from planner.model.query import Plan

_WALKS_KINDS = (Kind.KEYS, Kind.TUPLES)


def measured_of(plan: Plan, query_id: str, statuses: Iterable[pb.StatusReply]) -> Measured:
    """The figures of one run of a query by this plan; a site that did not answer is simply missing.

    Those of the joins that it keeps are among them: no two parts have a head, or a copy, in common.
    """
    statuses = list(statuses)
    found = _measured(plan, query_id, statuses)
    for join, inner in zip(plan.keeps, plan.inners, strict=True):
        made = _measured(inner, kept_join_of(query_of(query_id), join.name, join.site), statuses)
        found = Measured(
            max(found.seconds, made.seconds),
            {**made.steps, **found.steps},
            {**made.results, **found.results},
            {**made.copies, **found.copies},
            (*made.control, *found.control),
            # Sites meter what would go to where a join is kept, not to the home of the query.
            None,
        )
    return found


def _measured(plan: Plan, query_id: str, statuses: list[pb.StatusReply]) -> Measured:
    """Of one part of a plan."""
    shape = shape_of(plan)
    rows = _rows(query_id, statuses)
    steps: dict[tuple[str, int], list[Sent]] = {(step.head, step.number): [] for step in shape.all_steps}
    results: dict[str, list[Sent]] = {head: [] for head in plan.query.aliases}
    copies: dict[CopyKey, list[Sent]] = {_key(copy): [] for copy in shape.needs}
    control: list[Sent] = []
    for status in statuses:
        for sent in (sent for sent in status.traffic if sent.query_id == query_id):
            parts = list(_parts(status.site, sent))
            match sent.purpose:
                case Purpose.STEP:
                    steps.setdefault((sent.name, sent.number), []).extend(parts)
                case Purpose.RESULTS:
                    results.setdefault(sent.name, []).extend(parts)
                case Purpose.COPY:
                    _add_copy(shape, sent, parts, steps, copies)
                case _:
                    control += parts
    views = [view for status in statuses for view in status.views if run_of(view) == query_id]
    return Measured(
        max((view.span_us for view in views), default=0) / 1e6,
        {
            (head, number): MeasuredStep(rows.get((head, number), 0), rows.get((head, number + 1), 0), tuple(parts))
            for (head, number), parts in steps.items()
        },
        {head: tuple(parts) for head, parts in results.items()},
        {key: tuple(parts) for key, parts in copies.items()},
        tuple(control),
        float(sum(view.ship_all_bytes for view in views)),
    )


def _rows(query_id: str, statuses: list[pb.StatusReply]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for step in (step for status in statuses for step in status.steps if step.query_id == query_id):
        found[step.head, step.step] = found.get((step.head, step.step), 0) + step.rows
    return found


def _parts(site: str, sent: pb.TrafficStatus) -> Iterator[Sent]:
    yield Sent(site, sent.peer, Kind(sent.kind), sent.bytes)
    yield Sent(site, sent.peer, Kind.FRAMING, sent.framing_bytes)


def _add_copy(
    shape: Shape,
    sent: pb.TrafficStatus,
    parts: list[Sent],
    steps: dict[tuple[str, int], list[Sent]],
    copies: dict[CopyKey, list[Sent]],
) -> None:
    copy = _copy(shape, sent)
    if copy is None:
        return
    users = [(step.head, step.number) for step in shape.all_steps if needs(step, copy)]
    if sent.kind not in _WALKS_KINDS or not users:
        copies[_key(copy)] += parts
        return
    for user in users:
        steps[user] += [Sent(part.source, part.target, part.kind, part.nbytes / len(users)) for part in parts]


def _copy(shape: Shape, sent: pb.TrafficStatus) -> CopyNeed | None:
    """Copies are known by their number among the query's needs."""
    return next((need for need in shape.needs if need.number == sent.number), None)


def _key(copy: CopyNeed) -> CopyKey:
    return CopyKey(copy.kind, copy.alias, copy.keys, copy.holder)
