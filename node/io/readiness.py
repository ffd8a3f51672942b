"""Whether a daemon takes queries yet; if not, what it waits for, and since when."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc

from node.rpc import control_pb2 as pb
from node.rpc.control_pb2_grpc import ReadinessServicer


class Readiness(ReadinessServicer):
    """The Readiness service of one daemon, and what it is told while the daemon starts."""

    def __init__(self, site: str, instance: str = "") -> None:
        """``instance``: what whoever started the daemon called this start."""
        self._site = site
        self._instance = instance
        self._steps: list[str] = []
        self._since_s = time.monotonic()
        self._ready = asyncio.Event()

    def step(self, what: str) -> None:
        """What the daemon does from now on to become ready, in words."""
        self._steps.append(what)
        self._since_s = time.monotonic()

    def done(self) -> None:
        """There are no more steps."""
        self._ready.set()

    async def wait(self) -> None:
        """Until it is ready."""
        await self._ready.wait()

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    @property
    def refusal(self) -> str:
        """What whoever comes too early is told."""
        doing = self._steps[-1] if self._steps else "starting"
        return f"site {self._site} is not ready: {doing}, since {self._step_seconds:.0f} s"

    @property
    def _step_seconds(self) -> float:
        return time.monotonic() - self._since_s

    async def Ready(self, request: pb.Empty, context: grpc.aio.ServicerContext[Any, Any]) -> pb.ReadyReply:
        return pb.ReadyReply(
            site=self._site,
            instance=self._instance,
            ready=self.ready,
            steps=self._steps,
            step_seconds=0.0 if self.ready else self._step_seconds,
        )
