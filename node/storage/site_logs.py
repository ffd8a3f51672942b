"""The logs of a site's streams as a daemon begins with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from node.core.streams.ticks import tick_text
from node.storage.disk_log import DiskLog
from node.storage.errors import StorageError
from node.storage.folder import Folder, sync_folder
from node.storage.stream_logs import StreamLogs

log = logging.getLogger(__name__)


def begin_logs(folder: Path, streams: Iterable[str]) -> StreamLogs:
    """Logs in ``folder/<stream>/log``, empty: what an earlier life left is checked, reported and removed.

    The caller has the folder's lock. Raises StorageError if something is damaged, of another version, or cannot be had.
    """
    try:
        logs = {stream: _begin(folder / stream / "log", stream) for stream in streams}
        # A source may have made the folder of its stream, and sources do not sync.
        sync_folder(folder)
    except OSError as error:
        got = f"{error.strerror or error} ({error.filename})"
        raise StorageError(f"the logs in {folder} required a folder that can be written to; got {got}") from error
    return StreamLogs(logs)


def _begin(path: Path, stream: str) -> DiskLog:
    kept = DiskLog(Folder(path))
    found = kept.recover()
    if found.batches or found.cut_bytes:
        log.info(
            "the log of stream %s begins anew; an earlier life left %d batches of %d tuples up to tick %s, and %d "
            "bytes of batches that it had not confirmed",
            stream,
            found.batches,
            found.rows,
            tick_text(found.frontier),
            found.cut_bytes,
        )
    kept.begin()
    return kept
