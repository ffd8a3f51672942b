"""How a plan is asked for on the command line: the options, and the request they make."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from node.rpc import control_pb2 as pb
from planner.choose import Model, Search
from planner.errors import PlanError, QueryError
from planner.model import Algorithm

_PLAN_NAMES = ("auto", "ship-all")
_PLAN_FILES = (".json", ".toml")
_SEARCHES = [search.value for search in Search if search is not Search.SHIP_ALL]


def add_plan_options(command: argparse.ArgumentParser) -> None:
    """Everything that says which plan a query gets."""
    text = "auto: the cheapest by cost; ship-all: everything to the query's home; or a plan from a .json or .toml file"
    command.add_argument("--plan", metavar="PLAN", help=f"{text} (default: auto)")
    names = ", ".join(algorithm.value for algorithm in Algorithm)
    text = f"no choice, but {names} in every step: for every head, or per head: o=SM-S1,p=SP-D (see below)"
    command.add_argument("--algorithm", metavar="NAME", help=text)
    text = "how the cheapest plan is looked for (default: optimal, greedy beyond 8 streams)"
    command.add_argument("--search", choices=_SEARCHES, help=text)
    text = "what cost means: wire, the bytes we really send, or paper, the formulas of Tran & Lee (default: wire)"
    command.add_argument("--cost", choices=[model.value for model in Model], help=text)
    text = "frontier, delta or delta=DURATION (default: frontier; see below)"
    command.add_argument("--policy", default="frontier", metavar="NAME", help=text)


def plan_request(options: argparse.Namespace, text: str, *, explained: bool = False) -> pb.IssueRequest:
    """What a daemon is asked for.

    Raises PlanError if the options contradict each other, or name a file that cannot be read.
    """
    if options.algorithm is not None and options.plan is not None:
        raise PlanError(f"required --algorithm or --plan, got both: {options.algorithm} and {options.plan}")
    if options.search is not None and (options.algorithm is not None or options.plan not in (None, "auto")):
        given = options.algorithm or options.plan
        raise PlanError(f"--search: required a plan that is to be chosen, got {given}, where nothing is")
    _check_letters(text)
    request = pb.IssueRequest(text=text, policy=options.policy, explained=explained)
    request.algorithm, request.search, request.cost = options.algorithm or "", options.search or "", options.cost or ""
    if options.plan in _PLAN_NAMES:
        request.plan = options.plan
    elif options.plan is not None:
        request.plan_file = _read(options.plan)
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
    required = f"{', '.join(_PLAN_NAMES)} or a file that ends in {' or '.join(_PLAN_FILES)}"
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
