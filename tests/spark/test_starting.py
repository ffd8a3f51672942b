"""A site whose Spark takes its time to start: what is wrong is said before, and it says how far it is."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from node.client import Client, NotNowError
from node.client.start import Start
from spark_jobs.java import java_path
from tests.e2e.cases import steady
from tests.e2e.harness import Background, environment, eventually, free_port, narrows, new_tag, none_left, write_cluster


def spark_cluster(folder: Path, port: int) -> Path:
    config = write_cluster(folder, [steady(1).streams[0]], sites=("alpha",), ports={"alpha": port})
    config.write_text(config.read_text().replace('engine = "native"', 'engine = "spark"'))
    return config


def java_that_waits(home: Path, may_start: Path) -> Path:
    """A home of Java that tells its version, and starts nothing before a file is there."""
    real = java_path()
    assert real is not None
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
[ "$1" = -version ] || while [ ! -e "{may_start}" ]; do sleep 0.1; done
exec "{real}" "$@"
"""
    )
    java.chmod(0o755)
    return home


def test_a_port_that_is_taken_is_named_before_spark_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = spark_cluster(tmp_path, taken.getsockname()[1])
        said = narrows("node", "--config", config, "--site", "alpha").failed(1, "site.alpha.listen", "in use")
    assert "starting Spark" not in said.err


def test_a_daemon_whose_spark_starts_says_so_refuses_the_rest_and_can_be_stopped(tmp_path: Path) -> None:
    tag = new_tag()
    port, start, may_start = free_port(), Start(), tmp_path / "may start"
    config = spark_cluster(tmp_path, port)
    words = ("node", "--config", config, "--site", "alpha")
    given = environment() | {"JAVA_HOME": str(java_that_waits(tmp_path / "jdk", may_start))}
    node = Background(*words, name="alpha", folder=tmp_path, given=start.environment(given))
    waits = "site alpha is not ready: starting Spark, master local[2], since "
    try:
        with Client("alpha", f"127.0.0.1:{port}") as client:
            eventually("Spark is being started", lambda: (said := start.readiness(client)) and said.steps)
            readiness = client.readiness()
            assert (readiness.site, readiness.ready) == ("alpha", False)
            assert list(readiness.steps) == ["starting Spark, master local[2]"]
            with pytest.raises(NotNowError) as refused:
                client.issue(steady(1).text, "SP-D")
        assert str(refused.value).startswith(waits)
        status = narrows("status", "--config", config).failed(1)
        assert waits in status.out
        assert "does not answer" not in status.out
        may_start.touch()
        node.signal(signal.SIGTERM)
        said = node.end().ok()
    finally:
        node.kill()
    # It did not wait for it either.
    assert "is ready" not in said.err
    none_left(tag)
