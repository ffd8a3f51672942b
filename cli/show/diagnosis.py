"""What is going on in a cluster, in words: what a person should know, the most important first.

A pure function of what the sites say about themselves. Each line says who, what, since when, what that means and,
where there is something to do, what. What is normal is not said: links that are up, streams that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cli.asking import NotReady
from cli.show.spans import span
from cli.show.switches import switch_notes
from cli.show.tables import size_text, tick_time
from node.core.status import LOGS_FULL
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

Statuses = Mapping[str, pb.StatusReply | str]

#: Links ping every 4 s and give a silent peer up after 10 s: one that missed a ping is worth a line.
SILENT_S = 6.0
#: Acknowledgements wait up to 2 s for company; what waits longer than this waits for the link.
BEHIND_S = 5.0
#: A stream that moves at all moves with every tick; reading, and rows that readers take, are noticed each second.
STILL_S = 4.0
UNREAD_S = 4.0
PAUSED_S = 3.0
PREPARING_S = 3.0
#: So many reconnects in a minute are no accident.
FLAPS = 3
#: A round trip is long if it takes so many times as long as the shortest one did, and this much more.
_TRIPS = 4
#: What the reader is called that no one has named.
_DEFAULT = "default"
_TRIP_US = 200_000
#: Of so many queries it is said what logs keep for them.
_KEPT_MAX = 3


def diagnosis(statuses: Statuses, tau_ms: int) -> list[str]:
    """One line per thing to know; one line that all is well if there is none. ``statuses``: a reply, or why none."""
    cluster = _Cluster(statuses, tau_ms)
    troubles = [
        *_silent_sites(cluster),
        *_ended_queries(cluster),
        *_wrong_moments(cluster),
        *_failed_streams(cluster),
        *_restarting_sparks(cluster),
        *_links(cluster),
        *_preparing(cluster),
        *_recovering(cluster),
        *_reading_again(cluster),
        *_still_streams(cluster),
        *_unread(cluster),
        *_full_logs(cluster),
        *_full_disks(cluster),
        *_paused_streams(cluster),
    ]
    return [*(troubles or [_all_is_well(cluster)]), *switch_notes(cluster.queries), *_set_aside(cluster)]


@dataclass(frozen=True)
class _Link:
    """A link as its two ends see it; one end, if the other site does not answer."""

    sites: tuple[str, str]
    ends: tuple[tuple[str, pb.LinkStatus], ...]

    @property
    def name(self) -> str:
        return "-".join(self.sites)

    @property
    def backlog_bytes(self) -> int:
        return sum(end.backlog_bytes for _, end in self.ends)

    @property
    def down(self) -> list[pb.LinkStatus]:
        """The ends for which it is not up; the one that dials first, which knows why."""
        return [end for _, end in self.ends if end.state != "up"]


class _Cluster:
    """The answers, by what they are about."""

    def __init__(self, statuses: Statuses, tau_ms: int) -> None:
        self.tau_ms = tau_ms
        self.silent = {site: status for site, status in statuses.items() if isinstance(status, str)}
        self.answering = {site: status for site, status in statuses.items() if isinstance(status, pb.StatusReply)}
        self.queries = [query for status in self.answering.values() for query in status.queries]
        self.streams = [(site, stream) for site, status in self.answering.items() for stream in status.streams]
        self.links = [*self._joined()]

    def _joined(self) -> Iterator[_Link]:
        pairs: dict[tuple[str, str], list[tuple[str, pb.LinkStatus]]] = {}
        for site, status in sorted(self.answering.items()):
            for link in status.links:
                one, other = sorted((site, link.peer))
                pairs.setdefault((one, other), []).append((site, link))
        for sites, ends in sorted(pairs.items()):
            yield _Link(sites, tuple(ends))

    def at(self, site: str) -> list[str]:
        """Queries that need the site."""
        return [query.query_id for query in self.queries if site in query.sites]

    def across(self, link: _Link) -> list[str]:
        """Queries that send something over the link."""
        return [query.query_id for query in self.queries if link.name in query.links]

    def readers(self, stream: str) -> list[str]:
        """Queries that run and read the stream."""
        return [query.query_id for query in self.queries if query.state == "running" and stream in query.streams]


# -- what is wrong -----------------------------------------------------------------------------


def _silent_sites(cluster: _Cluster) -> Iterator[str]:
    for site, reason in cluster.silent.items():
        if isinstance(reason, NotReady):
            yield reason
            continue
        said = reason.removeprefix(f"site {site} ")
        unheard = [
            (other, max(end.silent_seconds, end.state_seconds if end.state != "up" else 0.0))
            for other, status in cluster.answering.items()
            for end in status.links
            if end.peer == site
        ]
        late = [(other, seconds) for other, seconds in unheard if seconds >= SILENT_S]
        parts = [f"site {site} does not answer ({said})"]
        if late:
            others = _listed([other for other, _ in late])
            parts.append(f"{others} {_have(late)} not heard it for {span(max(seconds for _, seconds in late))}")
        parts += [f"{other} heard it {span(seconds)} ago" for other, seconds in unheard if seconds < SILENT_S]
        waiting = cluster.at(site)
        effect = f": {_waits(waiting)}, and goes on when it is back" if waiting and late else ""
        yield f"{'; '.join(parts)}{effect}"


def _ended_queries(cluster: _Cluster) -> Iterator[str]:
    for status in cluster.answering.values():
        for query in status.ended:
            if query.state == "failed":
                yield f"query {query.query_id} failed {span(query.state_seconds)} ago: {query.reason}"
            if query.unread_rows and not query.followed:
                yield (
                    f"query {query.query_id} has ended ({query.state}), and {_rows(query)} wait at {status.site} that "
                    f"{_takers(query)} taken: narrows follow {query.query_id} takes them, "
                    f"narrows drop {query.query_id} forgets them"
                )


def _takers(query: pb.QueryBrief) -> str:
    """Who has not, in words."""
    names = [reader.name for reader in query.readers if reader.lag_rows]
    return "nobody has" if names in ([], [_DEFAULT]) else f"{_listed(names)} {_have(names)} not"


def _wrong_moments(cluster: _Cluster) -> Iterator[str]:
    """Policy delta: that its assumption did not hold."""
    for query in cluster.queries:
        probes = [
            probes
            for status in cluster.answering.values()
            for probes in status.probes
            if probes.query_id == query.query_id and probes.early + probes.late
        ]
        if probes:
            early, late = sum(each.early for each in probes), sum(each.late for each in probes)
            delta_ms = max(each.delta_us for each in probes) / 1000
            yield (
                f"query {query.query_id} goes by the clock, and delays exceeded its delta of {delta_ms:,.0f} ms: "
                f"{early:,} probes were too early and {late:,} too late, so rows may be missing; "
                "policy frontier, or a larger delta, prevents it"
            )


def _failed_streams(cluster: _Cluster) -> Iterator[str]:
    for site, stream in cluster.streams:
        if stream.state == "failed":
            yield f"stream {stream.name} at {site} failed: {stream.reason}; mend its source and restart {site}"


def _restarting_sparks(cluster: _Cluster) -> Iterator[str]:
    for site, status in cluster.answering.items():
        seconds = status.engine.restarting_seconds
        if seconds:
            what = "what it joins and reads" if status.engine.name == "spark" else "what it reads"
            yield f"Spark at {site} died and is being started again for {span(seconds)}: {what} waits, nothing is lost"


# -- links -------------------------------------------------------------------------------------


def _links(cluster: _Cluster) -> Iterator[str]:
    """Of each link the worst, what is now before what was lately; what a silent site explains is said with it."""
    seen = [link for link in cluster.links if not set(link.sites) & set(cluster.silent)]
    for tell in (_down, _unheard, _behind, _far, _flapping):
        told = [(link, line) for link in seen if (line := tell(cluster, link))]
        yield from (line for _, line in told)
        seen = [link for link in seen if all(link is not other for other, _ in told)]


def _down(cluster: _Cluster, link: _Link) -> str:
    if not link.down:
        return ""
    end = link.down[0]
    later = f"; {size_text(link.backlog_bytes)} will be sent when it is back" if link.backlog_bytes else ""
    often = _often(link)
    why = end.trouble or end.state
    return f"link {link.name} is down for {span(end.state_seconds)}{often} ({why}){_effect(cluster, link)}{later}"


def _unheard(cluster: _Cluster, link: _Link) -> str:
    silent = [(site, end) for site, end in link.ends if end.silent_seconds >= SILENT_S]
    if not silent:
        return ""
    site, end = max(silent, key=lambda pair: pair[1].silent_seconds)
    again = "it is given up and dialled again after 10 s of silence"
    return (
        f"link {link.name} is silent: {site} has heard nothing from {end.peer} for {span(end.silent_seconds)}; "
        f"{again}{_effect(cluster, link)}"
    )


def _flapping(cluster: _Cluster, link: _Link) -> str:
    flaps = max(end.reconnects_lately for _, end in link.ends)
    if flaps < FLAPS:
        return ""
    lost = f"it was lost {flaps} times in the last minute"
    return f"link {link.name} is unsteady: {lost}, and is up now{_later(cluster, link)}"


def _often(link: _Link) -> str:
    flaps = max(end.reconnects_lately for _, end in link.ends)
    return f", lost {flaps} times in the last minute" if flaps >= FLAPS else ""


def _behind(cluster: _Cluster, link: _Link) -> str:
    behind = [(site, end) for site, end in link.ends if end.behind_seconds >= BEHIND_S]
    if not behind:
        return ""
    # Acknowledgements of one direction wait in the other: the one with more in it is the one that is full.
    site, end = max(behind, key=lambda pair: pair[1].backlog_bytes)
    rate = end.delivered_per_s
    pace = (
        f"at the {size_text(round(rate))}/s of the last seconds that takes {span(end.backlog_bytes / rate)}"
        if rate >= 1
        else "none of it was acknowledged in the last seconds"
    )
    return (
        f"link {link.name} is saturated from {site} to {end.peer}{_often(link)}: "
        f"{size_text(end.backlog_bytes)} wait, the oldest for {span(end.behind_seconds)}; "
        f"{pace}{_effect(cluster, link)}"
    )


def _far(cluster: _Cluster, link: _Link) -> str:
    far = [end for _, end in link.ends if end.rtt_us >= _TRIPS * end.rtt_us_least + _TRIP_US]
    if not far:
        return ""
    end = max(far, key=lambda end: end.rtt_us)
    return (
        f"link {link.name} is slow{_often(link)}: a round trip takes {end.rtt_us / 1000:,.0f} ms, "
        f"at best it was {end.rtt_us_least / 1000:,.0f} ms{_later(cluster, link)}"
    )


def _effect(cluster: _Cluster, link: _Link) -> str:
    waiting = cluster.across(link)
    return f": {_waits(waiting)}, nothing is lost" if waiting else ""


def _later(cluster: _Cluster, link: _Link) -> str:
    queries = cluster.across(link)
    return f": rows of {_listed(queries)} come later, none is lost" if queries else ""


# -- queries and streams -----------------------------------------------------------------------


def _preparing(cluster: _Cluster) -> Iterator[str]:
    for query in cluster.queries:
        if query.state == "preparing" and query.state_seconds >= PREPARING_S:
            sites = _listed(query.waiting_for) or "its sites"
            held = [stream.name for _, stream in cluster.streams if stream.name in query.streams]
            until = (
                f"; until then {_listed(held)} is held" if len(held) == 1 else f"; until then {_listed(held)} are held"
            )
            yield (
                f"query {query.query_id} is being prepared for {span(query.state_seconds)}: {sites} did not say yet "
                f"that it is ready{until if held else ''}; after 60 s it is given up"
            )


def _recovering(cluster: _Cluster) -> Iterator[str]:
    for query in cluster.queries:
        if not query.HasField("recovery"):
            continue
        recovery = query.recovery
        since = f"for {span(recovery.seconds)} ({recovery.reason})"
        if recovery.heads:
            heads = _listed([_progress(head, cluster.tau_ms) for head in recovery.heads])
            yield f"query {query.query_id} catches up {since}: {heads}; nothing is lost"
        else:
            sites = f"it waits for {_listed(query.waiting_for)}" if query.waiting_for else "it begins again"
            yield f"query {query.query_id} recovers {since}: {sites}; nothing is lost"


def _progress(head: pb.HeadProgress, tau_ms: int) -> str:
    """Of how much event time that it has to go through again a head has done."""
    if head.done_tick >= head.goal_tick:
        return f"{head.head} is where it was"
    done, goal = tick_time(head.done_tick, tau_ms), tick_time(head.goal_tick, tau_ms)
    share = ""
    if head.begun_tick > TICK_MIN and head.goal_tick < TICK_END:
        share = f"{(head.done_tick - head.begun_tick) / (head.goal_tick - head.begun_tick):.0%}, "
    return f"{head.head} has {share}event time {done} of {goal}"


def _reading_again(cluster: _Cluster) -> Iterator[str]:
    """Copies and windows that are filled from a stream's log; heads are told with their query."""
    for site, status in cluster.answering.items():
        for one in status.catching_up:
            if one.what == "head" or one.tick >= one.goal_tick:
                continue
            what = f"the copy that {one.peer} has" if one.what == "copy" else "a window"
            tick, goal = tick_time(one.tick, cluster.tau_ms), tick_time(one.goal_tick, cluster.tau_ms)
            yield (
                f"{site} reads the log of {one.stream} for {what} ({_listed(one.queries)}): event time {tick} of {goal}"
            )


