"""Pictures of a plan: its sites, what is kept where, and how much travels between them.

The SVG is laid out by hand, sites in a ring, so it needs no program to be seen; DOT is for who has Graphviz. With what
was measured, each link has both figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin

from planner.algorithms.kinds import Kind
from planner.explain.drawing import Canvas, Point, Rect, cut_text, text_width
from planner.explain.measurements import Measured
from planner.model.plans import route, start_of, window_text
from planner.model.query import Plan
from planner.search.choice import Choice

_WIDTH = 1000
_LINE = 17
_TITLE, _TEXT, _LABEL = 14, 12, 12
_BOX_WIDTHS = 130, 260
_PAD = 10
_NAME_LETTERS = 20
#: A link that carries less than this share of the busiest is drawn without a figure.
_SHOWN_SHARE = 0.005
_BAR = 56, 5
_LEGEND_GAP = 24

Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Carried:
    """What a link carries, in a second: expected, by kind, and measured if that is known."""

    expected: float
    kinds: Mapping[Kind, float]
    measured: float | None

    @property
    def label(self) -> str:
        text = _size(self.expected)
        return text if self.measured is None else f"{text} → {_size(self.measured)}"


def explain_svg(choice: Choice, measured: Measured | None = None) -> str:
    """The plan as a picture: boxes are sites, arrows are links, as thick as what they carry."""
    carried = _carried(choice, measured)
    boxes, bottom = _boxes(choice)
    notes = _notes(choice, measured, carried)
    legend = bottom + _LEGEND_GAP
    canvas = Canvas(_WIDTH, legend + _LINE * (len(notes) + 1) + _PAD, f"Plan of a query over {len(boxes)} sites")
    largest = _largest(carried)
    taken = list(boxes.values())
    bends = {link: _bend(boxes[link[0]], boxes[link[1]]) for link in carried}
    for link, each in carried.items():
        _arrow(canvas, bends[link], each, largest)
    for link, each in carried.items():
        if _shown(each, largest):
            taken.append(_label(canvas, bends[link], each, taken))
    for site, place in boxes.items():
        _site(canvas, place, site, _kept(choice, site, _NAME_LETTERS), site == choice.plan.sink)
    _kinds(canvas, (20, legend), carried.values())
    for number, line in enumerate(notes, 1):
        canvas.text((20, legend + _LINE * number + 4), cut_text(line, _TEXT, _WIDTH - 40), size=_TEXT)
    return canvas.svg()


def explain_dot(choice: Choice, measured: Measured | None = None) -> str:
    """The plan as a graph for Graphviz: nodes are sites, edges are links with what they carry."""
    font = 'fontname="sans-serif"'
    lines = ["digraph plan {", f"  graph [{font}];", f"  node [shape=box, {font}];", f"  edge [{font}];"]
    for site in _sites(choice):
        text = "\\l".join(_quoted(line) for line in [site, *_kept(choice, site)])
        thick = ", penwidth=3" if site == choice.plan.sink else ""
        lines.append(f'  "{_quoted(site)}" [label="{text}\\l"{thick}];')
    for (source, target), each in _carried(choice, measured).items():
        lines.append(f'  "{_quoted(source)}" -> "{_quoted(target)}" [label="{_quoted(each.label)}"];')
    label = "\\l".join(_quoted(line) for line in [*_sequences(choice), *_totals(choice, measured)])
    return "\n".join([*lines, f'  label="{label}\\l";', "}", ""])


# -- what is shown ----------------------------------------------------------------------------


def _carried(choice: Choice, measured: Measured | None) -> dict[Link, _Carried]:
    counted = measured.by_link if measured is not None else {}
    seconds = measured.seconds if measured is not None else 0.0
    kinds: dict[Link, dict[Kind, float]] = {}
    for flow in choice.estimate.flows:
        own = kinds.setdefault((flow.source, flow.target), {})
        own[flow.kind] = own.get(flow.kind, 0.0) + flow.bytes_per_s
    found: dict[Link, _Carried] = {}
    expected = choice.estimate.by_link
    for link in sorted({*expected, *counted}):
        rate = counted.get(link, 0.0) / seconds if seconds else None
        found[link] = _Carried(expected.get(link, 0.0), kinds.get(link, {}), rate)
    return found


def _plans(choice: Choice) -> tuple[Plan, ...]:
    """Those of the joins that it keeps, then itself."""
    return (*choice.plan.inners, choice.plan)


def _sites(choice: Choice) -> list[str]:
    return sorted({site for plan in _plans(choice) for site in plan.sites})


def _kept(choice: Choice, site: str, name_letters: int | None = None) -> list[str]:
    """Streams of a site, their names cut to ``name_letters``, copies it holds, and that it is the sink."""
    lines = []
    for ref in choice.plan.asked.streams:
        if ref.stream.site == site:
            name = ref.alias if ref.alias == ref.stream.name else f"{ref.alias}: {ref.stream.name}"
            if name_letters is not None and len(name) > name_letters:
                name = f"{name[: name_letters - 1]}…"
            lines.append(f"{name} {window_text(ref.window)}")
    for join in choice.plan.kept:
        if join.site == site:
            lines.append(f"kept: {', '.join(join.aliases)} {window_text(choice.plan.query.ref(join.name).window)}")
    copies = [each.copy for part in choice.estimate.parts for each in part.copies]
    lines += [copy.what for copy in copies if copy.holder == site]
    return [*lines, *(["rows arrive here"] if site == choice.plan.sink else [])]


def _sequences(choice: Choice) -> list[str]:
    lines = []
    for plan in _plans(choice):
        for head in plan.query.aliases:
            place, steps = start_of(plan, head), ""
            for hop in route(plan, head):
                owner = plan.query.ref(hop.alias).stream.site
                how = "local" if owner == place else hop.algorithm.value
                steps += f" → {hop.alias} ({how}, at {hop.site})"
                place = hop.site
            kept = f" → kept as {plan.part} at {plan.sink}" if plan.part else ""
            lines.append(f"{head} from {start_of(plan, head)}{steps}{kept}")
    return lines


def _totals(choice: Choice, measured: Measured | None) -> list[str]:
    total, all_shipped = choice.estimate.bytes_per_s, choice.ship_all.bytes_per_s
    lines = [f"all links {_size(total)} expected, shipping everything {_size(all_shipped)}"]
    if measured is not None and measured.seconds > 0:
        rate, seconds = measured.nbytes / measured.seconds, measured.seconds
        lines.append(f"measured {_size(rate)} over {seconds:.1f} s of event time; links: expected → measured")
    return lines


def _notes(choice: Choice, measured: Measured | None, carried: Mapping[Link, _Carried]) -> list[str]:
    largest = _largest(carried)
    hidden = [each.expected for each in carried.values() if not _shown(each, largest)]
    small = [f"dotted: links with less than {_SHOWN_SHARE:.1%} of the busiest, {_size(sum(hidden))} together"]
    return [*_sequences(choice), *_totals(choice, measured), *(small if hidden else [])]


def _largest(carried: Mapping[Link, _Carried]) -> float:
    """What the busiest link is expected to carry; 1 if nothing is expected: something may be measured all the same."""
    return max((each.expected for each in carried.values()), default=0.0) or 1.0


def _shown(each: _Carried, largest: float) -> bool:
    return max(each.expected, each.measured or 0.0) >= _SHOWN_SHARE * largest


# -- where things are -------------------------------------------------------------------------


def _boxes(choice: Choice) -> tuple[dict[str, Rect], float]:
    """A box for each site, on a ring with the first on the left or on top; and where they end."""
    sizes = {site: _box_size(site, _kept(choice, site, _NAME_LETTERS)) for site in _sites(choice)}
    tallest = max(height for _, height in sizes.values())
    count = len(sizes)
    if count <= 2:
        middle, wide, tall, first = max(30 + tallest / 2, 90), 290.0 * (count - 1), 0.0, pi
    else:
        wide, tall = 350.0, 100 + 30 * count + tallest / 2
        first = -pi / 2
        middle = 20 + tallest / 2 + tall
    boxes = {}
    for number, (site, (width, height)) in enumerate(sizes.items()):
        turn = first + 2 * pi * number / count
        x, y = _WIDTH / 2 + wide * cos(turn), middle + tall * sin(turn)
        boxes[site] = Rect(x - width / 2, y - height / 2, width, height)
    return boxes, max(place.bottom for place in boxes.values()) + (46 if count > 1 else 10)


def _box_size(site: str, lines: Sequence[str]) -> tuple[float, float]:
    widest = max([text_width(site, _TITLE, bold=True), *(text_width(line, _TEXT) for line in lines)])
    least, most = _BOX_WIDTHS
    return max(least, min(most, widest + 2 * _PAD)), 2 * _PAD + _LINE * (len(lines) + 1) - 2


@dataclass(frozen=True, slots=True)
class _Bend:
    """An arrow's way: bent to one side, so that the two directions of a link stay apart."""

    begin: Point
    bend: Point
    end: Point
    side: Point

    def at(self, share: float) -> Point:
        rest = 1 - share
        a, b, c = rest * rest, 2 * rest * share, share * share
        return (
            a * self.begin[0] + b * self.bend[0] + c * self.end[0],
            a * self.begin[1] + b * self.bend[1] + c * self.end[1],
        )


