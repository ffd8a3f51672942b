"""Walks that are under way, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from cli.show.tables import show_words, tick_time
from node.rpc import control_pb2 as pb

#: By site: its walks, or why it does not answer.
Found = Mapping[str, Sequence[pb.WalkStatus] | str]


def show_walks(console: Console, tau_ms: int, found: Found, query_id: str) -> None:
    """Site by site, the walk that has waited longest first."""
    of = f" of {query_id}" if query_id else ""
    for site, answer in found.items():
        if isinstance(answer, str):
            show_words(console, site, [answer])
        elif answer:
            lines = [line for walk in answer for line in _told(walk, tau_ms)]
            show_words(console, f"{site}: {len(answer):,} under way{of}", lines)
    if all(not isinstance(answer, str) and not answer for answer in found.values()):
        where = f"at {', '.join(found)}"
        console.print(f"no walk{of} is under way {where}", markup=False, highlight=False, soft_wrap=True)


def _told(walk: pb.WalkStatus, tau_ms: int) -> list[str]:
    """Who it is, where in its plan it stands, and what it waits for."""
    first, end = tick_time(walk.first_tick, tau_ms), tick_time(walk.end_tick, tau_ms)
    have = f"at another site, which asks about {walk.keys:,} keys" if walk.asked else f"{walk.rows:,} rows"
    name = walk.alias if walk.alias == walk.stream else f"{walk.stream} AS {walk.alias}"
    return [
        f"{walk.query_id} generation {walk.generation}, batch of {walk.head}, {have}",
        f"  event time {first} to {end}",
        f"  step {walk.step + 1} of {walk.steps}: {name} by {walk.algorithm}",
        f"  waits {walk.seconds:,.1f} s for {walk.cause} ({walk.stage})",
    ]
