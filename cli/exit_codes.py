"""Exit codes that scripts can rely on."""

from __future__ import annotations

DONE, FAILED, NOT_RIGHT, STILL_AWAY, INTERRUPTED = 0, 1, 2, 3, 130

#: One line of it, where there is room for no more.
EXIT_CODES_SHORT = "Exit codes: 0 done, 1 failed, 2 asked for wrongly, 3 still away, 130 Ctrl-C.\n"
EXIT_CODES = """\
exit codes:
  0 done    1 something failed while running    130 Ctrl-C
  2 the command, the configuration or the query is not right; nothing was started
  3 a site was away longer than --wait
"""
