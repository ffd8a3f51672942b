"""``make docs``: the parts of the documentation that are made from the code. A test checks that they are current."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs import sql_functions
from docs.drawn.algorithms import algorithm_svg
from docs.drawn.overview import overview_svg
from docs.drawn.ticks import frontiers_svg, ticks_svg
from docs.drawn.timeline import cut_svg, run_svg, three_svg
from docs.drawn.winners import kinds_svg, read_grid, winners_svg, winners_table
from netsim import wan_table
from node.config import keys as site_keys
from node.config.keys import Key
from planner.algorithms.descriptions import SPECS, Algorithm
from planner.model import functions

FOLDER = Path(__file__).resolve().parent
_MEASURED = FOLDER.parent / "bench" / "results" / "bytes.csv"
_MARK = "<!-- made from the code by make docs; what follows is not edited by hand -->\n"
_MEASURED_MARK = "<!-- measured: made by make docs -->\n"
_TABLE_MARK = "<!-- table of algorithms: made by make docs -->\n"
_EACH_MARK = "<!-- each algorithm: made by make docs -->\n"
_END_MARK = "<!-- end -->\n"
#: Letters on a line of a page.
_LINE = 128

_TABLES = (*site_keys.TABLES, *wan_table.TABLES)
_ABOUT_SETTINGS = """\
Made from the code by `make docs`. A key that is not here is refused, and so is a value that does not fit: all
problems of a file are reported at once, before anything starts. Durations are written like `100ms`, `1.5s`,
`10min`, `2h`. Paths are relative to the file. `narrows init` writes one to start from.

```toml
tau = "500ms"
engine = "native"

[site.frankfurt]
listen = "127.0.0.1:7701"

[site.frankfurt.stream.orders]        # a recording
path = "orders.csv"
ts = "ts"
lateness = "2s"

[site.virginia]
listen = "0.0.0.0:7702"
address = "virginia.example:7702"

[site.virginia.stream.payments]       # read by Spark
spark = { format = "json", schema = "order_id LONG, ts TIMESTAMP", options = { path = "payments" } }
ts = "ts"

[link.frankfurt.virginia]
bandwidth = "10 Mbit/s"
latency = "45ms"
```"""


def generated() -> dict[Path, str]:
    """Every file that is made, or has a part that is made, from the code."""
    sql_page, algorithms_page = FOLDER / "sql.md", FOLDER / "algorithms.md"
    readme = FOLDER.parent / "README.md"
    found = {
        FOLDER / "configuration.md": configuration(),
        sql_page: sql(sql_page.read_text()),
        algorithms_page: algorithms(algorithms_page.read_text()),
        readme: _with_part(readme.read_text(), "  " + _TABLE_MARK, _names_table(), "  "),
    }
    return found | {FOLDER / "pictures" / f"{name}.svg": picture for name, picture in pictures().items()}


def pictures() -> dict[str, str]:
    """The pictures, by name."""
    grid = read_grid(_MEASURED)
    return {
        "overview": overview_svg(),
        "ticks": ticks_svg(),
        "run": run_svg(),
        "cut": cut_svg(),
        "three": three_svg(),
        "frontiers": frontiers_svg(),
        **{algorithm.value.lower(): algorithm_svg(algorithm) for algorithm in Algorithm},
        "winners": winners_svg(grid),
        "kinds": kinds_svg(grid),
    }


def configuration() -> str:
    """The reference of cluster.toml."""
    parts = ["# Every setting of cluster.toml", _ABOUT_SETTINGS, _contents()]
    for heading, meaning, keys in _TABLES:
        parts += [f"## {_heading(heading)}", meaning, _table(keys)]
    return "\n\n".join(parts) + "\n"


def _contents() -> str:
    """A link to each table, with what it is about."""
    lines = []
    for heading, meaning, _ in _TABLES:
        title = _heading(heading)
        lines.append(f"- [{title}](#{anchor(title)}): {meaning[:1].lower()}{meaning[1:]}")
    return "\n".join(lines)


def _heading(heading: str) -> str:
    table, closing, rest = heading.partition("]")
    return f"`{table}{closing}`{rest}" if closing else heading or "Top of the file"


def anchor(heading: str) -> str:
    """The name under which GitHub finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _table(keys: Mapping[str, Key]) -> str:
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    for name, key in keys.items():
        default = key.default or ("" if name.startswith('"') else "**required**")
        rows.append(f"| `{name}` | {key.takes} | {default} | {key.meaning} |")
    return "\n".join(rows)


def sql_reference() -> str:
    """The functions, and their meaning from where they are defined."""
    meaning = (functions.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    meaning = meaning.replace("``", "`")
    aliases = ", ".join(f"`{other}` = `{name}`" for other, name in sorted(functions.SYNONYMS.items()))
    return "\n\n".join([sql_functions.reference(), f"Other names: {aliases}.", "## What values mean", meaning])


def sql(text: str) -> str:
    """sql.md with its generated end made anew."""
    return text.partition(_MARK)[0] + _MARK + "\n" + sql_reference() + "\n"


def algorithms(text: str) -> str:
    """algorithms.md with its table of algorithms, what is said of each, and the measured figures made anew."""
    text = _with_part(text, _TABLE_MARK, _algorithms_table())
    text = _with_part(text, _EACH_MARK, "\n\n".join(map(_section, Algorithm)))
    return _with_part(text, _MEASURED_MARK, winners_table(read_grid(_MEASURED)))


def _with_part(text: str, mark: str, part: str, indent: str = "") -> str:
    """The text with what stands between a mark and its end made anew."""
    before, begin, rest = text.partition(mark)
    _, end, after = rest.partition(indent + _END_MARK)
    return f"{before}{begin}\n{textwrap.indent(part, indent)}\n\n{end}{after}"


def _names_table() -> str:
    """What a reader of the README needs to choose one."""
    rows = ["| name | what crosses the link | joined |", "|---|---|---|"]
    rows += [f"| `{each.value}` | {spec.words.summary} | {spec.joined} |" for each, spec in SPECS.items()]
    return "\n".join(rows)


def _algorithms_table() -> str:
    heads = ["", "messages of a walk", "kept at A", "kept at B", "sync each tick", "joined at", "wins when"]
    rows = [heads, ["---"] * len(heads)]
    for algorithm, spec in SPECS.items():
        words, joined = spec.words, "A" if spec.at_source else "B"
        name = f"[{algorithm.value}](#{anchor(_title(algorithm))})"
        rows.append([name, words.messages, words.kept_here, words.kept_there, words.synced, joined, words.wins])
    return "\n".join(_row(cells) for cells in rows)


def _row(cells: Sequence[str]) -> str:
    if cells[0] == "---":
        return f"|{'|'.join(cells)}|"
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _title(algorithm: Algorithm) -> str:
    return f"{algorithm.value}: {algorithm.spec.words.title}"


def _section(algorithm: Algorithm) -> str:
    """A heading, the picture, and a paragraph."""
    name, about = algorithm.value, algorithm.spec.words.about
    picture = f"![{name}: what crosses the link](pictures/{name.lower()}.svg)"
    return f"## {_title(algorithm)}\n\n{picture}\n\n{textwrap.fill(about, _LINE)}"


def main() -> None:
    """Write them."""
    (FOLDER / "pictures").mkdir(exist_ok=True)
    for path, text in generated().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
