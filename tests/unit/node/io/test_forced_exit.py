"""A process that is to stop ends, even if a thread of it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ENDLESS = """
import asyncio, shutil, sys, threading
from pathlib import Path
from node.io.forced_exit import ForcedExit

folder, late = Path(sys.argv[1]), sys.argv[2] == "late"
overdue = ForcedExit(lambda: shutil.rmtree(folder), 0.2 if late else 3600)

async def serve():
    if late:
        # asyncio waits for such a thread, and so would Python.
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    overdue.begin()

asyncio.run(serve())
overdue.done()
print("in order")
"""


@pytest.mark.parametrize(("how", "code", "said"), [("late", 1, ""), ("in time", 0, "in order\n")])
def test_what_keeps_a_process_from_ending_is_left_as_it_is(tmp_path: Path, how: str, code: int, said: str) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    ran = subprocess.run([sys.executable, "-c", ENDLESS, str(folder), how], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (code, said)
    # In order, it is for whoever made the folder to remove it.
    assert folder.exists() == (how == "in time")
    assert ("these threads are at work" in ran.stderr) == (how == "late")
