"""The pages of the documentation: their examples, links and headings."""

from __future__ import annotations

import re
from pathlib import Path

from docs import generate
from tests.places import ROOT

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "compose").glob("*.md"), *ROOT.glob("*.md")])


def blocks_of(page: Path, language: str) -> list[str]:
    """The fenced examples in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def prose_of(page: Path) -> str:
    """The page without examples, in which nothing is a link."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def links_of(page: Path) -> list[tuple[str, str]]:
    """Text and target of every link and picture that leads to a file or a heading of ours."""
    return re.findall(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:)([^)\s]+)\)", prose_of(page))


def anchors_of(page: Path) -> set[str]:
    """The names of a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "]", heading)
        name = generate.anchor(plain)
        repeated = sum(other == name or re.fullmatch(rf"{re.escape(name)}-\d+", other) is not None for other in found)
        found.add(f"{name}-{repeated}" if repeated else name)
    return found
