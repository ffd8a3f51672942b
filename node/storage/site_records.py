"""Who the folder of a site belongs to, which life of the daemon this is, and small records, all in one SQLite file.

Correct here: what ``commit`` was told is there after a crash at any moment, all of one call or nothing; lives rise, and
a life is durable before anybody can hear of it. A folder of another site, another cluster or a version that is not
known is refused before anything is touched.

The caller has the folder's lock (``lock``), and sees to it that one thread at a time calls.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

from node.core.links.lives import LIVES_TOLD_MAX, Met, next_life
from node.core.records import Put, RecordChange
from node.storage.errors import DiskFailedError, NoRoomError, StorageError, VersionError, disk_error
from node.storage.folder import sync_folder

#: The version of all that a site keeps. Version 1 had logs that began anew with each start, and no records; version 2
#: no queries that go on, so its daemons would forget in logs what these need; version 3 neither joins that are kept nor
#: queries that see what was there before they began, so its daemons would take either for other queries.
FORMAT_VERSION = 4
#: Versions that are read, and are FORMAT_VERSION from the next life on: all that was kept then is kept in the same way.
READ_VERSIONS = (2, 3, FORMAT_VERSION)
#: No stream can be called so: there is a dot in it.
RECORDS_NAME = "site.db"
#: The records in which the highest life of each other site is, and in which folder that was.
PEER_LIFE = "peer_life"
#: In the table ``site`` while not all that a folder had before it was begun anew is removed.
_FORGETTING = "forgetting"

_TABLES = (
    "CREATE TABLE site (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE records (kind TEXT, key TEXT, value BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
)

#: Where copies are looked at: in memory, as the disk may be full, else with other temporary files.
_ELSEWHERE = ("/dev/shm", None)  # noqa: S108 - a folder of its own is made in it


class SiteRecords:
    """The records of one site. Made by ``open``."""

    def __init__(self, path: Path, connection: sqlite3.Connection, clock_s: int) -> None:
        self._path = path
        self._connection = connection
        last = int(self._site_value("life") or 0)
        #: Of this run of the daemon: higher than every one before, also if the folder was lost meanwhile.
        self.life = next_life(last, clock_s)
        #: The life in which the folder was begun, which a copy of it says too; and those in it before this one: a copy
        #: never has those that the folder had since, so that it shows as old however often it is started.
        begun = self._site_value("folder")
        told = self._site_value("lives") or str(last)
        self.folder = self.life if begun is None else int(begun)
        self.lives = () if begun is None else tuple(map(int, told.split()))
        with self._transaction():
            lives = " ".join(map(str, [*self.lives, self.life][-LIVES_TOLD_MAX:]))
            values = {"life": self.life, "folder": self.folder, "lives": lives}
            for name, value in values.items():
                self._connection.execute("INSERT OR REPLACE INTO site VALUES (?, ?)", (name, str(value)))
            self._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        self.met = {peer: Met(*map(int, value.split())) for peer, value in self.all(PEER_LIFE).items()}

    @property
    def last_life(self) -> int:
        """The one before this in the folder; 0: this is its first."""
        return self.lives[-1] if self.lives else 0

    @classmethod
    def open(cls, folder: Path, cluster: str, site: str, clock_s: int) -> Self:
        """The records in the folder of a site, which begins its next life; made if there are none.

        ``clock_s``: seconds since 1970. Raises StorageError if the folder is another's, VersionError if it is of
        another version; nothing is touched then.
        """
        path = folder / RECORDS_NAME
        if not check_folder(folder, cluster, site):
            _create(path, cluster, site)
        with _said(path):
            connection = _connected(path)
        try:
            return cls(path, connection, clock_s)
        except BaseException:
            connection.close()
            raise

    def remember(self, peer: str, met: Met) -> None:
        """From now on no lower life of that site is taken for it."""
        if met > self.met.get(peer, Met()):
            self.commit([Put(PEER_LIFE, peer, f"{met.life} {met.folder}".encode())])
            self.met[peer] = met

    def all(self, kind: str) -> dict[str, bytes]:
        """The records of a kind by their keys, in the order of these."""
        with _said(self._path):
            rows = self._connection.execute("SELECT key, value FROM records WHERE kind = ? ORDER BY key", (kind,))
            return dict(rows.fetchall())

    def commit(self, changes: Iterable[RecordChange]) -> None:
        """Make all changes, in order; durable when it returns.

        Raises NoRoomError if the disk is full, and nothing is changed; DiskFailedError if it failed.
        """
        with self._transaction():
            for change in changes:
                if isinstance(change, Put):
                    row = (change.kind, change.key, change.value)
                    self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
                else:
                    row_key = (change.kind, change.key)
                    self._connection.execute("DELETE FROM records WHERE kind = ? AND key = ?", row_key)

    def begin_folder(self) -> None:
        """The next life does not go on from this one: its folder is another one."""
        with self._transaction():
            self._connection.execute("DELETE FROM site WHERE name IN ('folder', 'lives')")

    def close(self) -> None:
        """Let go of the file, once or more often."""
        self._connection.close()

    def _site_value(self, name: str) -> str | None:
        with _said(self._path):
            found = self._connection.execute("SELECT value FROM site WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _said(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


class Records(Protocol):
    """What a daemon needs of them."""

    @property
    def life(self) -> int: ...

    @property
    def lives(self) -> tuple[int, ...]: ...

    @property
    def folder(self) -> int: ...

    @property
    def met(self) -> Mapping[str, Met]: ...

    def remember(self, peer: str, met: Met) -> None: ...

    def all(self, kind: str) -> dict[str, bytes]: ...

    def commit(self, changes: Iterable[RecordChange]) -> None: ...


class NoRecords:
    """For a run that keeps nothing on disk."""

    def __init__(self, clock_s: int) -> None:
        self.life, self.folder = clock_s, 0
        self.lives: tuple[int, ...] = ()
        self.met: dict[str, Met] = {}

    def remember(self, peer: str, met: Met) -> None:
        self.met[peer] = max(met, self.met.get(peer, Met()))

    def all(self, kind: str) -> dict[str, bytes]:
        """There are none."""
        return {}

    def commit(self, changes: Iterable[RecordChange]) -> None:
        """Nobody will ask for them."""

    def close(self) -> None:
        """Nothing to do."""


def check_folder(folder: Path, cluster: str, site: str) -> bool:
    """Whether there is state in the folder. Raises StorageError if it is not for this daemon; touches nothing."""
    check_owner(folder, cluster, site)
    version, _ = _read_identity(folder)
    if version not in (None, *READ_VERSIONS):
        known = " or ".join(map(str, READ_VERSIONS))
        raise VersionError(
            f"{folder} required state of version {known}; got version {version} "
            "(narrows node --fresh forgets it and begins anew)"
        )
    return version is not None


def check_owner(folder: Path, cluster: str, site: str) -> None:
    """Raises StorageError if what is in the folder is another site's or another cluster's."""
    _, values = _read_identity(folder)
    owner = (values.get("cluster", cluster), values.get("site", site))
    if owner != (cluster, site):
        required = f"{folder} required the state of site {site} of cluster {cluster}"
        raise StorageError(f"{required}; got that of site {owner[1]} of cluster {owner[0]}")


def forget_records(folder: Path, cluster: str, site: str) -> None:
    """Keep nothing but the number of the last life, and begin anew, of whatever version the records are.

    From then on the folder ``is_forgetting``, until ``end_forgetting``: what else is in it belongs to nothing.
    """
    _, values = _read_identity(folder)
    life = values.get("life", "")
    path, made = folder / RECORDS_NAME, folder / f"{RECORDS_NAME}.new"
    _remove(made)
    _create(made, cluster, site, {_FORGETTING: "1"} | ({"life": life} if life.isdigit() else {}))
    # The old file's journal must not be taken for that of the new one. Until that has its name the old one counts, and
    # what a daemon that was killed had committed last is in its journal only.
    if path.exists():
        _end_journal(path)
    _remove_journal(path)
    made.replace(path)
    sync_folder(folder)


def is_forgetting(folder: Path) -> bool:
    """Whether what the folder had before it was begun anew may be there yet: a crash came before it was removed."""
    return _FORGETTING in _read_identity(folder)[1]


def end_forgetting(folder: Path) -> None:
    """It is removed, for good."""
    path = folder / RECORDS_NAME
    with _said(path), closing(_connected(path)) as connection:
        connection.execute("DELETE FROM site WHERE name = ?", (_FORGETTING,))


def record_counts(folder: Path) -> dict[str, int]:
    """How many records of each kind are in a folder; nothing if it has none, or of another version."""
    if _read_identity(folder)[0] not in READ_VERSIONS:
        return {}
    with _copy_of(folder / RECORDS_NAME) as connection:
        return dict(connection.execute("SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind").fetchall())


def _read_identity(folder: Path) -> tuple[int | None, dict[str, str]]:
    """Version and owner of what is in a folder; None if there is nothing. The table ``site`` is the same in all."""
    path = folder / RECORDS_NAME
    if not path.exists():
        return (1 if any(folder.glob("*/log/*.log")) else None), {}
    with _copy_of(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            return None, {}
        try:
            return version, dict(connection.execute("SELECT name, value FROM site").fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return version, {}
            raise


@contextmanager
def _copy_of(path: Path) -> Iterator[sqlite3.Connection]:
    """To look at records that are not ours, or not yet: opening the file itself would write to it."""
    with ExitStack() as removing, _said(path):
        copy = _copy_elsewhere(path, removing)
        with closing(sqlite3.connect(copy)) as connection:
            yield connection


def _copy_elsewhere(path: Path, removing: ExitStack) -> Path:
    """Where there is room for a copy, which goes with ``removing``. Raises StorageError if there is none."""
    for folder in _ELSEWHERE:
        try:
            made = removing.enter_context(tempfile.TemporaryDirectory(prefix="narrows-", dir=folder))
            copy = Path(made, path.name)
            shutil.copyfile(path, copy)
            if _journal(path).exists():
                shutil.copyfile(_journal(path), _journal(copy))
        except OSError as error:
            problem = error
        else:
            return copy
    raise disk_error(str(path), "a copy of it in memory or in a temporary folder, to look at it", problem) from problem


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _end_journal(path: Path) -> None:
    """All that was committed is in the file itself, durable. Raises StorageError if it cannot be."""
    with _said(path), closing(_connected(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _remove_journal(path: Path) -> None:
    _journal(path).unlink(missing_ok=True)
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_journal(path)


def _create(path: Path, cluster: str, site: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """In one transaction, with the version: a file that a crash left half made has version 0, and is made again."""
    values = {"cluster": cluster, "site": site, **more}
    with _said(path), closing(_connected(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            connection.execute(table)
        connection.executemany("INSERT INTO site VALUES (?, ?)", values.items())
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")
    sync_folder(path.parent)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What SQLite finds wrong, as a StorageError.

    On a full disk it cannot make the file that it shares with others (SHMSIZE), and does not say why.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) or 0
        name = getattr(error, "sqlite_errorname", "")
        said = f"{path} required a disk that keeps what is written; got {error} ({name})"
        if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise NoRoomError(said) from error
        if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise StorageError(f"{path} required the records of a site; got {error}") from error
        raise DiskFailedError(said) from error
