"""How a query goes over to another plan at a site: its heads become the **successor**'s, each from a tick on.

``plan_switch`` has what home does. A head is cut by the site of its stream, at a boundary of batches; all who walk it
by either plan hear where.

If the plans have other heads, home says where all of them go over. Before that the streams of both plans are held:
their sites say from which batch on, and whoever walks a stream by either plan keeps what comes of it after that.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.core.effects import IgnoreReason
from node.core.errors import PeerProtocolError
from node.core.links.messages import Cut, GoOver, Held, Hold, Switch
from node.core.links.outbox import Outbox
from node.core.queries.participation.run_ends import RunEnds
from node.core.queries.participation.runs import Runs, check_home
from node.core.queries.query_id import successor_of
from node.core.queries.run import QueryRun
from node.core.streams.stream import StreamState


class Successors:
    """The runs of one site that take their queries over."""

    def __init__(self, streams: Mapping[str, StreamState], outbox: Outbox, runs: Runs, ends: RunEnds) -> None:
        self._streams = streams
        self._outbox = outbox
        self._runs = runs
        self._ends = ends

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

    # -- plans with other heads ---------------------------------------------------------------

    def on_hold(self, peer: str, message: Hold) -> None:
        """All sites could: the local streams are held from where they are now. If a run is gone, home begins again."""
        runs = self._of(message)
        for run in runs:
            check_home(peer, run, "that it holds its streams")
        readers: dict[str, list[QueryRun]] = {}
        for run in runs:
            for alias in run.local_aliases:
                readers.setdefault(run.plan.query.ref(alias).stream.name, []).append(run)
        for name, reading in readers.items():
            # A query may begin later than that.
            tick = max(self._streams[name].fed, *(run.first_tick for run in reading))
            for site in dict.fromkeys(site for run in reading for site in run.plan.sites):
                self._outbox.send(site, Held(message.query_id, message.generation, name, tick))

    def on_held(self, peer: str, message: Held) -> None:
        """What comes of a stream from now on waits."""
        for run in self._of(message):
            heads = [ref for ref in run.plan.query.streams if ref.stream.name == message.stream]
            if any(ref.stream.site != peer for ref in heads):
                required = f"query {message.query_id} requires its streams to be held by their sites"
                raise PeerProtocolError(f"{required}; got {message.stream!r} from {peer}")
            for ref in heads:
                run.hold_head(ref.alias, message.generation)

    def on_go_over(self, peer: str, message: GoOver) -> None:
        """All walks from a tick on are the successor's."""
        for run in self._of(message):
            check_home(peer, run, "where it goes over")
            with self._ends.working(run.query_id):
                run.go_over(message.generation, message.tick)

    def _of(self, message: Hold | Held | GoOver) -> list[QueryRun]:
        """The runs that a switch is about: a later generation knows nothing of it."""
        runs = [run for run in self._runs.of(message.query_id) if run.generation <= message.generation]
        if not runs:
            self._outbox.ignore(IgnoreReason.UNKNOWN_QUERY, message)
        return runs
