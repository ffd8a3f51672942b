"""A site whose Spark takes its time to start: what is wrong is said before, and it can be stopped meanwhile."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.e2e.cases import steady
from tests.e2e.harness import Background, eventually, narrows, new_tag, none_left, write_cluster


def spark_cluster(folder: Path, port: int | None = None) -> Path:
    ports = None if port is None else {"alpha": port}
    config = write_cluster(folder, [steady(1).streams[0]], sites=("alpha",), ports=ports)
    config.write_text(config.read_text().replace('engine = "native"', 'engine = "spark"'))
    return config


def test_a_port_that_is_taken_is_named_before_spark_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = spark_cluster(tmp_path, taken.getsockname()[1])
        said = narrows("node", "--config", config, "--site", "alpha").failed(1, "site.alpha.listen", "in use")
    assert "starting Spark" not in said.err


def test_a_daemon_is_stopped_while_its_spark_starts_and_leaves_nothing(tmp_path: Path) -> None:
    tag = new_tag()
    config = spark_cluster(tmp_path)
    node = Background("node", "--config", config, "--site", "alpha", name="alpha", folder=tmp_path)
    try:
        eventually("Spark is being started", lambda: "starting Spark" in node.err)
        node.signal(signal.SIGTERM)
        said = node.end().ok()
    finally:
        node.kill()
    # It did not wait for it either.
    assert "is ready" not in said.err
    assert "listens on" not in said.err
    none_left(tag)
