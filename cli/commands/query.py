"""``narrows query``: a query at a running cluster, and its rows."""

from __future__ import annotations

from pathlib import Path

import click

from cli.command import narrows_command
from cli.exit_codes import DONE
from cli.loading import loading
from cli.options.common import at_option
from cli.options.config import config_option, read_cluster
from cli.options.plan import PLAN_CHOICES, PlanChoice, adaptive_option, plan_options
from cli.options.rows import reader_option, row_options, wait_option
from cli.options.values import FILE
from planner.model.errors import QueryError

_EXAMPLES = """\
examples:
  narrows query "SELECT o.id, p.cents FROM orders [RANGE 10 SECONDS] AS o
                 JOIN payments [RANGE 10 SECONDS] AS p ON o.id = p.order_id"
  narrows query --at virginia --out rows.parquet "SELECT ..."
  narrows query --from "2026-03-01 12:00:00" "SELECT ..."   begins there, as far back as its streams still have
  narrows query --detach "SELECT ..."               prints the ID, for narrows follow
  narrows query --detach --as spark "SELECT ..."    for Spark's option reader: rows are kept for nobody else
  narrows query --detach --to /data/rows.csv "SELECT ..."   the site writes the file, also after you are gone
"""


def _one_text(ctx: click.Context, _: click.Parameter, words: tuple[str, ...]) -> str:
    """Without quotes, the shell makes words of a query."""
    if len(words) > 1:
        raise click.UsageError(f"required the query as one text in quotes; got also {' '.join(words[1:])!r}", ctx)
    return words[0]


@narrows_command("query", _EXAMPLES, PLAN_CHOICES)
@click.argument("text", nargs=-1, required=True, metavar="QUERY", callback=_one_text, help="the query, in quotes")
@config_option
@at_option
@row_options
@click.option(
    "--from",
    "begin",
    default="",
    metavar="start|now|TIMESTAMP",
    help="where it begins: with the oldest that its streams still have, with what comes now, or with an event time, in "
    "UTC or with a zone (default: now, less what retain of its streams says)",
)
@click.option("--keep", is_flag=True, help="rows stay readable after they were taken, until drop")
@click.option(
    "--detach", is_flag=True, help="do not follow: print the ID once no crash can undo the query, and leave its rows"
)
@click.option(
    "--to",
    type=FILE,
    metavar="FILE",
    help="with --detach: the query's home writes the rows to this new file of its own: .csv, .jsonl, .arrows, .parquet",
)
@adaptive_option(
    "go over to a better plan while it runs, or keep the first one (default: as the cluster says, if the plan is "
    "chosen by cost)"
)
@reader_option
@wait_option
@plan_options
def command(
    text: str,
    config: Path | None,
    at: str | None,
    form: str | None,
    out: Path | None,
    begin: str,
    keep: bool,
    detach: bool,
    to: Path | None,
    adaptive: bool | None,
    reader: str | None,
    wait: float | None,
    plan: PlanChoice,
) -> int:
    """Issues a query at a site of a running cluster and follows its rows until its streams end. Ctrl-C only stops
    following: the query goes on, narrows follow takes up where you left, narrows drop ends it. If the site is
    restarted meanwhile, this waits for it and goes on with the next row.
    """
    cluster = read_cluster(config)
    if detach and (out or form):
        raise QueryError("--detach: required no --out and no --format, since no rows are taken; got one")
    if to is not None and (not detach or reader):
        raise QueryError("--to: required --detach, and no --as, since the site itself reads the rows; got otherwise")
    with loading():
        from cli.sites import client_of  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.caveats import say_caveats  # noqa: PLC0415
        from cli.tasks.delivery import await_promise, deliver, issue, wait_for  # noqa: PLC0415
        from cli.tasks.output import check_out  # noqa: PLC0415
        from cli.tasks.request import plan_request  # noqa: PLC0415
        from planner.sql.beginning import parse_beginning  # noqa: PLC0415
    check_out(out, form)
    parse_beginning(begin)
    request = plan_request(plan, text, adaptive=adaptive)
    request.begin = begin
    request.keep = keep
    request.reader = reader or ""
    request.to = "" if to is None else str(to.absolute())
    with client_of(cluster, at or cluster.sites[0].name) as client:
        wait_for(client, wait, "to issue the query")
        query_id = issue(client, request)
        if detach:
            await_promise(client, query_id, wait)
            print(query_id)
            return 0
        code = deliver(client, query_id, out, form, reader or "", wait)
    if code == DONE:
        say_caveats(cluster, query_id)
    return code