def _still_streams(cluster: _Cluster) -> Iterator[str]:
    """A source that gives nothing, so that queries wait: not one that is only quiet while its clock goes on."""
    for site, stream in cluster.streams:
        readers = cluster.readers(stream.name)
        if stream.state != "reading" or stream.still_seconds < STILL_S or not readers:
            continue
        frontier = tick_time(stream.frontier, cluster.tau_ms)
        stands = "it has not begun" if stream.frontier <= TICK_MIN else f"its event time stands at {frontier}"
        if stream.idle_seconds >= STILL_S:
            what = f"is stalled: no tuple for {span(stream.idle_seconds)}, {stands}"
        else:
            what = f"gives tuples, but no later ones for {span(stream.still_seconds)}: {stands}"
        yield f"stream {stream.name} at {site} {what}; {_waits(readers)} for it, nothing is lost; look at its source"


def _unread(cluster: _Cluster) -> Iterator[str]:
    for site, status in cluster.answering.items():
        for query in status.queries:
            if query.unread_seconds < UNREAD_S:
                continue
            behind = _behind_most(query)
            name = "" if behind.name in ("", _DEFAULT) else f" {behind.name}"
            if behind.file:
                why = f"they are not yet in {behind.file}" + (f" ({behind.trouble})" if behind.trouble else "")
            elif not (behind.attached or (query.followed and not behind.name)):
                option = f" --as{name}" if name else ""
                who = f" as{name}" if name else ""
                why = f"nobody follows it{who}: narrows follow {query.query_id}{option} takes them"
            elif query.read_per_s >= 0.5:
                why = f"its reader{name} is slow: it took {query.read_per_s:,.0f} rows a second lately"
            else:
                why = f"its reader{name} is connected and takes none"
            full = f"; so many that streams are not read on{_because(query.trouble)}" if query.full else ""
            yield (
                f"query {query.query_id}: {_rows(query)} wait at {site}, on disk, the oldest for "
                f"{span(query.unread_seconds)}; {why}{full}"
            )


