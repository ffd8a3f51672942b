"""``narrows explain``: the plan of a query and what it should cost; with analyze, beside what it did cost."""

from __future__ import annotations

import re
from pathlib import Path

import click

from cli.command import narrows_command
from cli.loading import loading
from cli.options.common import at_option, speed_option
from cli.options.config import config_option, config_path
from cli.options.engine import engine_option
from cli.options.plan import PLAN_CHOICES, PlanChoice, plan_options
from cli.options.values import FILE, seconds
from planner.model.errors import QueryError

_EXAMPLES = """\
examples:
  narrows explain "SELECT ..."                      running daemons plan it
  narrows explain --start "SELECT ..."              daemons are started for it, and stopped
  narrows explain --start analyze "SELECT ..."      and the query is run to its end
  narrows explain --for 30s analyze "SELECT ..."    on running daemons, for a while
  narrows explain frankfurt-1mhqyjj-1               a query that runs: expected and measured
"""


@narrows_command("explain", _EXAMPLES, PLAN_CHOICES, usage="[OPTIONS] [analyze]")
@click.argument(
    "words", nargs=-1, required=True, metavar="QUERY", help="the query in quotes, or the ID of one that runs"
)
@config_option
@at_option
@click.option("--start", is_flag=True, help="the cluster does not run: start all sites here, and stop them afterwards")
@click.option("--for", "length", type=seconds, metavar="DURATION", help="analyze: end the query then")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--picture", type=FILE, metavar="FILE", help="draw the plan: .svg or .dot")
@speed_option
@engine_option()
@plan_options
def command(
    words: tuple[str, ...],
    config: Path | None,
    at: str | None,
    start: bool,
    length: float | None,
    as_json: bool,
    picture: Path | None,
    speed: float | None,
    engine: str | None,
    plan: PlanChoice,
) -> int:
    """Shows for every head the sites, algorithms, rows, bytes and time of each step, the alternatives, and the total
    beside shipping everything. Nothing is installed and no stream is read on. With analyze the query runs, to the end
    of its streams or for a while, and what was measured is shown beside what was expected.
    """
    path = config_path(config)
    analyze = words[0] == "analyze"
    text = " ".join(words[1:] if analyze else words)
    if analyze and not words[1:]:
        raise QueryError("narrows explain analyze requires a query; got none")
    if length is not None and not analyze:
        raise QueryError("--for requires narrows explain analyze; got narrows explain, which runs nothing")
    with loading():
        from cli.tasks.explain import Explaining, explain  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.request import plan_request  # noqa: PLC0415
    return explain(
        Explaining(
            config=path,
            request=plan_request(plan, text, explained=True),
            query_id=text if _is_query_id(text) else "",
            at=at,
            start=start,
            analyze=analyze,
            seconds=length,
            json=as_json,
            picture=picture,
            speed=speed,
            engine=engine,
        )
    )


def _is_query_id(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]*-[0-9]+", text) is not None
