"""What the daemon needs of a site's Spark. Who starts the daemon brings it, so that nothing in ``node`` knows Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from node.config import SiteConfig, StreamConfig
from node.core.engine import SiteEngine
from node.core.streams.position import Position
from node.io.reports.engine_report import EngineReport
from node.io.sources.source import Source


class SparkSite(Protocol):
    """One Spark for the joins and the streams of a site. Its methods block, and may take minutes."""

    def start(self) -> None:
        """Start it and wait until it can work. Raises NarrowsError that says what is missing."""
        ...

    def stop(self) -> None:
        """End it; whoever waits for it gets an error."""
        ...

    def open_streams(
        self, streams: Sequence[StreamConfig], tau_ms: int, places: Mapping[str, Position] | None
    ) -> Mapping[str, Source]:
        """The streams that it reads, by name. Raises ConfigError with all that is wrong with them.

        ``places``: where those go on that have a log; None if none has, and what is read counts as handed over.
        """
        ...

    def open_engine(self) -> SiteEngine:
        """The engine that runs joins on it."""
        ...

    def report(self, engine: SiteEngine) -> EngineReport:
        """How it does; ``engine`` is the site's, which may be another one."""
        ...


#: Makes the Spark of a site that needs one; it may keep files in the folder.
SparkMaker = Callable[[SiteConfig, Path], SparkSite]
