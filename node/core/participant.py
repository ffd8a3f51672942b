"""The queries that a site takes part in: prepared, started, fed, and ended; and the copies that they share.

What a query does here is in ``query_run``. Here it is found for what happened, what it asks for is carried out, and
if it cannot go on it is forgotten and its home is told, which ends it everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from node.core.desk import Shipment
from node.core.effects import IgnoreReason, QueryState, RunOp, Send
from node.core.ended import EndedQueries
from node.core.engine import Find, Probe
from node.core.errors import PeerProtocolError, QueryFailedError
from node.core.events import ProbeFinished
from node.core.issuer import Issuer
from node.core.limits import Limits
from node.core.messages import (
    Attach,
    Detach,
    Done,
    Failed,
    Fetch,
    Fetched,
    Prepare,
    Prepared,
    Refused,
    ReplicaSync,
    Rows,
    Start,
    Sync,
)
from node.core.outbox import Outbox
from node.core.query_run import QueryRun
from node.core.sealer import Batch
from node.core.sharing import Sharing
from node.core.status import ProbeCounts, ReplicaStatus, StepRows, ViewCount
from node.core.stream import StreamState, check_same
from node.core.ticks import TICK_MIN
from node.core.walk import Walk
from planner.errors import NarrowsError
from planner.model import Plan
from planner.plans import checked_plan
from planner.sql import parse_query


class Participant:
    """What a site does for queries, its own and those of other homes."""

    def __init__(
        self, tau_ms: int, streams: Mapping[str, StreamState], limits: Limits, outbox: Outbox, issuer: Issuer
    ) -> None:
        self.runs: dict[str, QueryRun] = {}
        self.sharing = Sharing(outbox.site, self.runs, limits)
        #: Questions that the engine has not answered, and whose they are.
        self.asking: dict[int, QueryRun] = {}
        #: Round trips with other sites, as last measured.
        self.rtt_us: dict[str, int] = {}
        self._site = outbox.site
        self._tau_ms = tau_ms
        self._streams = streams
        self._limits = limits
        self._outbox = outbox
        self._issuer = issuer
        self._op_count = 0
        self._ended = EndedQueries(limits.ended_queries_max)

    # -- what is seen -------------------------------------------------------------------------

    def view_counts(self) -> list[ViewCount]:
        """What queries saw of the local streams, ended queries included."""
        return [*self._ended.views, *(count for run in self.runs.values() for count in run.counts.views())]

    def probe_counts(self) -> list[ProbeCounts]:
        """How policy delta fared here, ended queries included."""
        return [*self._ended.probes, *(run.probe_counts for run in self.runs.values())]

    def step_rows(self) -> list[StepRows]:
        """Rows of walks before each of their steps here, ended queries included."""
        return [*self._ended.steps, *(rows for run in self.runs.values() for rows in run.counts.steps())]

    def replica_statuses(self) -> list[ReplicaStatus]:
        """Halves of replicas here, each once with all who use it; those of ended queries as they were at the end."""
        living = [*self.runs.values(), *self.sharing.lingering.values()]
        return [*self._ended.replicas, *(status for run in living for status in self._replicas_of(run))]

    def _replicas_of(self, run: QueryRun) -> list[ReplicaStatus]:
        return run.replica_statuses(lambda number: self.sharing.users_at(run.query_id, number))

    # -- a query begins -----------------------------------------------------------------------

    def prepare(self, peer: str, message: Prepare) -> None:
        """Get ready for a query and say from where on it can be served, or refuse it."""
        if message.query_id in self.runs:
            raise PeerProtocolError(f"site {self._site} requires new query ids; got {message.query_id} again")
        try:
            plan = self._plan_of(peer, message)
        except NarrowsError as error:
            self._outbox.send(peer, Refused(message.query_id, str(error)))
            return
        run = QueryRun(message.query_id, plan, self._site, self._tau_ms, self._limits, self._next_op, self._outbox.now)
        run.users_done = lambda number: self.sharing.users_done(run.query_id, number)
        self.runs[message.query_id] = run
        streams = []
        for alias in run.local_aliases:
            stream = self._streams[plan.query.ref(alias).stream.name]
            stream.followers.append((alias, run))
            run.take_past(alias, stream.retained.pieces())
            streams.append(stream)
        origins = [stream.origin_ms for stream in streams if not stream.started and stream.origin_ms is not None]
        earliest = max((stream.earliest for stream in streams), default=TICK_MIN)
        rtts = tuple((other, rtt) for other, rtt in sorted(self.rtt_us.items()) if other in plan.sites)
        for holder, attach in self.sharing.attach_new(run, earliest):
            self._outbox.send(holder, attach)
        self._outbox.send(peer, Prepared(message.query_id, earliest, min(origins, default=None), rtts))

    def _plan_of(self, peer: str, message: Prepare) -> Plan:
        """Bind the query text against the streams that home named, once ours are as home thinks."""
        if message.sink != peer:
            raise NarrowsError(f"a query requires its home as sink; got {message.sink!r} from {peer}")
        for info in message.streams:
            if info.site != self._site:
                continue
            own = check_same(self._streams, info)
            if own.failed:
                raise NarrowsError(f"stream {info.name} cannot be read: {own.failed}")
        query = parse_query(message.text, {info.name: info for info in message.streams})
        return checked_plan(Plan(query, message.sink, message.sequences, message.policy))

    def _next_op(self) -> int:
        self._op_count += 1
        return self._op_count

    def _start(self, run: QueryRun, message: Start) -> None:
        for alias in run.local_aliases:
            stream = self._streams[run.plan.query.ref(alias).stream.name]
            if not stream.started and message.origin_ms is not None:
                stream.origin_ms = message.origin_ms
        run.start(message.tick, message.delta_us)

    def give_up_waiting(self) -> None:
        """A query that nobody starts must not hold streams that others read."""
        prepared_us = self._limits.prepared_us
        for run in list(self.runs.values()):
            if not run.started and self._outbox.now_us - run.prepared_us >= prepared_us:
                reason = f"{self._site} requires a start within {prepared_us / 1e6:g} s of being ready; got none"
                self.fail(run.query_id, reason)

    # -- a query goes on ----------------------------------------------------------------------

    def on_batch(self, stream: StreamState, batch: Batch) -> None:
        """A stream sealed a batch: give it to every query that follows it."""
        for alias, run in list(stream.followers):
            # A self-join follows twice, and may have ended the first time.
            if self.sharing.run_of(run.query_id) is run:
                with self._running(run):
                    run.on_batch(alias, batch, self._outbox.now_us)

    def on_message(self, message: Start | Done | Shipment) -> None:
        """A message for a query that runs here."""
        run = self._addressee(message)
        if run is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        with self._running(run):
            match message:
                case Start():
                    self._start(run, message)
                case Done():
                    run.on_done(message.frontiers)
                    self.sharing.done_moved(run)
                case _:
                    run.on_shipment(message)
        if isinstance(message, Start):
            self._borrow()
        if run.complete and not run.lingering:
            self.close(run.query_id)

    def _addressee(self, message: Start | Done | Shipment) -> QueryRun | None:
        """A query that is over may still have replicas, for others."""
        run = self.sharing.run_of(message.query_id)
        if run is None or not run.lingering:
            return run
        match message:
            case Sync():
                return run if run.has_full_copy(message.alias) else None
            case ReplicaSync() | Fetch() | Fetched():
                return run if run.has_half(message.replica) else None
            case _:
                return None

    def on_rows(self, message: Rows) -> None:
        """Result rows of a query whose home this is."""
        run = self.runs.get(message.query_id)
        if run is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        rows = run.decode_results(message.rows)
        self._issuer.store(run.query_id, Walk(message.head, message.span, message.sealed_at_us, 0, rows))

    def on_probe_finished(self, event: ProbeFinished) -> None:
        run = self.asking.pop(event.op_id, None)
        if run is not None:
            with self._running(run):
                run.on_answer(event.op_id, event.rows)

    def on_clock(self) -> None:
        for run in list(self.runs.values()):
            with self._running(run):
                run.on_clock()

    def tell_endings(self) -> None:
        """Walks that ended without rows: the sinks of their queries learn of them beside other messages."""
        waiting = [run for run in self.runs.values() if run.endings]
        if not waiting:
            return
        sent_to = self._outbox.sent_to()
        for run in waiting:
            with self._running(run):
                run.tell_endings(riding=run.plan.sink in sent_to)

    @contextmanager
    def _running(self, run: QueryRun) -> Iterator[None]:
        """Let a run work, then carry out what it asks for, or end it."""
        try:
            yield
        except QueryFailedError as error:
            self.fail(run.query_id, f"at {self._site}: {error}", broken=True)
        finally:
            self._drain(run)

    def _drain(self, run: QueryRun) -> None:
        """Carry out what a run asks for; questions are remembered, so the answer finds its way back."""
        for effect in run.take_effects():
            if isinstance(effect, Send):
                self._outbox.send(effect.peer, effect.message)
                continue
            if isinstance(effect, RunOp) and isinstance(effect.op, Probe | Find):
                self.asking[effect.op_id] = run
            self._outbox.do(effect)
        finished, run.finished = run.finished, []
        for walk in finished:
            self._issuer.store(run.query_id, walk)

    # -- replicas of other queries ------------------------------------------------------------

    def on_attach(self, message: Attach) -> None:
        """The owner lets a query use another one's copy."""
        self.sharing.on_attach(message)
        self._borrow()

    def on_detach(self, message: Detach) -> None:
        """The owner ended a copy, or the use of one."""
        self.sharing.on_detach(message)

    def _borrow(self) -> None:
        """Let queries use the copies of others, where both have started."""
        for run in list(self.runs.values()):
            for number, (host_id, host_number) in self.sharing.borrowed_by(run):
                host = self.sharing.run_of(host_id)
                if not run.has_half(number) or (host is not None and not host.started):
                    continue
                with self._running(run):
                    if host is None or not self.sharing.are_same(run, number, host, host_number):
                        raise QueryFailedError(
                            f"a shared replica requires its host, {host_id}; it is not here any more"
                        )
                    run.borrow(number, host, host_number)

    def settle_shared(self) -> None:
        """What one query's work let others do, and what is left to do for queries that ended with it."""
        sharing = self.sharing
        if not sharing.in_use:
            return
        while True:
            for run in [*self.runs.values(), *sharing.lingering.values()]:
                self._drain(run)
            self._ended.replicas_ended(sharing.take_ended())
            for run in sharing.take_closed():
                self._drain(run)
                self._unfollow(run)
            ready = next((run for run in self.runs.values() if run.is_ready), None)
            if ready is None:
                return
            with self._running(ready):
                ready.go_on()

    # -- a query ends -------------------------------------------------------------------------

    def close(self, query_id: str, broken: bool = False) -> None:
        """Forget a query; ``broken``: its replicas may be wrong, so others must not use them any more."""
        run = self.runs.pop(query_id, None)
        if run is None:
            return
        ended = self._ended.of(query_id)
        ended.views += run.counts.views()
        ended.probes.append(run.probe_counts)
        ended.steps += run.counts.steps()
        replicas = self._replicas_of(run)
        users = self.sharing.users_of(query_id)
        for holder, detach in self.sharing.close(run, broken):
            self._outbox.send(holder, detach)
        self._drain(run)
        living = self._replicas_of(run) if run.lingering else []
        ended.replicas += [replace(half, users=()) for half in replicas if half not in living]
        if run.lingering:
            return
        self._unfollow(run)
        for user in users:
            self.fail(user, f"at {self._site}: the replica that it shares with query {query_id} is gone")

    def _unfollow(self, run: QueryRun) -> None:
        # After draining, which notes questions that were asked in the same turn.
        for op_id in [op_id for op_id, other in self.asking.items() if other is run]:
            del self.asking[op_id]
        for stream in self._streams.values():
            stream.followers = [(alias, other) for alias, other in stream.followers if other is not run]

    def fail(self, query_id: str, reason: str, broken: bool = False) -> None:
        """This site cannot go on with the query: it forgets it and tells its home, which ends it everywhere."""
        run = self.runs.get(query_id)
        if run is not None:
            self.close(query_id, broken)
            self._outbox.send(run.plan.sink, Failed(query_id, reason))
        elif query_id in self.sharing.lingering:
            users = self.sharing.users_of(query_id)
            for holder, detach in self.sharing.drop_lingering(query_id):
                self._outbox.send(holder, detach)
            for user in users:
                self.fail(user, reason)
        else:
            self._issuer.end(query_id, QueryState.FAILED, reason)

    def peer_lost(self, peer: str, reason: str) -> None:
        """Home may not notice: its own link with the peer can be fine, or the peer may be home itself."""
        for query_id, run in list(self.runs.items()):
            if run.plan.sink == peer:
                self.close(query_id)
            elif peer in run.plan.sites:
                self.fail(query_id, f"site {peer}: {reason}")
        self.sharing.peer_lost(peer)
