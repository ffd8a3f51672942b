"""Where the emulated network of a cluster runs, in a file beside its cluster.toml, for daemons and commands to find."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from netsim.loopback import Answer, who_answers


@dataclass(frozen=True, slots=True)
class Running:
    """A network that was brought up, and what it was brought up for."""

    #: Of the Toxiproxy server; its own only as long as ``answer`` is OURS.
    pid: int
    #: Of its API, on loopback.
    port: int
    #: By which the server is known.
    token: str
    #: When it was brought up, in seconds of the clock.
    up_at: float
    #: For each link, by name, where the site that dials has to dial.
    listens: Mapping[str, str]
    #: Where the sites are.
    addresses: Mapping[str, str]

    def answer(self) -> Answer:
        """Who is there now: a file outlives a server that is killed, and a reboot."""
        return who_answers(self.port, self.token)


def state_path(cluster: Path) -> Path:
    """The file that says where the network of this cluster runs."""
    return cluster.with_suffix(".wan.json")


def read_state(cluster: Path) -> Running | None:
    """What was written last, if anything that can be read."""
    try:
        found = json.loads(state_path(cluster).read_text())
        return Running(
            int(found["pid"]),
            int(found["port"]),
            str(found["token"]),
            float(found["up_at"]),
            {str(link): str(listen) for link, listen in found["listens"].items()},
            {str(site): str(address) for site, address in found["addresses"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_state(cluster: Path, running: Running) -> None:
    """Say where the network runs, whole or not at all."""
    path = state_path(cluster)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(asdict(running), indent=2) + "\n")
    scratch.replace(path)


def remove_state(cluster: Path) -> None:
    """There is no network any more."""
    state_path(cluster).unlink(missing_ok=True)
