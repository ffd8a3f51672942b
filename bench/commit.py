"""Which commit a figure is of."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Of what runs; with a word if it has changed since."""
    command = ["git", "describe", "--always", "--dirty"]
    said = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return said.stdout.strip()
