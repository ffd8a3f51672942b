"""The logs of joins that a site keeps: beside those of its streams, as folders that come and go with queries."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from node.core.queries.query_id import keeping_of, kept_stream_of
from node.core.query_records import RecordKind
from node.core.streams.log_extent import LogExtent
from node.storage.disk_log import DiskLog
from node.storage.errors import DamagedLogError, StorageError, disk_error
from node.storage.folder import Folder, Room, sync_folder
from node.storage.given_up import recover_log
from node.storage.site_folder import SiteFolder, log_folder
from node.wire.records import failed_home

log = logging.getLogger(__name__)

#: The name of a query, which has a hyphen, as no other name in a site's folder has before a dot; and that of the join.
_STREAM = re.compile(r"[A-Za-z0-9]\w*-[\w-]*(\+\w+)?\.\w+", re.ASCII)
#: What systems take as a folder's name.
_NAME_MAX = 255


class KeptLogs:
    """Makes and removes them, in ``path/STREAM/log``."""

    def __init__(self, path: Path, room: Room) -> None:
        self._path = path
        self._room = room

    def open(self, stream: str) -> DiskLog:
        """A log without anything. Raises StorageError, also for a name with which it would be somewhere else."""
        if len(stream) > _NAME_MAX or not _STREAM.fullmatch(stream):
            raise StorageError(f"a kept join requires a stream named after its query; got {stream!r}")
        try:
            self._remove(stream)
            opened = DiskLog(Folder(self._path / stream / "log", self._room))
            opened.recover()
        except OSError as error:
            raise disk_error(f"stream {stream}", "a folder for its log", error) from error
        return opened

    def remove(self, stream: str) -> None:
        """The log is gone. Raises StorageError."""
        try:
            self._remove(stream)
        except OSError as error:
            raise disk_error(f"stream {stream}", "its log removed", error) from error

    def _remove(self, stream: str) -> None:
        if (self._path / stream).is_dir():
            shutil.rmtree(self._path / stream)
            sync_folder(self._path)


def open_kept_logs(folder: SiteFolder) -> dict[str, LogExtent]:
    """Of joins that were kept in an earlier life: their logs are used on, and what they have is returned.

    One that is damaged ends its join, and so the query that reads it. What no join has any more is removed.
    """
    maker = KeptLogs(folder.path, folder.headroom)
    folder.logs.maker = maker
    homes = {
        kept_stream_of(query_id): query_id for query_id in folder.records.all(RecordKind.HOME) if keeping_of(query_id)
    }
    extents: dict[str, LogExtent] = {}
    for stream, query_id in homes.items():
        # It may not be there yet: the record of its join is durable first.
        place = folder.headroom.lend_or_wait(partial(log_folder, folder.path / stream / "log", folder.headroom))
        kept = DiskLog(place)
        try:
            found = recover_log(stream, kept, place)
        except DamagedLogError as error:
            log.error("the join kept as stream %s ends: %s", stream, error)
            _fail(folder, query_id, f"data loss: {error}")
            folder.logs.add(stream, folder.headroom.lend_or_wait(partial(maker.open, stream)))
            continue
        folder.logs.add(stream, kept)
        if found.extent is not None:
            extents[stream] = found.extent
    for stream in _unknown(folder.path, homes):
        log.info("the log of stream %s is removed: the join that it was kept for is over", stream)
        maker.remove(stream)
    return extents


def _fail(folder: SiteFolder, query_id: str, reason: str) -> None:
    data = folder.records.all(RecordKind.HOME)[query_id]
    change = failed_home(query_id, data, reason)
    if change is not None:
        folder.headroom.lend_or_wait(lambda: folder.records.commit([change]))


def _unknown(path: Path, known: Iterable[str]) -> list[str]:
    """Folders of kept joins have the name of a query in theirs, which has a hyphen, as no stream's has."""
    folders = [log.parent.name for log in sorted(path.glob("*-*.*/log"))]
    return [name for name in folders if name not in known]
