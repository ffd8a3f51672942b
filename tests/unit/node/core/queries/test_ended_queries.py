"""Of a query that is over figures are kept, of its newest runs each: a bounded number, whatever happened."""

from __future__ import annotations

from node.core.queries.participation.ended_queries import COPIES_MAX, RUNS_MAX, EndedQueries
from node.core.status import CopyRole, CopyStatus, ProbeCounts, StepRows, ViewCount
from planner.algorithms.descriptions import CopyKind


def view(alias: str, rows: int, nbytes: int, span_us: int = 0, run_id: str = "q") -> ViewCount:
    return ViewCount("q", run_id, alias, rows, nbytes, span_us)


def test_generations_of_one_run_are_added_up() -> None:
    ended = EndedQueries(5)
    for rows in (3, 4):
        run = ended.of("q").run("q")
        run.add_views([view("a", rows, 10 * rows, 100 * rows), view("b", 1, 1)])
        run.add_steps([StepRows("q", "a", 0, rows, 1), StepRows("q", "a", 1, 1, 1)])
        run.add_probes(ProbeCounts("q", 7, rows, 1))
    assert ended.views == [view("a", 7, 70, 400), view("b", 2, 2)]
    assert ended.steps == [StepRows("q", "a", 0, 7, 2), StepRows("q", "a", 1, 2, 2)]
    assert ended.probes == [ProbeCounts("q", 7, 7, 2)]


def test_what_earlier_runs_saw_is_added_to_the_oldest_that_is_left() -> None:
    ended = EndedQueries(5)
    for number in range(RUNS_MAX + 4):
        run = ended.of("q").run(f"q~{number}")
        run.add_views([view("a", 1, 10, run_id=f"q~{number}")])
        run.add_steps([StepRows(f"q~{number}", "a", 0, 1, 1)])
    assert [count.rows for count in ended.views] == [5] + [1] * (RUNS_MAX - 1)
    assert sum(count.ship_all_bytes for count in ended.views) == 10 * (RUNS_MAX + 4)
    kept = [f"q~{number}" for number in range(4, RUNS_MAX + 4)]
    assert [count.run_id for count in ended.views] == kept
    assert [rows.query_id for rows in ended.steps] == kept


def test_a_run_that_ends_again_is_the_newest() -> None:
    ended = EndedQueries(5)
    for name in ("q", *(f"q~{number}" for number in range(RUNS_MAX - 1)), "q", "q~last"):
        ended.of("q").run(name).add_steps([StepRows(name, "a", 0, 1, 1)])
    names = [rows.query_id for rows in ended.steps]
    assert len(names) == RUNS_MAX
    assert names[-2:] == ["q", "q~last"]


def test_the_newest_copies_are_shown() -> None:
    ended = EndedQueries(5)
    halves = [CopyStatus("q", "a", CopyKind.KEYS, CopyRole.OWNER, "bow", n, 0, 0, 0) for n in range(COPIES_MAX + 2)]
    for half in halves:
        ended.of("q").add_copies([half])
    assert ended.copies == halves[2:]
