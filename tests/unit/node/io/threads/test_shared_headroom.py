"""Room for records beside threads that write something else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from node.io.threads.shared_headroom import SharedHeadroom
from node.storage.errors import NoRoomError
from node.storage.headroom import HEADROOM_NAME


def test_room_is_lent_when_those_who_write_have_done_so(tmp_path: Path) -> None:
    headroom = SharedHeadroom(tmp_path, 4096)
    assert headroom.reserve()
    tries: list[str] = []

    def write() -> None:
        tries.append("record")
        if len(tries) == 1:
            raise NoRoomError("full")

    with headroom.use(tmp_path):
        lending = threading.Thread(target=headroom.lend, args=(write,))
        lending.start()
        while not headroom.lent:
            pass
        with pytest.raises(OSError, match="but for records"), headroom.use(tmp_path):
            pass
        # Long enough for one that does not wait.
        lending.join(0.5)
        assert (tmp_path / HEADROOM_NAME).exists()
        tries.append("rows")
    lending.join()
    assert tries == ["record", "rows", "record"]
    assert not (tmp_path / HEADROOM_NAME).exists()
