"""``stats.json``: what a run did, in figures. Its keys are a contract."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from node.core.queries.query_id import kept_join_of, kept_stream_of
from node.io.reports.latency import percentile_us
from node.rpc import control_pb2 as pb

STATS_VERSION = 2


def run_stats(
    plan_json: str,
    info: pb.QueryInfo,
    rows: int,
    seconds: float,
    statuses: Mapping[str, pb.StatusReply],
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The whole of stats.json."""
    plan = json.loads(plan_json)
    joins = {join["name"]: kept_join_of(info.query_id, join["name"], join["site"]) for join in plan.get("kept", ())}
    # What makes a join that is kept belongs to the query; a head, or a copy, is of one of them.
    runs, derived = (info.query_id, *joins.values()), [kept_stream_of(run) for run in joins.values()]
    streams = [stream for status in statuses.values() for stream in status.streams]
    tuples = sum(stream.rows for stream in streams if stream.name not in derived)
    views = [view for status in statuses.values() for view in status.views if view.query_id in runs]
    return {
        "version": STATS_VERSION,
        "query": info.text,
        "query_id": info.query_id,
        "state": info.state,
        "plan": plan,
        "warnings": list(warnings),
        "rows": rows,
        "seconds": round(seconds, 3),
        "tuples_per_second": round(tuples / max(seconds, 1e-9), 1),
        "emit_latency_ms": _latency(info),
        "sites": {site: _site(status) for site, status in statuses.items()},
        "streams": {stream.name: _stream(site, stream) for site, s in statuses.items() for stream in s.streams},
        "links": [_link(site, link) for site, status in statuses.items() for link in status.links],
        "ship_all_bytes": _ship_all_bytes([view for view in views if view.alias not in joins]),
        "steps": step_stats(runs, statuses),
        "sent": traffic_stats(runs, statuses),
        "probes": probe_stats(info.query_id, statuses),
        "copies": [
            _copy(site, copy)
            for site, status in statuses.items()
            for copy in status.copies
            if any(user in runs for user in (copy.query_id, *copy.users))
        ],
    }


def _ship_all_bytes(views: Sequence[pb.ViewStatus]) -> dict[str, int]:
    """By stream; a query that began again, or went over to another plan, was counted for each time."""
    found: dict[str, int] = {}
    for view in views:
        found[view.alias] = found.get(view.alias, 0) + view.ship_all_bytes
    return found


def _latency(info: pb.QueryInfo) -> dict[str, float | None]:
    buckets = list(zip(info.latency_us_buckets, info.latency_rows, strict=True))
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    values = {name: percentile_us(buckets, share) for name, share in shares.items()}
    return {name: None if value is None else value / 1000 for name, value in values.items()}


def _site(status: pb.StatusReply) -> dict[str, Any]:
    return {
        "processing_seconds": round(status.engine_seconds + status.core_seconds, 4),
        "engine_seconds": round(status.engine_seconds, 4),
        "core_seconds": round(status.core_seconds, 4),
        "cpu_seconds": round(status.cpu_seconds, 4),
        "peak_rss_bytes": status.rss_bytes,
        "ignored": dict(status.ignored),
        "engine": _engine(status.engine),
    }


def _engine(engine: pb.EngineStatus) -> dict[str, Any]:
    """What ran the joins; of Spark also how it did. A job's time is wall time."""
    if not engine.version:
        return {"name": engine.name}
    return {
        "name": engine.name,
        "master": engine.master,
        "version": engine.version,
        "jobs": engine.jobs,
        "job_ms_median": round(engine.job_ms_median, 2) if engine.HasField("job_ms_median") else None,
        "job_ms_last": round(engine.job_ms_last, 2) if engine.HasField("job_ms_last") else None,
        "windows_rebuilt": engine.rebuilt,
        "restarts": engine.restarts,
    }


def _stream(site: str, stream: pb.StreamStatus) -> dict[str, Any]:
    logged = {"rows": stream.logged_rows, "bytes": stream.logged_bytes}
    return {"site": site, "rows": stream.rows, "aside": stream.aside, "state": stream.state, "logged": logged}


def _link(site: str, link: pb.LinkStatus) -> dict[str, Any]:
    by_kind = dict(sorted(link.sent_bytes.items()))
    return {
        "from": site,
        "to": link.peer,
        "bytes": sum(by_kind.values()),
        "bytes_by_kind": by_kind,
        "round_trip_ms": link.rtt_us / 1000 if link.HasField("rtt_us") else None,
        "bytes_per_second": round(link.bytes_per_s) if link.HasField("bytes_per_s") else None,
        "reconnects": link.reconnects,
        "duplicates": link.duplicates,
    }


def step_stats(runs: Collection[str], statuses: Mapping[str, pb.StatusReply]) -> list[dict[str, Any]]:
    """Rows of each head's walks before each step; those after the last are results. Summed over sites."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for step in (step for status in statuses.values() for step in status.steps if step.query_id in runs):
        rows, walks = found.get((step.head, step.step), (0, 0))
        found[step.head, step.step] = rows + step.rows, walks + step.walks
    return [
        {"head": head, "step": step, "rows": rows, "walks": walks}
        for (head, step), (rows, walks) in sorted(found.items())
    ]


def traffic_stats(runs: Collection[str], statuses: Mapping[str, pb.StatusReply]) -> list[dict[str, Any]]:
    """What was sent for each step, copy and head's results, without what was repeated after a reconnect."""
    return [
        {
            "for": sent.purpose,
            "name": sent.name,
            "number": sent.number,
            "from": site,
            "to": sent.peer,
            "kind": sent.kind,
            "messages": sent.messages,
            "bytes": sent.bytes,
            "framing_bytes": round(sent.framing_bytes, 1),
        }
        for site, status in statuses.items()
        for sent in status.traffic
        if sent.query_id in runs
    ]


def probe_stats(query_id: str, statuses: Mapping[str, pb.StatusReply]) -> dict[str, int]:
    """How often, at all sites, a probe could be wrong; all zero under policy ``frontier``."""
    found = [probes for status in statuses.values() for probes in status.probes if probes.query_id == query_id]
    return {
        "delta_us": max((probes.delta_us for probes in found), default=0),
        "early": sum(probes.early for probes in found),
        "late": sum(probes.late for probes in found),
    }


def _copy(site: str, copy: pb.CopyStatus) -> dict[str, Any]:
    """One half of a copy as it was when the query ended."""
    return {
        "site": site,
        "alias": copy.alias,
        "stream": copy.stream,
        "kind": copy.kind,
        "half": copy.role,
        "other_site": copy.peer,
        "keys": copy.keys,
        "tuples": copy.tuples,
        "memory_bytes": copy.nbytes,
    }