def _behind_most(query: pb.QueryBrief) -> pb.ReaderStatus:
    return max(query.readers, key=lambda reader: reader.lag_rows, default=pb.ReaderStatus())


def _because(trouble: str) -> str:
    return f" ({trouble})" if trouble else ""


def _full_logs(cluster: _Cluster) -> Iterator[str]:
    for site, status in cluster.answering.items():
        if not 0 < status.log_quota_bytes <= status.log_bytes:
            continue
        paused = [stream.name for stream in status.streams if stream.reason == LOGS_FULL]
        effect = f": {_listed(paused)} {'is' if len(paused) == 1 else 'are'} not read on" if paused else ""
        held = f"they hold {size_text(status.log_bytes)} of {size_text(status.log_quota_bytes)}"
        keepers = sorted(_kept(status), key=lambda kept: -kept.bytes)
        why = [_kept_for(cluster, site, kept) for kept in keepers[:_KEPT_MAX]]
        more = [f"{len(keepers) - _KEPT_MAX} queries more need less"] if len(keepers) > _KEPT_MAX else []
        yield "; ".join([f"the logs of {site} have reached log_quota ({held}){effect}", *why, *more])


def _kept(status: pb.StatusReply) -> list[pb.KeptLog]:
    """By query, over all streams."""
    found: dict[str, pb.KeptLog] = {}
    for kept in status.kept:
        known = found.get(kept.query_id)
        if known is None:
            found[kept.query_id] = one = pb.KeptLog()
            one.CopyFrom(kept)
        else:
            known.bytes += kept.bytes
            known.since = min(known.since, kept.since)
    return list(found.values())


