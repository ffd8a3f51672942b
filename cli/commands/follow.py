"""``narrows follow``: rows of a query that is already there."""

from __future__ import annotations

from pathlib import Path

from cli.command import narrows_command
from cli.exit_codes import DONE
from cli.loading import loading
from cli.options.common import query_id_argument
from cli.options.config import config_option, read_cluster
from cli.options.rows import row_options

_EXAMPLES = """\
examples:
  narrows follow frankfurt-1mhqyjj-1
  narrows follow frankfurt-1mhqyjj-1 --out rest.csv
"""


@narrows_command("follow", _EXAMPLES)
@query_id_argument
@config_option
@row_options
def command(query_id: str, config: Path | None, form: str | None, out: Path | None) -> int:
    """Takes the rows of a query that nobody has taken yet, and those to come. One follower at a time; rows are
    forgotten at the site once they are taken (but see query --keep).
    """
    cluster = read_cluster(config)
    with loading():
        from cli.sites import home_client  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.caveats import say_caveats  # noqa: PLC0415
        from cli.tasks.delivery import deliver  # noqa: PLC0415
        from cli.tasks.output import check_out  # noqa: PLC0415
    check_out(out, form)
    with home_client(cluster, query_id) as client:
        code = deliver(client, query_id, out, form)
    if code == DONE:
        say_caveats(cluster, query_id)
    return code
