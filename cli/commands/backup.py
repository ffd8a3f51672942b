"""``narrows backup``: a copy of what a site keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.command import narrows_command
from cli.loading import loading
from cli.options.config import complete_sites, config_option, read_cluster

_EXAMPLES = """\
example:
  narrows backup --site frankfurt --to /backup/frankfurt-monday
"""


@narrows_command("backup", _EXAMPLES)
@click.option("--site", required=True, metavar="SITE", shell_complete=complete_sites, help="whose folder is copied")
@click.option("--to", required=True, metavar="DIR", type=click.Path(path_type=Path), help="a new folder for the copy")
@config_option
def command(site: str, to: Path, config: Path | None) -> int:
    """Copies what a site keeps in state_dir. Its daemon must be stopped: a copy of files that change is no backup."""
    cluster = read_cluster(config)
    here = cluster.site(site)
    with loading():
        from node.io.backup import back_up  # noqa: PLC0415 - only who runs it needs it
    done = back_up(cluster.state_dir / here.name, cluster.name, here.name, to)
    print(f"site {site} is backed up in {to}: {done.files} files, {done.nbytes:,} bytes", file=sys.stderr)
    return 0
