"""What core and planner both go by. Its home is here, because the planner may not look into the core."""

from __future__ import annotations

#: The name of the event time among the columns of rows, and in a profile's column sizes.
EVENT_TIME = "__ts"
#: Both ends of a link remember the keys of this many questions by numbers, and this many keys at most.
BOOK_QUESTIONS_MAX = 100
BOOK_KEYS_MAX = 2**16
