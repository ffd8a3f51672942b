"""What can be wrong with a log."""

from planner.model.errors import NarrowsError


class StorageError(NarrowsError):
    """A log cannot be read, written or had: who, required, got."""
