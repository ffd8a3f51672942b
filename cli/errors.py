"""What is wrong with a command itself, as opposed to what fails while it runs."""

from __future__ import annotations

from planner.model.errors import NarrowsError


class CommandError(NarrowsError):
    """The command cannot be done as it was given: exit code 2, and nothing was started or changed."""
