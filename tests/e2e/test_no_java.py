"""A machine without Java, or without PySpark: every way to start says what to install, and starts nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cases import CASES
from tests.e2e.harness import NARROWS, PATIENCE_S, Said, environment, no_trace, write_cluster
from tests.places import ROOT

Command = Callable[[Path], tuple[str, ...]]

INSTALL = (
    "install it (Debian, Ubuntu: apt-get install "
    "openjdk-17-jre-headless; macOS: brew install openjdk@17; then set JAVA_HOME if java is not on the PATH)"
)
INSTEAD = 'or run without Spark: --engine native, or engine = "native" in cluster.toml, or ENGINE=native make demo'
NO_JAVA = f"site alpha: Spark requires Java 17 or newer; none was found: {INSTALL}, {INSTEAD}"
NO_PYSPARK = (
    "site alpha: Spark requires the Python package pyspark; it is not installed: "
    f"pip install 'narrows-middleware[spark]', {INSTEAD}"
)
#: The command in an interpreter that finds no PySpark.
WITHOUT_PYSPARK = (
    sys.executable,
    "-c",
    "import sys; sys.modules['pyspark'] = None; from cli.main import main; sys.exit(main())",
)


def said_without_java(command: tuple[str, ...], folder: Path, **settings: str) -> Said:
    """What it says where there is no java on the PATH, and JAVA_HOME is not set but for ``settings``."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    variables = {name: value for name, value in environment().items() if name != "JAVA_HOME"}
    variables |= {"PATH": str(tools), "DEMO_FOLDER": str(folder / "shop"), **settings}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, env=variables, check=False)
    return no_trace(Said(done.returncode, done.stdout.decode(), done.stderr.decode()))


def cluster_on_spark(folder: Path) -> Path:
    config = write_cluster(folder, CASES["one_empty"]().streams)
    config.write_text(config.read_text().replace('engine = "native"', 'engine = "spark"'))
    return config


def run_command(config: Path) -> tuple[str, ...]:
    return ("run", str(config), "--query", CASES["one_empty"]().text, "--algorithm", "SP-D")


def node_command(config: Path) -> tuple[str, ...]:
    return ("node", "--config", str(config), "--site", "alpha")


def explain_command(config: Path) -> tuple[str, ...]:
    return ("explain", "--config", str(config), "--start", CASES["one_empty"]().text)


@pytest.mark.parametrize("command", [run_command, node_command, explain_command])
def test_without_java_a_command_says_what_to_install_and_ends_with_2(tmp_path: Path, command: Command) -> None:
    arguments = command(cluster_on_spark(tmp_path))
    said = said_without_java((*NARROWS, *arguments), tmp_path)
    assert said == Said(2, "", f"narrows: {NO_JAVA}\n")


@pytest.mark.parametrize("command", [run_command, node_command])
def test_without_pyspark_a_command_says_what_to_install_and_ends_with_2(tmp_path: Path, command: Command) -> None:
    arguments = command(cluster_on_spark(tmp_path))
    said = said_without_java((*WITHOUT_PYSPARK, *arguments), tmp_path)
    assert said == Said(2, "", f"narrows: {NO_PYSPARK}\n")


def test_a_java_home_without_java_is_named_since_it_hides_one_on_the_path(tmp_path: Path) -> None:
    said = said_without_java((*NARROWS, *run_command(cluster_on_spark(tmp_path))), tmp_path, JAVA_HOME=str(tmp_path))
    assert said == Said(
        2, "", f"narrows: {NO_JAVA.replace('none was found', f'JAVA_HOME is {tmp_path}, where there is no bin/java')}\n"
    )


@pytest.mark.parametrize("command", [run_command, node_command])
def test_a_site_with_a_stream_that_spark_reads_is_not_told_to_change_its_engine(
    tmp_path: Path, command: Command
) -> None:
    config = cluster_on_spark(tmp_path)
    spark = '[site.alpha.stream.live]\nspark = { format = "rate" }\nts = "timestamp"\n'
    config.write_text(config.read_text().replace('engine = "spark"', 'engine = "native"') + spark)
    said = said_without_java((*NARROWS, *command(config)), tmp_path)
    said.failed(2, INSTALL, "or replay files instead: Spark reads live there, whatever the engine")
    assert "native" not in said.err


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    command = (*NARROWS, *run_command(cluster_on_spark(tmp_path)))
    said = said_without_java(command, tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    said.failed(2, f"narrows: site alpha: Spark requires Java 17 or newer; {java} is version 11: install it (")


def test_without_java_the_demo_says_what_to_install(tmp_path: Path) -> None:
    said = said_without_java((sys.executable, "-m", "demo"), tmp_path, DEMO_SECONDS="5")
    assert said == Said(1, "", f"demo: {NO_JAVA.replace('site alpha', 'site frankfurt')}\n")


@pytest.mark.parametrize("engine", ["--engine", "file"])
def test_the_native_engine_needs_no_java(tmp_path: Path, engine: str) -> None:
    config = cluster_on_spark(tmp_path)
    arguments = [*run_command(config)]
    if engine == "file":
        config.write_text(config.read_text().replace('engine = "spark"', 'engine = "native"'))
    else:
        arguments += ["--engine", "native"]
    assert said_without_java((*NARROWS, *arguments), tmp_path).ok().err.splitlines()[-1].startswith("0 rows in")


def test_the_demo_refuses_an_engine_that_there_is_not(tmp_path: Path) -> None:
    said = said_without_java((sys.executable, "-m", "demo"), tmp_path, ENGINE="flink", DEMO_SECONDS="5")
    assert said == Said(1, "", "demo: ENGINE requires spark or native; got 'flink'\n")
    assert not (tmp_path / "shop").exists()
