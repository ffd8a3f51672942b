"""The documents for those who change the code: what they name is there, they stay short, and each can be found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.unit.pages import anchors_of, links_of

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = "docs/decisions"
PAGES = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "docs/README.md"),
    *sorted(
        page.relative_to(ROOT).as_posix()
        for folder in (DECISIONS, "docs/internals")
        for page in (ROOT / folder).glob("*.md")
    ),
]
#: The largest number of bytes, by the page or its folder: nobody reads more before the first change.
BYTES_MAX = {"README.md": 8_000, "ARCHITECTURE.md": 9_600, DECISIONS: 3_000, "docs/internals": 4_000}
#: The index has a line for each page, however many there are.
UNBOUNDED = (f"{DECISIONS}/README.md",)
#: Folders of code that ARCHITECTURE.md names, each with all that is below it.
PACKAGES = ("planner", "node", "spark_jobs", "netsim", "cli", "demo", "bench", "docs")
#: Files that a recipe tells the reader to write.
INVENTED = ("node/core/algorithms/sm_x.py", "tests/trophies/test_NNN_what_went_wrong.py")
_QUOTED = re.compile(r"`([^`\n]+)`")
#: A path as it is written: folders of this repository, perhaps a file, perhaps with a star.
_PATH = re.compile(r"\.?[a-z_0-9]+(/[A-Za-z_0-9.*-]+)*(/|\.(py|md|toml|proto|svg))")
_DECISION = re.compile(r"(\d{4})-[a-z0-9-]+\.md")


def missing_paths(text: str) -> list[str]:
    """The paths in backticks that are neither in the repository nor in a folder that their line names."""
    missing = []
    for line in text.splitlines():
        named = [name for name in _QUOTED.findall(line) if "/" in name and _PATH.fullmatch(name)]
        folders = [ROOT, *(ROOT / name for name in named if (ROOT / name).is_dir())]
        missing += [name for name in named if name not in INVENTED and not _is_there(name.rstrip("/"), folders)]
    return missing


def _is_there(pattern: str, folders: Iterable[Path]) -> bool:
    return any(any(folder.glob(pattern)) for folder in folders)


def unnamed_folders(text: str, folders: Iterable[str]) -> list[str]:
    """The folders that a page names neither in full nor, by their own name, on a line that names their parent."""
    return [folder for folder in folders if not _is_named(text, folder)]


def _is_named(text: str, folder: str) -> bool:
    parent, _, name = folder.rpartition("/")
    return f"`{folder}/`" in text or any(f"`{parent}/`" in line and f"`{name}/`" in line for line in text.splitlines())


def code_folders(packages: Iterable[str]) -> Iterator[str]:
    """The folders of these packages that hold modules."""
    for package in packages:
        for init in sorted((ROOT / package).rglob("__init__.py")):
            yield init.parent.relative_to(ROOT).as_posix()


def too_long(sizes: Mapping[str, int]) -> list[str]:
    """The pages, by their sizes in bytes, that have more than they may."""
    bounds = {page: BYTES_MAX.get(page) or BYTES_MAX.get(page.rpartition("/")[0]) for page in sizes}
    return [
        f"{page} has {size} bytes, required at most {bounds[page]}"
        for page, size in sizes.items()
        if page not in UNBOUNDED and size > (bounds[page] or size)
    ]


def dead_links(page: Path) -> list[str]:
    """Links to a file, or to a heading of a page, that is not there."""
    dead = []
    for _, target in links_of(page):
        path, _, anchor = target.partition("#")
        meant = (page.parent / path).resolve() if path else page
        if not meant.exists() or (anchor and meant.suffix == ".md" and anchor not in anchors_of(meant)):
            dead.append(target)
    return dead


def reachable(start: Path) -> set[Path]:
    """The pages to which links lead from one of them, also by way of others."""
    found, pending = {start}, [start]
    while pending:
        page = pending.pop()
        linked = {(page.parent / target.partition("#")[0]).resolve() for _, target in links_of(page)}
        # A folder is opened at its index.
        pages = {target / "README.md" if target.is_dir() else target for target in linked}
        new = {target for target in pages if target.suffix == ".md" and target.is_file()} - found
        found |= new
        pending += sorted(new)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_document_names_are_there(page: str) -> None:
    assert missing_paths((ROOT / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_document_lead_somewhere(page: str) -> None:
    assert dead_links(ROOT / page) == []


def test_the_architecture_names_every_folder_of_code() -> None:
    assert unnamed_folders((ROOT / "ARCHITECTURE.md").read_text(), code_folders(PACKAGES)) == []


def test_what_is_tested_how_is_said_of_every_folder_of_tests() -> None:
    folders = [init.parent.relative_to(ROOT).as_posix() for init in sorted((ROOT / "tests").glob("*/__init__.py"))]
    assert unnamed_folders((ROOT / "docs/internals/testing.md").read_text(), folders) == []


def test_documents_are_short() -> None:
    assert too_long({page: len((ROOT / page).read_bytes()) for page in PAGES}) == []


def test_every_decision_has_a_number_of_its_own_and_is_in_the_index() -> None:
    folder = ROOT / DECISIONS
    pages = sorted(page for page in folder.glob("*.md") if page.name != "README.md")
    numbers = [match.group(1) for page in pages if (match := _DECISION.fullmatch(page.name))]
    assert numbers == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [page.name for page in pages if not page.read_text().startswith(f"# {page.name[:4]} ")] == []
    listed = [target for _, target in links_of(folder / "README.md")]
    assert sorted(listed) == [page.name for page in pages]


def test_every_page_can_be_reached_from_the_readme() -> None:
    found = {page.relative_to(ROOT).as_posix() for page in reachable(ROOT / "README.md")}
    assert [page for page in PAGES if page not in found] == []


# The checks notice what they are for.


def test_what_is_not_there_is_noticed() -> None:
    text = "see `node/core/gone.py`, `node/gone/` and `node/core/site.py`\n| `node/core/` | `keys/`, `lost/` |"
    assert missing_paths(text) == ["node/core/gone.py", "node/gone/", "lost/"]


def test_a_folder_that_is_not_named_is_noticed() -> None:
    text = "| `planner/` | `sql/` |\n| `node/core/` | `keys/` |"
    folders = ["planner", "planner/sql", "planner/model", "node/core/keys", "node/keys"]
    assert unnamed_folders(text, folders) == ["planner/model", "node/keys"]
    assert {"node/core", "planner/sql"} <= set(code_folders(PACKAGES))


def test_a_page_that_is_too_long_is_noticed() -> None:
    index, decision = f"{DECISIONS}/README.md", f"{DECISIONS}/0001-a.md"
    sizes = {"README.md": 8_001, "ARCHITECTURE.md": 9_600, decision: 3_001, index: 9_999}
    assert [text.partition(" ")[0] for text in too_long(sizes)] == ["README.md", decision]


def test_a_link_to_nowhere_and_a_page_that_nobody_links_are_noticed(tmp_path: Path) -> None:
    start, linked, lonely = tmp_path / "README.md", tmp_path / "linked.md", tmp_path / "lonely.md"
    start.write_text("# A\n\n[there](linked.md), [not](gone.md), [no such heading](linked.md#c), [one](linked.md#b)\n")
    linked.write_text("# B\n")
    lonely.write_text("# C\n")
    assert dead_links(start) == ["gone.md", "linked.md#c"]
    assert reachable(start) == {start, linked}
