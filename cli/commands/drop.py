"""``narrows drop``: the end of a query."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.command import narrows_command
from cli.errors import CommandError
from cli.options.common import query_id_argument
from cli.options.config import config_option, read_cluster
from cli.sites import home_client
from node.client import UnknownQueryError

_EXAMPLES = """\
example:
  narrows drop frankfurt-1mhqyjj-1
"""


@narrows_command("drop", _EXAMPLES)
@query_id_argument
@config_option
def command(query_id: str, config: Path | None) -> int:
    """Ends a query everywhere, if it still runs, and forgets the rows that nobody has taken."""
    with home_client(read_cluster(config), query_id) as client:
        try:
            client.drop(query_id)
        except UnknownQueryError as error:
            raise CommandError(str(error)) from None
    print(f"query {query_id} is dropped", file=sys.stderr)
    return 0
