"""The folder of a site, ``state_dir/SITE``, as a daemon begins with it.

daemon.lock         held by the one daemon that uses the folder
site.db             whose it is, which life this is, small records (``site_records``)
headroom.bin        room for when the disk is full (``headroom``)
STREAM/log/         the log of each stream; beside it what its source keeps
results/QUERY/      rows of queries issued here, and who reads them
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from node.core.streams.log_extent import LogExtent
from node.core.streams.ticks import tick_text
from node.storage.disk_log import DiskLog
from node.storage.errors import NO_ROOM, StorageError, disk_error
from node.storage.folder import Folder, sync_folder
from node.storage.given_up import find_damage, give_up, recover_log, with_lost
from node.storage.headroom import HEADROOM_BYTES, HEADROOM_NAME, Headroom
from node.storage.lock import LOCK_NAME, SiteLock
from node.storage.site_records import (
    RECORDS_NAME,
    SiteRecords,
    check_folder,
    check_owner,
    end_forgetting,
    forget_records,
    is_forgetting,
    record_counts,
)
from node.storage.stream_logs import StreamLogs

log = logging.getLogger(__name__)

#: A stream may be called so too: names of queries have a hyphen, and no folder of a stream's has.
RESULTS_NAME = "results"


@dataclass
class SiteFolder:
    """All that a daemon has in its folder. Made by ``open_folder``."""

    path: Path
    lock: SiteLock
    records: SiteRecords
    headroom: Headroom
    logs: StreamLogs
    #: What the logs have of earlier lives; a stream that never sealed a batch is not in it.
    extents: dict[str, LogExtent] = field(default_factory=dict)
    #: What the logs have of joins that are kept (``node.io.kept_logs``).
    kept_logs: dict[str, LogExtent] = field(default_factory=dict)
    #: Whether something that was to stop may write yet.
    written: bool = False

    def stop_writer(self, stop: Callable[[], bool]) -> None:
        """Stop something that writes in the folder; ``stop`` says whether it ended."""
        if not stop():
            log.warning("%s stays locked until this process ends: something that hangs may write to it", self.path)
            self.written = True

    def close(self) -> None:
        """Let go of everything; the logs are closed by whoever writes them. What may be written stays locked."""
        if self.written:
            return
        self.records.close()
        self.lock.release()


def open_folder(
    path: Path,
    cluster: str,
    site: str,
    streams: Iterable[str],
    clock_s: int,
    fresh: bool = False,
    headroom_bytes: int = HEADROOM_BYTES,
    accept_loss: bool = False,
    step: Callable[[str], None] = lambda _: None,
    results: Callable[[Path], list[str]] = lambda _: [],
    make_headroom: Callable[[Path, int], Headroom] = Headroom,
) -> SiteFolder:
    """Begin the next life of a site in its folder; ``fresh``: say what is there, and forget it first;
    ``accept_loss``: what is damaged in logs is taken out of them.

    ``step`` is told what takes its time; ``results`` tells of a folder with rows of queries what is in it.

    Raises StorageError if another daemon has it, if it is another site's, of another version or damaged (nothing is
    touched then), or cannot be written to.
    """
    names, headroom = list(streams), make_headroom(path, headroom_bytes)
    lock = headroom.lend_or_wait(lambda: SiteLock(path))
    try:
        if fresh:
            _begin_anew(path, cluster, site, results, headroom)
        check_folder(path, cluster, site)
        if is_forgetting(path):
            if not fresh:
                log.warning("site %s: what --fresh had not yet removed when its daemon ended is removed", site)
            _remove_contents(path, headroom)
        if accept_loss and (damaged := find_damage(path, names)):
            records = _records(path, cluster, site, clock_s, headroom)
            give_up(records, damaged)
            logs, extents = _open_logs(path, names, headroom, step)
        else:
            logs, extents = _open_logs(path, names, headroom, step)
            records = _records(path, cluster, site, clock_s, headroom)
        return SiteFolder(path, lock, records, headroom, logs, with_lost(records, extents))
    except OSError as error:
        lock.release()
        got = f"{error.strerror or error} ({error.filename})"
        raise StorageError(f"{path} required a state_dir that can be written to; got {got}") from error
    except BaseException:
        lock.release()
        raise


def _records(path: Path, cluster: str, site: str, clock_s: int, headroom: Headroom) -> SiteRecords:
    """The next life is durable before anything else; on a full disk the reserved room is for that."""
    records = headroom.lend_or_wait(partial(SiteRecords.open, path, cluster, site, clock_s))
    headroom.reserve()
    return records


def _open_logs(
    path: Path, streams: Iterable[str], headroom: Headroom, step: Callable[[str], None]
) -> tuple[StreamLogs, dict[str, LogExtent]]:
    """The logs in ``path/STREAM/log``, checked, torn tails cut, and what they have.

    The caller has the folder's lock. Raises StorageError, or OSError.
    """
    logs: dict[str, DiskLog] = {}
    extents: dict[str, LogExtent] = {}
    for stream in streams:
        if nbytes := _nbytes(path / stream / "log"):
            step(f"reading the log of stream {stream}, {nbytes:,} bytes")
        folder = headroom.lend_or_wait(partial(log_folder, path / stream / "log", headroom))
        logs[stream] = DiskLog(folder)
        found = recover_log(stream, logs[stream], folder)
        if found.cut_bytes:
            log.info("stream %s: %d bytes were cut off its log, of batches never confirmed", stream, found.cut_bytes)
        if found.extent is not None:
            extents[stream] = found.extent
            log.info(
                "stream %s goes on at tick %s; its log has %d batches of %d tuples from tick %s on, %d bytes",
                stream,
                tick_text(found.frontier),
                found.batches,
                found.rows,
                tick_text(found.extent.begin),
                found.nbytes,
            )
    # A source may have made the folder of its stream, and sources do not sync.
    sync_folder(path)
    return StreamLogs(logs), extents


def log_folder(path: Path, headroom: Headroom) -> Folder:
    """The folder of a log, made if it is not there. Raises NoRoomError if the disk is too full for that."""
    try:
        return Folder(path, headroom)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise disk_error(str(path), "a state_dir that can be written to", error) from error


# -- beginning anew -----------------------------------------------------------------------------


def contents(path: Path, results: Callable[[Path], list[str]] = lambda _: []) -> list[str]:
    """What of a site would be forgotten, a line for each thing; nothing if there is nothing."""
    lines = [_contents_of(entry) for entry in sorted(path.iterdir()) if entry.name not in _OURS]
    lines += results(path / RESULTS_NAME)
    records = ", ".join(f"{count} of {kind}" for kind, count in record_counts(path).items())
    return [*lines, f"records: {records}"] if records else lines


#: Files that are no content: the lock, the room, and the records, which are told by their kinds.
_OURS = (LOCK_NAME, HEADROOM_NAME, *(f"{RECORDS_NAME}{end}" for end in ("", "-wal", "-shm", ".new")))


def _contents_of(entry: Path) -> str:
    size = f"{_nbytes(entry)} bytes"
    queries = [path.name for path in sorted(entry.glob("*-*")) if path.is_dir()] if entry.name == RESULTS_NAME else []
    if queries:
        also = f" and stream {entry.name}" if (entry / "log").is_dir() else ""
        return f"rows of queries {', '.join(queries)}, and their readers{also}: {size}"
    if not (entry / "log").is_dir():
        return f"{entry.name}: {size}"
    try:
        found = DiskLog(Folder(entry / "log")).recover()
    except StorageError as error:
        return f"stream {entry.name}: {size}, which cannot be read: {error}"
    if found.extent is None:
        return f"stream {entry.name}: {size}"
    ticks = f"ticks {tick_text(found.extent.begin)} to {tick_text(found.frontier)}"
    return f"stream {entry.name}: {ticks}, {found.rows} tuples, {size}"


def _nbytes(entry: Path) -> int:
    """Of a file, or of all in a folder; none if it is not there."""
    files = [entry] if entry.is_file() else [path for path in entry.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def _begin_anew(path: Path, cluster: str, site: str, results: Callable[[Path], list[str]], headroom: Headroom) -> None:
    """Say what there is, then forget whose it was. What remains is the number of the last life, so that no name comes
    again, and a mark that the rest is to be removed: its logs must not go on under what streams are now.
    """
    check_owner(path, cluster, site)
    for line in contents(path, results):
        log.warning("--fresh: site %s forgets %s", site, line)
    headroom.lend_or_wait(partial(forget_records, path, cluster, site))


def _remove_contents(path: Path, headroom: Headroom) -> None:
    """All but the records, which say until it is done that it is to be."""
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name not in _OURS:
            entry.unlink()
    sync_folder(path)
    headroom.lend_or_wait(partial(end_forgetting, path))
