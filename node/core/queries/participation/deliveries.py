"""What came for walks: batches of streams, messages of steps, answers of the engine, what is done; each to its run."""

from __future__ import annotations

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.catch_up import LogGapError
from node.core.arrangements.fed import Fed
from node.core.arrangements.head_cursor import HeadCursor
from node.core.arrangements.table import RowTable
from node.core.effects import IgnoreReason, NoteIgnored
from node.core.events import EngineFailed, LogRead, LogUnread, ProbeFinished
from node.core.links.messages import Rows, StepMessage, TupleAnswer
from node.core.links.outbox import Outbox
from node.core.queries.home.issuer import Issuer
from node.core.queries.participation.fences import Fences
from node.core.queries.participation.run_ends import RunEnds
from node.core.queries.participation.runs import Runs
from node.core.queries.waiting import Waiting, Walk
from node.core.streams.view import SealedRows
from node.core.work import FetchAnswer, Work


class Deliveries:
    """To the runs of one site, and to its arrangements before."""

    def __init__(
        self,
        runs: Runs,
        fences: Fences,
        ends: RunEnds,
        issuer: Issuer,
        outbox: Outbox,
        work: Work,
        arrangements: Arrangements,
    ) -> None:
        self._runs = runs
        self._fences = fences
        self._ends = ends
        self._issuer = issuer
        self._outbox = outbox
        self._work = work
        self._arrangements = arrangements
        self._site = outbox.site

    # -- batches ------------------------------------------------------------------------------

    def on_batch(self, sealed: SealedRows) -> None:
        """A local stream has the next batch, logged."""
        self.on_fed(self._arrangements.on_batch(sealed))

    def on_log_read(self, event: LogRead) -> None:
        """Batches out of a stream's log, for a query that begins in the past or a copy that is to have them."""
        try:
            fed = self._arrangements.catch_up.on_read(event.reader, event.batches, self._outbox.now_us, self.is_full)
        except LogGapError as error:
            for query_id in error.queries:
                self._ends.fail(query_id, f"at {self._site}: {error}")
            return
        self.on_fed(fed)

    def on_log_unread(self, event: LogUnread) -> None:
        """What somebody needs of a stream's log cannot be read: its queries end."""
        for query_id in self._arrangements.catch_up.on_unread(event.reader, event.reason):
            self._ends.fail(query_id, f"at {self._site}: {event.reason}")

    def is_full(self, table: RowTable | HeadCursor) -> bool:
        """Whether some query has as much under way of what a table or a cursor feeds as is allowed."""
        runs = self._runs.by_id
        if isinstance(table, HeadCursor):
            run = runs.get(table.query_id)
            return run is not None and run.is_full(table)
        users = {lease.query_id for lease in table.leases}
        return any(run.is_full(table) for query_id, run in runs.items() if query_id in users)

    def on_fed(self, fed: Fed) -> None:
        """Tables took batches, copies were sealed further: walks go on, and others start."""
        for query_id, reason in fed.lost.items():
            self._ends.lose(query_id, reason)
        self.wake(fed.woken)
        runs = self._runs.by_id
        for cursor, sealed in fed.heads:
            run = runs.get(cursor.query_id)
            if run is not None and run.generation == cursor.generation:
                with self._ends.working(run.query_id):
                    run.on_past_batch(cursor, sealed)
        for table, sealed in fed.batches:
            for query_id in dict.fromkeys(lease.query_id for lease in table.leases):
                run = runs.get(query_id)
                if run is not None:
                    with self._ends.working(query_id):
                        run.on_batch(table, sealed)

    # -- walks --------------------------------------------------------------------------------

    def wake(self, woken: list[Waiting]) -> None:
        """What these walks waited for has happened."""
        for waiting in woken:
            run = self._runs.of_walk(waiting.walk)
            if run is not None:
                with self._ends.working(run.query_id):
                    run.wake(waiting)

    def on_step(self, peer: str, message: StepMessage) -> None:
        """A message from one half of a step to the other."""
        if isinstance(message, TupleAnswer) and not self._arrangements.on_tuples(peer, message):
            return
        run = self._runs.find(message)
        if run is not None and self._fences.is_current(peer, run, message):
            with self._ends.working(run.query_id):
                run.on_message(peer, message)

    def on_rows(self, peer: str, message: Rows) -> None:
        """Result rows of a query whose home this is."""
        run = self._runs.find(message)
        if run is not None and self._fences.is_current(peer, run, message):
            rows = run.decode_results(peer, message)
            span, sealed_at_us = message.span, message.sealed_at_us
            self._issuer.store(Walk(run.query_id, run.generation, message.head, span, sealed_at_us, 0, rows))

    def on_answer(self, event: ProbeFinished) -> None:
        """The engine answered."""
        self._arrangements.unhold(event.op_id)
        asker = self._work.take(event.op_id)
        if asker is None:
            self._outbox.do(NoteIgnored(IgnoreReason.UNKNOWN_QUESTION, f"answer to question {event.op_id}"))
        elif isinstance(asker, FetchAnswer):
            self._arrangements.on_found(asker, event.rows)
        else:
            run = self._runs.of_walk(asker.walk)
            if run is not None:
                with self._ends.working(run.query_id):
                    run.answered(asker, event.rows)

    def on_engine_failed(self, event: EngineFailed) -> None:
        """What cannot be answered ends its query, or its copy; a table that cannot be changed, all that use it."""
        self._arrangements.unhold(event.op_id)
        asker = self._work.take(event.op_id)
        reason = f"the engine failed: {event.reason}"
        if isinstance(asker, FetchAnswer):
            self._arrangements.on_not_found(asker, reason)
            return
        users = (asker.walk.query_id,) if isinstance(asker, Waiting) else self._arrangements.users_of(event.table)
        for query_id in users:
            self._ends.fail(query_id, f"at {self._site}: {reason}")

    # -- time, and the end of a turn ------------------------------------------------------------

    def on_clock(self) -> None:
        """Time passed."""
        for run in list(self._runs.by_id.values()):
            with self._ends.working(run.query_id):
                run.on_clock()

    def end_failed(self) -> None:
        """End the queries with copies that could not be sent what they need."""
        for query_id, reason in self._arrangements.owned.take_failed().items():
            self._ends.fail(query_id, f"at {self._site}: {reason}")

    def tell_endings(self) -> None:
        """Walks that ended without rows: the sinks of their queries learn of them beside other messages."""
        # Once for those that are due, once more for others that can ride with these.
        for _ in range(2):
            waiting = [run for run in self._runs.by_id.values() if run.has_endings]
            if not waiting:
                return
            sent_to = self._outbox.sent_to()
            for run in waiting:
                with self._ends.working(run.query_id):
                    run.tell_endings(riding=run.plan.sink in sent_to)
