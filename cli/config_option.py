"""``--config``: which cluster a command is about. Mostly the one whose file lies in this folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import shtab

from cli.errors import CommandError

VARIABLE = "NARROWS_CONFIG"
DEFAULT = Path("cluster.toml")


def add_config_option(command: argparse.ArgumentParser) -> None:
    """The option; ``config_path`` says what is meant without it."""
    text = f"the cluster's configuration (default: ${VARIABLE}, else ./{DEFAULT})"
    option = command.add_argument("--config", type=Path, metavar="FILE", help=text)
    option.complete = shtab.FILE  # type: ignore[attr-defined]


def config_path(given: Path | None) -> Path:
    """The file that is meant. Raises CommandError if none is given and there is none where it is looked for."""
    if given is not None:
        return given
    if named := os.environ.get(VARIABLE):
        if not Path(named).exists():
            raise CommandError(f"the variable {VARIABLE} requires a file that is there; got {named!r}")
        return Path(named)
    if DEFAULT.exists():
        return DEFAULT
    raise CommandError(
        f"a cluster's configuration is required: --config FILE, the variable {VARIABLE}, or {DEFAULT} in this folder; "
        "got none. narrows init writes one"
    )
