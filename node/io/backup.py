"""Backups of a site's folder: made of a site that stands still, and restored as what they are, the past.

Correct here: a backup is whole or is refused. What a site told others after the backup was made is lost with its
folder, and the streams go on from the backup, perhaps with other batches. So a folder that was restored
- is another folder than the one that peers have met, and its lives rise beyond all that they have seen;
- ends the queries that were issued at the site: readers may have rows that are not in it, under numbers that would be
  given again;
- does not write on the files of these (``--to``): they may have rows that are not in it;
- refuses to go on with a query of another site if results were found with ticks that its logs do not have.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from node.core.query_records import RecordKind
from node.core.records import Put, RecordChange
from node.core.streams.ticks import TICK_MIN, tick_text
from node.io.results.journal import JOURNAL_NAME, Facts, Journal
from node.io.results.readers import FILE_READER, Reader, noted_reader
from node.storage.damage import ASIDE
from node.storage.disk_log import DiskLog
from node.storage.errors import StorageError
from node.storage.folder import Folder, make_folder, sync_folder
from node.storage.given_up import recover_log
from node.storage.headroom import HEADROOM_NAME
from node.storage.lock import LOCK_NAME, SiteLock
from node.storage.site_folder import RESULTS_NAME
from node.storage.site_records import RECORDS_NAME, Records, SiteRecords, check_folder, is_forgetting
from node.wire.records import done_ticks, failed_home, restored_pin

#: Written last: a folder without it is no backup.
MANIFEST_NAME = "backup.json"
MANIFEST_VERSION = 1
#: The kind of record in which it is where the log of a stream ended when the site was restored. One, under no name, is
#: there if it was.
RESTORED = "restored"
_NOT_COPIED = (LOCK_NAME, HEADROOM_NAME, Path(HEADROOM_NAME).with_suffix(".new").name, f"{RECORDS_NAME}-shm")
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What was copied."""

    files: int
    nbytes: int


def back_up(folder: Path, cluster: str, site: str, to: Path) -> BackedUp:
    """Copy the folder of a site whose daemon does not run.

    Raises StorageError if it runs, ``to`` is not empty, or a log is damaged, as it could not be restored then.
    """
    if not folder.is_dir():
        raise StorageError(f"a backup of site {site} required its folder; got none at {folder}")
    _require_empty(to)
    lock = SiteLock(folder)
    try:
        if not check_folder(folder, cluster, site):
            raise StorageError(f"a backup of site {site} required its state in {folder}; got none")
        if is_forgetting(folder):
            got = "one of which --fresh had not yet removed everything (the next start of its daemon does)"
            raise StorageError(f"a backup of site {site} required a folder that is in use; got {got}")
        _log_ends(folder)
        files = {
            path.relative_to(folder).as_posix(): _copied(path, to / path.relative_to(folder)) for path in _files(folder)
        }
    finally:
        lock.release()
    said = {"version": MANIFEST_VERSION, "cluster": cluster, "site": site, "files": files}
    # What it names is durable before it has its name.
    _sync_all(to)
    _write_manifest(to, json.dumps(said, indent=1) + "\n")
    return BackedUp(len(files), sum(size for size, _ in files.values()))


def restore(backup: Path, folder: Path, cluster: str, site: str, clock_s: int) -> list[str]:
    """Put a backup in the place of a site's folder, which must be empty; what is lost, a line for each thing.

    Raises StorageError if the backup is not whole, or another site's; then nothing is there.
    """
    files = _check(backup, cluster, site)
    _require_empty(folder)
    made = folder.with_name(f"{folder.name}.restoring")
    shutil.rmtree(made, ignore_errors=True)
    make_folder(made)
    for name, (size, digest) in files.items():
        if _copied(backup / name, made / name) != (size, digest):
            raise StorageError(f"{backup / name} required the bytes that were backed up; got others")
    lost = _begin_anew(made, cluster, site, clock_s)
    _sync_all(made)
    if folder.is_dir():
        folder.rmdir()
    made.rename(folder)
    sync_folder(folder.parent)
    return lost


def restored_to(records: Records, stream: str) -> int | None:
    """Where the log of a stream ended when the site was last restored; None: it never was."""
    kept = records.all(RESTORED)
    # A stream that had nothing in the backup is not named.
    return int(kept.get(stream, TICK_MIN)) if kept else None


def _begin_anew(folder: Path, cluster: str, site: str, clock_s: int) -> list[str]:
    check_folder(folder, cluster, site)
    ends = _log_ends(folder)
    records = SiteRecords.open(folder, cluster, site, clock_s)
    try:
        changes: list[RecordChange] = [Put(RESTORED, "", str(TICK_MIN).encode())]
        for stream, end in ends.items():
            earlier = restored_to(records, stream)
            changes.append(Put(RESTORED, stream, str(end if earlier is None else min(end, earlier)).encode()))
        lost = [
            f"stream {stream} goes on at tick {tick_text(end)}; later ones are lost" for stream, end in ends.items()
        ]
        ended, lines = _end_homes(records, site)
        pins = records.all(RecordKind.PIN)
        changes += [restored_pin(query_id, data, ends) for query_id, data in pins.items()]
        records.commit([*changes, *ended])
        records.begin_folder()
    finally:
        records.close()
    lines += _give_up_files(folder / RESULTS_NAME, site)
    others = "queries of other sites end with data loss if results were found with ticks that are lost; others go on"
    aside = "tuples that were set aside are in no backup: late_dir is as it is, and may have some of them again"
    return [*lost, *lines, others, aside]


