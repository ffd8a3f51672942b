"""``narrows init`` and ``narrows completion``: what a newcomer types first."""

from __future__ import annotations

import re
import shutil
import subprocess
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
    text = TEMPLATE.format(name="cluster.toml", engine="spark")
    path.write_text(re.sub(r'^# (?=\[|"spark|\w+ = )', "", text, flags=re.MULTILINE))
    config = load_cluster(path)
    assert config.wan is not None
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


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("explain", "wan", "--config"))


#: What is typed before the Tab key, and what it offers, in a folder with the cluster.toml that init writes.
TABS = {
    ("narrows", "st"): {"status"},
    ("narrows", "wan", "c"): {"cut"},
    ("narrows", "help", "fol"): {"follow"},
    ("narrows", "run", "--engine", ""): {"spark", "native"},
    ("narrows", "status", "--config", "clu"): {"cluster.toml"},
    ("narrows", "run", "--out", "ro"): {"rows.csv"},
    ("narrows", "node", "--site", ""): {"frankfurt", "virginia"},
    ("narrows", "query", "--at", "vi"): {"virginia"},
    ("narrows", "walks", "--at", "vi"): {"virginia"},
}
TRY = """
eval "$(cat completion)"
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_narrows; echo "${COMPREPLY[*]}"; }
"""


def test_the_tab_key_offers_commands_options_files_and_sites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    assert main(["init", str(tmp_path / "cluster.toml")]) == 0
    (tmp_path / "rows.csv").touch()
    capsys.readouterr()
    assert main(["completion", "bash"]) == 0
    (tmp_path / "completion").write_text(capsys.readouterr().out)
    script = TRY + "\n".join("try " + " ".join(f"'{word}'" for word in words) for words in TABS)
    done = subprocess.run([bash, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    offered = [set(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(TABS, offered, strict=True)) == TABS
