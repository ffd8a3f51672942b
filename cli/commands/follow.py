"""``narrows follow``: rows of a query that is already there."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.command import narrows_command
from cli.exit_codes import DONE
from cli.loading import loading
from cli.options.common import query_id_argument
from cli.options.config import config_option, read_cluster
from cli.options.rows import reader_option, row_options, wait_option
from planner.model.errors import QueryError

_EXAMPLES = """\
examples:
  narrows follow frankfurt-1mhqyjj-1
  narrows follow frankfurt-1mhqyjj-1 --out rest.csv
  narrows follow frankfurt-1mhqyjj-1 --as billing   beside other readers, with a place of its own
  narrows follow frankfurt-1mhqyjj-1 --forget billing
"""


@narrows_command("follow", _EXAMPLES)
@query_id_argument
@config_option
@row_options
@reader_option
@wait_option
@click.option("--forget", metavar="NAME", help="no rows are kept for the reader of this name any more; nothing is read")
def command(
    query_id: str,
    config: Path | None,
    form: str | None,
    out: Path | None,
    reader: str | None,
    wait: float | None,
    forget: str | None,
) -> int:
    """Takes the rows of a query that its reader has not taken yet, and those to come. One follower at a time for each
    name; rows are forgotten at the site once all readers have taken them (but see query --keep). A new name begins with
    the oldest row that is kept. If the site is restarted meanwhile, this waits for it and goes on with the next row.
    """
    cluster = read_cluster(config)
    if forget is not None and (reader or out or form):
        raise QueryError("--forget: required nothing else, since no rows are read; got --as, --out or --format")
    with loading():
        from cli.sites import home_client  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.delivery import deliver, wait_for  # noqa: PLC0415
    if forget is not None:
        with home_client(cluster, query_id) as client:
            wait_for(client, wait, f"to forget reader {forget} of {query_id}")
            client.forget(query_id, forget)
        print(f"query {query_id} keeps no rows for reader {forget}", file=sys.stderr)
        return DONE
    with loading():
        from cli.tasks.caveats import say_caveats  # noqa: PLC0415
        from cli.tasks.output import check_out  # noqa: PLC0415
    check_out(out, form)
    with home_client(cluster, query_id) as client:
        wait_for(client, wait, f"to follow {query_id}")
        code = deliver(client, query_id, out, form, reader or "", wait)
    if code == DONE:
        say_caveats(cluster, query_id)
    return code
