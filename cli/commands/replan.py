"""``narrows replan``: another plan for a query that runs."""

from __future__ import annotations

from pathlib import Path

import click

from cli.command import narrows_command
from cli.loading import loading
from cli.options.common import json_option, query_id_argument
from cli.options.config import config_option, read_cluster
from cli.options.plan import ALGORITHM_CHOICES, PlanChoice, adaptive_option, other_plan_options
from cli.sites import home_client

_EXAMPLES = """\
examples:
  narrows replan frankfurt-1mhqyjj-1                    the cheapest plan by what the sites measure now
  narrows replan frankfurt-1mhqyjj-1 --dry-run          which one that is, and what both should cost
  narrows replan frankfurt-1mhqyjj-1 --plan ship-all
  narrows replan frankfurt-1mhqyjj-1 --plan plan.json   as narrows explain --json printed it, and you changed it

The query does not stop: the new plan's copies are filled while the old one runs, then each stream goes over. If a site
cannot, the old plan runs on. Ctrl-C only stops watching. narrows explain ID tells what became of it.
"""


@narrows_command("replan", _EXAMPLES, ALGORITHM_CHOICES)
@query_id_argument
@config_option
@other_plan_options
@adaptive_option(
    "afterwards go over to a better plan by itself, or keep this one (default: as before, but keep one that is named)"
)
@click.option("--dry-run", is_flag=True, help="show both plans and what each should cost, and change nothing")
@json_option
def command(
    query_id: str, config: Path | None, plan: PlanChoice, adaptive: bool | None, dry_run: bool, as_json: bool
) -> int:
    """Has a query that runs go over to another plan, without a stop: every row comes, once. Ends when it has gone over,
    or with exit code 1 if that was given up: then the query goes on as it did.
    """
    cluster = read_cluster(config)
    with loading():
        from cli.tasks.replan import replan  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.request import plan_request  # noqa: PLC0415
        from node.rpc import control_pb2 as pb  # noqa: PLC0415
    request = pb.ReplanRequest(query_id=query_id, plan=plan_request(plan, "", adaptive=adaptive), dry_run=dry_run)
    with home_client(cluster, query_id) as client:
        return replan(client, request, as_json=as_json)
