"""Recorded streams with published answers: counts and checksums of the manifests, through real daemons."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.e2e.harness import SP_D, SP_S, free_port, run

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("NARROWS_DATA", ROOT.parent / "shared" / "data"))

#: Query, algorithm and tau. Both algorithms for every query; ticks from far below the data's resolution, where
#: nearly every tick is empty, to far above it.
WC98 = [(query, algorithm, "100ms") for query in ("1s", "2s", "5s") for algorithm in (SP_S, SP_D)]
FLIGHTS = [
    *((f"tail_2way_{span}_EWR-LGA", SP_S, tau) for span, tau in (("12h", "1min"), ("48h", "10min"))),
    *((f"tail_2way_{span}_EWR-LGA", SP_D, tau) for span, tau in (("12h", "100ms"), ("48h", "1h"))),
    *((f"tail_2way_{span}_EWR-LGA", algorithm, "1h") for span in ("24h", "7d") for algorithm in (SP_S, SP_D)),
    *((f"tail_2way_{span}_EWR-JFK", SP_S, "1h") for span in ("12h", "24h", "48h", "7d")),
    *((f"tail_2way_{span}_EWR-JFK", SP_D, "10min") for span in ("12h", "24h", "48h", "7d")),
    *((f"dest_2way_{span}_EWR-LGA", SP_S, "1min") for span in ("10min", "30min", "60min")),
    *((f"dest_2way_{span}_EWR-LGA", SP_D, "1h") for span in ("10min", "30min", "60min")),
]


def manifest(name: str) -> dict[str, Any]:
    file = DATA / name / "manifest.json"
    if not file.is_file():
        pytest.skip(f"requires {file} (set NARROWS_DATA to the folder of the data sets)")
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def test_every_two_way_query_of_the_manifests_is_run_under_both_algorithms() -> None:
    for name, runs in (
        ("wc98_day50", [(f"obj_2way_{query}", a) for query, a, _ in WC98]),
        ("nycflights13", [r[:2] for r in FLIGHTS]),
    ):
        published = [query["id"] for query in manifest(name)["queries"] if len(query["streams"]) == 2]
        assert sorted(runs) == sorted((query, algorithm) for query in published for algorithm in (SP_S, SP_D))


@pytest.mark.parametrize(("query", "algorithm", "tau"), WC98)
def test_web_requests_of_two_mirrors_give_the_published_rows(
    tmp_path: Path, query: str, algorithm: str, tau: str
) -> None:
    assert_published(tmp_path, "wc98_day50", f"obj_2way_{query}", algorithm, tau)


@pytest.mark.parametrize(("query", "algorithm", "tau"), FLIGHTS)
def test_departures_of_two_airports_give_the_published_rows(
    tmp_path: Path, query: str, algorithm: str, tau: str
) -> None:
    assert_published(tmp_path, "nycflights13", query, algorithm, tau)


def assert_published(folder: Path, name: str, query_id: str, algorithm: str, tau: str) -> None:
    published = manifest(name)
    query = next(query for query in published["queries"] if query["id"] == query_id)
    lines = [f'tau = "{tau}"']
    for stream in query["streams"]:
        file = json.dumps(str(DATA / name / published["streams"][stream]["file"]))
        lines += [f"[site.{stream.lower()}]", f'listen = "127.0.0.1:{free_port()}"']
        lines += [f"[site.{stream.lower()}.stream.{stream}]", f"path = {file}", 'ts = "ts"']
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n")
    left, right = query["streams"]
    key, window = query.get("key_column", "key"), f"[RANGE {query['window_ms']} MILLISECONDS]"
    text = f"SELECT a.seq AS a, b.seq AS b FROM {left} {window} AS a JOIN {right} {window} AS b ON a.{key} = b.{key}"
    ran = run(config, text, "--algorithm", algorithm)
    assert ran.rows.num_rows == query["results"] == ran.stats["rows"]
    assert [pc.sum(ran.rows.column(side)).as_py() for side in ("a", "b")] == query["sum_seq"]
