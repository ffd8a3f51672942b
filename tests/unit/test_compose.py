"""The compose files agree with each other and with what runs: as far as that shows without a container engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from cli.main import parser
from demo.shop import write_shop
from netsim.server import VERSION
from node.config import load_cluster
from planner.model import StreamInfo, TimeUnit
from planner.sql import parse_query

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
CLUSTER = load_cluster(FOLDER / "cluster.toml")
SERVICES = COMPOSE["services"]


def test_each_site_is_a_service_that_runs_its_daemon_and_is_asked_on_its_port() -> None:
    assert {site.name for site in CLUSTER.sites} == set(SERVICES) - {"toxiproxy", "query"}
    for site in CLUSTER.sites:
        service = SERVICES[site.name]
        options = parser().parse_args(service["command"])
        assert (options.command, options.site) == ("node", site.name)
        assert site.listen == f"0.0.0.0:{service['environment']['PORT']}"
        assert "PORT" in service["healthcheck"]["test"][1]


def test_others_dial_a_site_through_its_proxy() -> None:
    proxies = {proxy["name"]: proxy for proxy in json.loads((FOLDER / "toxiproxy.json").read_text())}
    for site in CLUSTER.sites:
        proxy = proxies.pop(site.name)
        assert site.address == f"toxiproxy:{proxy['listen'].rpartition(':')[2]}"
        assert proxy["upstream"] == f"{site.name}:{site.listen.rpartition(':')[2]}"
    assert not proxies


def test_toxiproxy_is_the_version_that_we_build() -> None:
    recipe = FOLDER / SERVICES["toxiproxy"]["build"]["dockerfile"]
    assert f"cmd/server@v{VERSION}\n" in recipe.read_text()


def test_the_query_waits_for_all_sites_and_fits_their_streams(tmp_path: Path) -> None:
    asks = SERVICES["query"]
    assert {name for name, when in asks["depends_on"].items() if when["condition"] == "service_healthy"} == {
        site.name for site in CLUSTER.sites
    }
    write_shop(tmp_path, 1, 10.0, 7, (1, 2, 3))
    streams = {
        stream.name: StreamInfo(
            stream.name, site.name, pq.read_schema(tmp_path / stream.path.name), stream.ts, TimeUnit.MS
        )
        for site in CLUSTER.sites
        for stream in site.streams
    }
    options = parser().parse_args(asks["command"])
    assert options.at in SERVICES
    assert parse_query(options.text, streams).streams


def test_the_image_copies_what_is_there_and_all_packages() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"planner", "netsim", "node", "spark_jobs", "cli"} <= set(copied)
