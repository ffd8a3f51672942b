"""How long a client waits for a daemon that is away, and what it says meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from node.client.errors import AwayTooLongError, DaemonUnreachableError, StartingError

T = TypeVar("T")

#: Pauses between two attempts: the first, and the longest.
_PAUSE_S = 0.1
_PAUSE_S_MAX = 2.0
#: It is said again that a daemon is still away after this long, and then after twice as long each time.
_SAY_AGAIN_S = 60.0

#: What happens while a daemon is away: it does not answer, or it does not serve yet.
AWAY = (DaemonUnreachableError, StartingError)


class Patience:
    """Waits for daemons; ``wait_s`` is the longest for each time that one is away, None: for ever."""

    def __init__(
        self,
        wait_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wait_s = wait_s
        self._say = say
        self._sleep = sleep
        self._clock = clock
        #: Since when one is away, and since when by the clock on the wall; None: none is.
        self._since_s: float | None = None
        self._since = ""
        self._who = ""
        self._pause_s = _PAUSE_S
        self._say_at_s = 0.0
        self._say_again_s = _SAY_AGAIN_S

    def ask(self, question: Callable[[], T], purpose: str) -> T:
        """The answer, as soon as there is one; ``purpose`` is what is waited for, in words.

        Raises AwayTooLongError if there is none for too long, and whatever else the question does.
        """
        while True:
            try:
                answer = question()
            except AWAY as error:
                self.away(error, purpose)
            else:
                self.back()
                return answer

    def away(self, error: DaemonUnreachableError | StartingError, purpose: str) -> None:
        """A daemon is away: wait a little. Raises AwayTooLongError if that is enough."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s, self._since = now_s, time.strftime("%H:%M:%S")
            self._pause_s, self._say_again_s = _PAUSE_S, _SAY_AGAIN_S
            # Who is back at once is not worth a word.
            self._say_at_s = now_s + _PAUSE_S
        site = self._who = f"site {error.site}" if error.site else "the daemon"
        if self._wait_s is not None and now_s - self._since_s >= self._wait_s:
            self._since_s = None
            text = f"{site} is away since {self._since}, longer than {self._wait_s:g} s: {error}"
            raise AwayTooLongError(f"{text}\nit was waited for {purpose}")
        if now_s >= self._say_at_s:
            again = "still " if self._say_again_s > _SAY_AGAIN_S else ""
            self._say(f"{site} is {again}away since {self._since} ({error}); waiting {purpose}")
            self._say_at_s, self._say_again_s = now_s + self._say_again_s, 2 * self._say_again_s
        left_s = self._pause_s if self._wait_s is None else min(self._pause_s, self._since_s + self._wait_s - now_s)
        self._sleep(max(0.0, left_s))
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)

    def back(self) -> None:
        """It answers."""
        if self._since_s is None:
            return
        if self._say_again_s > _SAY_AGAIN_S:  # it was said that it is away
            self._say(f"{self._who} is back after {self._clock() - self._since_s:.0f} s")
        self._since_s = None
