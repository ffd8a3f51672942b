"""``narrows restore``: a site begins anew with a backup."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from cli.command import narrows_command
from cli.loading import loading
from cli.options.config import complete_sites, config_option, read_cluster

_EXAMPLES = """\
example:
  narrows restore --site frankfurt /backup/frankfurt-monday
"""


@narrows_command("restore", _EXAMPLES)
@click.argument("backup", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--site", required=True, metavar="SITE", shell_complete=complete_sites, help="whose backup this is")
@config_option
def command(backup: Path, site: str, config: Path | None) -> int:
    """Puts a backup in the place of a site's folder, which is gone or was moved away, and says what is lost. Then the
    daemon is started as always. Not for moving a site: its folder, as it is, may just be copied.
    """
    cluster = read_cluster(config)
    here = cluster.site(site)
    with loading():
        from node.io.backup import restore  # noqa: PLC0415 - only who runs it needs it
    folder = cluster.state_dir / here.name
    lost = restore(backup, folder, cluster.name, here.name, int(time.time()))
    print(f"site {site} is restored in {folder}; start its daemon", file=sys.stderr)
    for line in lost:
        print(f"  {line}", file=sys.stderr)
    return 0
