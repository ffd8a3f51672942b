"""From the words of a command line to an exit code that scripts can rely on.

Whatever goes wrong becomes one text on standard error, never a stack trace.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO, cast

import click
from click.exceptions import Exit
from click.shell_completion import shell_complete

from cli.exit_codes import FAILED, INTERRUPTED, NOT_RIGHT
from cli.loading import loading
from cli.mistakes import mistake
from cli.narrows import COMPLETION_VARIABLE, NAME, narrows
from cli.unheard import UnheardStream
from planner.model.errors import NarrowsError


def dispatch(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say."""
    _settle_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        _end_on(number)
    try:
        code = _command(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except click.UsageError as error:
        return _complain(mistake(error), NOT_RIGHT)
    except NarrowsError as error:
        with loading():
            from cli.failures import said  # noqa: PLC0415 - only if something is wrong

        text, code = said(error)
        return _complain(f"{NAME}: {text}", code)
    except BrokenPipeError:
        _forget_stdout()  # whoever read it has gone, and knows
        return FAILED
    except OSError as error:
        _forget_stdout()
        where = "" if error.filename is None else f"{error.filename}: "
        return _complain(f"{NAME}: {where}{error.strerror or error}", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _command(arguments: Sequence[str]) -> int:
    """Not by click's own ``main``, which has other exit codes and prints a line when it is interrupted."""
    if asked := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(narrows, {}, NAME, COMPLETION_VARIABLE, asked)
    if not arguments:
        usage = click.Context(narrows, info_name=NAME).get_help()
        return _complain(f"{NAME}: a command is required; got none\n\n{usage}", NOT_RIGHT)
    try:
        with narrows.make_context(NAME, list(arguments)) as context:
            return int(narrows.invoke(context))
    except Exit as done:  # after --help and --version
        return done.exit_code


def _complain(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _settle_streams() -> None:
    """A terminal that knows fewer letters than we use gets them as escapes; a closed standard error is no other file.

    Without the latter, what is meant for people would go where rows go. That nobody hears it fails no command.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stderr, UnheardStream):
        sys.stderr = cast("TextIO", UnheardStream(sys.stderr))


def _end_on(number: signal.Signals) -> None:
    """Like Ctrl-C, so that what was started is stopped; the daemon has its own way, and nohup is respected."""

    def end(_: int, __: FrameType | None) -> None:
        sys.exit(128 + number)

    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, end)


def _forget_stdout() -> None:
    """Nothing more is written there; python would try once more at its end, and complain."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
