"""``narrows`` itself: its commands, each imported when it is called."""

from __future__ import annotations

import importlib

import click
from click.shell_completion import CompletionItem

from cli.command import verbatim
from cli.exit_codes import EXIT_CODES_SHORT
from cli.loading import loading

NAME = "narrows"
#: Set by the script that ``narrows completion`` prints, when the Tab key is pressed.
COMPLETION_VARIABLE = "_NARROWS_COMPLETE"

#: Commands by what one wants to do, in the order in which one wants it. Each is a module of ``cli.commands``.
GROUPS = {
    "begin": {
        "init": "write a cluster.toml to start from, with comments",
        "run": "start all sites here, run one query over all data, stop",
        "explain": "the plan of a query, its cost and why; analyze: measured",
    },
    "sites": {
        "node": "run the daemon of one site",
        "status": "what is going on: sites, streams, links, windows",
        "top": "the same, live",
        "backup": "copy what a site keeps, while its daemon is stopped",
        "restore": "begin anew with such a copy; says what is lost",
    },
    "queries": {
        "query": "issue a query and follow its rows",
        "follow": "follow the rows of a query that is already there",
        "queries": "list the queries of all sites",
        "replan": "have a query go over to another plan, without a stop",
        "walks": "what each batch that is under way waits for",
        "drop": "end a query and forget its rows",
    },
    "more": {
        "wan": "the emulated network between the sites of this machine",
        "completion": "words for the Tab key of bash, zsh and others",
        "help": "this, or the help of a COMMAND",
    },
}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}

_MORE = """\
COMMAND --help says more. Configuration: --config FILE, else cluster.toml
"""


class LazyGroup(click.Group):
    """Knows names and short descriptions of its commands, and nothing else before one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with loading():
            found = importlib.import_module(f"cli.commands.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands alone, so that the help fits a small terminal."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        for title, commands in GROUPS.items():
            for place, (name, text) in enumerate(commands.items()):
                formatter.write(f"{'' if place else title:9}{name:12}{text}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing every command for its description."""
        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    NAME,
    cls=LazyGroup,
    no_args_is_help=False,
    options_metavar=None,
    subcommand_metavar="COMMAND [OPTION ...]",
    epilog=verbatim(_MORE + EXIT_CODES_SHORT),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="narrows-middleware", prog_name=NAME, message="%(prog)s %(version)s")
def narrows() -> None:
    """Joins data streams of different sites, shipping as little as it can."""
