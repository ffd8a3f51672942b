"""What the documents for those who change the code name is there: files, folders, and the modules of each package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "ARCHITECTURE.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "decisions").glob("*.md")),
]
_QUOTED = re.compile(r"`([^`\n]+)`")
#: A path as it is written: folders of this repository, perhaps a file, perhaps with a star.
_PATH = re.compile(r"\.?[a-z_0-9]+(/[A-Za-z_0-9.*-]+)*(/|\.(py|md|toml|proto|svg))")
_MODULE = re.compile(r"[a-z_0-9]+\*?")
_LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")


def missing_names(text: str) -> list[str]:
    """The paths in backticks that are not in the repository, and modules that are not in the folder of their row."""
    wrong = []
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ") if line.startswith("| `") else []
        folders = [ROOT / name for name in _QUOTED.findall(cells[0]) if name.endswith("/")] if len(cells) == 2 else []
        for name in _QUOTED.findall(line):
            if "/" in name and _PATH.fullmatch(name):
                wrong += [] if _is_there(name.rstrip("/"), [ROOT, *folders]) else [name]
            elif folders and _MODULE.fullmatch(name):
                wrong += [] if _is_there(name, folders) or _is_there(f"{name}.*", folders) else [name]
    return wrong


def _is_there(pattern: str, folders: list[Path]) -> bool:
    return any(any(folder.glob(pattern)) for folder in folders)


def unnamed_modules(text: str, folder: str) -> list[str]:
    """The modules of a folder that its row of the table does not name."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{folder}/`")]
    there = [path.stem for path in sorted((ROOT / folder).glob("*.py")) if path.stem != "__init__"]
    return [name for name in there if f"`{name}`" not in row]


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_that_a_document_names_are_there(page: str) -> None:
    assert missing_names((ROOT / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_document_lead_somewhere(page: str) -> None:
    links = [link for link in _LINK.findall((ROOT / page).read_text()) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize(
    "folder",
    ["node/core/arrangements", "node/core/queries", "node/core/algorithms", "node/engine", "node/storage", "node/io"],
)
def test_the_architecture_names_every_module_of(folder: str) -> None:
    assert unnamed_modules((ROOT / "ARCHITECTURE.md").read_text(), folder) == []


def test_what_is_not_there_is_noticed() -> None:
    text = "see `node/core/gone.py`, `node/gone/` and `node/core/site.py`\n| `node/engine/` pure | `native`, `lost` |"
    assert missing_names(text) == ["node/core/gone.py", "node/gone/", "lost"]
    assert "native" in unnamed_modules("| `node/engine/` | `table` |", "node/engine")
