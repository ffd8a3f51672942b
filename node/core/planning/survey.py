"""What a site does so that a query can be planned: it measures its streams, and collects what others measured.

A question is answered when all sites have answered, or after ``limits.profile_us``: to plan without a site that is
slow is better than not to plan. Nothing here changes a stream or installs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from node.core.effects import MeasureStream, ReportStatistics
from node.core.events import BandwidthMeasured, LinkMeasured, StatisticsRequested, StreamMeasured
from node.core.limits import Limits
from node.core.links.messages import AskProfile, LinkSeen, Profiles, Refused, RunningCounts
from node.core.links.outbox import Outbox
from node.core.planning.profile import for_the_wire
from node.core.streams.derived import DerivedStream
from node.core.streams.stream import StreamState, check_same
from planner.estimate.statistics import StreamProfile
from planner.model.copies import RunningCopy
from planner.model.errors import NarrowsError
from planner.model.query import JoinQuery
from planner.sql.parser import parse_query


@dataclass(slots=True)
class _Answering:
    """A question of ``peer``, while our streams are measured."""

    peer: str
    streams: dict[str, None]
    running: str
    waiting: dict[str, None]
    profiles: dict[str, StreamProfile] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Collecting:
    """A question of ours, while sites answer."""

    query: JoinQuery
    asked_at_us: int
    waiting: dict[str, None]
    profiles: dict[str, StreamProfile] = field(default_factory=dict)
    links: dict[str, tuple[LinkSeen, ...]] = field(default_factory=dict)
    counts: dict[str, RunningCounts] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    copies: list[RunningCopy] = field(default_factory=list)
    kept_bytes: dict[str, int] = field(default_factory=dict)

    def lacks(self, site: str, reason: str) -> None:
        """Nothing will be known of a site's streams."""
        self.missing |= {ref.alias: reason for ref in self.query.streams if ref.stream.site == site}


