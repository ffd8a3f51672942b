"""The algorithms, all drawn alike: the carry at A, the stream at B, and what crosses between them."""

from __future__ import annotations

from planner.algorithms.descriptions import Algorithm, Crossing
from planner.algorithms.kinds import Kind
from planner.explain.drawing import KIND_NAMES, Canvas, Rect

_WIDTH = 720
_BOX = 210.0
_TOP = 16.0


def algorithm_svg(algorithm: Algorithm) -> str:
    """One algorithm."""
    spec, words = algorithm.spec, algorithm.spec.words
    lines = 2 + max(1 + len(words.drawn_here), len(words.drawn_there))
    height = max(34.0 + 20 * lines, 16 + 52.0 * len(words.crossings))
    canvas = Canvas(_WIDTH, height + 2 * _TOP, f"{algorithm.value}: what crosses the link")
    left, right = Rect(16, _TOP, _BOX, height), Rect(_WIDTH - 16 - _BOX, _TOP, _BOX, height)
    _site(canvas, left, "A: where the carry is", ("carry", *words.drawn_here), spec.at_source)
    _site(canvas, right, "B: where the stream is", words.drawn_there, not spec.at_source)
    step = height / len(words.crossings)
    for place, crossing in enumerate(words.crossings):
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
