"""Looks at a cluster all the time, as a person with ``narrows status`` would: what it says, and what piles up."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cli.asking import ask_all
from cli.show.diagnosis import diagnosis
from node.client import Client
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

_EVERY_S = 0.25
#: A minute long a link that was lost several times is worth a word: no trouble, once it is up. Policy delta is judged
#: by what it counts.
_PAST = ("all is well", "is unsteady", "note:", "goes by the clock")


@dataclass
class Watch:
    """One thread that asks all sites again and again."""

    clients: dict[str, Client]
    tau_ms: int
    lines: list[str] = field(default_factory=list)
    #: By direction of a link: the most bytes that waited for it.
    largest_backlog: Counter[str] = field(default_factory=Counter)
    #: By query: the most rows that waited for their reader.
    largest_unread: Counter[str] = field(default_factory=Counter)
    last: dict[str, pb.StatusReply] = field(default_factory=dict)
    looks: int = 0
    #: Told of every look: the answers, and when they were asked for and had come.
    on_look: Callable[[dict[str, pb.StatusReply | str], float, float], None] | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        for client in self.clients.values():
            client.close()

    def says(self, words: str) -> str:
        """The first line with these words, as of the last look; nothing if there is none."""
        return next((line for line in self.lines if words in line), "")

    @property
    def well(self) -> bool:
        """Whether there was no trouble at the last look."""
        return all(any(word in line for word in _PAST) for line in self.lines)

    @property
    def behind_s(self) -> float:
        """How far the slowest query is behind the newest tuples, in event time."""
        behind = 0.0
        statuses = list(self.last.values())
        frontiers = {stream.name: stream.frontier for status in statuses for stream in status.streams}
        for query in [query for status in statuses for query in status.queries]:
            newest = max((tick for name in query.streams if (tick := frontiers.get(name, 0)) < TICK_END), default=0)
            if TICK_MIN < query.done_tick < TICK_END:
                behind = max(behind, (newest - query.done_tick) * self.tau_ms / 1000)
        return behind

    def read(self, stream: str) -> int:
        """Tuples of a stream that were read."""
        rows = [each.rows for status in list(self.last.values()) for each in status.streams if each.name == stream]
        return max(rows, default=0)

    def busiest(self, *, since: dict[tuple[str, str], int]) -> tuple[str, str]:
        """The way on which most was sent since then."""
        sent = self.sent()
        return max(sent, key=lambda way: sent[way] - since.get(way, 0))

    def sent(self) -> dict[tuple[str, str], int]:
        """Bytes from site to site so far."""
        links = [(site, link) for site, status in list(self.last.items()) for link in status.links]
        return {(site, link.peer): sum(link.sent_bytes.values()) for site, link in links}

    def look(self) -> None:
        """Once; also called by the thread."""
        asked_s = time.monotonic()
        statuses = ask_all(self.clients)
        if self.on_look is not None:
            self.on_look(statuses, asked_s, time.monotonic())
        self.lines = diagnosis(statuses, self.tau_ms)
        for site, status in statuses.items():
            if isinstance(status, str):
                continue
            self.last[site] = status
            for link in status.links:
                way = f"{site} > {link.peer}"
                self.largest_backlog[way] = max(self.largest_backlog[way], link.backlog_bytes)
            for query in status.queries:
                unread = max(self.largest_unread[query.query_id], query.unread_rows)
                self.largest_unread[query.query_id] = unread
        self.looks += 1

    def fresh(self) -> None:
        """Wait for a look that began after this call."""
        seen = self.looks
        while self.looks < seen + 2 and self._thread is not None and self._thread.is_alive():
            time.sleep(0.05)

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            self.look()
