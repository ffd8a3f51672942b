"""The documentation is that of the code: generated parts are current, all keys are there, links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from node import config_keys

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "compose").glob("*.md"), *ROOT.glob("*.md")])


def test_generated_parts_are_current(tmp_path: Path) -> None:
    before = {page: page.read_text() for page in (ROOT / "docs").glob("*.md")}
    (tmp_path / "docs").mkdir()
    for page, text in before.items():
        (tmp_path / "docs" / page.name).write_text(text)
    script = tmp_path / "docs" / "generate.py"
    script.write_text((ROOT / "docs" / "generate.py").read_text())
    subprocess.run([sys.executable, script], check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    for page, text in before.items():
        assert (tmp_path / "docs" / page.name).read_text() == text, f"{page.name} is old: run make docs"


def test_every_key_that_the_code_reads_is_in_the_reference() -> None:
    """Keys are read by name, from methods of a table; the reference and that list are the same."""
    read = set()
    for node in ast.walk(ast.parse((ROOT / "node" / "config.py").read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr in ("text", "number", "whole", "texts") and isinstance(first, ast.Constant):
                read.add(str(first.value))
    known = {name for _, _, keys in config_keys.TABLES for name in keys}
    assert read <= known
    assert known - read == {'"spark.*"', "spark", "options", "distinct", "bytes"}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
