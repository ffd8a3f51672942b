"""SVG by hand: boxes, arrows and text in one visual language, for explain's pictures and those of the documentation.

Pictures have a background of their own and follow the reader's light or dark setting, so they can be read anywhere.
No script, no font file: text stays text. What crosses a link has the colour of its kind, always with its name beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, hypot

from planner.algorithms.kinds import Kind

Point = tuple[float, float]

#: Colours by class, on a light and on a dark background.
_COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "panel": ("#f3f5f8", "#161b22"),
    "sink": ("#fdf3d8", "#2d2612"),
    "edge": ("#aab4bf", "#4b535d"),
    "faint": ("#dfe4e9", "#2b323a"),
    "ink": ("#1c2733", "#e6edf3"),
    "dim": ("#586573", "#9ba7b4"),
    "bad": ("#c53030", "#ff7b72"),
    "keys": ("#b7660a", "#e3a33b"),
    "key_answers": ("#b83280", "#f28cc2"),
    "tuples": ("#1f65b0", "#62aeff"),
    "sync": ("#27774f", "#4cc07b"),
    "results": ("#6b46c1", "#bd9bff"),
    "control": ("#6c7885", "#98a4b0"),
    "framing": ("#aab4bf", "#4b535d"),
}
#: How kinds of bytes are called in pictures.
KIND_NAMES = {
    Kind.KEYS: "keys",
    Kind.KEY_ANSWERS: "key answers",
    Kind.TUPLES: "tuples",
    Kind.SYNC: "sync",
    Kind.RESULTS: "results",
    Kind.CONTROL: "control",
    Kind.FRAMING: "framing",
}
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
#: Advance of the characters from the space to the tilde in a wide sans-serif font, in hundredths of the size.
_ADVANCES = (
    "324046846495782739395084323632346464646464646464646434348484845399686970776358777529296656867579607969636173689969"
    "6169393439845050616355636235636328285828976361636341523963598259595264346484"
)
_OTHER_ADVANCE = 84
_BOLD = 1.13


def text_width(text: str, size: float, bold: bool = False) -> float:
    """How wide a text is at most, about: the reader's font may be narrower."""
    hundredths = 0
    for letter in text:
        place = 2 * (ord(letter) - 32)
        hundredths += int(_ADVANCES[place : place + 2]) if 0 <= place < len(_ADVANCES) else _OTHER_ADVANCE
    return hundredths / 100 * size * (_BOLD if bold else 1)


def cut_text(text: str, size: float, width: float, bold: bool = False) -> str:
    """The text, or as much of its beginning as fits."""
    if text_width(text, size, bold) <= width:
        return text
    shown = text
    while shown and text_width(f"{shown}…", size, bold) > width:
        shown = shown[:-1]
    return f"{shown}…"


@dataclass(frozen=True, slots=True)
class Rect:
    """A place in a picture."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> Point:
        return self.left + self.width / 2, self.top + self.height / 2

    def overlaps(self, other: Rect) -> bool:
        """Whether they share more than an edge."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def edge_towards(self, other: Point, gap: float = 0.0) -> Point:
        """Where a line from the middle to ``other`` leaves the box, and ``gap`` beyond."""
        x, y = self.middle
        over, down = other[0] - x, other[1] - y
        length = hypot(over, down) or 1.0
        reach = min(
            self.width / 2 / max(1e-9, abs(over / length)),
            self.height / 2 / max(1e-9, abs(down / length)),
        )
        return x + over / length * (reach + gap), y + down / length * (reach + gap)


