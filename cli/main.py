"""The ``narrows`` command: where it begins. Nothing is imported above that could be interrupted with a stack trace."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

from cli.loading import loading


def main(arguments: list[str] | None = None) -> int:
    """The exit code, one of ``cli.exit_codes``."""
    with loading():
        from cli.dispatch import dispatch  # noqa: PLC0415 - see above

    return dispatch(arguments)


def process() -> None:
    """Be the whole process, and end it.

    A command that had said all hung once, when the interpreter was torn down while threads of gRPC still ran. So it is
    not torn down: after all that is registered for the exit, of which the first comes last, the process is left.
    An exception that nobody expected ends as python ends it, with its trace.
    """
    codes: list[int] = []
    atexit.register(_leave, codes)
    try:
        codes.append(main())
    except SystemExit as end:  # a signal
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _leave(codes: list[int]) -> None:
    if not codes:
        return
    for stream in (sys.stdout, sys.stderr):
        # What could not be written was said, and has its code.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(codes[0])


if __name__ == "__main__":
    process()
