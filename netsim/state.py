"""Where the emulated network of a cluster runs, in a file beside its cluster.toml, for daemons and commands to find."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from netsim.server import answers


@dataclass(frozen=True, slots=True)
class Running:
    """A network that is up."""

    #: Of the Toxiproxy server, and the port of its API on loopback.
    pid: int
    port: int
    #: For each link, by name, where the site that dials has to dial.
    listens: Mapping[str, str]

    @property
    def alive(self) -> bool:
        """Whether the server is still there."""
        return answers(self.port)


def state_path(cluster: Path) -> Path:
    """The file that says where the network of this cluster runs."""
    return cluster.with_suffix(".wan.json")


def read_state(cluster: Path) -> Running | None:
    """The network of a cluster, if it is up; a file that was left by one that has died says nothing."""
    try:
        found = json.loads(state_path(cluster).read_text())
        running = Running(int(found["pid"]), int(found["port"]), dict(found["listens"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if running.alive else None


def write_state(cluster: Path, running: Running) -> None:
    """Say where the network runs, whole or not at all."""
    path = state_path(cluster)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(asdict(running), indent=2) + "\n")
    scratch.replace(path)


def remove_state(cluster: Path) -> None:
    """There is no network any more."""
    state_path(cluster).unlink(missing_ok=True)
