"""Replicas that several queries use: which query's replica is whose, at one site, and how long each lives.

The owner decides, since the link is in order. When a query is prepared, the owner looks for a replica of
another query, the *host*, that holds the same (``share_key``) at the same site and of which nothing was
synced yet that the new query can see: its frontier is not past the tick from which on this site can serve
the query. Then the new query uses that one: the owner tells the holder so (Attach), and from then on both
ends keep what the new query needs, before any of it is sent.

A replica outlives its query while others use it. The owner ends it with the last user, and says so
(Detach). The holder keeps it until then, because an Attach may be under way.
"""

from __future__ import annotations

from collections.abc import Iterator

from node.core.limits import Limits
from node.core.messages import Attach, Detach
from node.core.query_run import QueryRun
from node.core.status import ReplicaKind, ReplicaStatus
from node.core.ticks import TICK_END, TICK_MIN
from node.core.view import view_schema
from node.core.walk import ReplicaShape
from planner.model import Algorithm, PolicyName

#: A replica, by its query and its number there.
Place = tuple[str, int]


def share_key(run: QueryRun, replica: ReplicaShape) -> tuple[object, ...] | None:
    """Replicas with the same key hold the same; None if this one cannot be shared.

    W' cannot yet, nor what goes by the clock, nor a copy whose batches start walks.
    """
    query, kind = run.plan.query, replica.kind
    if kind is ReplicaKind.REDUCED or run.plan.policy.name is not PolicyName.FRONTIER:
        return None
    if kind is ReplicaKind.FULL and run.shape.starts[replica.alias] == replica.holder:
        return None
    ref = query.ref(replica.alias)
    keys: tuple[object, ...] = replica.keys
    if kind is ReplicaKind.FULL:
        steps = [step for _, _, step in run.shape.all_steps if run.shape.uses(step, replica)]
        keys = tuple(sorted({step.window_keys for step in steps if step.by(Algorithm.SP_S)}))
    # Literals of different types can be equal, their texts are not.
    view = repr(ref.where), str(view_schema(query, replica.alias))
    return kind, ref.stream.name, replica.alias, view, ref.window, query.unit, keys, replica.owner, replica.holder