def _bend(source: Rect, target: Rect) -> _Bend:
    over, down = target.middle[0] - source.middle[0], target.middle[1] - source.middle[1]
    length = hypot(over, down) or 1.0
    side = (down / length, -over / length)
    bow = 26 + 0.06 * length
    middle = ((source.middle[0] + target.middle[0]) / 2, (source.middle[1] + target.middle[1]) / 2)
    bend = (middle[0] + side[0] * bow, middle[1] + side[1] * bow)
    return _Bend(source.edge_towards(bend, 4), bend, target.edge_towards(bend, 4), side)


def _arrow(canvas: Canvas, way: _Bend, each: _Carried, largest: float) -> None:
    if _shown(each, largest):
        width = 1.2 + 4.8 * (each.expected / largest) ** 0.5
        canvas.arrow(way.begin, way.end, bend=way.bend, colour=_largest_kind(each), width=width)
    else:
        canvas.arrow(way.begin, way.end, bend=way.bend, colour="edge", width=1, dash="2 4")


def _largest_kind(each: _Carried) -> str:
    """The kind that most of the bytes are, framing aside: it gives an arrow its colour."""
    payload = {kind: size for kind, size in each.kinds.items() if kind is not Kind.FRAMING}
    return max(payload, key=lambda kind: payload[kind]).value if payload else Kind.CONTROL.value


