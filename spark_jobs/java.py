"""Whether there is a Java that Spark can use; if not, what to do about it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from planner.errors import NarrowsError

JAVA_MIN = 17
_REMEDY = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "then set JAVA_HOME if java is not on the PATH), "
    'or run this site without Spark: engine = "native" in cluster.toml, ENGINE=native for make demo'
)


class NoJavaError(NarrowsError):
    """Spark cannot run on this machine."""


def check_java(site: str) -> None:
    """Raises NoJavaError unless PySpark and a Java of at least version 17 are there."""
    if importlib.util.find_spec("pyspark") is None:
        raise NoJavaError(
            f'site {site}: engine = "spark" requires the Python package pyspark; it is not installed: '
            "pip install 'narrows-middleware[spark]', or set engine = \"native\""
        )
    found = java_path()
    if found is None:
        raise NoJavaError(f"site {site}: Spark requires Java {JAVA_MIN} or newer; none was found: {_REMEDY}")
    version = java_version(found)
    if version is None or version < JAVA_MIN:
        got = "an unknown version" if version is None else f"version {version}"
        raise NoJavaError(f"site {site}: Spark requires Java {JAVA_MIN} or newer; {found} is {got}: {_REMEDY}")


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
