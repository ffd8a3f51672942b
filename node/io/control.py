"""What clients can ask: issue, follow, list and drop queries, and status."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

import grpc
from google.protobuf.message import Message as ProtoMessage

from node.core.engine import SiteEngine
from node.core.events import DropRequested, QueryIssued
from node.core.link import LinkState
from node.io.delivery import Delivery
from node.io.engine_report import EngineReport
from node.io.engine_thread import EngineThread
from node.io.explained import explained
from node.io.plan_desk import PlanDesk
from node.io.queries import IssuedQuery, Queries
from node.io.runner import Runner
from node.io.transport import Transport
from node.rpc import control_pb2 as pb
from planner.choose import Options
from planner.errors import NarrowsError, QueryError
from planner.plans import brief, describe, plan_dict

_INFO_EVERY_S = 0.25
_RATE_SPAN_S = 5.0
_SERVICE = "narrows.Control"

Request = TypeVar("Request", bound=ProtoMessage)
Context = grpc.aio.ServicerContext[bytes, bytes]


class Control:
    """The Control service of one daemon."""

    def __init__(
        self,
        runner: Runner,
        transport: Transport,
        engine_thread: EngineThread,
        engine: SiteEngine,
        queries: Queries,
        desk: PlanDesk,
        stop: Callable[[], None],
        engine_report: Callable[[], EngineReport] = EngineReport,
    ) -> None:
        self._runner = runner
        self._transport = transport
        self._engine_thread = engine_thread
        self._engine = engine
        self._queries = queries
        self._desk = desk
        self._stop = stop
        self._engine_report = engine_report
        self._delivery = Delivery(self._find, queries, lambda stored: runner.put(list(stored)))
        self._began = time.monotonic()
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def handlers(self) -> grpc.GenericRpcHandler:
        """gRPC's table of methods."""
        unary: dict[str, tuple[Callable[[ProtoMessage, Context], Awaitable[ProtoMessage]], type[ProtoMessage]]] = {
            "Issue": (self._issue, pb.IssueRequest),  # type: ignore[dict-item]
            "Explain": (self._explain, pb.ExplainRequest),  # type: ignore[dict-item]
            "Queries": (self._list, pb.Empty),  # type: ignore[dict-item]
            "Extent": (self._delivery.extent, pb.ExtentRequest),  # type: ignore[dict-item]
            "Take": (self._delivery.take, pb.TakeRequest),  # type: ignore[dict-item]
            "Drop": (self._drop, pb.DropRequest),  # type: ignore[dict-item]
            "Status": (self._status, pb.Empty),  # type: ignore[dict-item]
            "Stop": (self._stop_daemon, pb.Empty),  # type: ignore[dict-item]
        }
        methods: dict[str, grpc.RpcMethodHandler[ProtoMessage, ProtoMessage]] = {
            name: grpc.unary_unary_rpc_method_handler(
                behaviour,
                request_deserializer=kind.FromString,
                response_serializer=lambda reply: reply.SerializeToString(),
            )
            for name, (behaviour, kind) in unary.items()
        }
        methods["Follow"] = grpc.stream_stream_rpc_method_handler(
            self._follow,
            request_deserializer=pb.FollowRequest.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )
        methods["Rows"] = grpc.unary_stream_rpc_method_handler(
            self._delivery.rows,
            request_deserializer=pb.RowsRequest.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )
        return grpc.method_handlers_generic_handler(_SERVICE, methods)

    # -- queries ------------------------------------------------------------------------------

    async def _issue(self, request: pb.IssueRequest, context: Context) -> pb.IssueReply:
        try:
            planned = await self._desk.plan(request, self._require_links, explained=request.explained)
        except NarrowsError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{error}{self._unreachable()}")
        plan = planned.plan
        issued = self._queries.new(planned, keep=request.keep)
        self._runner.put([QueryIssued(issued.query_id, plan)])
        return pb.IssueReply(
            query_id=issued.query_id,
            schema=plan.query.output_schema().serialize().to_pybytes(),
            plan_text=describe(plan),
            plan_json=json.dumps(plan_dict(plan)),
            warnings=planned.warnings,
        )

    async def _explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainReply:
        """Nothing is installed, and no stream is read: sites look into files that no query has started on."""
        if request.WhichOneof("what") == "query_id":
            query = await self._find(request.query_id, context)
            if query.planned.choice is None:
                query.planned = await self._desk.estimated(query.plan, Options())
            return explained(query.planned, request.query_id, request.measured, self._troubles())
        try:
            planned = await self._desk.plan(request.query, lambda _: None, explained=True)
        except NarrowsError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{error}{self._unreachable()}")
        return explained(planned, "", (), self._troubles())

    def _require_links(self, sites: tuple[str, ...]) -> None:
        for site in sites:
            trouble = self._trouble(site)
            if trouble:
                raise QueryError(f"site {site} is required by the query; it cannot be reached now")

    def _unreachable(self) -> str:
        """A line per site that cannot be reached: a stream may be unknown only because its site is."""
        return "".join(f"\n{trouble}" for trouble in self._troubles())

    def _troubles(self) -> list[str]:
        troubles = {site: self._trouble(site) for site in self._runner.stack.links}
        return [f"site {site} cannot be reached: {trouble}" for site, trouble in troubles.items() if trouble]

    def _trouble(self, site: str) -> str:
        """Why the link to a site is not up; nothing if it is, or if there is none."""
        link = self._runner.stack.links.get(site)
        if link is None or link.state is LinkState.UP:
            return ""
        return self._transport.trouble.get(site) or link.trouble or link.state.value

    async def _find(self, query_id: str, context: Context) -> IssuedQuery:
        query = self._queries.by_id.get(query_id)
        if query is None:
            known = ", ".join(self._queries.by_id) or "none"
            text = f"unknown query {query_id!r} at site {self._runner.stack.site.name}: required one of {known}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        assert query is not None
        return query

    async def _list(self, _: pb.Empty, __: Context) -> pb.QueriesReply:
        return pb.QueriesReply(queries=[self._info(query) for query in self._queries.by_id.values()])

    async def _drop(self, request: pb.DropRequest, context: Context) -> pb.Empty:
        query = await self._find(request.query_id, context)
        self._runner.put([DropRequested(query.query_id)])
        while not query.state.ended:
            await query.changed.wait()
        query.spool.close()
        del self._queries.by_id[query.query_id]
        return pb.Empty()

    def _info(self, query: IssuedQuery) -> pb.QueryInfo:
        home = self._runner.stack.site.homes.get(query.query_id)
        frontiers = home.sink.frontiers if home is not None and home.sink is not None else ()
        buckets = query.latency.buckets()
        return pb.QueryInfo(
            query_id=query.query_id,
            text=query.plan.query.text,
            state=query.state,
            reason=query.reason,
            rows=query.spool.rows,
            plan_text=describe(query.plan),
            heads=[pb.HeadInfo(head=head, done_tick=tick) for head, tick in frontiers],
            followed=query.followed,
            latency_us_buckets=[bound for bound, _ in buckets],
            latency_rows=[rows for _, rows in buckets],
            home=self._runner.stack.site.name,
        )

    # -- following ----------------------------------------------------------------------------

    async def _follow(
        self, requests: AsyncIterator[pb.FollowRequest], context: Context
    ) -> AsyncIterator[pb.FollowReply]:
        first = await anext(requests, None)
        if first is None:
            return
        query = await self._find(first.query_id, context)
        if query.followed:
            text = f"query {query.query_id} requires one follower at a time; it has one"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        query.followed = True
        leaving = asyncio.Event()
        taking = asyncio.create_task(self._take(query, requests, leaving))
        try:
            yield pb.FollowReply(schema=query.plan.query.output_schema().serialize().to_pybytes())
            async for reply in self._rows_of(query, leaving):
                yield reply
            # The client's last acknowledgement comes after our last row.
            await leaving.wait()
        finally:
            query.followed = False
            taking.cancel()

    async def _take(
        self, query: IssuedQuery, requests: AsyncIterator[pb.FollowRequest], leaving: asyncio.Event
    ) -> None:
        """Forget what the client has kept, until it says no more: then it is leaving."""
        async for request in requests:
            query.spool.forget_before(request.taken)
        leaving.set()
        query.wake()

    async def _rows_of(self, query: IssuedQuery, leaving: asyncio.Event) -> AsyncIterator[pb.FollowReply]:
        begin = query.spool.taken
        number = query.spool.taken_chunk
        query.sent_bytes = query.spool.position(number)
        told_at = 0.0
        while not leaving.is_set():
            changed, ended = query.changed, query.state.ended
            while number < query.spool.end and not leaving.is_set():
                yield pb.FollowReply(number=number, rows=query.spool.read(number, begin))
                number += 1
                query.sent_before(number)
                self._runner.put(list(self._queries.confirm(query)))
            if ended:
                yield pb.FollowReply(number=number, info=self._info(query))
                return
            if time.monotonic() - told_at >= _INFO_EVERY_S:
                told_at = time.monotonic()
                yield pb.FollowReply(number=number, info=self._info(query))
            try:
                await asyncio.wait_for(changed.wait(), _INFO_EVERY_S)
            except TimeoutError:
                continue

    # -- status -------------------------------------------------------------------------------

    async def _stop_daemon(self, _: pb.Empty, __: Context) -> pb.Empty:
        self._stop()
        return pb.Empty()

    async def _status(self, _: pb.Empty, __: Context) -> pb.StatusReply:
        site = self._runner.stack.site
        usage = resource.getrusage(resource.RUSAGE_SELF)
        reply = pb.StatusReply(
            site=site.name,
            engine_seconds=self._engine_thread.busy_seconds,
            core_seconds=self._runner.core_seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            rss_bytes=usage.ru_maxrss * 1024,
            uptime_seconds=time.monotonic() - self._began,
            ignored=dict(self._runner.ignored),
            engine=pb.EngineStatus(**asdict(self._engine_report())),
        )
        reply.streams.extend(self._stream_rows())
        reply.links.extend(self._link_rows())
        for run in site.runs.values():
            for window in run.window_states:
                window_id = window.window_id
                status = pb.WindowStatus(
                    query_id=run.query_id,
                    window=window_id,
                    alias=window.alias,
                    frontier=window.frontier,
                    waiting_walks=window.waiting,
                )
                status.rows, status.nbytes = self._window_size(window_id)
                reply.windows.append(status)
        reply.views.extend(
            pb.ViewStatus(
                query_id=view.query_id,
                alias=view.alias,
                rows=view.rows,
                ship_all_bytes=view.ship_all_bytes,
                span_us=view.span_us,
            )
            for view in site.view_counts()
        )
        reply.steps.extend(
            pb.StepStatus(query_id=step.query_id, head=step.head, step=step.step, rows=step.rows, walks=step.walks)
            for step in site.step_rows()
        )
        reply.traffic.extend(self._traffic_rows())
        reply.queries.extend(
            pb.QueryBrief(
                query_id=query.query_id, state=query.state, rows=query.spool.rows, plan_brief=brief(query.plan)
            )
            for query in self._queries.by_id.values()
            if not query.state.ended
        )
        reply.replicas.extend(self._replica_rows())
        reply.probes.extend(
            pb.ProbeStatus(query_id=counts.query_id, delta_us=counts.delta_us, early=counts.early, late=counts.late)
            for counts in site.probe_counts()
        )
        return reply

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

    def _replica_rows(self) -> list[pb.ReplicaStatus]:
        site = self._runner.stack.site
        return [
            pb.ReplicaStatus(
                query_id=replica.query_id,
                alias=replica.alias,
                kind=replica.kind.value,
                role=replica.role.value,
                peer=replica.peer,
                frontier=replica.frontier,
                keys=replica.keys,
                tuples=replica.tuples,
                nbytes=replica.nbytes,
                restarts=replica.restarts,
                ended=replica.query_id not in site.runs and not replica.users,
                users=replica.users,
            )
            for replica in site.replica_statuses()
        ]

    def _window_size(self, window_id: str) -> tuple[int, int]:
        """Rows and bytes of a window; nothing for one that the engine does not hold, or not yet, or no more."""
        try:
            return self._engine.rows(window_id), self._engine.nbytes(window_id)
        except ValueError:
            return 0, 0

    def sample(self) -> None:
        """Remember how many rows arrived, for rates; called about once a second."""
        now = time.monotonic()
        rows = {name: stream.rows_arrived for name, stream in self._runner.stack.site.streams.items()}
        self._samples.append((now, rows))
        while now - self._samples[0][0] > _RATE_SPAN_S:
            self._samples.popleft()

    def _rate(self, name: str, rows: int) -> float:
        if not self._samples:
            return 0.0
        then, before = self._samples[0]
        return (rows - before[name]) / max(0.001, time.monotonic() - then)

    def _stream_rows(self) -> list[pb.StreamStatus]:
        return [
            pb.StreamStatus(
                name=name,
                state=stream.state,
                rows=stream.rows_arrived,
                aside=stream.rows_aside,
                rows_per_second=self._rate(name, stream.rows_arrived),
                frontier=stream.frontier,
                reason=stream.failed,
                retained_rows=stream.retained.rows,
                retained_bytes=stream.retained.nbytes,
            )
            for name, stream in self._runner.stack.site.streams.items()
        ]

    def _link_rows(self) -> list[pb.LinkStatus]:
        rows = []
        for peer, link in self._runner.stack.links.items():
            ledger = self._transport.ledgers[peer]
            rows.append(
                pb.LinkStatus(
                    peer=peer,
                    state=link.state.value,
                    trouble=self._trouble(peer),
                    rtt_us=link.rtt_us,
                    bytes_per_s=self._runner.stack.bandwidths[peer].bytes_per_s,
                    sent_bytes=ledger.sent.bytes_by_kind,
                    received_bytes=ledger.received.bytes_by_kind,
                    backlog_bytes=link.backlog_bytes,
                    reconnects=link.reconnects,
                    duplicates=link.duplicates,
                )
            )
        return rows
