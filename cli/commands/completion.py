"""``narrows completion``: words for the Tab key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from cli.command import narrows_command
from cli.narrows import COMPLETION_VARIABLE, NAME, narrows
from cli.options.values import OneOf

_EXAMPLES = """\
examples:
  eval "$(narrows completion bash)"                 in ~/.bashrc
  eval "$(narrows completion zsh)"                  in ~/.zshrc, after compinit
  narrows completion fish | source                  in ~/.config/fish/config.fish
"""


@narrows_command("completion", _EXAMPLES)
@click.argument("shell", type=OneOf(["bash", "zsh", "fish", "powershell"]))
def command(shell: str) -> int:
    """Prints a script after which the Tab key knows commands, options, files and your sites."""
    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(narrows, {}, NAME, COMPLETION_VARIABLE).source(), end="")
    return 0
