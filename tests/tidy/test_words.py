"""One name for a thing: names that were given up do not come back, in code, documents or messages.

The names that are used are those of the glossary in ARCHITECTURE.md. CHANGELOG.md tells what was, and may name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("planner", "node", "spark_jobs", "netsim", "cli", "demo", "bench", "docs", "proto", "compose")
FILES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")
_SUFFIXES = (".py", ".md", ".proto", ".toml", ".yaml")
#: Made from what is looked at elsewhere, or a record of what was said then.
NOT_READ = ("node/rpc", "bench/results")
#: On such a line others are quoted, who have words of their own.
_QUOTING = re.compile(r"\bDESIGN\b|\bthe paper|\bTran & Lee\b")


@dataclass(frozen=True)
class OldWord:
    """A name that was given up, as a regular expression."""

    name: str
    pattern: str
    instead: str
    reason: str
    #: A line that has it.
    planted: str


OLD_WORDS = (
    OldWord(
        "replica",
        r"(?i)replica(?!tion)",
        "copy",
        "it is a copy of a window, and was called both",
        "    replica: ReplicaKey | None = None",
    ),
    OldWord(
        "ReplicaSync",
        r"(?i)replica_?sync",
        "Sync",
        "there is one message that brings what is new, for every kind of copy",
        "    case ReplicaSync():",
    ),
    OldWord(
        "Attach",
        r"\bAttach(?![a-z])",
        "OpenCopy or LeaseCopy",
        "the holder opens a copy or leases one; nobody is attached to anything",
        "    Attach(query_id, copy)",
    ),
    OldWord(
        "Detach",
        r"\bDetach(?![a-z])",
        "CloseCopy",
        "a copy ends with its last lease; queries only release theirs",
        "a Detach for each of them",
    ),
    OldWord(
        "borrowed",
        r"(?i)\bborrow(ed|s|ing)?\b|_borrow|borrowed_",
        "leased",
        "what a query uses of a site it leases; nothing goes back",
        "from node.core.borrowed import Borrowed",
    ),
    OldWord(
        "sharing window",
        r"(?i)sharing[ _-]window",
        "lease, claim",
        "there is no span of time in which a copy can be shared: leases say what is kept, and claims from when on",
        "a query that comes within the sharing window",
    ),
    OldWord(
        "retained run",
        r"(?i)retained[ _-]run",
        "log",
        "what a stream retains is in its log, which has no runs",
        "the retained runs of a stream",
    ),
    OldWord(
        "lingering",
        r"(?i)\blingering|_lingering",
        "closed, or under a lease",
        "a copy is open while somebody leases it and closed else; there is nothing in between",
        "a lingering copy may be attached again",
    ),
)


def old_words(text: str) -> list[tuple[int, OldWord]]:
    """The old names in a text, each with its line."""
    return [
        (number, word)
        for number, line in enumerate(text.splitlines(), 1)
        for word in OLD_WORDS
        if re.search(word.pattern, line) and not _QUOTING.search(line)
    ]


def read_files(root: Path) -> Iterator[Path]:
    """All that somebody reads: code, documents, messages. Not tests, which may speak of what was."""
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in _SUFFIXES]
    for path in [*paths, *(root / name for name in FILES)]:
        if path.is_file() and not path.relative_to(root).as_posix().startswith(NOT_READ):
            yield path


def offenders(root: Path) -> list[str]:
    """Where which old name stands, and what to say instead."""
    return [
        f"{path.relative_to(root)}:{line}: {word.name!r} is now {word.instead!r}: {word.reason}"
        for path in read_files(root)
        for line, word in old_words(path.read_text())
    ]


def test_old_names_do_not_come_back() -> None:
    assert offenders(ROOT) == []


@pytest.mark.parametrize("word", OLD_WORDS, ids=lambda word: word.name)
@pytest.mark.parametrize("file", ["node/core/site.py", "docs/operations.md", "README.md"])
def test_an_old_name_that_comes_back_is_noticed(tmp_path: Path, word: OldWord, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"first line\n{word.planted}\n")
    found = [line for line in offenders(tmp_path) if f"{word.name!r} is now {word.instead!r}" in line]
    assert len(found) == 1
    assert found[0].startswith(f"{file}:2: ")


@pytest.mark.parametrize(
    "line",
    [
        'narrows query --detach "SELECT ..."',
        "Ctrl-C detaches from a query; nothing is attached.",
        "the Kafka topic has a replication factor of 1",
        "what DESIGN calls a replica",
        "a full replica, as the paper has it",
        "windows that queries share",
        "what a stream retains; runs of rows",
        "lease.linger: how long policy delta waits",
    ],
)
def test_other_words_are_let_be(line: str) -> None:
    assert old_words(line) == []
