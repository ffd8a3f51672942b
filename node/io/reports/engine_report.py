"""What runs a site's joins, and how it does, for whoever asks for the status."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The native engine as it is; everything after the name is Spark's."""

    name: str = "native"
    master: str = ""
    version: str = ""
    jobs: int = 0
    #: Wall time of a job of Spark: the median of the last ones, and the last; None before the first.
    job_ms_median: float | None = None
    job_ms_last: float | None = None
    #: How often a worker had to be sent the windows of a partition again.
    rebuilt: int = 0
    #: How often Spark died and was started again.
    restarts: int = 0
    #: Since it is being started again; 0 if it is not.
    restarting_seconds: float = 0.0
