"""Which start of a daemon this is.

Whoever starts a daemon and waits for it names that start in this variable of its environment, and the daemon tells the
name to everybody who asks whether it is ready. So another daemon at the same address is not taken for the one that
was started.
"""

from __future__ import annotations

INSTANCE_VARIABLE = "NARROWS_INSTANCE"
#: In the trailing metadata of a call that is refused because the daemon is starting.
STARTING_KEY = "narrows-starting"
