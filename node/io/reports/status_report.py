"""What a daemon says about itself, for ``narrows status`` and ``stats.json``."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from node.core.effects import QueryState
from node.core.engine import SiteEngine
from node.core.links.link_states import LinkState
from node.core.queries.query_id import query_of
from node.core.status import LOGS_FULL
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_MIN
from node.io.reports.complete_from import complete_from
from node.io.reports.engine_report import EngineReport
from node.io.reports.switch_report import switch_status
from node.io.reports.trends import Lag, Rates, Since
from node.io.results.issued_queries import Queries
from node.io.results.issued_query import IssuedQuery
from node.io.runner import Runner
from node.io.threads.engine_thread import EngineThread
from node.io.transport import Transport
from node.rpc import control_pb2 as pb

#: How long a query that failed is news.
_FAILED_S_MAX = 600.0
#: Reconnects of so long are counted together.
_LATELY_S = 60.0


def trouble_of(runner: Runner, transport: Transport, site: str) -> str:
    """Why the link to a site is not up; nothing if it is, or if there is none."""
    link = runner.stack.links.get(site)
    if link is None or link.state is LinkState.UP:
        return ""
    return transport.trouble.get(site) or link.trouble or link.state.value


def peak_bytes() -> int:
    """The most memory that this process had. What the system's accounts say includes the parent's, from before exec."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):  # not Linux: macOS counts bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reader_rows(query: IssuedQuery) -> list[pb.ReaderStatus]:
    """Who reads a query, and how far each is."""
    return [
        pb.ReaderStatus(
            name=reader.name,
            taken=reader.place,
            read=reader.read,
            lag_rows=query.spool.rows - reader.read,
            lag_bytes=query.spool.written - query.spool.position(reader.read),
            attached=reader.attached,
            file=reader.note.get("file", ""),
            trouble=reader.trouble,
        )
        for reader in query.readers.values()
    ]


def queries_of(runs: Iterable[str]) -> list[str]:
    """The queries of these runs: one that goes over to another plan has two."""
    return list(dict.fromkeys(query_of(run) for run in runs))