class Canvas:
    """Collects what is drawn, in order."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = ceil(width)
        self.height = ceil(height)
        self._title = title
        self._parts: list[str] = []

    def svg(self) -> str:
        """The picture."""
        paper = f'x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"'
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{_STYLE}</style>",
                f'<rect class="f-paper s-faint" {paper}/>',
                *self._parts,
                "</svg>",
                "",
            ]
        )

    def text(
        self,
        at: Point,
        text: str,
        *,
        size: float = 12,
        colour: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        halo: bool = False,
    ) -> Rect:
        """One line of text at its base line; with ``halo``, readable upon lines. Returns the place it takes."""
        taken = text_place(at, text, size, anchor, bold)
        if halo:
            self.bar(Rect(taken.left - 2, taken.top - 1, taken.width + 4, taken.height + 1), "paper")
        weight = ' font-weight="bold"' if bold else ""
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        place = f'x="{_n(at[0])}" y="{_n(at[1])}"'
        self._parts.append(
            f'<text class="f-{colour}" {place} font-size="{_n(size)}"{side}{weight}>{escape(text)}</text>'
        )
        return taken

    def lines(
        self, at: Point, texts: Sequence[str], *, size: float = 12, colour: str = "ink", step: float = 16
    ) -> None:
        """Several lines of text, one below the other."""
        for number, text in enumerate(texts):
            self.text((at[0], at[1] + number * step), text, size=size, colour=colour)

    def box(self, place: Rect, *, fill: str = "panel", edge: str = "edge", width: float = 1, radius: float = 6) -> None:
        """A box that holds text."""
        where = f'x="{_n(place.left)}" y="{_n(place.top)}" width="{_n(place.width)}" height="{_n(place.height)}"'
        self._parts.append(
            f'<rect class="box f-{fill} s-{edge}" {where} rx="{_n(radius)}" stroke-width="{_n(width)}"/>'
        )

    def bar(self, place: Rect, colour: str) -> None:
        """A filled strip without an edge."""
        where = f'x="{_n(place.left)}" y="{_n(place.top)}" width="{_n(place.width)}" height="{_n(place.height)}"'
        self._parts.append(f'<rect class="f-{colour}" {where}/>')

    def dot(self, at: Point, radius: float, colour: str) -> None:
        """A filled circle."""
        self._parts.append(f'<circle class="f-{colour}" cx="{_n(at[0])}" cy="{_n(at[1])}" r="{_n(radius)}"/>')

    def line(self, points: Sequence[Point], *, colour: str = "edge", width: float = 1, dash: str = "") -> None:
        """Straight lines from point to point."""
        path = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<path class="s-{colour}" d="M{path}" stroke-width="{_n(width)}"{dashes}/>')

    def arrow(
        self,
        begin: Point,
        end: Point,
        *,
        colour: str = "ink",
        width: float = 1.6,
        dash: str = "",
        bend: Point | None = None,
    ) -> None:
        """A line with a head at its end; through a curve drawn to ``bend`` if there is one."""
        before = bend or begin
        length = hypot(end[0] - before[0], end[1] - before[1]) or 1.0
        ahead = ((end[0] - before[0]) / length, (end[1] - before[1]) / length)
        size = 6 + 1.6 * width
        neck = (end[0] - ahead[0] * size, end[1] - ahead[1] * size)
        shaft = f"M{_n(begin[0])} {_n(begin[1])}"
        if bend is None:
            shaft += f"L{_n(neck[0])} {_n(neck[1])}"
        else:
            shaft += f"Q{_n(bend[0])} {_n(bend[1])} {_n(neck[0])} {_n(neck[1])}"
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        classes = f"arrow s-{colour}"
        self._parts.append(f'<path class="{classes}" d="{shaft}" stroke-width="{_n(width)}"{dashes}/>')
        wing = size * 0.45
        left = (neck[0] - ahead[1] * wing, neck[1] + ahead[0] * wing)
        right = (neck[0] + ahead[1] * wing, neck[1] - ahead[0] * wing)
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in (left, end, right))
        self._parts.append(f'<polygon class="f-{colour}" points="{corners}"/>')

    def cross(self, at: Point, size: float = 6) -> None:
        """Something that did not arrive."""
        x, y = at
        self.line([(x - size, y - size), (x + size, y + size)], colour="bad", width=2.5)
        self.line([(x - size, y + size), (x + size, y - size)], colour="bad", width=2.5)

    def legend(self, at: Point, kinds: Sequence[Kind], size: float = 12) -> float:
        """The colours of kinds with their names, in a row; returns how wide it is."""
        x = at[0]
        for kind in kinds:
            self.bar(Rect(x, at[1] - 8, 14, 7), kind.value)
            name = KIND_NAMES[kind]
            self.text((x + 19, at[1]), name, size=size, colour="dim")
            x += 19 + text_width(name, size) + 18
        return x - at[0]


def text_place(at: Point, text: str, size: float, anchor: str = "start", bold: bool = False) -> Rect:
    """The place that a line of text takes, about."""
    width = text_width(text, size, bold)
    left = at[0] - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return Rect(left, at[1] - 0.78 * size, width, size)


def _n(value: float) -> str:
    """A number as short as it can be."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def _rules(dark: bool) -> str:
    rules = []
    for name, colours in _COLOURS.items():
        rules.append(f".f-{name}{{fill:{colours[dark]}}}.s-{name}{{stroke:{colours[dark]}}}")
    return "".join(rules)


_STYLE = (
    "path{fill:none;stroke-linejoin:round}"
    + _rules(dark=False)
    + f"@media(prefers-color-scheme:dark){{{_rules(dark=True)}}}"
)
