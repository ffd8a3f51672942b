"""The six algorithms, all drawn alike: the carry at A, the stream at B, and what crosses between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.cost import Kind
from planner.drawing import KIND_NAMES, Canvas, Rect
from planner.model import Algorithm

_WIDTH = 720
_BOX = 210.0
_TOP = 16.0


@dataclass(frozen=True, slots=True)
class Crossing:
    """One arrow. ``number`` is its place in the walk; 0: it comes each tick, whoever walks."""

    kind: Kind
    text: str
    to_a: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is kept at A, besides the carry, and at B, and what crosses."""

    kept_at_a: tuple[str, ...]
    crossings: tuple[Crossing, ...]
    joined_at_a: bool
    kept_at_b: tuple[str, ...] = ("W: its window",)


_BORN = Crossing(Kind.SYNC, "keys born, keys dead", to_a=True)
_KEYS = Crossing(Kind.KEYS, "its distinct keys", number=1)

DRAWINGS: Mapping[Algorithm, Drawing] = {
    Algorithm.SP_S: Drawing(
        ("full copy of W",), (Crossing(Kind.SYNC, "every batch, whole", to_a=True),), True, ("no window is kept",)
    ),
    Algorithm.SP_D: Drawing((), (Crossing(Kind.TUPLES, "every row", number=1),), False),
    Algorithm.SM_S1: Drawing(
        ("W': tuples sent so far",),
        (_KEYS, Crossing(Kind.TUPLES, "matching tuples, new ones", to_a=True, number=2)),
        True,
        ("W: its window", "a bit per tuple: sent?"),
    ),
    Algorithm.SM_S2: Drawing(
        ("M: all keys, and tuples", "of keys fetched before"),
        (
            Crossing(Kind.SYNC, "keys born and dead, new tuples", to_a=True),
            Crossing(Kind.KEYS, "keys that M lacks tuples of", number=1),
            Crossing(Kind.TUPLES, "their tuples", to_a=True, number=2),
        ),
        True,
    ),
    Algorithm.SM_D1: Drawing(
        ("V: the keys of W",), (_BORN, Crossing(Kind.TUPLES, "rows with a key in V", number=1)), False
    ),
    Algorithm.SM_D2: Drawing(
        (),
        (
            _KEYS,
            Crossing(Kind.KEY_ANSWERS, "one bit per key", to_a=True, number=2),
            Crossing(Kind.TUPLES, "rows that match", number=3),
        ),
        False,
        ("W: its window", "Temp: what was found"),
    ),
}


def algorithm_svg(algorithm: Algorithm) -> str:
    """One algorithm."""
    drawing = DRAWINGS[algorithm]
    lines = 2 + max(1 + len(drawing.kept_at_a), len(drawing.kept_at_b))
    height = max(34.0 + 20 * lines, 16 + 52.0 * len(drawing.crossings))
    canvas = Canvas(_WIDTH, height + 2 * _TOP, f"{algorithm.value}: what crosses the link")
    left, right = Rect(16, _TOP, _BOX, height), Rect(_WIDTH - 16 - _BOX, _TOP, _BOX, height)
    _site(canvas, left, "A: where the carry is", ("carry", *drawing.kept_at_a), drawing.joined_at_a)
    _site(canvas, right, "B: where the stream is", drawing.kept_at_b, not drawing.joined_at_a)
    step = height / len(drawing.crossings)
    for place, crossing in enumerate(drawing.crossings):
        _crossing(canvas, crossing, _TOP + step * (place + 0.5), left.right + 8, right.left - 8)
    return canvas.svg()


def _site(canvas: Canvas, place: Rect, title: str, kept: tuple[str, ...], joined: bool) -> None:
    canvas.box(place, edge="results" if joined else "edge", width=2.5 if joined else 1)
    x, y = place.left + 12, place.top + 24
    canvas.text((x, y), title, size=14, bold=True)
    for number, line in enumerate(kept, 1):
        canvas.text((x, y + 20 * number), line, size=13)
    if joined:
        canvas.text((x, place.bottom - 12), "joined here", size=13, colour="results", bold=True)


def _crossing(canvas: Canvas, crossing: Crossing, y: float, begin: float, end: float) -> None:
    ends = ((end, y), (begin, y)) if crossing.to_a else ((begin, y), (end, y))
    sync = crossing.kind is Kind.SYNC
    canvas.arrow(*ends, colour=crossing.kind.value, width=2.4, dash="7 4" if sync else "")
    middle = (begin + end) / 2
    place = canvas.text((middle, y - 8), crossing.text, size=13, anchor="middle")
    name = KIND_NAMES[crossing.kind]
    canvas.text((middle, y + 16), f"{name}, each tick" if sync else name, size=11, colour="dim", anchor="middle")
    if not sync:
        canvas.dot((place.left - 15, y - 12), 8.5, crossing.kind.value)
        at = (place.left - 15, y - 8)
        canvas.text(at, str(crossing.number), size=11, colour="paper", anchor="middle", bold=True)
