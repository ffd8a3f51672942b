"""Whether there is a Java that Spark can use; if not, what to do about it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from planner.model.errors import NarrowsError

JAVA_MIN = 17
_INSTALL = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "then set JAVA_HOME if java is not on the PATH)"
)
_OR_NATIVE = 'or run without Spark: --engine native, or engine = "native" in cluster.toml, or ENGINE=native make demo'


class NoJavaError(NarrowsError):
    """Spark cannot run on this machine."""


def check_java(site: str, streams: Sequence[str] = ()) -> None:
    """Raises NoJavaError unless PySpark and a Java of at least version 17 are there.

    ``streams`` are those that Spark reads at the site: without Spark it would not have them, whatever its engine.
    """
    instead = _without(streams)
    if importlib.util.find_spec("pyspark") is None:
        raise NoJavaError(
            f"site {site}: Spark requires the Python package pyspark; it is not installed: "
            f"pip install 'narrows-middleware[spark]', {instead}"
        )
    found = java_path()
    required = f"site {site}: Spark requires Java {JAVA_MIN} or newer"
    if found is None:
        raise NoJavaError(f"{required}; {_not_found()}: {_INSTALL}, {instead}")
    version = java_version(found)
    if version is None or version < JAVA_MIN:
        got = "an unknown version" if version is None else f"version {version}"
        raise NoJavaError(f"{required}; {found} is {got}: {_INSTALL}, {instead}")


def _without(streams: Sequence[str]) -> str:
    """What can be done instead."""
    if not streams:
        return _OR_NATIVE
    return f"or replay files instead: Spark reads {', '.join(streams)} there, whatever the engine"


def _not_found() -> str:
    """Where it was looked for: a JAVA_HOME that is wrong hides a java on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}, where there is no bin/java" if home else "none was found"


def java_path() -> str | None:
    """The java that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        return str(path) if os.access(path, os.X_OK) else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """Its major version."""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', result.stderr)
    return int(match[1]) if match else None
