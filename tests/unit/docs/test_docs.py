"""The documentation is that of the code: generated parts are current, all keys are there, links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from cli.cluster_file import load_cluster
from docs import generate
from docs.sql_functions import GROUPS, bound, shown, value
from netsim import wan_table
from node.config import keys
from node.core.kernels.evaluation import evaluate
from planner.explain.drawing import Canvas, Rect
from planner.model.functions import CAST, FUNCTIONS
from tests.expressions import python_values, values_of
from tests.places import ROOT
from tests.unit.pages import PAGES, anchors_of, blocks_of, links_of
from tests.unit.story import StoryWorld, TableRows, TextSpec, run_tables
from tests.unit.svg_checks import troubles_of

PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
GENERATED = generate.generated()


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Generated parts.


@pytest.mark.parametrize("path", GENERATED, ids=relative)
def test_generated_files_are_current(path: Path) -> None:
    assert path.read_text() == GENERATED[path], f"{path.name} is old: run make docs"


def test_there_are_no_other_pictures() -> None:
    assert [path.stem for path in PICTURES] == sorted(generate.pictures())


@pytest.mark.parametrize("path", PICTURES, ids=relative)
def test_a_picture_can_be_read_and_is_shown_somewhere(path: Path) -> None:
    text = path.read_text()
    assert troubles_of(text) == []
    # What a page of GitHub does not show.
    assert not re.search(r"<script|<foreignObject|@import|href=|url\(", text)
    title = ET.fromstring(text).findtext("{http://www.w3.org/2000/svg}title")
    assert title
    users = [page for page in PAGES for _, target in links_of(page) if (page.parent / target).resolve() == path]
    assert users, f"no page shows {path.name}"


def test_text_that_does_not_fit_is_noticed() -> None:
    canvas = Canvas(200, 100, "crowded")
    canvas.box(Rect(10, 10, 60, 30))
    canvas.text((15, 30), "more than a box holds")
    canvas.text((20, 31), "covered")
    canvas.text((150, 90), "over the edge")
    assert len(troubles_of(canvas.svg())) == 3


def test_every_key_that_the_code_reads_is_in_the_reference() -> None:
    """Keys are read by name, from methods of a table; the reference and that list are the same."""
    read = set()
    modules = [
        ast.parse(path.read_text())
        for path in [*sorted((ROOT / "node" / "config").glob("*.py")), ROOT / "netsim" / "wan_table.py"]
    ]
    for node in (node for module in modules for node in ast.walk(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if node.func.attr in ("text", "number", "whole", "size", "flag", "texts") and isinstance(
                first, ast.Constant
            ):
                read.add(str(first.value))
    known = {name for _, _, table in (*keys.TABLES, *wan_table.TABLES) for name in table}
    assert read <= known
    assert known - read == {'"spark.*"', "spark", "options", "distinct", "bytes", "regions", "X"}


def test_the_example_of_a_cluster_file_is_one(tmp_path: Path) -> None:
    for block in blocks_of(ROOT / "docs" / "configuration.md", "toml"):
        path = tmp_path / "cluster.toml"
        path.write_text(block)
        (tmp_path / "orders.csv").write_text("id,ts\n1,2\n")
        assert [site.name for site in load_cluster(path).sites] == ["frankfurt", "virginia"]


# SQL.


def test_every_function_is_in_the_reference() -> None:
    covered = {name for entries in GROUPS.values() for entry in entries for name in entry.covers}
    assert covered == {*FUNCTIONS, CAST}


@pytest.mark.parametrize("example", [text for group in GROUPS.values() for entry in group for text in entry.examples])
def test_an_example_gives_what_the_reference_says(example: str) -> None:
    """The page has what the kernels compute; here is the second opinion."""
    row = pa.RecordBatch.from_pydict({"l.k": [1]})
    assert python_values(evaluate(bound(example), row)) == values_of(bound(example), row)
    page = (ROOT / "docs" / "sql.md").read_text()
    assert f"`{example}` is `{shown(value(example))}`".replace("|", "\\|") in page


TABLES: dict[str, TableRows] = {
    "orders": (
        {"id": 1, "ts": 2000, "country": "DE", "item": "desk lamp"},
        {"id": 2, "ts": 2100, "country": "FR", "item": "yoga mat"},
        {"id": 3, "ts": 2400, "country": "DE", "item": "rain jacket"},
    ),
    "payments": (
        {"payment_id": 11, "order_id": 1, "ts": 2300, "method": "visa", "amount": 100},
        {"payment_id": 12, "order_id": 2, "ts": 2500, "method": "amex", "amount": 30},
    ),
    "shipments": ({"order_id": 1, "ts": 2600, "weight": 7}, {"order_id": 2, "ts": 2900, "weight": 3}),
    "refunds": ({"refund_id": 21, "payment_id": 11, "ts": 3000},),
}
SITES = {"orders": "frankfurt", "payments": "virginia", "shipments": "singapore", "refunds": "singapore"}


def queries() -> list[str]:
    return list(dict.fromkeys(block.strip() for page in PAGES for block in blocks_of(page, "sql")))


@pytest.mark.parametrize("text", queries())
def test_a_query_of_the_documentation_runs_and_gives_rows_by_any_plan(text: str) -> None:
    found = [_run(text, algorithm) for algorithm in ("SP-D", "SM-S1")]
    rows = [sorted(map(str, world.outcome.rows.to_pylist())) for world in found]
    assert rows[0]
    assert rows[0] == rows[1]


def _run(text: str, algorithm: str) -> StoryWorld:
    spec = TextSpec((), (), (), "singapore", (), sql=text, algorithm=algorithm)
    return run_tables(spec, TABLES, SITES)


# Links.


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for text, target in links_of(page):
        path, _, anchor = target.partition("#")
        meant = (page.parent / path).resolve() if path else page
        assert meant.exists(), f"{page.name}: {text!r} leads to {target}"
        if anchor and meant.suffix == ".md":
            assert anchor in anchors_of(meant), f"{page.name}: {text!r} leads to {target}, which has no such heading"


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for _, target in links_of(index)}
    assert {page for page in PAGES if page.parent.name == "docs"} - listed == {index}
