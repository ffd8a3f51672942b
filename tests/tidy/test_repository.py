"""The repository checks itself."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from planner.model.query import Algorithm
from tests.places import ROOT

PACKAGES = ["node", "planner", "spark_jobs", "netsim", "cli"]


def test_generated_code_is_current(tmp_path: Path) -> None:
    plugin = Path(sys.executable).with_name("protoc-gen-mypy_grpc")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", f"--plugin=protoc-gen-mypy_grpc={plugin}"]
    control, *others = (f"proto/node/rpc/{name}.proto" for name in ("control", "link", "records"))
    for arguments in (
        [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", control, *others],
        [f"--grpc_python_out={tmp_path}", f"--mypy_grpc_out={tmp_path}", control],
    ):
        subprocess.run([*protoc, *arguments], cwd=ROOT, check=True)
    made, kept = (sorted((folder / "node" / "rpc").glob("*_pb2*.py*")) for folder in (tmp_path, ROOT))
    assert [path.name for path in made] == [path.name for path in kept], "run make proto"
    for new, old in zip(made, kept, strict=True):
        assert new.read_text() == old.read_text(), f"run make proto: {old.name}"


def test_the_wheel_lists_exactly_our_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == PACKAGES


def test_nobody_else_owns_our_package_names() -> None:
    owners = packages_distributions()
    for package in PACKAGES:
        assert set(owners.get(package, [])) <= {"narrows-middleware"}, f"{package} belongs to {owners[package]}"


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    for requirement in [*project["dependencies"], *extras]:
        assert "==" in requirement
    pinned = (ROOT / "constraints.txt").read_text().lower()
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        assert requirement.replace("-", "_") in pinned.replace("-", "_"), f"constraints.txt requires {requirement}"
    # A lock with addresses would tie the project to one registry.
    assert "://" not in pinned


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_how_many_examples_are_tried_is_said_in_one_place() -> None:
    """Else the inner loop would try all of them, and hypothesis would fail a test that took 0.2 s on a busy machine."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert [path.name for path in files if "max_examples" in path.read_text()] == ["examples.py"]
    bare = [f"{path.name}: {name}" for path in files for name in _given_without_number(ast.parse(path.read_text()))]
    assert not bare, "requires @examples or @new_examples of tests/examples.py"


def test_a_test_of_hypothesis_without_a_number_of_examples_is_noticed() -> None:
    planted = (
        "@given(st.integers())\ndef test_one(n): ...\n@given(n=st.integers())\n@examples(9)\ndef test_other(n): ...\n"
    )
    assert list(_given_without_number(ast.parse(planted))) == ["test_one"]


def _given_without_number(tree: ast.Module) -> Iterator[str]:
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [decorator.func for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        if "given" in names and not names & {"examples", "new_examples"}:
            yield function.name


def test_every_module_of_the_system_is_used() -> None:
    """A module that nobody imports is dead, but for those that are started."""
    started = {"cli.main", "node.daemon", "spark_jobs.child"}
    # The halves of an algorithm are found by its name.
    started |= {f"node.core.algorithms.{each.value.lower().replace('-', '_')}" for each in Algorithm}
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    imported = {name for path in [*files, *sorted((ROOT / "tests").rglob("*.py"))] for name in _imported(path)}
    for path in files:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert name in imported | started or path.stem == "__init__", f"nobody imports {name}"


def _imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
