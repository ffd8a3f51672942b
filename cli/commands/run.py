"""``narrows run``: one query over all of the data, with everything that it needs started and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from cli.command import narrows_command
from cli.errors import CommandError
from cli.loading import loading
from cli.options.common import at_option, speed_option
from cli.options.config import config_option, config_path
from cli.options.engine import engine_option
from cli.options.plan import PLAN_CHOICES, PlanChoice, plan_options
from cli.options.rows import row_options
from cli.options.values import FILE

_EXAMPLES = """\
examples:
  narrows run "SELECT ..."
  narrows run "SELECT ..." --out rows.parquet --stats stats.json --engine native
  narrows run elsewhere/cluster.toml --query "SELECT ..."
"""
#: The configuration and the query.
_WORDS_MAX = 2


@narrows_command("run", _EXAMPLES, PLAN_CHOICES)
@click.argument("words", nargs=-1, metavar="QUERY", shell_complete=FILE.shell_complete, help="the query, in quotes")
@click.option("--query", metavar="QUERY", help="the same; then what comes before may be the configuration")
@config_option
@at_option
@row_options
@click.option("--stats", type=FILE, metavar="FILE", help="write figures about the run as JSON")
@click.option("--quiet", is_flag=True, help="no plan and no progress, only rows and errors")
@speed_option
@engine_option()
@plan_options
def command(
    words: tuple[str, ...],
    query: str | None,
    config: Path | None,
    at: str | None,
    form: str | None,
    out: Path | None,
    stats: Path | None,
    quiet: bool,
    speed: float | None,
    engine: str | None,
    plan: PlanChoice,
) -> int:
    """Starts each site as a process of this machine, replays the streams from the first tuple to the last, waits until
    every row of the query is delivered, and stops what it started. With --out the file appears only if every row is in
    it.
    """
    text, file = _settle(words, query, config)
    path = config_path(file)
    with loading():
        from cli.tasks.request import plan_request  # noqa: PLC0415 - help and the Tab key do without
        from cli.tasks.run import RunOptions, run  # noqa: PLC0415
    request = plan_request(plan, text)
    # It is over soon, and at full speed nothing that was measured of its streams lasts.
    request.adaptive = False
    return run(
        RunOptions(
            config=path,
            request=request,
            at=at,
            out=out,
            form=form,
            stats=stats,
            speed=speed,
            quiet=quiet,
            engine=engine,
        )
    )


def _settle(words: Sequence[str], query: str | None, config: Path | None) -> tuple[str, Path | None]:
    """The query, and the configuration if one is named. Raises CommandError if they are not one of each."""
    if len(words) > _WORDS_MAX:
        raise CommandError(f"narrows run requires the query as one text in quotes; got {' '.join(words)!r}")
    files = [word for word in words if _is_file(word)]
    queries = [word for word in words if not _is_file(word)]
    if query is not None:
        queries.append(query)
    if config is not None:
        files.append(str(config))
    if len(queries) != 1:
        got = "none" if not queries else " and ".join(repr(query) for query in queries)
        raise CommandError(f'narrows run requires one query, as in narrows run "SELECT ..."; got {got}')
    if len(files) > 1:
        raise CommandError(f"narrows run requires one configuration; got {' and '.join(files)}")
    return queries[0], Path(files[0]) if files else None


def _is_file(word: str) -> bool:
    """A query has blanks in it; a file's name may, but then it ends as one."""
    return word.endswith(".toml") or (bool(word) and not any(letter.isspace() for letter in word))
