"""What can be wrong with a mutant."""

from __future__ import annotations


class UnfitError(Exception):
    """A mutant no longer fits the source: its function is gone, or is not as the edit requires."""