def _kept_for(cluster: _Cluster, site: str, kept: pb.KeptLog) -> str:
    query, home = kept.query_id, kept.home
    since = tick_time(kept.since, cluster.tau_ms)
    what = f"{size_text(kept.bytes)} since {since} are kept for query {query} of home {home}"
    if kept.runs and home not in cluster.silent:
        return f"{what}, which runs: raise log_quota and restart {site}, or narrows drop {query}"
    return f"{what}, which waits for {home}: bring {home} back, or narrows drop {query} --at {site}"


def _full_disks(cluster: _Cluster) -> Iterator[str]:
    """Of sites whose streams do not say it: what is not kept is not acknowledged either, so their links fall silent."""
    for site, status in cluster.answering.items():
        if status.disk_trouble and not status.streams:
            yield f"the disk of {site} is full: {status.disk_trouble}; make room, and it goes on by itself"


def _paused_streams(cluster: _Cluster) -> Iterator[str]:
    for site, stream in cluster.streams:
        if stream.reason == LOGS_FULL:
            continue  # said for the site
        if stream.state != "failed" and stream.reason:
            yield f"stream {stream.name} at {site} is not read on: {stream.reason}; make room, and it goes on by itself"
            continue
        if stream.state != "paused" or min(stream.state_seconds, stream.still_seconds) < PAUSED_S:
            continue
        by = _listed(stream.full_queries)
        why = (
            f"{by} has as much of it under way as is allowed" if by else "a query that is being prepared needs it held"
        )
        yield (
            f"stream {stream.name} at {site} is not read on for {span(stream.still_seconds)}: {why}; "
            "it goes on when some of that is done"
        )


