"""The runs that a site has, by their names, and those for whom something came that says what it is for."""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import IgnoreReason, NoteIgnored
from node.core.errors import PeerProtocolError
from node.core.links.messages import Delta, Drop, Rows, Start, StepMessage
from node.core.links.outbox import Outbox
from node.core.queries.query_id import query_of
from node.core.queries.run import QueryRun
from node.core.queries.waiting import Walk
from node.core.streams.stream import StreamState


class Runs:
    """All of one site; a run is fed by the streams that it follows."""

    def __init__(self, streams: Mapping[str, StreamState], outbox: Outbox) -> None:
        self.by_id: dict[str, QueryRun] = {}
        self._streams = streams
        self._outbox = outbox

    def add(self, run: QueryRun) -> None:
        """One that was prepared."""
        self.by_id[run.query_id] = run
        for alias in run.local_aliases:
            self._streams[run.plan.query.ref(alias).stream.name].followers.append((alias, run))

    def remove(self, run: QueryRun) -> None:
        """Nothing of it is left here."""
        del self.by_id[run.query_id]
        run.close()
        for stream in self._streams.values():
            stream.followers = [(alias, other) for alias, other in stream.followers if other is not run]

    def of(self, query_id: str) -> list[QueryRun]:
        """The runs of a query: one, or none; two while it goes over to another plan."""
        return [run for run in self.by_id.values() if query_of(run.query_id) == query_id]

    def find(self, message: Start | Delta | Drop | Rows | StepMessage) -> QueryRun | None:
        """The run that a message is for."""
        run = self.by_id.get(message.query_id)
        if run is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
        return run

    def of_walk(self, walk: Walk) -> QueryRun | None:
        """The run that a walk belongs to."""
        run = self.by_id.get(walk.query_id)
        if run is None or run.generation != walk.generation:
            self._outbox.do(NoteIgnored(IgnoreReason.WALK_OVER, str(walk)))
            return None
        return run


def check_home(peer: str, run: QueryRun, what: str) -> None:
    """Raises PeerProtocolError if somebody else says what only the home of a query may."""
    if peer != run.plan.sink:
        raise PeerProtocolError(f"query {run.query_id} requires {what} from its home, {run.plan.sink}; got {peer}")
