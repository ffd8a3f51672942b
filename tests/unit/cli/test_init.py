"""``narrows init``: what a newcomer types first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.cluster_file import load_cluster, wan_of
from cli.commands.init import TEMPLATE
from cli.main import main


def test_the_file_is_one_that_narrows_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert main(["init", str(path)]) == 0
    assert f'narrows run --config {path} "SELECT ..."' in capsys.readouterr().out
    assert [site.name for site in load_cluster(path).sites] == ["frankfurt", "virginia"]
    assert '#   narrows run --config mine.toml "SELECT' in path.read_text()


def test_a_file_that_narrows_finds_by_itself_is_not_named_in_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert 'narrows run "SELECT ..."' in capsys.readouterr().out
    assert '#   narrows run "SELECT' in (tmp_path / "cluster.toml").read_text()


def test_what_it_leaves_as_a_comment_can_be_taken_in(tmp_path: Path) -> None:
    """Each commented setting is right too; those are lines of TOML, not sentences."""
    path = tmp_path / "cluster.toml"
    text = TEMPLATE.format(where="", engine="spark")
    path.write_text(re.sub(r'^# (?=\[|"spark|\w+ = )', "", text, flags=re.MULTILINE))
    config = load_cluster(path)
    assert wan_of(config) is not None
    assert config.links
    assert config.sites[0].spark.options == (("spark.driver.memory", "1g"),)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("precious")
    assert main(["init", str(path)]) == 2
    assert "requires a file that is not there yet" in capsys.readouterr().err
    assert path.read_text() == "precious"


def test_where_spark_cannot_run_the_native_engine_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for given, engine in (((), "native"), (("--engine", "spark"), "spark"), (("--engine", "native"), "native")):
        path = tmp_path / f"{len(given)}{engine}.toml"
        assert main(["init", str(path), *given]) == 0
        assert f"engine {engine}" in capsys.readouterr().out
        assert [site.engine for site in load_cluster(path).sites] == [engine, engine]
