"""``--config``: which cluster a command is about. Mostly the one whose file lies in this folder."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import click

from cli.cluster_file import load_cluster
from cli.errors import CommandError
from cli.options.values import FILE
from node.config import ClusterConfig
from planner.model.errors import NarrowsError

VARIABLE = "NARROWS_CONFIG"
DEFAULT = Path("cluster.toml")

#: The option; ``config_path`` says what is meant without it.
config_option = click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help=f"the cluster's configuration (default: ${VARIABLE}, else ./{DEFAULT})",
)


def read_cluster(given: Path | None) -> ClusterConfig:
    """The cluster that is meant. Raises CommandError if none is, ConfigError if its file is not right."""
    return load_cluster(config_path(given))


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


def complete_sites(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For the Tab key: sites of the cluster at hand. Its file may be half written, so it is not checked."""
    try:
        with config_path(ctx.params.get("config")).open("rb") as file:
            names = tomllib.load(file).get("site", {})
    except (NarrowsError, OSError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]
