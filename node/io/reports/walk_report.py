"""The walks under way at a site, for ``narrows walks``."""

from __future__ import annotations

from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Asked, Sought, Waiting
from node.core.site import Site
from node.rpc import control_pb2 as pb


def walk_rows(site: Site, query_id: str, now_us: int) -> list[pb.WalkStatus]:
    """Those of a query, or of all if none is named; who has waited longest comes first."""
    found = [waiting for waiting in site.waiting() if query_id in ("", query_of(waiting.walk.query_id))]
    found.sort(key=lambda waiting: waiting.since_us)
    # What the engine is still asked for a query that is over is no walk any more.
    runs = [(waiting, site.runs.get(waiting.walk.query_id)) for waiting in found]
    return [_row(waiting, run, now_us) for waiting, run in runs if run is not None]


def _row(waiting: Waiting, run: QueryRun, now_us: int) -> pb.WalkStatus:
    walk = waiting.walk
    steps = run.shape.steps[walk.head]
    hop = steps[walk.step].hop
    return pb.WalkStatus(
        query_id=query_of(walk.query_id),
        generation=walk.generation,
        head=walk.head,
        first_tick=walk.span.first,
        end_tick=walk.span.end,
        rows=walk.rows.num_rows,
        keys=_keys(waiting.detail),
        step=walk.step,
        steps=len(steps),
        alias=hop.alias,
        stream=run.plan.query.ref(hop.alias).stream.name,
        algorithm=hop.algorithm,
        stage=waiting.stage,
        asked=isinstance(waiting.detail, Sought),
        cause=waiting.cause,
        seconds=max(0, now_us - waiting.since_us) / 1e6,
    )


def _keys(detail: Asked | Sought | None) -> int:
    match detail:
        case Asked():
            return detail.keys
        case Sought():
            return int(detail.keys.num_rows)
        case None:
            return 0
