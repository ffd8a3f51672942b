"""What compose starts, started without it: the commands and files of compose/, with the ports of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from demo.shop import write_shop
from netsim.binary import server_path
from netsim.loopback import get
from tests.e2e.harness import Background, environment, eventually, free_port
from tests.places import ROOT

FOLDER = ROOT / "compose"
SERVICES: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
SITES = ("frankfurt", "virginia", "singapore")


class Here:
    """The names and ports of the containers' network as ports of loopback, and /data as a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: dict[str, int] = {}

    def port(self, port: str) -> str:
        return str(self._ports.setdefault(port, free_port()))

    def text(self, text: str) -> str:
        names = "|".join(("toxiproxy", *SITES, r"0\.0\.0\.0"))
        mapped = re.sub(rf"\b(?:{names}):(\d+)", lambda match: f"127.0.0.1:{self.port(match[1])}", text)
        return mapped.replace("/data/", f"{self._folder}/")

    def health(self, service: str) -> bool:
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        words = [word.replace("8474", self.port("8474")) for word in words]
        own = {name: self.port(value) for name, value in SERVICES[service].get("environment", {}).items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words
        return subprocess.run(command, env={"PATH": path, **own}, capture_output=True, check=False).returncode == 0


def test_sites_become_healthy_behind_their_proxies_and_answer_the_query(tmp_path: Path) -> None:
    here = Here(tmp_path)
    write_shop(tmp_path, 4, 300.0, 7, (1, 2, 3))
    (tmp_path / "cluster.toml").write_text(here.text((FOLDER / "cluster.toml").read_text()))
    (tmp_path / "toxiproxy.json").write_text(here.text((FOLDER / "toxiproxy.json").read_text()))
    options = [word for word in SERVICES["toxiproxy"]["command"] if not word.startswith(("-host", "-config"))]
    options += ["-host=127.0.0.1", f"-port={here.port('8474')}", f"-config={tmp_path / 'toxiproxy.json'}"]
    with ExitStack() as started:
        assert not here.health("toxiproxy")
        proxy = subprocess.Popen(
            [server_path(), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
        )
        started.callback(proxy.wait)
        started.callback(proxy.kill)
        eventually("toxiproxy is healthy", lambda: here.health("toxiproxy"))
        for site in SITES:
            assert not here.health(site)
            words = [here.text(word) for word in SERVICES[site]["command"]]
            daemon = Background(*words, "--engine", "native", name=site, folder=tmp_path)
            started.callback(daemon.kill)
        for site in SITES:
            eventually(f"{site} is healthy", lambda site=site: here.health(site))  # type: ignore[misc]
        words = [here.text(word) for word in SERVICES["query"]["command"]]
        query = Background(*words, name="query", folder=tmp_path)
        started.callback(query.kill)
        rows = query.end().ok().out.strip().splitlines()
        assert len(rows) > 20
        listening = json.loads(get(int(here.port("8474")), "/proxies"))
        assert {name: proxy["upstream"] for name, proxy in listening.items()} == {
            site: f"127.0.0.1:{here.port(SERVICES[site]['environment']['PORT'])}" for site in SITES
        }
