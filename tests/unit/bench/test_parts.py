"""A file of figures in parts."""

from __future__ import annotations

from pathlib import Path

from bench.parts import put_part


def test_a_part_takes_the_place_of_the_one_of_its_name_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    put_part(file, "Figures", "two", "old\n")
    put_part(file, "Figures", "one", "### a heading of its own\n\n1")
    put_part(file, "Figures", "two", "new")
    assert file.read_text() == "# Figures\n\n## one\n\n### a heading of its own\n\n1\n\n## two\n\nnew\n"
