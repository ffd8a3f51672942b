"""The picture of the README: three sites, what each keeps, and what crosses between them."""

from __future__ import annotations

from planner.algorithms.kinds import Kind
from planner.explain.drawing import Canvas, Rect

_VIRGINIA = Rect(30, 40, 230, 128)
_FRANKFURT = Rect(540, 40, 230, 128)
_SINGAPORE = Rect(285, 250, 230, 110)


def overview_svg() -> str:
    """Works at a width of 800."""
    canvas = Canvas(800, 420, "Three sites: keys and matching tuples cross the links, rows go to where they are wanted")
    _site(canvas, _FRANKFURT, "frankfurt", "orders", "[RANGE 10 SECONDS]")
    _site(canvas, _VIRGINIA, "virginia", "payments", "[RANGE 5 SECONDS]")
    canvas.box(_SINGAPORE, fill="sink", edge="ink", width=2)
    left, top = _SINGAPORE.left + 14, _SINGAPORE.top
    canvas.text((left, top + 26), "singapore", size=16, bold=True)
    canvas.lines(
        (left, top + 50),
        ["the query was asked here:", "its rows arrive here,", "each exactly once"],
        size=13.5,
        step=19,
    )
    begin, end = _VIRGINIA.right + 6, _FRANKFURT.left - 6
    for y, kind, text, forth in (
        (62, Kind.SYNC, "sync: keys that come and go", True),
        (96, Kind.KEYS, "keys first", True),
        (130, Kind.KEY_ANSWERS, "which of them match", False),
        (164, Kind.TUPLES, "then only the tuples that match", True),
    ):
        canvas.text(((begin + end) / 2, y - 6), text, size=13.5, anchor="middle")
        ends = ((begin, y + 4), (end, y + 4))
        canvas.arrow(*(ends if forth else ends[::-1]), colour=kind.value, width=2.4)
    for site, to in ((_VIRGINIA, (330.0, 244.0)), (_FRANKFURT, (470.0, 244.0))):
        canvas.arrow((site.middle[0], site.bottom + 6), to, colour=Kind.RESULTS.value, width=2.4)
    canvas.text((222, 226), "results", size=13.5, anchor="end")
    canvas.text((578, 226), "results", size=13.5)
    note = "Each site runs one daemon beside its data; between two sites there is one link, thin and slow."
    canvas.text((400, 398), note, size=13.5, colour="dim", anchor="middle")
    return canvas.svg()


def _site(canvas: Canvas, place: Rect, name: str, stream: str, window: str) -> None:
    canvas.box(place)
    left, top = place.left + 14, place.top
    canvas.text((left, top + 26), name, size=16, bold=True)
    canvas.text((left, top + 50), f"stream {stream}, all of it", size=13.5)
    canvas.text((left, top + 70), window, size=13.5, colour="dim")
    for number in range(9):
        x = left + 4 + 23 * number
        canvas.bar(Rect(x, top + 86, 15, 24), Kind.TUPLES.value if number in (2, 7) else "edge")