def _log_ends(folder: Path) -> dict[str, int]:
    """Where the log of each stream ends. Raises StorageError if one is damaged, and says what to do."""
    ends = {}
    for path in sorted(folder.glob("*/log")):
        disk, stream = Folder(path), path.parent.name
        extent = recover_log(stream, DiskLog(disk), disk).extent
        ends[stream] = TICK_MIN if extent is None else extent.end
    return ends


def _end_homes(records: Records, site: str) -> tuple[list[Put], list[str]]:
    """Those that were issued here end: rows that readers have may not be in the backup."""
    done = records.all(RecordKind.DONE)
    changes, lines = [], []
    for query_id, data in records.all(RecordKind.HOME).items():
        ticks = done_ticks(query_id, done[query_id]) if query_id in done else ()
        kept = ", ".join(f"{head} up to tick {tick_text(tick)}" for head, tick in ticks) or "none"
        reason = f"data loss: site {site} was restored from a backup; rows that are known to be in it: {kept}"
        change = failed_home(query_id, data, reason)
        if change is not None:
            changes.append(change)
            lines.append(f"query {query_id} was issued here and ends; rows that are known to be kept: {kept}")
    return changes, lines


def _give_up_files(results: Path, site: str) -> list[str]:
    """Files that queries wrote here are left as they are: what they have is not known any more."""
    lines = []
    for folder in sorted(path.parent for path in results.glob(f"*/{JOURNAL_NAME}") if path.parent.suffix != ASIDE):
        journal = Journal(partial(Folder, folder))
        try:
            reader = _file_reader(journal.recover())
            if reader is not None:
                file = reader.note["file"]
                why = f"site {site} was restored from a backup, and {file} may have rows that are not in it"
                reader.give_up(folder.name, why)
                journal.append(reader.facts())
                journal.commit()
                lines.append(f"query {folder.name} does not write {file} any more, which stays as it is")
        except StorageError:
            # A journal that is damaged keeps the site from starting, or its query is put aside then.
            continue
        finally:
            journal.close()
    return lines


def _file_reader(noted: Sequence[Facts]) -> Reader | None:
    """The one that has a file to write on, if there is one."""
    readers = (noted_reader(facts) for facts in noted if facts.get("reader") == FILE_READER)
    return next((reader for reader in readers if reader.writes), None)


# -- files ----------------------------------------------------------------------------------------


def _check(backup: Path, cluster: str, site: str) -> dict[str, tuple[int, str]]:
    """The files of a backup. Raises StorageError if it is none, or another's."""
    path = backup / MANIFEST_NAME
    try:
        said = json.loads(path.read_text())
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in said["files"].items()}
        version, owner = said["version"], (said["cluster"], said["site"])
    except FileNotFoundError:
        got = f"no {MANIFEST_NAME}: only what narrows backup has made can be restored"
        raise StorageError(f"{backup} required a backup; got {got}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} required what a backup consists of; got {error!r}") from error
    if version != MANIFEST_VERSION:
        raise StorageError(f"{path} required version {MANIFEST_VERSION} of a backup; got version {version}")
    if owner != (cluster, site):
        required = f"{backup} required a backup of site {site} of cluster {cluster}"
        raise StorageError(f"{required}; got one of site {owner[1]} of cluster {owner[0]}")
    outside = [name for name in files if Path(name).is_absolute() or ".." in Path(name).parts]
    missing = [name for name in files if not (backup / name).is_file()]
    if outside or missing:
        raise StorageError(f"{backup} required all files of the backup; got none at {', '.join(outside or missing)}")
    return files


def _write_manifest(folder: Path, text: str) -> None:
    """It is there, whole, or not at all, whenever power is lost."""
    made = folder / f"{MANIFEST_NAME}.new"
    with made.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    made.rename(folder / MANIFEST_NAME)
    sync_folder(folder)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _NOT_COPIED:
            yield path


def _copied(path: Path, to: Path) -> tuple[int, str]:
    """Size and digest of what was copied, as it was read."""
    make_folder(to.parent)
    digest, size = hashlib.blake2b(digest_size=16), 0
    with path.open("rb") as source, to.open("xb") as target:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            target.write(piece)
            size += len(piece)
        target.flush()
        os.fsync(target.fileno())
    shutil.copystat(path, to)
    return size, digest.hexdigest()


def _require_empty(folder: Path) -> None:
    if folder.is_dir() and any(path.name != LOCK_NAME for path in folder.iterdir()):
        raise StorageError(f"{folder} required an empty folder, or none; got one with files (move it away first)")
    if folder.is_dir():
        lock = SiteLock(folder)
        (folder / LOCK_NAME).unlink()
        lock.release()


def _sync_all(folder: Path) -> None:
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        sync_folder(path)
    sync_folder(folder.parent)
