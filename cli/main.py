"""The ``narrows`` command: where it begins. Nothing is imported above that could be interrupted with a stack trace."""

from __future__ import annotations

import sys

from cli.loading import loading


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 done, 1 something failed while running, 2 something asked for is not right, 130 Ctrl-C."""
    with loading():
        from cli.dispatch import dispatch  # noqa: PLC0415 - see above

    return dispatch(arguments)


if __name__ == "__main__":
    sys.exit(main())