class StatusReport:
    """The status of one daemon. It looks once a second how things are, and so knows since when they are so."""

    def __init__(
        self,
        runner: Runner,
        transport: Transport,
        engine_thread: EngineThread,
        engine: SiteEngine,
        queries: Queries,
        engine_report: Callable[[], EngineReport],
    ) -> None:
        self._runner = runner
        self._transport = transport
        self._engine_thread = engine_thread
        self._engine = engine
        self._queries = queries
        self._engine_report = engine_report
        self._began_s = time.monotonic()
        self._since = Since()
        self._rates = Rates()
        self._reconnects = Rates(_LATELY_S)
        #: By peer, of parts; and by query, of rows.
        self._lags: dict[Hashable, Lag] = {}
        self._rtt_us_least: dict[str, int] = {}

    def sample(self) -> None:
        """Notice how things are; called about once a second."""
        now_s = time.monotonic()
        stack = self._runner.stack
        counts: dict[Hashable, int] = {}
        for name, stream in stack.site.streams.items():
            counts["stream", name] = stream.rows_arrived
        for peer, link in stack.links.items():
            counts["link", peer] = link.delivered_bytes
            self._lag("link", peer).note(link.next_part, now_s)
        for query_id, query in self._queries.by_id.items():
            counts["query", query_id] = query.read_rows
            self._lag("query", query_id).note(query.spool.rows, now_s)
        for gone in [key for key in self._lags if key not in counts]:
            del self._lags[gone]
        self._rates.note(counts, now_s)
        self._reconnects.note({peer: link.reconnects for peer, link in stack.links.items()}, now_s)
        # Asking is noticing: what has changed is noted with the moment.
        self._stream_rows(now_s)
        self._link_rows(now_s)
        for query in self._queries.by_id.values():
            self._state_seconds(query, now_s)
            self.recovery(query, now_s)
        self._since.forget_gone(now_s)

    def reply(self, peak: int) -> pb.StatusReply:
        """Everything, as it is now; ``peak`` is what ``peak_bytes`` says."""
        site = self._runner.stack.site
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now_s = time.monotonic()
        reply = pb.StatusReply(
            site=site.name,
            engine_seconds=self._engine_thread.busy_seconds,
            core_seconds=self._runner.core_seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            rss_bytes=peak,
            uptime_seconds=now_s - self._began_s,
            disk_trouble=self._runner.disk_trouble,
            ignored=dict(self._runner.ignored),
            engine=pb.EngineStatus(**asdict(self._engine_report())),
            log_bytes=site.arrangements.logged_bytes,
            log_quota_bytes=self._runner.stack.limits.log_bytes_max,
        )
        reply.streams.extend(self._stream_rows(now_s))
        reply.kept.extend(
            pb.KeptLog(
                query_id=kept.query_id,
                home=kept.home,
                stream=kept.stream,
                since=kept.since,
                bytes=kept.nbytes,
                runs=kept.runs,
            )
            for kept in site.kept_for
        )
        reply.links.extend(self._link_rows(now_s))
        reply.windows.extend(self._window_rows())
        reply.views.extend(
            pb.ViewStatus(
                query_id=view.query_id,
                alias=view.alias,
                rows=view.rows,
                ship_all_bytes=view.ship_all_bytes,
                span_us=view.span_us,
                run=view.run_id,
            )
            for view in site.view_counts()
        )
        reply.steps.extend(
            pb.StepStatus(query_id=step.query_id, head=step.head, step=step.step, rows=step.rows, walks=step.walks)
            for step in site.step_rows()
        )
        reply.traffic.extend(self._traffic_rows())
        for query, row in self._query_rows(now_s):
            if not query.state.ended:
                reply.queries.append(row)
            elif (query.state is QueryState.FAILED and row.state_seconds < _FAILED_S_MAX) or row.unread_rows:
                reply.ended.append(row)
        reply.copies.extend(self._copy_rows())
        reply.catching_up.extend(
            pb.CatchingUpStatus(
                stream=one.stream,
                what=one.what,
                peer=one.peer,
                queries=queries_of(one.queries),
                tick=one.tick,
                goal_tick=one.goal,
            )
            for one in site.catching_up()
        )
        reply.probes.extend(
            pb.ProbeStatus(
                query_id=query_of(counts.query_id), delta_us=counts.delta_us, early=counts.early, late=counts.late
            )
            for counts in site.probe_counts()
        )
        return reply

    def _stream_rows(self, now_s: float) -> list[pb.StreamStatus]:
        # While the disk is full no source is read.
        trouble = self._runner.disk_trouble
        return [
            pb.StreamStatus(
                name=name,
                state="paused" if trouble and stream.state == "reading" else stream.state,
                rows=stream.rows_arrived,
                aside=stream.rows_aside,
                rows_per_second=self._rates.per_s(("stream", name), stream.rows_arrived, now_s),
                frontier=stream.frontier,
                reason=stream.failed or (f"the disk is full: {trouble}" if trouble else self._quota_reason(stream)),
                logged_rows=stream.logged_rows,
                logged_bytes=stream.logged_bytes,
                idle_seconds=self._since.seconds(("rows", name), stream.rows_arrived, now_s),
                still_seconds=self._since.seconds(("frontier", name), stream.frontier, now_s),
                state_seconds=self._since.seconds(("state", name), stream.state, now_s),
                full_queries=queries_of(stream.full_queries(self._runner.stack.limits)),
                aside_by_reason=stream.aside,
                aside_file=str(self._runner.aside_files.get(name, "")),
            )
            for name, stream in self._runner.stack.site.streams.items()
        ]

    def _quota_reason(self, stream: StreamState) -> str:
        is_paused = self._runner.stack.site.arrangements.logs_full and stream.state == "paused"
        return LOGS_FULL if is_paused else ""

    def _link_rows(self, now_s: float) -> list[pb.LinkStatus]:
        rows = []
        now_us = self._runner.clock.now_us()
        for peer, link in self._runner.stack.links.items():
            ledger = self._transport.ledgers[peer]
            # A link that was up and lost again between two looks is known by its count of reconnects.
            stands = (link.state is LinkState.UP, link.reconnects)
            if link.rtt_us is not None:
                self._rtt_us_least[peer] = min(link.rtt_us, self._rtt_us_least.get(peer, link.rtt_us))
            rows.append(
                pb.LinkStatus(
                    peer=peer,
                    state=link.state.value,
                    trouble=trouble_of(self._runner, self._transport, peer),
                    rtt_us=link.rtt_us,
                    bytes_per_s=self._runner.stack.bandwidths[peer].bytes_per_s,
                    sent_bytes=ledger.sent.bytes_by_kind,
                    received_bytes=ledger.received.bytes_by_kind,
                    backlog_bytes=link.backlog_bytes,
                    reconnects=link.reconnects,
                    duplicates=link.duplicates,
                    state_seconds=self._since.seconds(("link", peer), stands, now_s),
                    silent_seconds=link.silent_us(now_us) / 1e6,
                    behind_seconds=self._lag("link", peer).seconds(link.peer_expects, now_s),
                    delivered_per_s=self._rates.per_s(("link", peer), link.delivered_bytes, now_s),
                    rtt_us_least=self._rtt_us_least.get(peer),
                    reconnects_lately=self._reconnects.grown(peer, link.reconnects),
                )
            )
        return rows

    def _query_rows(self, now_s: float) -> list[tuple[IssuedQuery, pb.QueryBrief]]:
        return [(query, self._query_row(query, now_s)) for query in self._queries.by_id.values()]

    def _query_row(self, query: IssuedQuery, now_s: float) -> pb.QueryBrief:
        query_id, spool, about = query.query_id, query.spool, query.about
        home = self._runner.stack.site.homes.get(query_id)
        sink = None if home is None else home.sink
        return pb.QueryBrief(
            query_id=query_id,
            state=query.state,
            rows=spool.rows,
            plan_brief=about.plan_brief,
            reason=query.reason,
            state_seconds=self._state_seconds(query, now_s),
            streams=about.streams,
            sites=about.sites if home is None else home.sites,
            links=about.links,
            waiting_for=() if home is None else home.waiting_for,
            followed=query.followed,
            unread_rows=spool.rows - query.read_rows,
            unread_bytes=spool.written - spool.position(query.read_rows),
            unread_seconds=self._lag("query", query_id).seconds(query.read_rows, now_s),
            read_per_s=self._rates.per_s(("query", query_id), query.read_rows, now_s),
            full=bool(query.held),
            readers=reader_rows(query),
            trouble=query.trouble,
            complete_from=self.complete_from(query_id),
            done_tick=TICK_MIN if sink is None else min(tick for _, tick in sink.frontiers),
            recovery=self.recovery(query, now_s),
            last_switch=self.last_switch(query),
        )

    def last_switch(self, query: IssuedQuery) -> pb.SwitchStatus | None:
        """How far a query is that goes over to another plan, or how it did last."""
        home = self._runner.stack.site.homes.get(query.query_id)
        return switch_status(query, home, self._runner.clock.now_us() // 1000)

    def complete_from(self, query_id: str) -> pb.CompleteFrom:
        """From where on the rows of a query of this home are complete."""
        stack = self._runner.stack
        return complete_from(stack.site.homes.get(query_id), stack.tau_ms)

    def recovery(self, query: IssuedQuery, now_s: float) -> pb.RecoveryStatus | None:
        """How far a query is that goes on after a loss; None if it has caught up, or never had to."""
        home = self._runner.stack.site.homes.get(query.query_id)
        if home is None or not home.loss:
            return None
        seconds = self._since.seconds(("recovery", query.query_id), home.generation, now_s)
        if home.state is not QueryState.RECOVERING and not (home.state is QueryState.RUNNING and home.catching_up):
            return None
        heads = [
            pb.HeadProgress(head=one.head, begun_tick=one.begun, done_tick=one.done, goal_tick=one.goal)
            for one in home.catching_up
        ]
        return pb.RecoveryStatus(reason=home.loss, seconds=seconds, heads=heads)

    def away(self, sites: Sequence[str]) -> list[pb.AwaySite]:
        """Those of these sites that cannot be reached, and since when."""
        now_s, links = time.monotonic(), self._runner.stack.links
        return [
            pb.AwaySite(
                site=site,
                trouble=trouble,
                seconds=self._since.seconds(("link", site), (False, links[site].reconnects), now_s),
            )
            for site in sites
            if (trouble := trouble_of(self._runner, self._transport, site))
        ]

    def _state_seconds(self, query: IssuedQuery, now_s: float) -> float:
        return self._since.seconds(("query", query.query_id), query.state, now_s)

    def _lag(self, kind: str, name: str) -> Lag:
        return self._lags.setdefault((kind, name), Lag())

    def _window_rows(self) -> list[pb.WindowStatus]:
        rows = []
        for table in self._runner.stack.site.table_statuses():
            status = pb.WindowStatus(
                window=table.name,
                stream=table.stream,
                indexes=[", ".join(keys) for keys in table.indexes],
                frontier=table.frontier,
                waiting_walks=table.waiting,
                users=queries_of(table.users),
            )
            status.rows, status.nbytes = self._window_size(table.name)
            rows.append(status)
        return rows

    def _traffic_rows(self) -> list[pb.TrafficStatus]:
        return [
            pb.TrafficStatus(
                query_id=cause.query_id,
                purpose=cause.purpose,
                name=cause.name,
                number=cause.number,
                peer=peer,
                kind=kind,
                messages=sent.messages,
                bytes=sent.nbytes,
                framing_bytes=sent.framing_bytes,
            )
            for cause, peer, kind, sent in self._runner.stack.traffic.flows()
        ]

    def _copy_rows(self) -> list[pb.CopyStatus]:
        site = self._runner.stack.site
        return [
            pb.CopyStatus(
                query_id=query_of(copy.query_id),
                alias=copy.alias,
                kind=copy.kind.value,
                role=copy.role.value,
                peer=copy.peer,
                frontier=copy.frontier,
                keys=copy.keys,
                tuples=copy.tuples,
                nbytes=copy.nbytes,
                ended=copy.query_id not in site.runs and not copy.users,
                users=[name for name in queries_of(copy.users) if name != query_of(copy.query_id)],
                stream=copy.stream,
            )
            for copy in site.copy_statuses()
        ]

    def _window_size(self, window_id: str) -> tuple[int, int]:
        """Rows and bytes of a window; nothing for one that the engine does not hold, or not yet, or no more."""
        try:
            return self._engine.rows(window_id), self._engine.nbytes(window_id)
        except ValueError:
            return 0, 0
