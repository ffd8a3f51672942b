"""Bounds that the core keeps and the planner counts on. Their home is here: the planner may not look into the core."""

from __future__ import annotations

#: Keys asked about are remembered by number for so many questions, and so many keys at most.
BOOK_QUESTIONS_MAX = 100
BOOK_KEYS_MAX = 2**16
