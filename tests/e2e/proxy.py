"""A TCP proxy between two sites that counts bytes and can be cut, stalled and slowed.

Put it in the way with a site's ``address``: others dial the proxy, the site listens behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.harness import Daemons, Stream, free_port, write_cluster

_CHUNK_BYTES = 1 << 16
_SITES = ("alpha", "beta")


class Proxy:
    """Forwards connections on ``port`` to ``target``; all methods may be called from any thread."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.target = target
        #: Bytes that came from whoever dialled, and bytes that came back.
        self.sent = 0
        self.received = 0
        self.connections = 0
        self.delay_s = 0.0
        self._flowing = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Break all connections and take no new ones."""
        self._do(self._close())

    def restore(self) -> None:
        self._do(self._listen())

    def stall(self) -> None:
        """Connections stay open, and nothing passes any more: not even the news that one end has gone."""
        self._do(self._flow(False))

    def resume(self) -> None:
        self._do(self._flow(True))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _flow(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _listen(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        self._flowing.set()
        await asyncio.sleep(0)

    async def _serve(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far, far_out = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            near_out.transport.abort()
            return
        self._writers |= {near_out, far_out}
        try:
            await asyncio.gather(self._pass(near, far_out, back=False), self._pass(far, near_out, back=True))
        finally:
            self._writers -= {near_out, far_out}

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, back: bool) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                await self._flowing.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if back:
                    self.received += len(data)
                else:
                    self.sent += len(data)
                sink.write(data)
                await sink.drain()
        sink.transport.abort() if sink.transport.is_closing() else sink.close()


@contextmanager
def behind_proxy(
    folder: Path,
    streams: Sequence[Stream],
    *arguments: str,
    sites: Sequence[str] = _SITES,
    planner: Mapping[str, str] | None = None,
) -> Iterator[tuple[Daemons, Proxy]]:
    """All daemons up; alpha reaches beta through the proxy, clients go straight. Nobody else dials beta."""
    ports = {site: free_port() for site in sites}
    config = write_cluster(folder, streams, sites=sites, ports=ports, planner=planner)
    with Proxy(ports["beta"]) as proxy:
        through = folder / "daemons.toml"
        text = config.read_text().replace("\n[site.beta]\n", f'\n[site.beta]\naddress = "127.0.0.1:{proxy.port}"\n')
        through.write_text(text)
        with Daemons(config, through, arguments).start(*sites).linked() as daemons:
            yield daemons, proxy
