"""What a daemon is asked for, from a query and the options that say which plan it gets."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.options.plan import PLAN_NAMES, PlanChoice
from node.rpc import control_pb2 as pb
from planner.model.errors import PlanError, QueryError

_PLAN_FILES = (".json", ".toml")


def plan_request(
    choice: PlanChoice, text: str, *, explained: bool = False, adaptive: bool | None = None
) -> pb.IssueRequest:
    """The request.

    Raises PlanError if the options contradict each other, or name a file that cannot be read.
    """
    if choice.algorithm is not None and choice.plan is not None:
        raise PlanError(f"required --algorithm or --plan, got both: {choice.algorithm} and {choice.plan}")
    if choice.search is not None and (choice.algorithm is not None or choice.plan not in (None, "auto")):
        given = choice.algorithm or choice.plan
        raise PlanError(f"--search: required a plan that is to be chosen, got {given}, where nothing is")
    _check_letters(text)
    request = pb.IssueRequest(text=text, policy=choice.policy, explained=explained, adaptive=adaptive)
    request.algorithm, request.search, request.cost = choice.algorithm or "", choice.search or "", choice.cost or ""
    if choice.plan in PLAN_NAMES:
        request.plan = choice.plan
    elif choice.plan is not None:
        request.plan_file = _read(choice.plan)
    return request


def _check_letters(text: str) -> None:
    """Bytes that are no letters where this runs come as half characters, which cannot be sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        got = text[: error.start] + "?"
        raise QueryError(f"the query requires text in {encoding}, as LANG or LC_ALL says; got {got!r}") from None


def _read(name: str) -> str:
    required = f"{', '.join(PLAN_NAMES)} or a file that ends in {' or '.join(_PLAN_FILES)}"
    path = Path(name)
    if path.suffix.lower() not in _PLAN_FILES:
        raise PlanError(f'--plan: required {required}, got "{name}"')
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f'--plan: required a readable file, got "{name}": {error.strerror or error}') from None
    except UnicodeDecodeError:
        raise PlanError(f'--plan: required a text file, got "{name}", which is none') from None
    if not text.strip():
        raise PlanError(f'--plan: required a plan in the file, got "{name}", which is empty')
    return text
