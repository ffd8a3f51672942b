"""The ``narrows`` command: where it begins.

What it needs takes most of a second to import. Ctrl-C in that time ends the process as it ends any other program,
without a stack trace, which is why nothing is imported above.
"""

from __future__ import annotations

import signal
import sys


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 done, 1 something failed while running, 2 something asked for is not right, 130 Ctrl-C."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cli.dispatch import dispatch  # noqa: PLC0415 - see above

    signal.signal(signal.SIGINT, interrupt)
    return dispatch(arguments)


if __name__ == "__main__":
    sys.exit(main())
