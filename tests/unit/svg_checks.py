"""Whether a picture can be read, as far as that can be computed: widths of text are those of a wide font."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree as ET

from planner.explain.drawing import Rect, text_place

_SVG = "{http://www.w3.org/2000/svg}"
#: Places of text are estimates: they may come this close, or overlap by it.
_SLACK = 1.5


@dataclass(frozen=True)
class Label:
    text: str
    place: Rect
    #: Where it is put: by its beginning, its middle or its end.
    at: tuple[float, float]


def labels_of(root: ET.Element) -> list[Label]:
    found = []
    for element in root.iter(f"{_SVG}text"):
        at = float(element.attrib["x"]), float(element.attrib["y"])
        size, anchor = float(element.attrib["font-size"]), element.attrib.get("text-anchor", "start")
        text = element.text or ""
        place = text_place(at, text, size, anchor, "font-weight" in element.attrib)
        found.append(Label(text, place, (at[0], at[1] - size / 3)))
    return found


def troubles_of(picture: str) -> list[str]:
    """What is wrong with a picture: text that leaves it, or its box, or covers other text."""
    root = ET.fromstring(picture)
    whole = Rect(0, 0, float(root.attrib["width"]), float(root.attrib["height"]))
    labels = labels_of(root)
    boxes = [_rect(element) for element in root.iter(f"{_SVG}rect") if "box" in element.attrib["class"].split()]
    found = [f"{label.text!r} leaves the picture" for label in labels if not _inside(label.place, whole)]
    for label in labels:
        holding = [box for box in boxes if _holds(box, label.at)]
        found += [f"{label.text!r} leaves its box" for box in holding if not _inside(label.place, box)]
    for one, other in combinations(labels, 2):
        if _shrunk(one.place).overlaps(_shrunk(other.place)):
            found.append(f"{one.text!r} and {other.text!r} overlap")
    return found


def _rect(element: ET.Element) -> Rect:
    return Rect(*(float(element.attrib[name]) for name in ("x", "y", "width", "height")))


def _holds(box: Rect, at: tuple[float, float]) -> bool:
    """Whether a text is meant to be in a box: it is put there."""
    x, y = at
    return box.left < x < box.right and box.top < y < box.bottom


def _inside(place: Rect, outer: Rect) -> bool:
    return (
        outer.left - _SLACK <= place.left
        and place.right <= outer.right + _SLACK
        and outer.top - _SLACK <= place.top
        and place.bottom <= outer.bottom + _SLACK
    )


def _shrunk(place: Rect) -> Rect:
    return Rect(place.left + _SLACK, place.top + _SLACK, place.width - 2 * _SLACK, place.height - 2 * _SLACK)
