"""Letters in lower and upper case mean the same in columns, in patterns, and for one row in plain Python."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.kernels.evaluation import evaluate
from planner.model.query import Expr, StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.examples import new_examples
from tests.expressions import values_of

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
CATALOGUE = {name: StreamInfo(name, "oslo", SCHEMA, "k", TimeUnit.MS) for name in ("o", "p")}
#: Letters that become several, that depend on what stands beside them, or that have more than one small form.
ODD = ["ΟΔΟΣ", "ΟΔΟΣ ΣΟΦΙΑΣ", "Σ", "ΑΣ1", "İstanbul", "straße", "ŉ", "ǰ", "ﬁ", "ϕΣ", "K", "ſ", "Ω", "Ǆ", "ᾳ", "aΣ'b"]


def bound(sql: str) -> Expr:
    text = f"SELECT {sql} AS x FROM o [ROWS 1] JOIN p [ROWS 1] ON o.k = p.k"
    return parse_query(text, CATALOGUE).outputs[0].source


def agreed(sql: str, texts: list[str | None]) -> list[object]:
    """The values for these texts of o.s, which must be those for each row by itself."""
    rows = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["o.s"])
    found = evaluate(bound(sql), rows)
    found.validate(full=True)
    assert found.to_pylist() == values_of(bound(sql), rows)
    return list(found.to_pylist())


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_letters_that_have_no_single_counterpart_are_changed_all_the_same() -> None:
    assert agreed("LOWER(o.s)", ["ΟΔΟΣ", None, "İ", "AB", "Ä"]) == ["οδος", None, "i̇", "ab", "ä"]
    assert agreed("UPPER(o.s)", ["straße", "ab", None, "ä"]) == ["STRASSE", "AB", None, "Ä"]
    assert agreed("LOWER(o.s)", []) == []
    assert agreed("UPPER(o.s)", [None]) == [None]


@pytest.mark.parametrize("text", ODD)
def test_every_text_is_like_itself_in_whatever_case(text: str) -> None:
    rows = [text, text.lower(), None, "something else"]
    assert agreed(f"o.s ILIKE {quoted(text)}", rows) == [True, True, None, False]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("ΑΣ%", "ΑΣΤΥ"), ("ΑΣ%", "αστυ"), ("%ΟΣ", "ΟΔΟΣ"), ("ΟΔ_Σ", "ΟΔΟΣ"), ("οδοσ", "ΟΔΟΣ"), ("ΟΔΟς_", "οδοσ1")],
)
def test_a_sigma_is_a_sigma_wherever_it_stands(pattern: str, text: str) -> None:
    assert agreed(f"o.s ILIKE {quoted(pattern)}", [text]) == [True]


@new_examples(200)
@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.sampled_from(ODD)), max_size=8))
def test_columns_and_single_values_agree_for_any_text(texts: list[str | None]) -> None:
    for function in ("LOWER", "UPPER"):
        agreed(f"{function}(o.s)", texts)


def test_slices_are_changed_as_such() -> None:
    column = pa.array(["x", "Σ", None, "B", "ΑΣ"]).slice(1)
    rows = pa.RecordBatch.from_arrays([column], ["o.s"])
    assert evaluate(bound("LOWER(o.s)"), rows).to_pylist() == ["σ", None, "b", "ας"]
