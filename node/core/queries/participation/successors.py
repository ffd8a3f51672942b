"""How a query goes over to another plan at a site: its heads become the **successor**'s, each from a tick on.

``plan_switch`` has what home does. A head is cut by the site of its stream, at a boundary of batches; all who walk it
by either plan hear where.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import IgnoreReason
from node.core.errors import PeerProtocolError
from node.core.links.messages import Cut, Switch
from node.core.links.outbox import Outbox
from node.core.queries.participation.runs import Runs, check_home
from node.core.queries.query_id import successor_of
from node.core.streams.stream import StreamState


class Successors:
    """The runs of one site that take their queries over."""

    def __init__(self, streams: Mapping[str, StreamState], outbox: Outbox, runs: Runs) -> None:
        self._streams = streams
        self._outbox = outbox
        self._runs = runs

    def on_switch(self, peer: str, message: Switch) -> None:
        """All sites could: the heads of the local streams go over, each from where its stream is now.

        Nothing beyond that was fed, and so said, yet. A query may begin later than that, and then goes over where it
        begins. If the successor is gone here, home begins again.
        """
        run = self._runs.by_id.get(successor_of(message.query_id, message.generation))
        if run is None:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
            return
        check_home(peer, run, "its switch")
        if not run.started or run.is_cut:
            state = "is not started" if not run.started else "has gone over"
            raise PeerProtocolError(
                f"query {run.query_id} requires its switch once, when all are ready; got one, and {state}"
            )
        sites = dict.fromkeys(site for each in self._runs.of(message.query_id) for site in each.plan.sites)
        for alias in run.local_aliases:
            tick = max(run.first_tick, self._streams[run.plan.query.ref(alias).stream.name].fed)
            for site in sites:
                self._outbox.send(site, Cut(message.query_id, message.generation, alias, tick))

    def on_cut(self, peer: str, message: Cut) -> None:
        """The walks of a head are a successor's from a tick on."""
        runs = self._runs.of(message.query_id)
        if not runs:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
        for run in runs:
            aliases = run.plan.query.aliases
            if message.head not in aliases or run.plan.query.ref(message.head).stream.site != peer:
                required = f"query {message.query_id} requires cuts of its heads from their sites"
                raise PeerProtocolError(f"{required}; got one of {message.head!r} from {peer}")
            if run.generation == message.generation:
                run.begin_head(message.head, message.tick)
            elif run.generation < message.generation:
                run.end_head(message.head, message.generation, message.tick)
