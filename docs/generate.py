"""``make docs``: the parts of the documentation that are made from the code. A test checks that they are current."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from node.config_keys import TABLES, Key
from planner import functions

FOLDER = Path(__file__).resolve().parent
_MARK = "<!-- made from the code by make docs; what follows is not edited by hand -->\n"

_ABOUT_SETTINGS = """\
Made from the code by `make docs`. A key that is not here is refused, and so is a value that does not fit: all
problems of a file are reported at once, before anything starts. Durations are written like `100ms`, `1.5s`,
`10min`, `2h`. Paths are relative to the file. `narrows init` writes one to start from."""
_OPERATORS = """\
Operators: `+ - * / %`, `||`, comparisons, `AND`, `OR`, `NOT`, `LIKE`, `ILIKE`, `IN`, `BETWEEN`, `IS NULL`,
`IS DISTINCT FROM`, `CASE`."""


def configuration() -> str:
    """The reference of cluster.toml."""
    parts = ["# Every setting of cluster.toml", _ABOUT_SETTINGS]
    for heading, meaning, keys in TABLES:
        parts += [
            f"## {f'`{heading}`' if heading.endswith(']') else heading or 'Top of the file'}",
            meaning,
            _table(keys),
        ]
    return "\n\n".join(parts) + "\n"


def _table(keys: Mapping[str, Key]) -> str:
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    for name, key in keys.items():
        default = key.default or ("" if name.startswith('"') else "**required**")
        rows.append(f"| `{name}` | {key.takes} | {default} | {key.meaning} |")
    return "\n".join(rows)


def sql_functions() -> str:
    """The functions, and their meaning from where they are defined."""
    meaning = (functions.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    meaning = meaning.replace("``", "`")
    aliases = ", ".join(f"`{other}` = `{name}`" for other, name in sorted(functions.SYNONYMS.items()))
    return "\n\n".join(
        [
            _OPERATORS,
            f"Functions: {functions.LISTED}.",
            f"Other names: {aliases}.",
            meaning,
        ]
    )


def sql(text: str) -> str:
    """sql.md with its generated end made anew."""
    return text.partition(_MARK)[0] + _MARK + "\n" + sql_functions() + "\n"


def main() -> None:
    """Write them."""
    (FOLDER / "configuration.md").write_text(configuration())
    page = FOLDER / "sql.md"
    page.write_text(sql(page.read_text()))


if __name__ == "__main__":
    main()
