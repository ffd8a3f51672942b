"""What clients can ask: issue, follow, list and drop queries, and status."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NoReturn

import grpc

from node.core.effects import SwitchState
from node.core.engine import SiteEngine
from node.core.events import DropRequested, QueryIssued
from node.core.queries.query_id import home_of
from node.io.planning.outcome import Forecast, Planned
from node.io.planning.plan_desk import PlanDesk, is_forced
from node.io.reports.engine_report import EngineReport
from node.io.reports.explanation import explained
from node.io.reports.status_report import StatusReport, peak_bytes, reader_rows, trouble_of
from node.io.reports.walk_report import walk_rows
from node.io.results import issued_queries
from node.io.results.delivery import Delivery
from node.io.results.file_writers import FileWriters
from node.io.results.following import Following, refuse_note
from node.io.results.issued_query import IssuedQuery
from node.io.results.readers import FILE_READER, reader_name
from node.io.runner import Runner
from node.io.threads.engine_thread import EngineThread
from node.io.transport import Transport
from node.rpc import control_pb2 as pb
from node.rpc.control_pb2_grpc import ControlServicer
from node.storage.errors import StorageError
from planner.cost.estimates import PlanEstimate
from planner.model.errors import NarrowsError, QueryError, UnknownStreamError
from planner.model.plans import brief, describe, plan_dict
from planner.model.query import Plan, PolicyName
from planner.search.alternatives import Compared, compared
from planner.search.choice import Options
from planner.sql.beginning import parse_beginning

Context = grpc.aio.ServicerContext[bytes, bytes]


class SiteMissingError(NarrowsError):
    """A site that the query needs cannot be reached."""


class Control(ControlServicer):
    """The Control service of one daemon; what each method is for is said in ``control.proto``."""

    def __init__(
        self,
        runner: Runner,
        transport: Transport,
        engine_thread: EngineThread,
        engine: SiteEngine,
        queries: issued_queries.Queries,
        desk: PlanDesk,
        stop: Callable[[], None],
        engine_report: Callable[[], EngineReport] = EngineReport,
    ) -> None:
        self._runner = runner
        self._transport = transport
        self._queries = queries
        self._desk = desk
        self._stop = stop
        self._files = FileWriters(queries)
        self._delivery = Delivery(self._find_run, queries)
        self._following = Following(self._find_run, queries, self._info)
        self._report = StatusReport(runner, transport, engine_thread, engine, queries, engine_report)

    # -- queries ------------------------------------------------------------------------------

    async def Issue(self, request: pb.IssueRequest, context: Context) -> pb.IssueReply:
        try:
            beginning = parse_beginning(request.begin)
            planned = await self._desk.plan(request, self._require_links, explained=request.explained)
            reader = FILE_READER if request.to else reader_name(request.reader)
            note = self._files.begin(request.to, request.to_format) if request.to else {}
            adaptive = self._desk.is_adaptive(request, planned)
            issued = self._queries.new(planned, keep=request.keep, reader=reader, adaptive=adaptive)
            issued.readers[reader].note = note
            await self._queries.begin(issued)
        except StorageError as error:
            await refuse_note(error, "the query cannot be issued", context)
        except NarrowsError as error:
            await self._refuse(error, context)
        plan = planned.plan
        self._files.start(issued)
        self._runner.put([QueryIssued(issued.query_id, plan, beginning)])
        return pb.IssueReply(
            query_id=issued.query_id,
            schema=issued.about.schema,
            plan_text=issued.about.plan_text,
            plan_json=json.dumps(plan_dict(plan)),
            warnings=planned.warnings,
        )

    async def Explain(self, request: pb.ExplainRequest, context: Context) -> pb.ExplainReply:
        """Nothing is installed, and no stream is read: sites look into files that no query has started on."""
        if request.WhichOneof("what") == "query_id":
            query = await self._find(request.query_id, context)
            if query.planned is None:
                text = f"query {query.query_id} was issued before the daemon was restarted; of its plan is known"
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{text}\n{query.about.plan_text}")
            assert query.planned is not None
            planned, others = await self._explanation(query, query.planned)
            explain = partial(
                explained, run_id=query.counted_as, changes=[*query.switches], adaptive=self._desk.outlook(query)
            )
            troubles = [*self._troubles(), *_mixed(query)]
            return await self._desk.search(explain, planned, others, query.query_id, request.measured, troubles)
        try:
            planned = await self._desk.plan(request.query, lambda _: None, explained=True)
        except NarrowsError as error:
            await self._refuse(error, context)
        others = await self._desk.search(_compared, planned)
        return await self._desk.search(explained, planned, others, "", (), self._troubles())

    async def _explanation(self, query: IssuedQuery, runs_by: Planned) -> tuple[Planned, Compared | None]:
        """What its plan costs and what else there is, once for all who ask; it may go over to another one meanwhile."""
        planned, others = runs_by, query.others
        if planned.choice is None:
            planned = await self._desk.estimated(planned.plan, Options(), runs=not query.state.ended)
        if others is None:
            others = await self._desk.search(_compared, planned)
        if query.planned is runs_by:
            query.planned, query.others = planned, others
        return planned, others

    async def Replan(self, request: pb.ReplanRequest, context: Context) -> pb.ReplanReply:
        query = await self._find(request.query_id, context)
        if query.state.ended or query.planned is None:
            text = f"query {query.query_id} requires for another plan that it runs; got one that has {query.state}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        assert query.planned is not None
        plan = query.planned.plan
        try:
            if plan.policy.name is PolicyName.DELTA:
                text = (
                    "requires for another plan policy frontier: by policy delta its probes go by the clock; got delta"
                )
                raise QueryError(f"query {query.query_id} {text}")
            planned, before = await self._desk.replan(plan, request.plan)
            reply = pb.ReplanReply(
                before=_cost(plan, before),
                after=_cost(planned.plan, None if planned.choice is None else planned.choice.estimate),
                same=planned.plan == plan,
                warnings=planned.warnings,
            )
            if request.dry_run:
                return reply
            if reply.same:
                query.may_adapt(_may_adapt(request.plan, query))
                return reply
            self._require_links(planned.plan.sites)
        except NarrowsError as error:
            await self._refuse(error, context)
        why = request.why or "asked for by a user"
        report = await self._runner.replan(query.query_id, planned.plan, why, Forecast(before, planned.choice))
        if report.state is SwitchState.GIVEN_UP:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, report.reason)
        reply.number = report.number
        query.may_adapt(_may_adapt(request.plan, query))
        return reply

    def _require_links(self, sites: tuple[str, ...]) -> None:
        for site in sites:
            trouble = self._trouble(site)
            if trouble:
                raise SiteMissingError(f"site {site} is required by the query; it cannot be reached now")

    async def _refuse(self, error: NarrowsError, context: Context) -> NoReturn:
        """Say no. What may be only because a site cannot be reached, such as an unknown stream, begins with that."""
        troubles = self._troubles()
        if isinstance(error, SiteMissingError) or (troubles and isinstance(error, UnknownStreamError)):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "\n".join([*troubles, str(error)]))
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\n".join([str(error), *troubles]))
        raise AssertionError("abort does not return")

    def _troubles(self) -> list[str]:
        troubles = {site: self._trouble(site) for site in self._runner.stack.links}
        return [f"site {site} cannot be reached: {trouble}" for site, trouble in troubles.items() if trouble]

    def _trouble(self, site: str) -> str:
        """Why the link to a site is not up; nothing if it is, or if there is none."""
        return trouble_of(self._runner, self._transport, site)

    async def _find(self, query_id: str, context: Context) -> IssuedQuery:
        """A query that was issued here. Whoever asks for another site's is told which that is."""
        query = self._queries.by_id.get(query_id)
        if query is not None:
            return query
        if (home := home_of(query_id)) in self._runner.stack.links:
            here = self._runner.stack.site.name
            text = f"query {query_id} requires its home, which is {home}; got site {here}"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return await self._unknown(query_id, context)

    async def _unknown(self, query_id: str, context: Context) -> NoReturn:
        known = ", ".join(self._queries.by_id) or "none"
        text = f"unknown query {query_id!r} at site {self._runner.stack.site.name}: required one of {known}"
        await context.abort(grpc.StatusCode.NOT_FOUND, text)
        raise AssertionError("abort does not return")

    async def _find_run(self, query_id: str, run: str, context: Context) -> IssuedQuery:
        query = await self._find(query_id, context)
        if run and query.run != run:
            text = f"query {query_id} is another one than that of run {run}: its run is {query.run}"
            hint = "the site lost what it knew, or began anew, and rows have other numbers now"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{text}; {hint}")
        return query

    async def Queries(self, request: pb.Empty, context: Context) -> pb.QueriesReply:
        return pb.QueriesReply(queries=[self._info(query) for query in self._queries.by_id.values()])

    async def Drop(self, request: pb.DropRequest, context: Context) -> pb.Empty:
        query = self._queries.by_id.get(request.query_id)
        if query is None and self._runner.stack.site.keeps(request.query_id):
            await self._runner.drop_here(request.query_id)
            return pb.Empty()
        if query is None:
            # At a site that is not its home too, which may be gone for good.
            await self._unknown(request.query_id, context)
        self._runner.put([DropRequested(query.query_id)])
        while not query.state.ended and query.unnoted_end is None:
            await query.changed.wait()
        await self._files.forget(query)
        self._queries.forget(query.query_id)
        return pb.Empty()

    def _info(self, query: IssuedQuery) -> pb.QueryInfo:
        home = self._runner.stack.site.homes.get(query.query_id)
        frontiers = home.sink.frontiers if home is not None and home.sink is not None else ()
        buckets = query.latency.buckets()
        return pb.QueryInfo(
            query_id=query.query_id,
            text=query.about.text,
            state=query.state,
            reason=query.reason,
            rows=query.spool.rows,
            plan_text=query.about.plan_text,
            heads=[pb.HeadInfo(head=head, done_tick=tick) for head, tick in frontiers],
            followed=query.followed,
            latency_us_buckets=[bound for bound, _ in buckets],
            latency_rows=[rows for _, rows in buckets],
            home=self._runner.stack.site.name,
            readers=reader_rows(query),
            away=() if query.state.ended else self._report.away(query.about.sites),
            trouble=query.trouble,
            complete_from=self._report.complete_from(query.query_id),
            waiting_for=() if home is None or query.state.ended else home.waiting_for,
            recovery=self._report.recovery(query, time.monotonic()),
            streams=query.about.streams,
            last_switch=self._report.last_switch(query),
        )

    # -- rows by number -----------------------------------------------------------------------

    async def Extent(self, request: pb.ExtentRequest, context: Context) -> pb.ExtentReply:
        return await self._delivery.extent(request, context)

    async def Rows(self, request: pb.RowsRequest, context: Context) -> AsyncIterator[pb.RowsReply]:
        async for reply in self._delivery.rows(request, context):
            yield reply

    async def Take(self, request: pb.TakeRequest, context: Context) -> pb.Empty:
        return await self._delivery.take(request, context)

    async def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.Empty:
        query = self._queries.by_id.get(request.query_id)
        reader = None if query is None else query.readers.get(request.reader)
        reply = await self._delivery.forget(request, context)
        # Who still writes its file does the same at the end.
        if query is not None and reader is not None and "given_up" in reader.note:
            await self._files.discard(query, reader)
        return reply

    # -- following ----------------------------------------------------------------------------

    async def Follow(self, request: pb.FollowRequest, context: Context) -> AsyncIterator[pb.FollowReply]:
        async for reply in self._following.follow(request, context):
            yield reply

    # -- status -------------------------------------------------------------------------------

    async def Stop(self, request: pb.Empty, context: Context) -> pb.Empty:
        self._stop()
        return pb.Empty()

    async def Status(self, request: pb.Empty, context: Context) -> pb.StatusReply:
        return self._report.reply(await asyncio.to_thread(peak_bytes))

    async def Walks(self, request: pb.WalksRequest, context: Context) -> pb.WalksReply:
        site, now_us = self._runner.stack.site, self._runner.clock.now_us()
        return pb.WalksReply(walks=walk_rows(site, request.query_id, now_us))

    def start(self) -> None:
        """Go on with what an earlier life had begun."""
        for query in self._queries.by_id.values():
            self._files.start(query)

    async def leave(self) -> None:
        """The daemon is being stopped: whoever reads is told to come again, and what the site writes is let go."""
        self._queries.leave()
        await self._files.stop()

    def sample(self) -> None:
        """Notice how things are; called about once a second."""
        self._report.sample()
        self._queries.retry()


def _cost(plan: Plan, estimate: PlanEstimate | None) -> pb.PlanCost:
    return pb.PlanCost(
        text=describe(plan),
        brief=brief(plan),
        json=json.dumps(plan_dict(plan)),
        bytes_per_s=None if estimate is None else estimate.bytes_per_s,
    )


def _mixed(query: IssuedQuery) -> list[str]:
    """What is to be known of the figures of a query that began again after it went over to another plan."""
    if not query.is_mixed:
        return []
    return ["it began again after it had gone over to another plan: what was measured is of both plans"]


def _may_adapt(request: pb.IssueRequest, query: IssuedQuery) -> bool:
    """Whether a query may change its plan by itself after it was given another: who names a plan wants that one."""
    if request.HasField("adaptive"):
        return request.adaptive
    return query.adaptive and not is_forced(request)


def _compared(planned: Planned) -> Compared | None:
    return None if planned.choice is None else compared(planned.choice)
