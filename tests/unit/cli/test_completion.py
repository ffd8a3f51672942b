"""``narrows completion``: what the Tab key offers, in a folder with the cluster.toml that init writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from cli.main import main
from cli.narrows import COMMANDS, COMPLETION_VARIABLE, NAME, narrows

#: What stands for files, which the shell knows itself.
FILES = "(files)"
#: What is typed before the Tab key, and what it offers.
TABS = {
    ("",): set(COMMANDS),
    ("st",): {"status"},
    ("wan", "c"): {"cut"},
    ("help", "fol"): {"follow"},
    ("completion", "z"): {"zsh"},
    ("status", "--c"): {"--config"},
    ("node", "--with"): set(),
    ("run", "--engine", ""): {"spark", "native"},
    ("run", "--sea"): {"--search"},
    ("run", "--search", "g"): {"greedy"},
    ("run", "clu"): {FILES},
    ("run", "--out", "ro"): {FILES},
    ("run", "--plan", ""): {"auto", "ship-all"},
    ("run", "--plan", "my"): {FILES},
    ("query", "--algorithm", "SM-D"): {"SM-D1", "SM-D2"},
    ("status", "--config", "clu"): {FILES},
    ("init", "clu"): {FILES},
    ("explain", "--picture", "pl"): {FILES},
    ("node", "--site", ""): {"frankfurt", "virginia"},
    ("query", "--at", "vi"): {"virginia"},
    ("walks", "--at", "vi"): {"virginia"},
    ("wan", "cut", "frankfurt", "v"): {"virginia"},
    ("node", "--config", "other.toml", "--site", ""): {"elsewhere"},
    ("node", "--config", "broken.toml", "--site", ""): set(),
    ("node", "--config", "missing.toml", "--site", ""): set(),
    ("statsu", ""): set(COMMANDS),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARROWS_CONFIG", raising=False)
    assert main(["init", "--engine", "native"]) == 0
    # Not one that daemons take yet, but its sites are known.
    Path("other.toml").write_text("[site.elsewhere]\n")
    Path("broken.toml").write_text("[site.")
    return tmp_path


@pytest.mark.parametrize(("typed", "offered"), TABS.items(), ids=[" ".join(typed) for typed in TABS])
def test_the_tab_key_offers_commands_options_files_and_sites(typed: tuple[str, ...], offered: set[str]) -> None:
    *before, last = typed
    found = BashComplete(narrows, {}, NAME, COMPLETION_VARIABLE).get_completions(before, last)
    assert {FILES if item.type == "file" else item.value for item in found} == offered


def test_the_sites_are_those_of_the_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NARROWS_CONFIG", "other.toml")
    found = BashComplete(narrows, {}, NAME, COMPLETION_VARIABLE).get_completions(["node", "--site"], "")
    assert [item.value for item in found] == ["elsewhere"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_the_script_is_for_the_shell_and_asks_narrows(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert f"{shell}_complete" in said
    assert COMPLETION_VARIABLE in said


#: A command called narrows, and what bash does when the Tab key is pressed; files are left to bash.
_NARROWS = """\
#!/bin/sh
exec {python} -m cli.main "$@"
"""
_TRY = """
eval "$(narrows completion bash)"
compopt() { FILES="(files)"; }
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); FILES=; _narrows_completion narrows
        echo "${COMPREPLY[*]}$FILES"; }
try narrows st
try narrows node --site ''
try narrows status --config clu
"""


def test_bash_gets_what_it_asks_for(folder: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    command = folder / "bin" / "narrows"
    command.parent.mkdir()
    command.write_text(_NARROWS.format(python=sys.executable))
    command.chmod(0o755)
    root = str(Path(__file__).resolve().parents[3])
    variables = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": root}
    done = subprocess.run([bash, "-c", _TRY], env=variables, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("status\nfrankfurt virginia\n(files)\n", "")