def _set_aside(cluster: _Cluster) -> Iterator[str]:
    """Not a trouble of the cluster, but of the data: it does not go away."""
    for site, stream in cluster.streams:
        if stream.aside:
            share = 100 * stream.aside / max(1, stream.rows)
            yield (
                f"note: {stream.aside:,} tuples of stream {stream.name} at {site} ({share:.2g} %) came too late, "
                "without event time or too far ahead of the clock, and are in late_dir; a longer lateness takes "
                "more of them"
            )


def _all_is_well(cluster: _Cluster) -> str:
    if not cluster.answering:
        return "no site was asked"
    running = [query for query in cluster.queries if query.state == "running"]
    parts = [
        _count(len(cluster.answering), "site"),
        f"{_count(len(cluster.links), 'link')} up",
        f"{_count(len(running), 'query', 'queries')} running" if running else "no query runs",
    ]
    per_s = sum(stream.rows_per_second for _, stream in cluster.streams)
    ended = [stream for _, stream in cluster.streams if stream.frontier >= TICK_END or stream.state == "ended"]
    if running:
        parts.append(f"{per_s:,.0f} tuples a second")
    if ended:
        parts.append(f"{_count(len(ended), 'stream')} ended")
    return f"all is well: {', '.join(parts)}"


# -- words -------------------------------------------------------------------------------------


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _rows(query: pb.QueryBrief) -> str:
    return f"{query.unread_rows:,} row{'' if query.unread_rows == 1 else 's'} ({size_text(query.unread_bytes)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _have(things: Sequence[object]) -> str:
    return "has" if len(things) == 1 else "have"


def _waits(queries: Sequence[str]) -> str:
    return f"query {queries[0]} waits" if len(queries) == 1 else f"queries {_listed(queries)} wait"
