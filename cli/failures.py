"""What is said about an error of ours, and the exit code. Imported when there is one: most errors are not needed."""

from __future__ import annotations

from cli.errors import CommandError
from cli.exit_codes import FAILED, NOT_RIGHT, STILL_AWAY
from node.client import AwayTooLongError, DaemonSilentError, DaemonUnreachableError, NotRightError, UnknownQueryError
from node.config import ConfigError
from planner.model.errors import NarrowsError, PlanError, QueryError
from spark_jobs.java import NoJavaError

_NOT_RIGHT = (ConfigError, QueryError, PlanError, CommandError, NoJavaError, NotRightError, UnknownQueryError)


def said(error: NarrowsError) -> tuple[str, int]:
    """The text without the name of the command, and the code."""
    if isinstance(error, AwayTooLongError):
        return str(error), STILL_AWAY
    if isinstance(error, DaemonSilentError):
        return f"{error}\nnarrows status shows how the sites are", FAILED
    if isinstance(error, DaemonUnreachableError):
        return f"{error}\nnarrows node --site {error.site} starts it", FAILED
    return str(error), NOT_RIGHT if isinstance(error, _NOT_RIGHT) else FAILED
