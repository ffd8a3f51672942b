"""How a plan is asked for on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from cli.options.values import OneOf
from planner.algorithms.descriptions import SPECS, Algorithm
from planner.search.choice import Model, Search

_ALGORITHMS = "\n".join(
    f"  {algorithm.value:6} {spec.words.summary}, join {spec.joined}" for algorithm, spec in SPECS.items()
)
#: For the help of a command with these options.
ALGORITHM_CHOICES = f"""\
algorithms: a tuple of one stream, here, looks for tuples of the other, there:
{_ALGORITHMS}
"""
PLAN_CHOICES = f"""\
{ALGORITHM_CHOICES}
policies:
  frontier     wait for what is needed: exact under any delay
  delta        go by the clock: a delay beyond delta, which is measured on the
               links, can make rows wrong; narrows status counts how often
  delta=250ms  the same with this delta
"""
#: Plans that need no file.
PLAN_NAMES = ("auto", "ship-all")
_SEARCHES = [search.value for search in Search if search is not Search.SHIP_ALL]


@dataclass(frozen=True)
class PlanChoice:
    """What the user asked for; None: nothing in particular."""

    plan: str | None
    algorithm: str | None
    search: str | None
    cost: str | None
    policy: str


def _plans(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """For the Tab key: a name, or else a file."""
    names = [name for name in PLAN_NAMES if name.startswith(incomplete)]
    return names or click.Path().shell_complete(ctx, parameter, incomplete)


_WHICH = (
    click.option(
        "--plan",
        metavar="PLAN",
        shell_complete=_plans,
        help="auto: the cheapest by cost; ship-all: everything to the query's home; or a plan from a .json or .toml "
        "file (default: auto)",
    ),
    click.option(
        "--algorithm",
        metavar="NAME",
        shell_complete=lambda _, __, incomplete: [name for name in Algorithm if name.startswith(incomplete)],
        help=f"no choice, but {', '.join(Algorithm)} in every step: for every head, or per head: o=SM-S1,p=SP-D "
        "(see below)",
    ),
)
_HOW = (
    click.option(
        "--search",
        type=OneOf(_SEARCHES),
        help="how the cheapest plan is looked for (default: optimal, greedy beyond 8 streams)",
    ),
    click.option(
        "--cost",
        type=OneOf([model.value for model in Model]),
        help="what cost means: wire, the bytes we really send, or paper, the formulas of Tran & Lee (default: wire)",
    ),
    click.option(
        "--policy",
        default="frontier",
        metavar="NAME",
        help="frontier, delta or delta=DURATION (default: frontier; see below)",
    ),
)


def plan_options(function: Callable[..., int]) -> Callable[..., int]:
    """The options; the function gets them as one PlanChoice called ``plan``."""
    return _with_options(function, (*_WHICH, *_HOW))


def other_plan_options(function: Callable[..., int]) -> Callable[..., int]:
    """Those that say which plan, for a query that has one already."""
    return _with_options(function, _WHICH)


def adaptive_option(help_text: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Whether a query may go over to a better plan; None: nobody says."""
    return click.option("--adaptive/--no-adaptive", default=None, help=help_text)


def _with_options(
    function: Callable[..., int], options: tuple[Callable[[Callable[..., int]], Callable[..., int]], ...]
) -> Callable[..., int]:
    @wraps(function)
    def chosen(*, plan: str | None, algorithm: str | None, **others: Any) -> int:
        how = {name: others.pop(name, default) for name, default in (("search", None), ("cost", None))}
        return function(plan=PlanChoice(plan, algorithm, **how, policy=others.pop("policy", "frontier")), **others)

    decorated: Callable[..., int] = chosen
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
