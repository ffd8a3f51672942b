"""What queries of a run had in common, in figures: a simulator that shares nothing proves nothing about sharing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from node.core.arrangements.copies.copy import HeldCopy
from node.core.arrangements.table import RowTable
from node.core.links.messages import LeaseCopy, Message, OpenCopy
from node.core.queries.query_id import query_of
from node.core.site import Site
from planner.model.copies import copy_of


class Sharing:
    """Counts copies and tables that several queries used at once, wide copies, and what began in the past."""

    def __init__(self) -> None:
        self._shared: set[RowTable | HeldCopy] = set()
        self._behind: set[object] = set()
        #: Those that a plan and the one before it both used.
        self._taken_over: set[RowTable | HeldCopy] = set()
        self._sent: Counter[str] = Counter()

    def note(self, site: Site, sent: Sequence[Message]) -> None:
        """A site has handled something, and sent this."""
        arrangements = site.arrangements
        leased: list[RowTable | HeldCopy] = [*arrangements.local.all, *arrangements.held.all]
        for thing in leased:
            runs = {lease.query_id for lease in thing.leases}
            queries = {query_of(run) for run in runs}
            if len(queries) > 1:
                self._shared.add(thing)
            if len(runs) > len(queries):
                self._taken_over.add(thing)
        if arrangements.readers.in_use:
            for name in site.streams:
                self._behind.update(arrangements.readers.behind(name))
        for message in sent:
            if isinstance(message, LeaseCopy):
                self._sent["copies leased by another query"] += 1
            elif isinstance(message, OpenCopy):
                self._sent["copies opened"] += 1
                run = site.runs.get(message.query_id)
                if run is not None:
                    need = run.shape.needs[message.need]
                    own = copy_of(run.plan.query, need.kind, need.alias, need.keys, need.holder)
                    self._sent["wide copies opened"] += message.spec != own

    @property
    def counts(self) -> dict[str, int]:
        tables = [thing for thing in self._behind if isinstance(thing, RowTable)]
        shared = [thing for thing in self._shared if isinstance(thing, RowTable)]
        copies = Counter(thing.spec.kind for thing in self._shared if isinstance(thing, HeldCopy))
        return {
            "tables shared": len(shared),
            "copies shared": copies.total(),
            "tables and copies that two plans of a query used": len(self._taken_over),
            **{f"copies shared, {kind}": count for kind, count in copies.items()},
            "tables begun in the past": len(tables),
            "copies begun in the past": len(self._behind) - len(tables),
            **self._sent,
        }
