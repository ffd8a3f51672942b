"""From the words of a command line to an exit code that scripts can rely on.

Whatever goes wrong becomes one text on standard error, never a stack trace.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from cli.client import DaemonUnreachableError
from cli.commands import COMMANDS
from cli.config_option import config_path
from cli.errors import CommandError
from cli.parser import parser
from cli.run_words import settle_words
from node.config import ConfigError
from planner.errors import NarrowsError, PlanError, QueryError
from spark_jobs.java import NoJavaError

FAILED, NOT_RIGHT, INTERRUPTED = 1, 2, 130
_NOT_RIGHT = (ConfigError, QueryError, PlanError, CommandError, NoJavaError)


def dispatch(arguments: list[str] | None = None) -> int:
    """Do what the arguments say."""
    _settle_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        _end_on(number)
    try:
        code = _command(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except NarrowsError as error:
        return _complain(*_said(error))
    except BrokenPipeError:
        _forget_stdout()  # whoever read it has gone, and knows
        return FAILED
    except OSError as error:
        _forget_stdout()
        where = "" if error.filename is None else f"{error.filename}: "
        return _complain(f"{where}{error.strerror or error}", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _command(arguments: list[str] | None) -> int:
    if not (sys.argv[1:] if arguments is None else arguments):
        return _complain(f"a command is required; got none\n\n{parser().format_help()}", NOT_RIGHT)
    options = parser().parse(arguments)
    if options.command == "run":
        settle_words(options)
    if hasattr(options, "config"):
        options.config = config_path(options.config)
    return COMMANDS[options.command](options)


def _said(error: NarrowsError) -> tuple[str, int]:
    """What to say about an error of ours, and the exit code."""
    if isinstance(error, DaemonUnreachableError):
        return f"{error}\nnarrows node --site {error.site} starts it", FAILED
    return str(error), NOT_RIGHT if isinstance(error, _NOT_RIGHT) else FAILED


def _complain(text: str, code: int) -> int:
    print(f"narrows: {text}", file=sys.stderr)
    return code


def _settle_streams() -> None:
    """A terminal that knows fewer letters than we use gets them as escapes; a closed standard error is no other file.

    Without the latter, what is meant for people would go where rows go.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


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
