"""What is imported when: the help, the Tab key and a status do without most of the system."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click
import pytest

import cli.commands
from cli.commands import (
    backup,
    completion,
    drop,
    explain,
    follow,
    help,  # noqa: A004 - the module of that command
    init,
    node,
    queries,
    query,
    replan,
    restore,
    run,
    status,
    top,
    walks,
    wan,
)
from cli.commands.init import TEMPLATE
from cli.narrows import COMMANDS, COMPLETION_VARIABLE, narrows
from tests.e2e.harness import free_port

#: Runs a command, and says at the end what was imported for it.
_TOLD = """
import sys
from cli.main import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
_HEAVY = {"numpy", "pyarrow", "pyspark", "requests", "spark_jobs", "sqlglot", "toxiproxy"}
_REMOTE = {"asyncio", "google.protobuf", "grpc", "rich"}


def imported(
    folder: Path, *arguments: str, code: int = 0, variables: Mapping[str, str] = MappingProxyType({})
) -> set[str]:
    """Modules, by the full names, that a command in a folder with a cluster.toml has imported."""
    text = TEMPLATE.format(where="", engine="native")
    # Ports on which nobody listens, and on which everybody may.
    (folder / "cluster.toml").write_text(re.sub(r":770\d", lambda _: f":{free_port()}", text))
    command = [sys.executable, "-c", _TOLD, *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(Path(cli.__file__).parents[1]), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("option", ["--help", "--version", "-h"])
def test_help_and_version_import_no_command_and_nothing_of_the_system(tmp_path: Path, option: str) -> None:
    found = imported(tmp_path, option)
    assert not found & (_HEAVY | _REMOTE)
    assert not [name for name in found if name.startswith(("cli.commands", "cli.options", "node", "netsim"))]


def test_the_help_of_a_command_imports_no_other(tmp_path: Path) -> None:
    found = imported(tmp_path, "help", "node")
    assert {name for name in found if name.startswith("cli.commands.")} == {"cli.commands.help", "cli.commands.node"}
    assert not found & (_HEAVY | _REMOTE)


def test_status_imports_what_asks_and_what_shows_and_neither_rows_nor_plans(tmp_path: Path) -> None:
    found = imported(tmp_path, "status", code=1)
    assert "grpc" in found
    assert not found & _HEAVY


def test_a_native_daemon_has_neither_spark_nor_the_emulated_network_in_memory(tmp_path: Path) -> None:
    """Its files are not there, so it ends when it has loaded all that it needs."""
    found = imported(tmp_path, "node", "--site", "frankfurt", code=2)
    assert "node.daemon" in found
    assert not found & {"pyspark", "requests", "rich", "toxiproxy", "netsim.network", "spark_jobs.site_spark"}


@pytest.mark.parametrize("typed", ["narrows ", "narrows node --site f"])
def test_the_tab_key_imports_no_daemon_and_no_rows(tmp_path: Path, typed: str) -> None:
    words = str(len(typed.split(" ")) - 1)
    asked = {COMPLETION_VARIABLE: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": words}
    assert not imported(tmp_path, variables=asked) & (_HEAVY | _REMOTE)


def test_every_command_of_the_help_is_a_module_and_every_module_a_command() -> None:
    modules = (
        *(backup, completion, drop, explain, follow, help, init, node),
        *(queries, query, replan, restore, run, status, top, walks, wan),
    )
    commands = {module.__name__.rpartition(".")[2]: module.command for module in modules}
    assert set(commands) == set(COMMANDS)
    folder = Path(cli.commands.__file__).parent
    assert {path.stem for path in folder.glob("[a-z]*.py")} == set(COMMANDS)
    context = click.Context(narrows)
    for name, command in commands.items():
        assert command.name == name
        assert narrows.get_command(context, name) is command


def test_ctrl_c_while_a_command_is_imported_leaves_no_trace() -> None:
    slow = (
        "import signal, sys, time\n"
        "from cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whatever our shell ignores
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'cli.commands.status':\n"
        "            print('loading', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "main(['status'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == -signal.SIGINT, "which a shell shows as 130"


def test_a_command_ends_although_the_interpreter_could_not() -> None:
    """Once, in CI, a command that had said all hung for good: the interpreter was torn down under gRPC's threads."""
    stuck = (
        "import atexit, sys, time\n"
        "import cli.dispatch, cli.main\n"
        "class Stuck:\n"
        "    def __del__(self):\n"
        "        time.sleep(60)\n"
        "kept = Stuck()\n"
        "def dispatch(_):\n"
        "    atexit.register(print, 'done at the exit')\n"
        "    return 7\n"
        "cli.dispatch.dispatch = dispatch\n"
        "cli.main.process()\n"
    )
    ended = subprocess.run([sys.executable, "-c", stuck], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "done at the exit\n", "")
