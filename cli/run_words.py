"""The words of ``narrows run``: a query, and perhaps the configuration, as in run cluster.toml --query "..."."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.errors import CommandError

#: The configuration and the query.
_WORDS_MAX = 2


def settle_words(options: argparse.Namespace) -> None:
    """Put the words into ``options.query`` and ``options.config``. Raises CommandError if they are not one of each."""
    if len(options.words) > _WORDS_MAX:
        raise CommandError(f"narrows run requires the query as one text in quotes; got {' '.join(options.words)!r}")
    files = [word for word in options.words if _is_file(word)]
    queries = [word for word in options.words if not _is_file(word)]
    if options.query is not None:
        queries.append(options.query)
    if options.config is not None:
        files.append(str(options.config))
    if len(queries) != 1:
        got = "none" if not queries else " and ".join(repr(query) for query in queries)
        raise CommandError(f'narrows run requires one query, as in narrows run "SELECT ..."; got {got}')
    if len(files) > 1:
        raise CommandError(f"narrows run requires one configuration; got {' and '.join(files)}")
    options.query = queries[0]
    options.config = Path(files[0]) if files else None


def _is_file(word: str) -> bool:
    """A query has blanks in it; a file's name may, but then it ends as one."""
    return word.endswith(".toml") or (bool(word) and not any(letter.isspace() for letter in word))
