"""By which clock a recording is replayed: event time begins somewhere at some moment, and runs so many times as fast.

That moment is kept over restarts. So a recording is like a live source, to which an outage of the daemon is nothing:
what was due meanwhile comes at once, and the recordings of all sites stay together. With another speed than before,
event time goes on from where the stream was.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass

from node.core.records import Put
from node.storage.errors import NoRoomError
from node.storage.site_records import Records
from planner.model.time_unit import TimeUnit

log = logging.getLogger(__name__)

#: The kind of record in which it is kept.
PACE = "pace"


@dataclass(frozen=True, slots=True)
class Pace:
    """Event time was ``origin_ms`` when ``time.monotonic()`` was ``began_s``."""

    origin_ms: int
    began_s: float
    speed: float

    def now_ts(self, unit: TimeUnit) -> int:
        """Which event time it is."""
        return self.origin_ms * unit + int((time.monotonic() - self.began_s) * self.speed * 1000 * unit)


def begin_pace(stream: str, speed: float, origin_ms: int, records: Records | None) -> Pace:
    """From now on; kept, if anything is. On a full disk it is not: rows do not depend on it."""
    if records is not None:
        kept = {"origin_ms": origin_ms, "began": time.time(), "speed": speed}
        try:
            records.commit([Put(PACE, stream, json.dumps(kept).encode())])
        except NoRoomError as error:
            log.warning("stream %s: after a restart its clock will begin anew: %s", stream, error)
    return Pace(origin_ms, time.monotonic(), speed)


def kept_pace(stream: str, speed: float, records: Records | None) -> Pace | None:
    """As it was begun in an earlier life, if it was with this speed."""
    found = None if records is None else records.all(PACE).get(stream)
    if found is None:
        return None
    kept = json.loads(found)
    if kept["speed"] != speed:
        return None
    # A clock that was set back does not make event time run backwards.
    elapsed_s = max(0.0, time.time() - kept["began"])
    return Pace(kept["origin_ms"], time.monotonic() - elapsed_s, speed)
