"""What a stream was when its log was begun: a log must not go on with another stream under the same name.

Positions in a recording are rows of one file. That it is still that file is known by its size and time; where only the
time differs (the file was copied, or touched), by its bytes: all of them up to 64 MiB, of larger files 64 pieces of
1 MiB, the first and the last among them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from node.config import StreamConfig
from node.core.records import Put
from node.core.streams.log_extent import LogExtent
from node.io.sources.readers import source_error
from node.storage.errors import StorageError
from node.storage.site_records import Records
from planner.model.query import StreamInfo

#: The kind of record in which a stream is described.
STREAM = "stream"
_PIECE_BYTES = 1 << 20
_PIECES = 64


def check_definition(
    config: StreamConfig, info: StreamInfo, tau_ms: int, records: Records, logged: LogExtent | None
) -> str:
    """Keep what the stream is, or check that it is what it was. Returns which beginning of the stream this is.

    Raises SourceError if the stream has a log, and is not what it was when that was begun; StorageError if nobody knows
    what it was.
    """
    now = _definition(config, info, tau_ms)
    kept = records.all(STREAM).get(config.name)
    if kept is not None:
        before: dict[str, Any] = json.loads(kept)
        changed = _difference(config, before, now)
        if changed is None:
            return str(before["begun"])
        if logged is not None:
            key, got = changed
            raise source_error(config, key, f"what stream {config.name} was when its log was begun", f"{got} ({_ANEW})")
    elif logged is not None:
        required = f"stream {config.name} required a record of what it was when its log was begun"
        raise StorageError(f"{required}; got none (restore a backup, or begin anew with narrows node --fresh)")
    begun = str(records.life)
    if config.spark is None:
        now |= {"digest": _digest(config.path)}
    records.commit([Put(STREAM, config.name, json.dumps(now | {"begun": begun}).encode())])
    return begun


_ANEW = "put it back, or begin anew with narrows node --fresh"


def _difference(config: StreamConfig, before: dict[str, Any], now: dict[str, Any]) -> tuple[str, str] | None:
    """Which key of the configuration means something else than before, and what."""
    for key in ("tau_ms", "ts", "unit", "columns"):
        if before.get(key) != now.get(key):
            return key, f"{now.get(key)} instead of {before.get(key)}"
    touched = before.get("mtime_ns") != now.get("mtime_ns")
    if before.get("size") != now.get("size") or (touched and before.get("digest") != _digest(config.path)):
        return "path", f"another file: {config.path} changed since"
    return None


def _definition(config: StreamConfig, info: StreamInfo, tau_ms: int) -> dict[str, Any]:
    columns = [f"{field.name} {field.type}" for field in info.schema]
    said: dict[str, Any] = {"tau_ms": tau_ms, "ts": info.ts, "unit": info.unit.name, "columns": columns}
    if config.spark is None:
        found = config.path.stat()
        said |= {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
    return said


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    size = path.stat().st_size
    last = max(0, size - _PIECE_BYTES)
    step = max(_PIECE_BYTES, last // (_PIECES - 1))
    with path.open("rb") as file:
        for at in sorted({*range(0, last, step), last}):
            file.seek(at)
            digest.update(file.read(_PIECE_BYTES))
    return digest.hexdigest()
