"""The compose files agree with each other and with what runs: as far as that shows without a container engine."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import click
import grpc
import pyarrow.parquet as pq
import pytest
import yaml

from cli.cluster_file import load_cluster
from cli.narrows import narrows
from demo.shop import write_shop
from netsim.binary import VERSION, server_path
from netsim.loopback import get
from node.rpc import control_pb2 as pb
from node.rpc.control_pb2_grpc import ControlServicer, add_ControlServicer_to_server
from planner.model.query import StreamInfo
from planner.model.time_unit import TimeUnit
from planner.sql.parser import parse_query
from tests.places import ROOT

FOLDER = ROOT / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
CLUSTER = load_cluster(FOLDER / "cluster.toml")
SERVICES = COMPOSE["services"]


def asked(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command that these words name, and its options."""
    context = click.Context(narrows)
    name, command, rest = narrows.resolve_command(context, words)
    assert name is not None
    assert command is not None
    return name, command.make_context(name, rest, parent=context).params


def test_each_site_is_a_service_that_runs_its_daemon_and_is_asked_on_its_port() -> None:
    assert {site.name for site in CLUSTER.sites} == set(SERVICES) - {"toxiproxy", "query"}
    for site in CLUSTER.sites:
        service = SERVICES[site.name]
        command, options = asked(service["command"])
        assert (command, options["site"]) == ("node", site.name)
        assert site.listen == f"0.0.0.0:{service['environment']['PORT']}"
        assert "PORT" in service["healthcheck"]["test"][1]
        assert set(service["depends_on"]) == {"toxiproxy"}


