"""The joins that a site keeps for queries: each is a query of its own, issued here, whose rows are a stream here.

When a query is prepared that reads such a stream, the stream is made and its join is issued; the query is ready when
the sites of the join are. With the query the join starts, from the same tick on: so the stream has exactly the rows
that the query is to see. It goes when the query does. A join that fails ends its query; whatever else happens to one
of the two, the other only waits: the join has its own generations.

A query that runs may go over to a plan that keeps joins. Those begin **late**: they make what that plan's walks can
see, from logs, while the query goes on by the plan before. Such a join begins and ends with the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from node.core.arrangements.arrangements import Arrangements
from node.core.effects import AppendBatch, OpenLog, QueryState, RemoveLog
from node.core.limits import Limits
from node.core.links.messages import Prepare, Resumption, Start
from node.core.links.outbox import Outbox
from node.core.queries.home.home_query import HomeQuery
from node.core.queries.home.issuer import Issuer
from node.core.queries.home.kept_sink import KeptSink
from node.core.queries.participation.pins import NOT_KEPT
from node.core.queries.plan_message import plan_of
from node.core.queries.query_id import (
    is_plain_owner,
    is_successor,
    kept_join_of,
    kept_stream_of,
    owner_of_run,
    owner_of_stream,
    query_of,
    reader_of,
)
from node.core.query_records import Recovered
from node.core.streams.derived import DerivedStream
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN
from planner.model.beginning import BeginAt, Beginning
from planner.model.errors import NarrowsError
from planner.model.kept import derived_stream, owner_of
from planner.model.query import KeptJoin, Plan


@dataclass(slots=True)
class _Kept:
    """A join that is kept here."""

    #: The query that makes it.
    query_id: str
    stream: DerivedStream

    @property
    def reader(self) -> str:
        """The query that reads it."""
        return reader_of(self.stream.info.name)

    @property
    def owner(self) -> str:
        """After what the streams of the plan are called for which it is kept."""
        return owner_of_stream(self.stream.info.name)


class KeptJoins:
    """All joins that a site keeps."""

    def __init__(
        self,
        tau_ms: int,
        streams: MutableMapping[str, StreamState],
        arrangements: Arrangements,
        issuer: Issuer,
        outbox: Outbox,
        limits: Limits,
    ) -> None:
        self._tau_ms = tau_ms
        self._streams = streams
        self._arrangements = arrangements
        self._issuer = issuer
        self._outbox = outbox
        self._limits = limits
        #: By the name of the stream.
        self._kept: dict[str, _Kept] = {}

    def recover(self, streams: Mapping[str, DerivedStream]) -> None:
        """Know again what was kept in an earlier life."""
        for query_id, stream in streams.items():
            self._kept[stream.info.name] = _Kept(query_id, stream)

    def forget_unread(self, readers: Collection[str]) -> None:
        """Of what was kept in an earlier life only what these queries read is needed."""
        for kept in [kept for kept in self._kept.values() if kept.reader not in readers]:
            self._forget(kept)

    # -- a query is prepared ------------------------------------------------------------------

    def check(self, plan: Plan, message: Prepare) -> None:
        """Raises NarrowsError if a query cannot go on with what is kept for it here."""
        for join in self._here(plan):
            is_own = not is_successor(message.query_id) or owner_of(plan) == owner_of_run(message.query_id)
            if not is_plain_owner(owner_of(plan)) or not is_own:
                required = (
                    f"site {join.site} requires for kept joins a query's name, of up to 150 letters, digits, - and _"
                )
                raise NarrowsError(f"{required}; got {message.query_id!r}")
            info = plan.query.ref(join.name).stream
            kept = self._kept.get(info.name)
            if kept is None:
                if message.resumed is not None and not is_successor(message.query_id):
                    required = f'site {join.site} requires the kept join "{join.name}" of query {message.query_id}'
                    raise NarrowsError(f"data loss: {required}; got nothing: {NOT_KEPT}")
                continue
            if kept.stream.info != info:
                raise NarrowsError(
                    f"site {join.site} requires for {info.name} the query that it is kept for; got another"
                )
            home = self._issuer.homes[kept.query_id]
            if _is_broken(home):
                raise NarrowsError(_broken(kept, home))

    def keep(self, plan: Plan, message: Prepare, begins: Mapping[str, int]) -> None:
        """Have the joins that a query reads here: those that are not there are begun.

        ``begins``: by alias, from which tick on a query that runs needs them.
        """
        for join, inner in zip(plan.keeps, plan.inners, strict=True):
            if join.site != self._outbox.site:
                continue
            info = plan.query.ref(join.name).stream
            if info.name in self._kept:
                if message.resumed is not None:
                    self._reach_to(self._kept[info.name], message.resumed.first_tick)
                continue
            resumed = message.resumed
            begin = TICK_MIN if resumed is None else begins[join.name]
            stream = DerivedStream(info, self._tau_ms, begin=begin)
            query_id = kept_join_of(owner_of_stream(info.name), join.name, join.site)
            self._kept[info.name] = _Kept(query_id, stream)
            self._streams[info.name] = stream
            self._arrangements.add_stream(info.name)
            self._outbox.do(OpenLog(info.name))
            # It may have been begun by an earlier life of the site, of which nothing is left.
            generation = self._issuer.generations.next()
            home = HomeQuery(query_id, inner, self._outbox.now_us, message.beginning, generation)
            if resumed is None:
                home.kept_as(stream)
            else:
                done = tuple((alias, begin) for alias in join.aliases)
                told = Resumption(resumed.first_tick, done, resumed.first_tick, False, resumed.begins, resumed.since)
                home.begins_late(stream, told)
            self._issuer.add(home)

    def _reach_to(self, kept: _Kept, tick: int) -> None:
        """A query had begun with a tick when a join that it reads had not: that must reach so far back too."""
        home = self._issuer.homes[kept.query_id]
        is_within = TICK_MIN < tick < TICK_END
        beginning = Beginning(BeginAt.TIME, tick * self._tau_ms) if is_within else Beginning(BeginAt.START)
        if home.sink is None and not home.state.ended and home.reaches_to(beginning):
            self._issuer.begin_again(home, "the query that reads it had begun")

    def _here(self, plan: Plan) -> list[KeptJoin]:
        return [join for join in plan.keeps if join.site == self._outbox.site]

    def are_ready(self, plan: Plan) -> bool:
        """Whether the joins that a plan reads here can start with it, or run."""
        ready = True
        for kept in self._for(plan):
            home = self._issuer.homes[kept.query_id]
            if home.is_begun and home.first_tick is not None:
                kept.stream.first_tick = home.first_tick
            elif home.is_withheld:
                kept.stream.first_tick, kept.stream.origin_ms = home.earliest, home.origin_ms
            else:
                ready = False
        return ready

    def are_level(self, plan: Plan) -> bool:
        """Whether the joins that a plan reads here, and that began late, have caught up with their streams."""
        return all(self._issuer.homes[kept.query_id].is_level for kept in self._for(plan))

    def begin(self, plan: Plan, message: Start) -> None:
        """A query starts by a plan: so do the joins that it reads, unless they have."""
        for kept in self._for(plan):
            home = self._issuer.homes[kept.query_id]
            if not home.is_begun and not home.state.ended:
                is_withheld = home.is_withheld
                home.begins_with(message.tick, message.origin_ms)
                if is_withheld:
                    self._issuer.start(home)

    # -- rows ---------------------------------------------------------------------------------

    def append_on(self) -> None:
        """What is whole of the joins is appended to their streams, as far as those who read them can take it."""
        logs_full = self._arrangements.logs_full
        for kept in self._kept.values():
            home = self._issuer.homes[kept.query_id]
            sink, stream = home.sink, kept.stream
            if not isinstance(sink, KeptSink) or home.state.ended:
                continue
            is_whole = sink.walked > max(_done(sink), stream.frontier)
            if is_whole and stream.takes_more(self._limits, logs_full):
                self._outbox.do(AppendBatch(stream.info.name, sink.batch(self._outbox.now_us)))
                is_whole = False
            if not is_whole and sink.tell_taken():
                self._issuer.done_news.add(home)

    def on_logged(self, stream: str, frontier: int) -> None:
        """A stream of the site is logged further."""
        kept = self._kept.get(stream)
        home = None if kept is None else self._issuer.homes[kept.query_id]
        if home is not None and isinstance(home.sink, KeptSink) and not home.state.ended and home.sink.logged(frontier):
            self._issuer.done_news.add(home)

    # -- the end ------------------------------------------------------------------------------

    def broken(self) -> Iterator[tuple[str, str]]:
        """Owners of joins that have ended, because of which they cannot go on; and why."""
        for kept in list(self._kept.values()):
            home = self._issuer.homes[kept.query_id]
            if _is_broken(home):
                yield kept.owner, _broken(kept, home)

    def forget(self, reader: str) -> None:
        """A query is over: nothing that was kept for it is needed."""
        for kept in [kept for kept in self._kept.values() if kept.reader == reader]:
            self._forget(kept)

    def forget_run(self, run_id: str) -> None:
        """A query does not go over to another plan."""
        for kept in [kept for kept in self._kept.values() if kept.owner == owner_of_run(run_id)]:
            self._forget(kept)

    def forget_but(self, query_id: str, plan: Plan) -> None:
        """A query has one plan: nothing that was kept for it by another one is needed."""
        for kept in [kept for kept in self._kept.values() if kept.reader == query_of(query_id)]:
            if kept.owner != owner_of(plan):
                self._forget(kept)

    def _forget(self, kept: _Kept) -> None:
        name = kept.stream.info.name
        self._issuer.ends.end(kept.query_id, QueryState.DROPPED, "the query that read it is over")
        self._issuer.remove(self._issuer.homes[kept.query_id])
        del self._kept[name], self._streams[name]
        self._arrangements.remove_stream(name)
        self._outbox.do(RemoveLog(name))

    def _for(self, plan: Plan) -> list[_Kept]:
        names = [plan.query.ref(join.name).stream.name for join in self._here(plan)]
        return [self._kept[name] for name in names if name in self._kept]


def _is_broken(home: HomeQuery) -> bool:
    return home.state.ended and home.state is not QueryState.COMPLETED


def _broken(kept: _Kept, home: HomeQuery) -> str:
    return f"the join kept as {kept.stream.info.name} {home.state}: {home.reason}"


def _done(sink: KeptSink) -> int:
    return min(tick for _, tick in sink.frontiers)


def derived_streams(recovered: Recovered, tau_ms: int) -> dict[str, DerivedStream]:
    """By the query that makes it, each stream of a join that was kept in an earlier life, with what its log has."""
    found = {}
    for record in recovered.homes:
        message = record.prepare
        if message.part:
            plan = plan_of(message)
            owner = owner_of_stream(kept_stream_of(record.query_id))
            info = derived_stream(plan.asked, plan.kept[0], owner)
            begin = TICK_MIN if message.resumed is None else message.resumed.done[0][1]
            found[record.query_id] = DerivedStream(info, tau_ms, recovered.kept_logs.get(info.name), begin)
    return found
