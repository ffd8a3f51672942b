"""Pins: what the logs of this site's streams keep for queries that may begin again, whether they run here or not.

A pin is a record: it is kept before this site says that it is ready, and it is all that is left of a query that was
voided. How far it reaches rises with what is done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from node.core.arrangements.arrangements import Arrangements
from node.core.arrangements.lease import done_with
from node.core.arrangements.reach import reach_of
from node.core.effects import KeepRecord, RemoveRecord
from node.core.links.messages import Resumption, Returned, require_ticks
from node.core.links.outbox import Outbox
from node.core.queries.participation.look_back import seen_from
from node.core.queries.participation.runs import Runs
from node.core.queries.query_id import keeping_of
from node.core.query_records import PinRecord, RecordKind
from node.core.status import KeptLog
from node.core.streams.stream import StreamState
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_of, tick_start
from planner.model.errors import NarrowsError
from planner.model.query import Plan

#: Why a site has nothing for a query that ran.
NOT_KEPT = "it was dropped here by a user, or had failed here, or the site began anew"


class Pins:
    """Those of one site, by query."""

    def __init__(
        self, tau_ms: int, streams: Mapping[str, StreamState], outbox: Outbox, arrangements: Arrangements, runs: Runs
    ) -> None:
        self._site = outbox.site
        self._tau_ms = tau_ms
        self._streams = streams
        self._outbox = outbox
        self._arrangements = arrangements
        self._runs = runs
        self._records: dict[str, PinRecord] = {}

    def __contains__(self, query_id: str) -> bool:
        return query_id in self._records

    @property
    def queries(self) -> tuple[str, ...]:
        """Queries for which logs keep something."""
        return tuple(self._records)

    def home_of(self, query_id: str) -> str | None:
        """The home of a query that is pinned."""
        pin = self._records.get(query_id)
        return None if pin is None else pin.home

    def kept(self) -> list[KeptLog]:
        """What logs keep for queries."""
        found = []
        for pin in self._records.values():
            for name in pin.streams:
                stream = self._streams.get(name)
                if stream is None:
                    continue
                ts = self._arrangements.pinned(pin.query_id, name)
                since = stream.log_begin if ts <= TICK_MIN else max(stream.log_begin, tick_of(ts, stream.tau))
                nbytes, runs = stream.bytes_from(ts), bool(self._runs.of(pin.query_id))
                found.append(KeptLog(pin.query_id, pin.home, name, since, nbytes, runs))
        return found

    # -- what a query that begins again finds ---------------------------------------------------

    def kept_begins(self, query_id: str, plan: Plan, resumed: Resumption) -> dict[str, int]:
        """By local alias: from which tick on its stream's log has what walks that are not done can see.

        Of one that has not begun: what its first walks can see, as far as the log has it.

        Raises NarrowsError if it has not, or if nothing is kept here for a query that has streams of this site. All its
        sites had kept a pin before it ran. So here it has ended since, or the pin is lost with the disk; what the log
        has by chance may lack something.
        """
        is_kept = query_id in self._records or (resumed.since is not None and self._is_kept_by_another(query_id))
        try:
            begins = self._begins(query_id, plan, resumed)
        except NarrowsError as error:
            raise error if is_kept else NarrowsError(f"{error}: {NOT_KEPT}") from None
        # Streams of joins that are to be kept from now on need none.
        has_streams = any(plan.query.ref(alias).stream.name in self._streams for alias in begins)
        if has_streams and not is_kept:
            required = f"site {self._site} requires what it kept for query {query_id}"
            raise NarrowsError(f"data loss: {required}; got nothing: {NOT_KEPT}")
        return begins

    def _is_kept_by_another(self, query_id: str) -> bool:
        """Whether something is kept for another plan of a query, or of the one for which this join is kept."""
        asked = keeping_of(query_id) or query_id
        return any((keeping_of(other) or other) == asked for other in self._records)

    def _begins(self, query_id: str, plan: Plan, resumed: Resumption) -> dict[str, int]:
        found: dict[str, int] = {}
        if not resumed.is_begun:
            for ref in plan.query.streams:
                if ref.stream.site == self._site:
                    reach = reach_of(plan.query, ref.alias, self._tau_ms)
                    found[ref.alias] = seen_from(self._streams[ref.stream.name], reach, resumed.first_tick)
            return found
        require_ticks(f"query {query_id}", "what is done", resumed.done, plan.query.aliases)
        done = dict(resumed.done)
        if resumed.stored_to > resumed.first_tick:
            self._check_restored(query_id, plan, resumed.stored_to)
        for ref in plan.query.streams:
            if ref.stream.site == self._site:
                reach = reach_of(plan.query, ref.alias, self._tau_ms)
                stream = self._streams.get(ref.stream.name)
                if stream is None:
                    # A join that is to be kept from now on.
                    seen = tick_of(reach.before(tick_start(done_with(ref.alias, done), reach.tau)), reach.tau)
                    found[ref.alias] = max(resumed.first_tick, min(done[ref.alias], seen))
                    continue
                others = tick_start(done_with(ref.alias, done), reach.tau)
                pinned = self._arrangements.pinned(query_id, ref.stream.name)
                seen_ts = pinned if reach.count is not None else reach.before(others)
                unknown = seen_ts <= TICK_MIN and reach.count is not None
                seen = stream.log_begin if unknown else tick_of(seen_ts, reach.tau)
                begin = resumed.begin_of(ref.alias)
                found[ref.alias] = max(begin, min(done[ref.alias], seen))
                # Before its first tick nothing of it was delivered; what another plan found may not need this stream.
                begun = resumed.first_tick if resumed.walks_from is None else resumed.walks_from
                delivered = done[ref.alias] if done[ref.alias] > begun else TICK_MIN
                # How far back a count of tuples reaches is known by what was pinned: all that the log had.
                whole_from = begin if unknown else found[ref.alias]
                if resumed.since is not None:
                    # How far what ran before is, and so what is kept for it, only its sites know. No walk that
                    # matters is from before that.
                    since = tick_of(reach.before(tick_start(resumed.since, reach.tau)), reach.tau)
                    if resumed.begins and since < resumed.first_tick:
                        who = (
                            f"site {self._site} requires for a plan with other heads windows that begin after the query"
                        )
                        raise NarrowsError(f"{who}; got one of {ref.stream.name} that shows what was before it")
                    whole_from = max(found[ref.alias], since)
                    found[ref.alias] = max(whole_from, stream.log_begin)
                stream.check_log(found[ref.alias], delivered, whole_from)
        return found

    def _check_restored(self, query_id: str, plan: Plan, seen: int) -> None:
        """That all is there with which results were found that were delivered: each head's with all streams.

        Raises NarrowsError if the site was restored from a backup that is older than that. A query of which nothing is
        known was prepared after the backup.
        """
        pin = self._records.get(query_id)
        for ref in plan.query.streams:
            stream = self._streams.get(ref.stream.name)
            if ref.stream.site == self._site and stream is not None:
                bound = stream.restored_to if pin is None else dict(pin.restored).get(ref.stream.name)
                stream.check_restored(bound, seen)

    # -- records ------------------------------------------------------------------------------

    def keep(self, query_id: str, plan: Plan, begins: Mapping[str, int]) -> None:
        """Have the logs of this site keep what a query can need when it begins, or begins again."""
        pins: dict[str, int] = {}
        for ref in plan.query.streams:
            if ref.stream.site == self._site:
                stream = self._streams[ref.stream.name]
                ts = tick_start(begins.get(ref.alias, TICK_MIN), stream.tau)
                pins[ref.stream.name] = min(ts, pins.get(ref.stream.name, TICK_END))
        pin = self._records.get(query_id)
        if pin is None or pin.restored or set(pin.streams) != pins.keys():
            self._records[query_id] = PinRecord(query_id, plan.sink, tuple(pins))
            self._outbox.do(KeepRecord(self._records[query_id]))
        self._arrangements.pin(query_id, pins)

    def keep_too(self, query_id: str, plan: Plan, begins: Mapping[str, int]) -> None:
        """Have the logs keep, beside what a query needs by its plan, what it can need by another one."""
        pin, pins = self._records.get(query_id), self._arrangements.pins_of(query_id)
        for alias, tick in begins.items():
            stream = self._streams[plan.query.ref(alias).stream.name]
            name = stream.info.name
            pins[name] = min(tick_start(tick, stream.tau), pins.get(name, TICK_END))
        known = () if pin is None else pin.streams
        streams = tuple(dict.fromkeys([*known, *pins]))
        if pin is None or streams != known:
            restored = () if pin is None else pin.restored
            self._records[query_id] = PinRecord(query_id, plan.sink, streams, restored)
            self._outbox.do(KeepRecord(self._records[query_id]))
        self._arrangements.pin(query_id, pins)

    def settle(self, query_id: str) -> None:
        """A query has fewer runs: streams that none of them has need not be kept for it."""
        pin, runs = self._records.get(query_id), self._runs.of(query_id)
        if pin is None or not runs:
            return
        needed = {run.plan.query.ref(alias).stream.name for run in runs for alias in run.local_aliases}
        if not needed.issuperset(pin.streams):
            streams = tuple(name for name in pin.streams if name in needed)
            self._records[query_id] = replace(pin, streams=streams)
            self._outbox.do(KeepRecord(self._records[query_id]))
        pins = self._arrangements.pins_of(query_id)
        self._arrangements.pin(query_id, {name: ts for name, ts in pins.items() if name in needed})

    def remove(self, query_id: str) -> None:
        """A query is over here, or is refused."""
        if self._records.pop(query_id, None) is not None:
            self._arrangements.unpin(query_id)
            self._outbox.do(RemoveRecord(RecordKind.PIN, query_id))

    def move(self, query_id: str) -> None:
        """Its runs need less."""
        pins: dict[str, int] = {}
        for run in self._runs.of(query_id):
            for stream, ts in run.pins.items():
                pins[stream] = min(ts, pins.get(stream, TICK_END))
        self._arrangements.pin(query_id, pins)

    def recover(self, pins: Iterable[PinRecord]) -> None:
        """Know again what is kept for queries of an earlier life: all that the logs have."""
        for pin in pins:
            self._records[pin.query_id] = pin
            # One may have left the configuration; its query is refused when it begins again.
            known = [name for name in pin.streams if name in self._streams]
            self._arrangements.pin(pin.query_id, dict.fromkeys(known, TICK_MIN))

    def return_to(self, homes: Collection[str] | None = None) -> None:
        """Ask homes (all: None) whether what is kept for their queries is still needed."""
        for pin in list(self._records.values()):
            if (homes is None or pin.home in homes) and not self._runs.of(pin.query_id):
                self._outbox.send(pin.home, Returned(pin.query_id))