class Sharing:
    """Who uses whose replica here."""

    def __init__(self, site: str, runs: dict[str, QueryRun], limits: Limits) -> None:
        self._site = site
        self._limits = limits
        self._runs = runs
        #: Queries that are over here and whose replicas are not.
        self.lingering: dict[str, QueryRun] = {}
        self._hosts: dict[Place, Place] = {}
        self._users: dict[Place, dict[Place, None]] = {}
        #: Of the replicas held here, those that their owner ended.
        self._detached: dict[Place, None] = {}
        self._closed: list[QueryRun] = []
        self._ended: list[ReplicaStatus] = []

    @property
    def in_use(self) -> bool:
        return bool(self._hosts or self.lingering or self._closed or self._ended)

    def take_closed(self) -> list[QueryRun]:
        """Lingering queries of which nothing is left, since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def take_ended(self) -> list[ReplicaStatus]:
        """Halves that outlived their query and ended since the last call, as they were."""
        ended, self._ended = self._ended, []
        return ended

    def run_of(self, query_id: str) -> QueryRun | None:
        """A run that still has replicas, running or lingering."""
        return self._runs.get(query_id) or self.lingering.get(query_id)

    def users_of(self, query_id: str) -> tuple[str, ...]:
        """The queries that use replicas of this one here."""
        users = [user for (host, _), places in self._users.items() if host == query_id for user, _ in places]
        return tuple(dict.fromkeys(users))

    def users_at(self, query_id: str, number: int) -> tuple[str, ...]:
        return tuple(user for user, _ in self._users.get((query_id, number), {}))

    def users_done(self, query_id: str, number: int) -> int:
        """Up to which tick all users of a replica are done with what could use it."""
        ticks = [TICK_END]
        for user, its_number in self._users.get((query_id, number), {}):
            run = self._runs.get(user)
            ticks.append(TICK_MIN if run is None else run.done_with(run.shape.replicas[its_number].alias))
        return min(ticks)

    # -- the owner's side ---------------------------------------------------------------------

    def attach_new(self, run: QueryRun, earliest: int) -> Iterator[tuple[str, Attach]]:
        """Use what there is for a query that is being prepared; what to tell whom."""
        for replica in run.shape.replicas:
            key = share_key(run, replica) if replica.owner == self._site else None
            host = None if key is None else self._find(run, key, earliest)
            if host is not None:
                self._bind((run.query_id, replica.number), host)
                run.attached.append(replica.number)
                yield replica.holder, Attach(run.query_id, replica.number, *host)

    def _find(self, run: QueryRun, key: tuple[object, ...], earliest: int) -> Place | None:
        for other in [*self._runs.values(), *self.lingering.values()]:
            if other is run:
                continue
            for replica in other.shape.replicas:
                if other.can_host(replica.number, earliest) and share_key(other, replica) == key:
                    return other.query_id, replica.number
        return None

    # -- the holder's side --------------------------------------------------------------------

    def on_attach(self, message: Attach) -> None:
        self._bind((message.query_id, message.replica), (message.host, message.host_replica))

    def on_detach(self, message: Detach) -> None:
        """The owner ended a replica, or the use of one by a query."""
        place = message.query_id, message.replica
        if place in self._hosts:
            if message.query_id in self._runs:
                return  # it lets go when it ends here too
            self._unbind(place)
        # Even then: a query that ended here before it heard of an Attach has a copy of its own left.
        self._detached[place] = None
        while len(self._detached) > self._limits.ended_replicas_max:
            del self._detached[next(iter(self._detached))]
        self._end_if_unused(place)

    def borrowed_by(self, run: QueryRun) -> list[tuple[int, Place]]:
        """Replicas of other queries that this one uses, held here."""
        numbers = [replica.number for replica in run.shape.replicas if replica.holder == self._site]
        return [
            (number, self._hosts[run.query_id, number]) for number in numbers if (run.query_id, number) in self._hosts
        ]

    def are_same(self, run: QueryRun, number: int, host: QueryRun, host_number: int) -> bool:
        """Whether the host has what the owner says it has."""
        if not host.has_half(host_number):
            return False
        return share_key(run, run.shape.replicas[number]) == share_key(host, host.shape.replicas[host_number])

    # -- ends ---------------------------------------------------------------------------------

    def close(self, run: QueryRun, broken: bool) -> list[tuple[str, Detach]]:
        """A query is over here: end what nobody else uses; what to tell whom. ``broken``: its replicas may be wrong."""
        told: list[tuple[str, Detach]] = []
        kept = []
        for replica in run.shape.replicas:
            place = run.query_id, replica.number
            if self._site not in (replica.owner, replica.holder) or share_key(run, replica) is None:
                continue
            own = place not in self._hosts
            stays = own and not broken and run.has_half(replica.number) and self._is_wanted(place, replica)
            if stays:
                kept.append(replica.number)
                continue
            if replica.owner == self._site:
                told.append((replica.holder, Detach(*place)))
            told += self._unbind(place) if not own else []
            self._forget(place)
        if kept:
            self.lingering[run.query_id] = run
            run.linger(kept)
        else:
            run.close()
        return told

    def _is_wanted(self, place: Place, replica: ReplicaShape) -> bool:
        if self._users.get(place):
            return True
        return replica.holder == self._site and place not in self._detached

    def drop_lingering(self, query_id: str) -> list[tuple[str, Detach]]:
        """Replicas of an ended query are of no use any more; what to tell whom."""
        run = self.lingering.pop(query_id)
        told = []
        for replica in run.shape.replicas:
            if run.has_half(replica.number):
                self._ended.append(run.replica_status(replica.number))
                if replica.owner == self._site:
                    told.append((replica.holder, Detach(query_id, replica.number)))
                self._forget((query_id, replica.number))
        run.close()
        self._closed.append(run)
        return told

    def peer_lost(self, peer: str) -> None:
        """Halves whose other half was at ``peer`` end; no word of it will come from there."""
        for query_id, run in list(self.lingering.items()):
            for replica in run.shape.replicas:
                if run.has_half(replica.number) and peer in (replica.owner, replica.holder):
                    self._end(query_id, replica.number)
        # What the peer said of queries that never came.
        for place, host in list(self._hosts.items()):
            if place[0] not in self._runs and self.run_of(host[0]) is None:
                self._unbind(place)

    def _bind(self, user: Place, host: Place) -> None:
        self._hosts[user] = host
        self._users.setdefault(host, {})[user] = None
        self.refresh(host[0])

    def _unbind(self, user: Place) -> list[tuple[str, Detach]]:
        host = self._hosts.pop(user)
        self._users[host].pop(user)
        if not self._users[host]:
            del self._users[host]
        self.refresh(host[0])
        return self._end_if_unused(host)

    def refresh(self, query_id: str) -> None:
        """Those who use a query's replicas changed, or what they are done with."""
        run = self.run_of(query_id)
        if run is not None:
            run.refresh_done()

    def done_moved(self, run: QueryRun) -> None:
        """A query is done with more: so may be the replicas of others that it uses."""
        for (user, _), (host, _) in list(self._hosts.items()):
            if user == run.query_id:
                self.refresh(host)

    def _end_if_unused(self, place: Place) -> list[tuple[str, Detach]]:
        run = self.lingering.get(place[0])
        if run is None or not run.has_half(place[1]):
            return []
        replica = run.shape.replicas[place[1]]
        if self._is_wanted(place, replica):
            return []
        self._end(*place)
        return [(replica.holder, Detach(*place))] if replica.owner == self._site else []

    def _end(self, query_id: str, number: int) -> None:
        run = self.lingering[query_id]
        kept = [replica.number for replica in run.shape.replicas if run.has_half(replica.number)]
        kept.remove(number)
        self._ended.append(run.replica_status(number))
        self._forget((query_id, number))
        if kept:
            run.linger(kept)
        else:
            del self.lingering[query_id]
            run.close()
            self._closed.append(run)

    def _forget(self, place: Place) -> None:
        self._detached.pop(place, None)