class Survey:
    """The questions of one site, its own and those of others."""

    def __init__(
        self,
        tau_ms: int,
        streams: Mapping[str, StreamState],
        limits: Limits,
        outbox: Outbox,
        running_copies: Callable[[], tuple[RunningCopy, ...]] = tuple,
        counted: Callable[[str], RunningCounts] = lambda _: RunningCounts(),
    ) -> None:
        """``running_copies`` tells of the copies of this site's streams, wherever they are.

        ``counted`` tells what was counted of a query.
        """
        self._site = outbox.site
        self._tau_us = 1000 * tau_ms
        self._streams = streams
        self._limits = limits
        self._outbox = outbox
        self._running_copies = running_copies
        self._counted = counted
        self._links: dict[str, LinkSeen] = {}
        self._answering: dict[tuple[str, str], _Answering] = {}
        self._collecting: dict[str, _Collecting] = {}

    def on_link(self, event: LinkMeasured) -> None:
        self._links[event.peer] = LinkSeen(event.peer, event.rtt_us, event.bytes_per_s)

    def on_bandwidth(self, event: BandwidthMeasured) -> None:
        known = self._links.get(event.peer)
        if known is not None:
            self._links[event.peer] = LinkSeen(event.peer, known.rtt_us, event.bytes_per_s)

    # -- asking -------------------------------------------------------------------------------

    def on_requested(self, event: StatisticsRequested) -> None:
        """Ask every site of the query's streams, this one too if it has one, or if it is the home of one that runs."""
        query = event.query
        here = [self._site] if event.running else []
        sites = dict.fromkeys(sorted({*here, *(ref.stream.site for ref in query.streams)}))
        streams = {ref.stream.name: ref.stream for ref in query.streams}
        self._collecting[event.request_id] = _Collecting(
            query,
            self._outbox.now_us,
            dict(sites),
            links={self._site: tuple(self._links.values())},
            kept_bytes={self._site: self._kept_bytes},
        )
        for site in sites:
            asked = (event.running, event.counts_only, event.past_us)
            self._outbox.send(site, AskProfile(event.request_id, query.text, tuple(streams.values()), *asked))

    def on_profiles(self, peer: str, message: Profiles) -> None:
        """A site answered; what it says of streams that are not its own is not taken."""
        collecting = self._collecting.get(message.query_id)
        if collecting is None or peer not in collecting.waiting:
            return
        own = [ref.alias for ref in collecting.query.streams if ref.stream.site == peer]
        streams = [collecting.query.ref(alias).stream.name for alias in own]
        collecting.profiles |= {alias: profile for alias, profile in message.profiles if alias in own}
        collecting.missing |= {alias: reason for alias, reason in message.missing if alias in own}
        collecting.links[peer] = message.links
        collecting.kept_bytes[peer] = message.kept_bytes
        if message.counts is not None:
            collecting.counts[peer] = message.counts
        collecting.copies += [copy for copy in message.copies if copy.owner == peer and copy.stream in streams]
        self._answered(message.query_id, peer)

    def on_refused(self, peer: str, message: Refused) -> bool:
        """Whether a refusal was about a question of ours."""
        collecting = self._collecting.get(message.query_id)
        if collecting is None or peer not in collecting.waiting:
            return False
        collecting.lacks(peer, f"site {peer} refused: {message.reason}")
        self._answered(message.query_id, peer)
        return True

    def _answered(self, request_id: str, peer: str) -> None:
        collecting = self._collecting[request_id]
        del collecting.waiting[peer]
        if collecting.waiting:
            return
        del self._collecting[request_id]
        for ref in collecting.query.streams:
            if ref.alias not in collecting.profiles:
                collecting.missing.setdefault(ref.alias, f"site {ref.stream.site} said nothing of it")
        copies = tuple(collecting.copies)
        found = (collecting.profiles, collecting.links, collecting.missing, copies, collecting.counts)
        self._outbox.do(ReportStatistics(request_id, *found, collecting.kept_bytes))

    def on_clock(self) -> None:
        """Questions that have waited long enough go on without those who did not answer."""
        for request_id, collecting in list(self._collecting.items()):
            if self._outbox.now_us - collecting.asked_at_us < self._limits.profile_us:
                continue
            for site in list(collecting.waiting):
                collecting.lacks(site, f"site {site} did not answer within {self._limits.profile_us / 1e6:g} s")
                self._answered(request_id, site)

    # -- answering ----------------------------------------------------------------------------

    def on_ask(self, peer: str, message: AskProfile) -> None:
        """Have our streams of the query measured, each under every name it has there."""
        try:
            query = parse_query(message.text, {info.name: info for info in message.streams})
            own = [ref for ref in query.streams if ref.stream.site == self._site]
            for ref in own:
                check_same(self._streams, ref.stream)
        except NarrowsError as error:
            self._outbox.send(peer, Refused(message.query_id, str(error)))
            return
        streams = dict.fromkeys(ref.stream.name for ref in own)
        measured = [] if message.counts_only else own
        answering = _Answering(peer, streams, message.running, dict.fromkeys(ref.alias for ref in measured))
        self._answering[peer, message.query_id] = answering
        for ref in measured:
            stream = self._streams[ref.stream.name]
            if not message.past_us:
                self._outbox.do(MeasureStream(message.query_id, query, ref.alias, stream.recent.batches()))
                continue
            batches, span_us = stream.recent_past(message.past_us)
            if batches:
                self._outbox.do(MeasureStream(message.query_id, query, ref.alias, batches, span_us))
            else:
                # What its source begins with is not what it is like now.
                del answering.waiting[ref.alias]
                answering.missing[ref.alias] = "nothing has come since the site was started"
        self._answer_if_ready(message.query_id, answering)

    def on_measured(self, event: StreamMeasured) -> None:
        """Request ids begin with their home, so no two sites use the same."""
        for (_, request_id), answering in list(self._answering.items()):
            if request_id == event.request_id and event.alias in answering.waiting:
                del answering.waiting[event.alias]
                if event.profile is None:
                    answering.missing[event.alias] = event.reason
                else:
                    answering.profiles[event.alias] = event.profile
                self._answer_if_ready(request_id, answering)

    def _answer_if_ready(self, request_id: str, answering: _Answering) -> None:
        if answering.waiting:
            return
        del self._answering[answering.peer, request_id]
        profiles = tuple(
            (alias, profile if answering.peer == self._site else for_the_wire(profile, self._tau_us))
            for alias, profile in answering.profiles.items()
        )
        links = tuple(self._links.values())
        copies = tuple(
            copy for copy in self._running_copies() if copy.owner == self._site and copy.stream in answering.streams
        )
        missing = tuple(answering.missing.items())
        counts = self._counted(answering.running) if answering.running else None
        told = (profiles, missing, links, copies, counts, self._kept_bytes)
        self._outbox.send(answering.peer, Profiles(request_id, *told))

    @property
    def _kept_bytes(self) -> int:
        """What the logs hold of joins that this site keeps."""
        return sum(stream.logged_bytes for stream in self._streams.values() if isinstance(stream, DerivedStream))
