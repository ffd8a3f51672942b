"""Space and time: sites are lines, time runs down, what is sent slants from line to line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from docs import story
from docs.story import Sent
from planner.algorithms.kinds import Kind
from planner.explain.drawing import Canvas, Rect, text_width

_WIDTH = 960
_LINES = {"virginia": 215.0, "frankfurt": 500.0, "singapore": 785.0}
_STREAMS = {"virginia": "payments", "frankfurt": "orders", "singapore": "rows are wanted here"}
_TOP = 74
_SIZE = 12.0
_STEP = 14.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happens at a site: a dot, or a bar while it lasts; what it says stands on one side of the line."""

    at_ms: int
    site: str
    text: tuple[str, ...]
    until_ms: int | None = None
    colour: str = "ink"
    left: bool = False
    #: The text stands lower, where an arrow comes in.
    below: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a time is in a picture."""

    begin_ms: int
    end_ms: int
    pixels: float

    def y(self, at_ms: float) -> float:
        return _TOP + (at_ms - self.begin_ms) * self.pixels


def run_svg() -> str:
    """The first run, message by message."""
    marks = (
        *_tuples(2000, 2500),
        _waits(2100, 2145, "o, tick 20, waits for V:", "no match, it ends"),
        _waits(2200, 2245, "o, tick 21, waits for V:", "7300043 is there now"),
        Mark(2290, "virginia", ("o joins payment 501",), colour="results", left=True),
        Mark(2397, "singapore", ("7300043 is stored",), colour="results"),
        Mark(2435, "frankfurt", (), colour="results"),
        Mark(2515, "singapore", ("7300042 is stored",), colour="results"),
    )
    scale = Scale(1995, 2720, 1.75)
    return _timeline("One order from Frankfurt and its payment, message by message", scale, story.RUN, marks)


def cut_svg() -> str:
    """The second run, with a link cut."""
    begin, end = story.CUT_MS
    marks = (
        Mark(2400, "virginia", ("V's syncs wait", "for the link"), 3005, "sync", left=True),
        Mark(2345, "frankfurt", ("p: bits 0, 1 is lost, but kept", "until it is acknowledged"), 3005, "key_answers"),
        Mark(3175, "singapore", ("7300042 is stored,", "once"), colour="results"),
    )
    scale = Scale(2330, 3230, 1.0)
    canvas = _canvas("The same with the link between Virginia and Frankfurt cut for 420 ms", scale)
    left, right = _LINES["virginia"], _LINES["frankfurt"]
    canvas.box(Rect(left + 8, scale.y(begin), right - left - 16, (end - begin)), fill="panel", edge="bad", radius=2)
    canvas.text(((left + right) / 2, scale.y(2420)), "cut", size=14, colour="bad", anchor="middle", bold=True)
    for at_ms in story.DIALLED_MS:
        good = at_ms > end
        text = "dialled: connected, Hello" if good else "dialled: no"
        canvas.text(((left + right) / 2, scale.y(at_ms) + 4), text, colour="dim", anchor="middle")
    _draw(canvas, scale, story.CUT_RUN, marks)
    return canvas.svg()


def three_svg() -> str:
    """The walk of a refund over three sites."""
    marks = (
        Mark(5120, "singapore", ("refund of", "payment 503"), colour="tuples"),
        Mark(5307, "virginia", ("payment 503 is found",), colour="dim", left=True),
        Mark(5521, "virginia", ("joined with p",), colour="results", left=True),
        Mark(5566, "frankfurt", ("joined with o",), colour="results", left=True, below=True),
        Mark(5646, "singapore", ("the row is stored",), colour="results"),
    )
    scale = Scale(5095, 5680, 1.0)
    names = {"virginia": "payments", "frankfurt": "orders", "singapore": "refunds"}
    return _timeline("A refund walks to its payment, then to its order", scale, story.THREE_RUN, marks, names)


def _tuples(begin_ms: int, end_ms: int) -> list[Mark]:
    marks = []
    for row in story.ORDERS:
        if begin_ms <= int(row["ts"]) < end_ms:
            marks.append(Mark(int(row["ts"]), "frankfurt", (f"order {row['id']}",), colour="tuples"))
    for row in story.PAYMENTS:
        if begin_ms <= int(row["ts"]) < end_ms:
            marks.append(Mark(int(row["ts"]), "virginia", (f"payment of {row['order_id']}",), None, "tuples", True))
    return marks


def _waits(at_ms: int, until_ms: int, *text: str) -> Mark:
    return Mark(at_ms, "frankfurt", text, until_ms, "dim")


def _timeline(
    title: str, scale: Scale, sent: Sequence[Sent], marks: Sequence[Mark], names: Mapping[str, str] = _STREAMS
) -> str:
    canvas = _canvas(title, scale, names)
    _draw(canvas, scale, sent, marks)
    return canvas.svg()


def _canvas(title: str, scale: Scale, names: Mapping[str, str] = _STREAMS) -> Canvas:
    """Sites, and the ticks as lines across."""
    bottom = scale.y(scale.end_ms)
    canvas = Canvas(_WIDTH, bottom + 40, title)
    canvas.text((20, 26), "time, s", colour="dim")
    for tick in range(-(-scale.begin_ms // story.TAU_MS), scale.end_ms // story.TAU_MS + 1):
        at = scale.y(tick * story.TAU_MS)
        canvas.line([(62, at), (_WIDTH - 20, at)], colour="faint")
        canvas.text((20, at + 4), f"{tick * story.TAU_MS / 1000:.1f}", colour="dim")
        if (tick + 1) * story.TAU_MS <= scale.end_ms:
            canvas.text((20, at + 18), f"tick {tick}", colour="dim", size=10)
    for site, x in _LINES.items():
        canvas.text((x, 26), site, size=14, bold=True, anchor="middle")
        canvas.text((x, 44), names[site], colour="dim", anchor="middle")
        canvas.line([(x, 54), (x, bottom)], colour="ink", width=1.5)
    return canvas


def _draw(canvas: Canvas, scale: Scale, sent: Sequence[Sent], marks: Sequence[Mark]) -> None:
    for each in sent:
        _arrow(canvas, scale, each)
    for mark in marks:
        _mark(canvas, scale, mark)
    for each in sent:
        _label(canvas, scale, each)
    used = {each.kind for each in sent}
    canvas.legend((62, scale.y(scale.end_ms) + 24), [kind for kind in Kind if kind in used])


def _arrow(canvas: Canvas, scale: Scale, each: Sent) -> None:
    begin = (_LINES[each.source], scale.y(each.leaves_ms))
    end = (_LINES[each.target], scale.y(each.arrives_ms))
    dash = "6 4" if each.kind is Kind.SYNC else ""
    canvas.arrow(begin, end, colour=each.kind.value, width=2.4 if each.number else 1.3, dash=dash)
    lost_ms = story.CUT_MS[0] - each.sent_ms
    if each.leaves_ms != each.sent_ms and 0 < lost_ms < story.delay_ms(each.source, each.target):
        share = lost_ms / story.delay_ms(each.source, each.target)
        stop = (begin[0] + (end[0] - begin[0]) * share, scale.y(story.CUT_MS[0]))
        canvas.line([(begin[0], scale.y(each.sent_ms)), stop], colour=each.kind.value, width=1.6)
        canvas.cross(stop)


def _label(canvas: Canvas, scale: Scale, each: Sent) -> None:
    begin, end = _LINES[each.source], _LINES[each.target]
    x = begin + (end - begin) * each.share
    y = scale.y(each.leaves_ms + (each.arrives_ms - each.leaves_ms) * each.share)
    top = y + 4 - _STEP * (len(each.label) - 1) / 2
    for number, line in enumerate(each.label):
        canvas.text((x, top + number * _STEP), line, size=_SIZE, anchor="middle", halo=True)
    if each.number:
        widest = text_width(each.label[0], _SIZE)
        at = (x - widest / 2 - 15, top - 4)
        canvas.dot(at, 9, each.kind.value)
        canvas.text((at[0], at[1] + 4), str(each.number), size=11, colour="paper", anchor="middle", bold=True)


def _mark(canvas: Canvas, scale: Scale, mark: Mark) -> None:
    x, y = _LINES[mark.site], scale.y(mark.at_ms)
    if mark.until_ms is None:
        canvas.dot((x, y), 4.5, mark.colour)
        middle = y + (20 if mark.below else 4)
    else:
        height = scale.y(mark.until_ms) - y
        canvas.bar(Rect(x - 4, y, 8, height), mark.colour)
        middle = y + height / 2 + 4 - _STEP * (len(mark.text) - 1) / 2
    for number, line in enumerate(mark.text):
        side = (x - 11, "end") if mark.left else (x + 11, "start")
        canvas.text((side[0], middle + number * _STEP), line, anchor=side[1], size=_SIZE, halo=True)
