"""What notices a mutant: the unit tests of its part first, then simulated clusters, seed by seed.

Each mutant is judged in a process of its own. Processes are forked from one that has imported the large libraries and
nothing of the system.
"""

from __future__ import annotations

import contextlib
import io
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from types import FrameType

import pytest

from tests.mutants.mutant import Mutant, compiled, install

#: A test or a seed takes a fraction of a second, a few take seconds; one that takes this long goes in circles.
SECONDS_MAX = 120
#: The system as it is.
NO_BUG = Mutant("no bug", ())


class GoesInCircles(BaseException):
    """A test takes too long. No error that the test, or what runs it, may catch and try again."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: str
    #: "unit", "sim", or nothing if it was not noticed.
    by: str
    #: The test, or the seed and how it failed.
    what: str
    seconds: float

    @property
    def noticed(self) -> bool:
        return self.by != ""


def verdicts(
    mutants: Sequence[Mutant], tests: Mapping[str, tuple[str, ...]], seeds: int, workers: int
) -> Iterator[Verdict]:
    """Each mutant's fate, as it becomes known."""
    context = get_context("forkserver")
    libraries = ["pytest", "hypothesis", "numpy", "pyarrow", "pyarrow.compute", "pyarrow.ipc"]
    context.set_forkserver_preload([__name__, *libraries])
    with ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1) as pool:
        futures = [
            pool.submit(judge, mutant.name, compiled(mutant), tests.get(mutant.name, ()), seeds) for mutant in mutants
        ]
        for future in as_completed(futures):
            yield future.result()


def judge(name: str, modules: Mapping[str, bytes], tests: tuple[str, ...], seeds: int) -> Verdict:
    """Put a bug in place and look who notices. Only in a process that has imported nothing of the system."""
    began = time.monotonic()
    install(modules)
    signal.signal(signal.SIGALRM, _on_alarm)
    by, what = "unit", _failing_test(tests) if tests else ""
    if not what:
        by, what = "sim", _failing_seed(seeds)
    return Verdict(name, by if what else "", what, time.monotonic() - began)


def _failing_test(tests: tuple[str, ...]) -> str:
    """The first unit test that fails, or nothing."""
    watcher = _Watcher()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly", *tests], [watcher])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        raise RuntimeError(f"unit tests require files to run; got {code!r} for {tests}")
    return watcher.failed


class _Watcher:
    """Notes the first test that fails; one that goes in circles fails too."""

    def __init__(self) -> None:
        self.failed = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        signal.alarm(SECONDS_MAX)
        try:
            return (yield)
        finally:
            signal.alarm(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            file, _, name = report.nodeid.partition("::")
            self.failed = f"{file.rsplit('/', 1)[-1].removesuffix('.py')} {name.partition('[')[0]}"


def _failing_seed(seeds: int) -> str:
    """The first seed that fails, and how; or nothing."""
    from tests.sim.check import check, scenario_of  # noqa: PLC0415 - after the bug is in place

    for seed in range(seeds):
        scenario = scenario_of(seed)
        signal.alarm(SECONDS_MAX)
        try:
            check(scenario)
        except (Exception, GoesInCircles) as error:
            first = (str(error).splitlines() or [""])[0]
            return f"seed {seed}: {type(error).__name__}: {first[:90]}"
        finally:
            signal.alarm(0)
    return ""


def _on_alarm(_: int, __: FrameType | None) -> None:
    raise GoesInCircles(f"a test requires less than {SECONDS_MAX} seconds; it goes in circles")
