"""``narrows init`` and ``narrows completion``: what a newcomer types first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.init import TEMPLATE
from cli.main import main
from node.config import load_cluster


def test_the_file_is_one_that_narrows_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert main(["init", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    assert [site.name for site in load_cluster(path).sites] == ["frankfurt", "virginia"]
    assert "narrows run mine.toml" in path.read_text()


def test_what_it_leaves_as_a_comment_can_be_taken_in(tmp_path: Path) -> None:
    """Each commented setting is right too; those are lines of TOML, not sentences."""
    path = tmp_path / "cluster.toml"
    path.write_text(re.sub(r'^# (?=\[|"spark|\w+ = )', "", TEMPLATE, flags=re.MULTILINE))
    config = load_cluster(path)
    assert config.wan is not None
    assert config.links
    assert config.sites[0].spark.options == (("spark.driver.memory", "1g"),)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("precious")
    assert main(["init", str(path)]) == 1
    assert "requires a file that is not there yet" in capsys.readouterr().err
    assert path.read_text() == "precious"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("explain", "wan", "--config"))
