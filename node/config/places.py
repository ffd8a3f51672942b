"""What the paths in a cluster.toml are relative to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are: the cluster file, what its paths are relative to, and the state of streams."""

    file: Path
    base: Path
    state_dir: Path
