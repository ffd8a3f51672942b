"""Where things are that tests read: the repository, and the data sets beside it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("NARROWS_DATA", ROOT.parent / "shared" / "data"))
