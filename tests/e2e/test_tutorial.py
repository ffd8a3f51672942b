"""The tutorial, command by command, as somebody would who copies it into a terminal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.harness import PATIENCE_S, environment, free_port, new_tag, none_left
from tests.places import ROOT

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
#: The command, on other ports than other tests use and with the engine that starts at once.
COMMAND = """\
#!/bin/sh
[ "$1" = init ] || exec {python} -m cli.main "$@"
{python} -m cli.main "$@" --engine native && sed -i 's/7701/{first}/; s/7702/{second}/' cluster.toml
"""
END = "that was block"


def blocks() -> list[tuple[str, str]]:
    """What to type, with what it should print; nothing if that is not said."""
    found = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())
    typed = []
    for place, (kind, text) in enumerate(found):
        if kind == "sh":
            after = found[place + 1 : place + 2]
            typed.append((text, after[0][1] if after and after[0][0] == "text" else ""))
    return typed


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    (setup, _), *rest = blocks()
    assert "make setup" in setup
    assert "narrows completion bash" in setup
    command = tmp_path / "bin" / "narrows"
    command.parent.mkdir()
    command.write_text(COMMAND.format(python=sys.executable, first=free_port(), second=free_port()))
    command.chmod(0o755)
    tag = new_tag()
    script = "\n".join(f"{text}\necho {END} {place}" for place, (text, _) in enumerate(rest))
    variables = environment() | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    bash = shutil.which("bash")
    assert bash is not None
    # With -m, %1 is the first job, as in a terminal.
    done = subprocess.run(
        [bash, "-m", "-e", "-c", script],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    printed = re.split(rf"^{END} \d+\n", done.stdout, flags=re.MULTILINE)
    for (text, expected), got in zip(rest, printed, strict=False):
        lines = expected.splitlines()
        # Rows come in any order, and other things may be said after them.
        assert sorted(got.splitlines()[: len(lines)]) == sorted(lines), text
    assert sum(bool(expected) for _, expected in rest) == 3
    none_left(tag)
