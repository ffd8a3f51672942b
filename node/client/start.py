"""A daemon that was just started, for whoever started it and waits for it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

from node.client.client import Client
from node.client.errors import DaemonRefusedError, DaemonUnreachableError
from node.instance import INSTANCE_VARIABLE
from node.rpc import control_pb2 as pb


class Start:
    """One start of one daemon. Its process is given a name by its environment, and says that name when it is asked."""

    def __init__(self) -> None:
        self._instance = secrets.token_hex(8)

    def environment(self, given: Mapping[str, str] = os.environ) -> dict[str, str]:
        """For the daemon's process."""
        return {**given, INSTANCE_VARIABLE: self._instance}

    def readiness(self, client: Client) -> pb.ReadyReply | None:
        """How far the daemon is; None while nobody answers at its address, or somebody else does."""
        try:
            said = client.readiness()
        except (DaemonUnreachableError, DaemonRefusedError):
            return None
        return said if said.instance == self._instance else None
