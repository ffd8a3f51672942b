"""What can be wrong with what a site keeps on disk."""

import errno

from planner.model.errors import NarrowsError

#: What a system says when there is no room, and there may be some later.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class StorageError(NarrowsError):
    """Something cannot be read, written or had: who, required, got."""


class VersionError(StorageError):
    """What is on disk is of a version that this daemon does not know."""


class DamagedLogError(StorageError):
    """Confirmed batches of a stream cannot be read any more."""


class NoRoomError(StorageError):
    """The disk is full. Nothing is lost, and the same may be tried again."""


class DiskFailedError(StorageError):
    """The disk failed: what is on it can be known only by reading it again, in another life of the daemon."""


def disk_error(who: str, required: str, error: OSError) -> StorageError:
    """What a system's error means, with its number."""
    kind = NoRoomError if error.errno in NO_ROOM else DiskFailedError
    number = "" if error.errno is None else f" (error {error.errno}, {errno.errorcode.get(error.errno, 'unknown')})"
    return kind(f"{who} required {required}; got {error.strerror or error}{number}")