def test_keys_are_those_of_the_compose_specification() -> None:
    """By hand: none of our packages has the specification's schema; the README says what judged the file once."""
    assert set(COMPOSE) <= {"services", "volumes", "x-site"}
    known = [
        "build",
        "command",
        "depends_on",
        "environment",
        "healthcheck",
        "image",
        "init",
        "ports",
        "restart",
        "volumes",
    ]
    storage = ["cap_drop", "read_only", "security_opt", "tmpfs", "volumes"]
    for name, service in SERVICES.items():
        assert set(service) <= {*known, *storage}, name
        assert ("build" in service) or ("image" in service)
        for other, when in service.get("depends_on", {}).items():
            assert when["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[other]
        check = service.get("healthcheck", {"test": ["CMD", "x"]})
        assert set(check) <= {"test", "interval", "timeout", "retries", "start_period"}
        assert check["test"][0] in ("CMD", "CMD-SHELL")
        for length in (check[key] for key in ("interval", "timeout", "start_period") if key in check):
            assert re.fullmatch(r"[0-9]+s", length)
        mounted = [volume.partition(":")[0] for volume in service.get("volumes", [])]
        assert all(source in COMPOSE["volumes"] or (FOLDER / source).is_file() for source in mounted)


def test_what_a_site_writes_is_on_a_volume_or_in_memory() -> None:
    """The rest of a site's file system cannot be written to."""
    image = (FOLDER / "Dockerfile").read_text()
    for site in CLUSTER.sites:
        service = SERVICES[site.name]
        assert service["read_only"] is True
        assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
        assert service["volumes"] == ["late:/data/late", "state:/data/state"]
    assert (CLUSTER.late_dir, CLUSTER.state_dir) == (FOLDER / "late", FOLDER / "state")
    assert "mkdir /data/late /data/state && chown -R narrows /data\nUSER narrows" in image


def health(service: str, **environment: str) -> int:
    """Ask a service as the engine does: the exit code of its command."""
    kind, *command = SERVICES[service]["healthcheck"]["test"]
    words = ["/bin/sh", "-c", *command] if kind == "CMD-SHELL" else command
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(words, env={"PATH": path, **environment}, capture_output=True, check=False).returncode


class FakeSite(ControlServicer):
    """As much of a daemon as its health is asked of."""

    ready = False

    def Status(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.StatusReply:  # noqa: N802
        if not self.ready:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "starting Spark")
        return pb.StatusReply()


def test_the_health_of_a_site_is_asked_with_a_command_that_works() -> None:
    """Of real daemons it is asked in tests/e2e/test_compose.py; here it is about quotes and words."""
    site = cast("Any", FakeSite)()
    server = grpc.server(ThreadPoolExecutor(1))
    add_ControlServicer_to_server(site, server)
    port = str(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    assert health("frankfurt", PORT=port) != 0, "it listens, and is starting"
    site.ready = True
    assert [health(each.name, PORT=port) for each in CLUSTER.sites] == [0, 0, 0]
    server.stop(None).wait()
    assert health("frankfurt", PORT=port) != 0
    assert health("frankfurt") != 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="the image has bash")
def test_toxiproxy_takes_its_configuration_and_says_that_it_is_healthy(tmp_path: Path) -> None:
    """The real server with the file and the options of the service, but for ports that are free here."""
    text = (FOLDER / "toxiproxy.json").read_text().replace("0.0.0.0:1770", "127.0.0.1:0")
    config = tmp_path / "toxiproxy.json"
    config.write_text(re.sub(r'127\.0\.0\.1:0[0-9]"', '127.0.0.1:0"', text))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    options = [word for word in SERVICES["toxiproxy"]["command"] if not word.startswith(("-config", "-host"))]
    command = [server_path(), *options, "-host=127.0.0.1", f"-port={port}", f"-config={config}"]
    kind, *words = SERVICES["toxiproxy"]["healthcheck"]["test"]
    asked = [word.replace("8474", port) for word in words]
    assert kind == "CMD"
    assert subprocess.run(asked, capture_output=True, check=False).returncode != 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 20
            while subprocess.run(asked, capture_output=True, check=False).returncode:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            found = json.loads(get(int(port), "/proxies"))
            assert {name: proxy["enabled"] for name, proxy in found.items()} == {
                site.name: True for site in CLUSTER.sites
            }
        finally:
            server.kill()


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
    _, options = asked(asks["command"])
    assert options["at"] in SERVICES
    assert parse_query(options["text"], streams).streams


def copied_before(instruction: str, folder: Path) -> None:
    """Put into ``folder`` what the image has by then."""
    for line in (FOLDER / "Dockerfile").read_text().partition(instruction)[0].splitlines():
        if line.startswith("COPY "):
            *names, target = line.split()[1:]
            for name in names:
                place = folder / (name if target == "./" else target)
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / name, place)


def test_what_the_image_copies_is_enough_to_install(tmp_path: Path) -> None:
    """A wheel is made of it, with every module of ours and the command."""
    copied_before("RUN pip install", tmp_path)
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", "wheels", "."], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        (entries,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "narrows = cli.main:process" in content.read(entries).decode()
    for package in ("planner", "netsim", "node", "spark_jobs", "cli"):
        ours = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert ours <= names, sorted(ours - names)


def test_the_image_makes_up_the_data_of_the_streams(tmp_path: Path) -> None:
    """The very line of the recipe, with another folder and a shorter day, in what the image has by then."""
    text = (FOLDER / "Dockerfile").read_text()
    copied_before("RUN python", tmp_path)
    (line,) = [line for line in text.splitlines() if line.startswith("RUN python ")]
    made = line.removeprefix("RUN ").replace("/data", str(tmp_path / "data")).replace("90, 1000.0", "1, 10.0")
    assert made.count(str(tmp_path)) == 1
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    subprocess.run(["/bin/sh", "-c", made], cwd=tmp_path, env={"PATH": path}, check=True)
    for site in CLUSTER.sites:
        for stream in site.streams:
            assert (tmp_path / "data" / stream.path.name).is_file()


def test_the_image_copies_what_is_there_and_all_packages() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"planner", "netsim", "node", "spark_jobs", "cli"} <= set(copied)
