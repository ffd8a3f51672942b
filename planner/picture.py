"""Pictures of a plan: its sites, what is kept where, and how much travels between them.

The SVG is laid out by hand, sites in a circle, so it needs no program to be seen; DOT is for who has Graphviz.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import cos, hypot, pi, sin

from planner.choose import Choice
from planner.plans import route, start_of, window_text

_WIDTH, _HEIGHT = 1000, 760
_MARGIN = 170
_BOX = 190
_LINE = 16
_TEXT = 'font-family="sans-serif" font-size="12"'

_ARROW_HEAD = (
    '<marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" fill="#4a6fa5"/></marker>'
)


def explain_svg(choice: Choice) -> str:
    """The plan as a picture: boxes are sites, arrows are links, as thick as what they carry."""
    places = _places(choice)
    largest = max(choice.estimate.by_link.values(), default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + _legend_height(choice)}">',
        "<defs>",
        _ARROW_HEAD,
        "</defs>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for (source, target), size in choice.estimate.by_link.items():
        parts += _arrow(places[source], places[target], f"{_size(size)}", 1 + 7 * (size / largest) ** 0.5)
    for site, place in places.items():
        parts += _box(place, site, _kept(choice, site), site == choice.plan.sink)
    parts += _legend(choice)
    return "\n".join([*parts, "</svg>", ""])


def explain_dot(choice: Choice) -> str:
    """The same for Graphviz."""
    lines = ["digraph plan {", '  node [shape=box, fontname="sans-serif"];', '  edge [fontname="sans-serif"];']
    for site in choice.plan.sites:
        text = "\\l".join(_quoted(line) for line in [site, *_kept(choice, site)])
        thick = ", penwidth=3" if site == choice.plan.sink else ""
        lines.append(f'  "{_quoted(site)}" [label="{text}\\l"{thick}];')
    for (source, target), size in choice.estimate.by_link.items():
        lines.append(f'  "{_quoted(source)}" -> "{_quoted(target)}" [label="{_size(size)}"];')
    label = "\\l".join(_quoted(line) for line in _sequences(choice))
    return "\n".join([*lines, f'  label="{label}\\l";', "}", ""])


def _places(choice: Choice) -> dict[str, tuple[float, float]]:
    sites = choice.plan.sites
    middle, tall = (_WIDTH / 2, _HEIGHT / 2), _HEIGHT / 2 - _MARGIN
    wide = _WIDTH / 2 - _MARGIN
    turns = [2 * pi * number / len(sites) - pi / 2 for number in range(len(sites))]
    if len(sites) == 1:
        return {sites[0]: middle}
    ring = [(middle[0] + wide * cos(turn), middle[1] + tall * sin(turn)) for turn in turns]
    return dict(zip(sites, ring, strict=True))


def _kept(choice: Choice, site: str) -> list[str]:
    """Streams of a site, copies it holds, and that it is the sink."""
    lines = []
    for ref in choice.plan.query.streams:
        if ref.stream.site == site:
            lines.append(f"{ref.alias} {window_text(ref.window)}")
    lines += [
        str(each.replica).rpartition(" at ")[0] for each in choice.estimate.replicas if each.replica.holder == site
    ]
    return [*lines, *(["rows arrive here"] if site == choice.plan.sink else [])]


def _sequences(choice: Choice) -> list[str]:
    lines = []
    for head in choice.plan.query.aliases:
        steps = "".join(f" -> {hop.alias} ({hop.algorithm.value}, {hop.site})" for hop in route(choice.plan, head))
        lines.append(f"{head} from {start_of(choice.plan, head)}{steps}")
    total, all_shipped = choice.estimate.bytes_per_s, choice.ship_all.bytes_per_s
    return [*lines, f"all links {_size(total)}, shipping everything {_size(all_shipped)}"]


def _arrow(source: tuple[float, float], target: tuple[float, float], label: str, width: float) -> list[str]:
    """Bent to the right, so that the two directions of a link stay apart."""
    over, down = target[0] - source[0], target[1] - source[1]
    length = hypot(over, down) or 1.0
    side = (-down / length, over / length)
    begin = _out_of_box(source, (over / length, down / length), side)
    end = _out_of_box(target, (-over / length, -down / length), side)
    bend = ((begin[0] + end[0]) / 2 + side[0] * 40, (begin[1] + end[1]) / 2 + side[1] * 40)
    label_at = (
        (begin[0] + 2 * bend[0] + end[0]) / 4 + side[0] * 12,
        (begin[1] + 2 * bend[1] + end[1]) / 4 + side[1] * 12,
    )
    path = f"M{begin[0]:.0f} {begin[1]:.0f}Q{bend[0]:.0f} {bend[1]:.0f} {end[0]:.0f} {end[1]:.0f}"
    return [
        f'<path d="{path}" fill="none" stroke="#4a6fa5" stroke-width="{width:.1f}" marker-end="url(#end)"/>',
        f'<text x="{label_at[0]:.0f}" y="{label_at[1]:.0f}" text-anchor="middle" {_TEXT}>{escape(label)}</text>',
    ]


def _out_of_box(
    place: tuple[float, float], towards: tuple[float, float], side: tuple[float, float]
) -> tuple[float, float]:
    reach = min(_BOX / 2 / max(1e-9, abs(towards[0])), 55 / max(1e-9, abs(towards[1]))) + 8
    return (place[0] + towards[0] * reach + side[0] * 10, place[1] + towards[1] * reach + side[1] * 10)


def _box(place: tuple[float, float], title: str, lines: Sequence[str], sink: bool) -> list[str]:
    height = _LINE * (len(lines) + 2)
    left, top = place[0] - _BOX / 2, place[1] - height / 2
    fill, edge = ("#fff4d6", 3) if sink else ("#eef3fa", 1)
    place_text = f'x="{left:.0f}" y="{top:.0f}" width="{_BOX}" height="{height}"'
    parts = [
        f'<rect {place_text} rx="6" fill="{fill}" stroke="#333" stroke-width="{edge}"/>',
        f'<text x="{left + 8:.0f}" y="{top + 18:.0f}" {_TEXT} font-weight="bold">{escape(title)}</text>',
    ]
    for number, line in enumerate(lines):
        at = top + 18 + _LINE * (number + 1)
        parts.append(f'<text x="{left + 8:.0f}" y="{at:.0f}" {_TEXT}>{escape(_cut(line))}</text>')
    return parts


def _cut(line: str) -> str:
    return line if len(line) <= 30 else f"{line[:29]}…"


def _legend_height(choice: Choice) -> int:
    return _LINE * (len(_sequences(choice)) + 1)


def _legend(choice: Choice) -> list[str]:
    return [
        f'<text x="20" y="{_HEIGHT + _LINE * number}" {_TEXT}>{escape(line)}</text>'
        for number, line in enumerate(_sequences(choice))
    ]


def _size(size: float) -> str:
    for unit in ("B/s", "kB/s", "MB/s"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB/s"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
