"""Under which headings bytes are counted."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Under which heading bytes are counted; the same names as in the ledger of a link."""

    KEYS = "keys"
    KEY_ANSWERS = "key_answers"
    TUPLES = "tuples"
    SYNC = "sync"
    RESULTS = "results"
    CONTROL = "control"
    FRAMING = "framing"
