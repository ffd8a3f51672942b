"""Ticks of streams that were damaged on disk: refused at the start of a daemon, or given up if somebody says so.

What was given up is kept in the site's records, so that whoever needs it is told which ticks are lost.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from node.core.records import Put
from node.core.streams.log_extent import LogExtent
from node.core.streams.ticks import Span
from node.storage.damage import LogDamage
from node.storage.disk_log import DiskLog, Recovered
from node.storage.errors import DamagedLogError, StorageError, VersionError
from node.storage.folder import Folder
from node.storage.site_records import Records

log = logging.getLogger(__name__)

#: The kind of record in which the lost ticks of a stream are.
LOST = "lost"
_WAYS_ON = "restore a backup, or narrows node --accept-data-loss goes on without them"


def recover_log(stream: str, kept: DiskLog, folder: Folder) -> Recovered:
    """What an earlier life left in the log of a stream. Raises DamagedLogError, which says all that is damaged."""
    try:
        return kept.recover()
    except VersionError:
        raise
    except StorageError as error:
        damages = LogDamage(folder).damages
        if not damages:
            raise
        said = "; ".join(map(str, damages))
        raise DamagedLogError(f"stream {stream} required a whole log; got damage: {said} ({_WAYS_ON})") from error


def find_damage(path: Path, streams: Iterable[str]) -> dict[str, LogDamage]:
    """The logs in ``path/STREAM/log`` that are damaged."""
    found = {stream: LogDamage(Folder(path / stream / "log")) for stream in streams}
    return {stream: damage for stream, damage in found.items() if damage.damages}


def give_up(records: Records, damaged: Mapping[str, LogDamage]) -> None:
    """Go on without what is damaged: first it is known for good which ticks are lost, then they are taken out."""
    known = _lost(records)
    changes = []
    for stream, damage in damaged.items():
        lost = sorted({*known.get(stream, ()), *(one.ticks for one in damage.damages)})
        changes.append(Put(LOST, stream, json.dumps([(span.first, span.end) for span in lost]).encode()))
        for one in damage.damages:
            log.error("stream %s: data loss was accepted: %s", stream, one)
    records.commit(changes)
    for stream, damage in damaged.items():
        for name in damage.take_out():
            log.warning("stream %s: %s is what it was, and no part of the log any more", stream, name)


def with_lost(records: Records, extents: Mapping[str, LogExtent]) -> dict[str, LogExtent]:
    """What logs have, and what was given up of them in this life or before."""
    lost = _lost(records)
    return {stream: replace(extent, lost=lost.get(stream, ())) for stream, extent in extents.items()}


def _lost(records: Records) -> dict[str, tuple[Span, ...]]:
    kept = records.all(LOST)
    return {stream: tuple(Span(*span) for span in json.loads(value)) for stream, value in kept.items()}
