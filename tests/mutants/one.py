"""``python -m tests.mutants.one NAME SEEDS``: seeds in order until one fails; the answer as JSON.

With the name ``none`` the system is as it is: then no seed may fail.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.mutants.mutants import ROOT, install, named

#: A seed takes a fraction of a second; one that takes this long goes in circles.
SEED_SECONDS_MAX = 60


def first_failure(seeds: int) -> tuple[int | None, str]:
    """The first seed that fails, and how."""
    from tests.sim.check import check, scenario_of  # noqa: PLC0415 - after the bug is in place

    for seed in range(seeds):
        scenario = scenario_of(seed)
        signal.alarm(SEED_SECONDS_MAX)
        try:
            check(scenario)
        except Exception as error:
            lines = str(error).splitlines() or [""]
            return seed, f"{type(error).__name__}: {lines[0][:110]}"
        finally:
            signal.alarm(0)
    return None, ""


def system_root() -> Path:
    """Where the system that ran was imported from; the tests must be from there too."""
    import node.stack  # noqa: PLC0415

    root = Path(node.stack.__file__).resolve().parents[1]
    assert root == ROOT, f"the system requires the tests beside it; got {root} and {ROOT}"
    return root


def _on_alarm(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"a seed requires less than {SEED_SECONDS_MAX} seconds; it goes in circles")


def main() -> int:
    name, seeds = sys.argv[1], int(sys.argv[2])
    if name != "none":
        install(named(name))
    signal.signal(signal.SIGALRM, _on_alarm)
    seed, how = first_failure(seeds)
    print(json.dumps({"seed": seed, "how": how, "root": str(system_root())}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
