"""Event time: tuples in their ticks, and the windows that tuples look back into; what is sealed, kept and done."""

from __future__ import annotations

from docs import story
from planner.explain.drawing import Canvas, Point, Rect

_WIDTH = 900
_LEFT, _RIGHT = 130.0, 870.0
_BEGIN_MS, _END_MS = 2000, 2400


def ticks_svg() -> str:
    """The tuples of the example, and which of them meet."""
    canvas = Canvas(_WIDTH, 320, "Tuples of two streams in ticks of 100 ms, and which of them meet")
    orders, payments = 120.0, 220.0
    for tick in range(_BEGIN_MS // story.TAU_MS, _END_MS // story.TAU_MS + 1):
        x = _x(tick * story.TAU_MS)
        canvas.line([(x, 52), (x, 262)], colour="faint")
        canvas.text((x, 44), f"{tick * story.TAU_MS / 1000:.1f} s", colour="dim", anchor="middle")
        if tick * story.TAU_MS < _END_MS:
            middle = _x(tick * story.TAU_MS + story.TAU_MS / 2)
            canvas.text((middle, 280), f"tick {tick}", colour="dim", anchor="middle")
    for y, name, site in ((orders, "orders", "frankfurt"), (payments, "payments", "virginia")):
        canvas.text((20, y), name, size=14, bold=True)
        canvas.text((20, y + 17), site, colour="dim")
        canvas.arrow((_LEFT - 8, y), (_RIGHT + 16, y), colour="ink", width=1.3)
    _meets(canvas, (_x(2034), orders), (_x(2265), payments), "found by payment 503", 0.24)
    _meets(canvas, (_x(2150), payments), (_x(2180), orders), "found by order 7300043", 0.78)
    for row in story.ORDERS[:3]:
        _tuple(canvas, (_x(int(row["ts"])), orders), str(row["id"]), above=True)
    for row in story.PAYMENTS[:3]:
        _tuple(canvas, (_x(int(row["ts"])), payments), str(row["order_id"]), above=False)
    note = "A line is a result. The later of the two is its head: it looks back into the window of the other stream."
    canvas.text((20, 306), note, colour="dim")
    return canvas.svg()


def frontiers_svg() -> str:
    """What frankfurt has sealed, what the sink is done with, and what is kept, at one moment of the first run."""
    canvas = Canvas(_WIDTH, 250, "What Frankfurt keeps of the orders at 2.7 s")
    done, sealed, y = story.DONE, story.SEALED, 120.0

    def x(tick: float) -> float:
        return 330 + (tick - 19) * 58

    canvas.arrow((40, y), (880, y), colour="ink", width=1.3)
    canvas.text((40, 30), "frankfurt, 2.7 s: stream orders", size=14, bold=True)
    canvas.bar(Rect(60, y - 13, x(sealed) - 60, 12), "tuples")
    canvas.bar(Rect(x(done["o"]), y + 3, x(sealed) - x(done["o"]), 10), "results")
    # The beginning is not to scale.
    for cut in (196, 204):
        canvas.line([(cut - 4, y - 3), (cut + 4, y - 11)], colour="paper", width=4)
    for tick in range(20, 29):
        canvas.line([(x(tick), y - 16), (x(tick), y + 16)], colour="edge")
        canvas.text((x(tick), y + 31), str(tick), colour="dim", anchor="middle")
    canvas.text((x(19.5), y + 31), "tick", colour="dim", anchor="middle")
    canvas.text((44, y + 31), "-7.7 s", colour="dim")
    _pointer(canvas, (60, y - 18), "kept from here on: done p less 10 s", start=True)
    _pointer(canvas, (x(done["p"]), y - 18), f"done, head p: {done['p']}")
    _pointer(canvas, (x(sealed), y - 18), f"frontier: {sealed}")
    _below(canvas, (x(done["o"]), y + 36), f"done, head o: {done['o']}")
    canvas.bar(Rect(40, 206, 14, 7), "tuples")
    canvas.text((60, 214), "the window of orders: walks of p may still ask for any of it", colour="dim")
    canvas.bar(Rect(40, 226, 14, 7), "results")
    backlog = "backlog: three batches of orders whose walks are not done; reading waits at 256"
    canvas.text((60, 234), backlog, colour="dim")
    return canvas.svg()


def _x(at_ms: float) -> float:
    return _LEFT + (at_ms - _BEGIN_MS) / (_END_MS - _BEGIN_MS) * (_RIGHT - _LEFT)


def _tuple(canvas: Canvas, at: Point, name: str, above: bool) -> None:
    """Tuples that come close together are named on two lines."""
    lift = 34 if name in ("7300042", "7299001") and above == name.endswith("42") else 16
    canvas.dot(at, 6, "tuples")
    if above:
        canvas.line([(at[0], at[1] - 8), (at[0], at[1] - lift + 3)], colour="edge")
        canvas.text((at[0], at[1] - lift), name, anchor="middle")
    else:
        canvas.line([(at[0], at[1] + 8), (at[0], at[1] + lift - 3)], colour="edge")
        canvas.text((at[0], at[1] + lift + 9), name, anchor="middle")


def _meets(canvas: Canvas, earlier: Point, later: Point, text: str, share: float) -> None:
    canvas.arrow(later, earlier, colour="results", width=2)
    x, y = (earlier[place] + (later[place] - earlier[place]) * share for place in (0, 1))
    canvas.text((x, y + 4), text, colour="results", anchor="middle", halo=True)


def _pointer(canvas: Canvas, at: Point, text: str, start: bool = False) -> None:
    canvas.line([at, (at[0], at[1] - 16)], colour="ink", width=1.3)
    canvas.text((at[0] - (4 if start else 0), at[1] - 21), text, anchor="start" if start else "middle")


def _below(canvas: Canvas, at: Point, text: str) -> None:
    canvas.line([at, (at[0], at[1] + 10)], colour="ink", width=1.3)
    canvas.text((at[0], at[1] + 24), text, anchor="middle")
