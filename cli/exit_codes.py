"""Exit codes that scripts can rely on."""

from __future__ import annotations

DONE, FAILED, NOT_RIGHT, STILL_AWAY, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = """\
exit codes:
  0 done    1 something failed while running    3 a site was away longer than --wait    130 Ctrl-C
  2 the command, the configuration or the query is not right; nothing was started
"""