def _label(canvas: Canvas, way: _Bend, each: _Carried, taken: Sequence[Rect]) -> Rect:
    """The figure, and a bar of the kinds below it, beside the arrow where there is room."""
    width = max(text_width(each.label, _LABEL), _BAR[0])
    for share in (0.5, 0.4, 0.6, 0.32, 0.68, 0.25, 0.75):
        on = way.at(share)
        x = on[0] + way.side[0] * (width / 2 + 9)
        y = on[1] + way.side[1] * 20
        place = Rect(x - width / 2 - 2, y - 14, width + 4, 24)
        if not any(place.overlaps(other) for other in taken):
            break
    canvas.text((x, y - 1), each.label, size=_LABEL, anchor="middle", halo=True)
    total, left = sum(each.kinds.values()), x - _BAR[0] / 2
    for kind, size in each.kinds.items():
        part = _BAR[0] * size / total if total else 0.0
        canvas.bar(Rect(left, y + 3, part, _BAR[1]), kind.value)
        left += part
    return place


def _site(canvas: Canvas, place: Rect, title: str, lines: Sequence[str], sink: bool) -> None:
    canvas.box(place, fill="sink" if sink else "panel", edge="ink" if sink else "edge", width=2 if sink else 1)
    room = place.width - 2 * _PAD
    left, top = place.left + _PAD, place.top + _PAD + _TITLE - 3
    canvas.text((left, top), cut_text(title, _TITLE, room, bold=True), size=_TITLE, bold=True)
    canvas.lines((left, top + _LINE), [cut_text(line, _TEXT, room) for line in lines], size=_TEXT, step=_LINE)


def _kinds(canvas: Canvas, at: Point, carried: Iterable[_Carried]) -> None:
    seen = {kind for each in carried for kind, size in each.kinds.items() if size > 0}
    canvas.legend(at, [kind for kind in Kind if kind in seen], _TEXT)


def _size(size: float) -> str:
    for unit in ("B/s", "kB/s", "MB/s"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB/s"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
