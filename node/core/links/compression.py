"""The compressor of a link: one context for each direction of each connection, fresh with it and as long as it.

Each call gives bytes that the other end can decompress at once, with what went
before on the same connection as history.
"""

from __future__ import annotations

from backports.zstd import (
    CompressionParameter,
    DecompressionParameter,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
)

from node.core.errors import PeerProtocolError

#: 512 KiB of history. With tables and buffers a link takes about 2 MB to send and 1 MB to receive; twice the
#: history saved less than 0.1 percent. Level 3 makes our rows 3 to 5 percent smaller than level 1 at nearly its
#: speed, and is faster to decompress; level 5 takes three times as long for 1 percent.
_WINDOW_LOG = 19
_OPTIONS: dict[int, int] = {
    CompressionParameter.compression_level: 3,
    CompressionParameter.window_log: _WINDOW_LOG,
}


class Compressor:
    """The end that sends."""

    def __init__(self) -> None:
        self._context = ZstdCompressor(options=_OPTIONS)

    def compress(self, data: bytes) -> bytes:
        """All of ``data``, compressed; nothing of it is kept back."""
        return self._context.compress(data, ZstdCompressor.FLUSH_BLOCK)


class Decompressor:
    """The end that receives."""

    def __init__(self) -> None:
        self._context = ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})

    def decompress(self, data: bytes | memoryview, bytes_max: int) -> bytes:
        """What one call of ``compress`` was given; the next call goes on from there.

        Raises PeerProtocolError if it is not that, or more than ``bytes_max``; never makes much more.
        """
        try:
            out = self._context.decompress(data, bytes_max + 1)
        except (ZstdError, EOFError) as error:
            raise PeerProtocolError(f"a frame requires bytes that can be decompressed; got others: {error}") from None
        if self._context.eof:
            raise PeerProtocolError("a link requires one compressed stream; got the end of it")
        if len(out) > bytes_max or not self._context.needs_input:
            raise PeerProtocolError(f"frames require at most {bytes_max} bytes together; got more")
        return out
