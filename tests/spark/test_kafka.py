"""A stream from a real Kafka broker joined with a recording: rows equal the oracle's, also when the JVM is killed.

Not run unless asked for: it needs Maven, and downloads a broker and Spark's connector (some 65 MB) once.

    NARROWS_KAFKA=1 NARROWS_KAFKA_CACHE=/some/folder .venv/bin/python -m pytest -s tests/spark/test_kafka.py

``-s`` shows the figures. What is downloaded, with ``mvn dependency:copy-dependencies`` on a pom that the test writes
into the cache: kafka_2.13 and kafka-tools for the broker, which is started in KRaft mode with plain java; and
spark-sql-kafka-0-10_2.13, spark-token-provider-kafka-0-10_2.13, kafka-clients and commons-pool2 for "spark.jars".
The connector should have the version of Spark. Where the registry lacks that, others can be named. With these this
was last run, on Spark 4.3.0, whose own were not to be had:

    NARROWS_KAFKA_CONNECTOR=4.2.0 NARROWS_KAFKA_TOKENS=4.0.0
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from tests.e2e.harness import (
    Background,
    Daemons,
    Join,
    Stream,
    eventually,
    free_port,
    new_tag,
    none_left,
    write_cluster,
)
from tests.spark.test_source import SPARK_S, kill_jvm, same_as_oracle

pytestmark = [
    pytest.mark.skipif(os.environ.get("NARROWS_KAFKA") != "1", reason="NARROWS_KAFKA=1 runs it: see the module's text"),
    pytest.mark.timeout(1800),
]

KAFKA = "4.1.0"
CONNECTOR = os.environ.get("NARROWS_KAFKA_CONNECTOR", pyspark.__version__)
TOKENS = os.environ.get("NARROWS_KAFKA_TOKENS", CONNECTOR)
BROKER_JARS = (f"org.apache.kafka:kafka_2.13:{KAFKA}", f"org.apache.kafka:kafka-tools:{KAFKA}")
SPARK_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{TOKENS}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jars(name: str, wanted: Sequence[str], *, alone: bool) -> Path:
    """The folder with these jars; with what they depend on, unless ``alone``."""
    folder = Path(os.environ["NARROWS_KAFKA_CACHE"]).expanduser() / name
    folder.mkdir(parents=True, exist_ok=True)
    dependencies = ""
    for coordinates in wanted:
        group, artifact, number = coordinates.split(":")
        dependencies += f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        dependencies += f"<version>{number}</version>{_ALONE if alone else ''}</dependency>"
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>narrows</groupId>"
        f"<artifactId>{name}</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    if not (folder / "pom.xml").exists() or (folder / "pom.xml").read_text() != pom:
        (folder / "pom.xml").write_text(pom)
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DoutputDirectory=jars",
            "-DincludeScope=runtime",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            (folder / "pom.xml").unlink()
            pytest.fail(f"the jars cannot be had: {done.stdout[-2000:]}")
    return folder / "jars"


class Broker:
    """One broker on this machine, a controller in itself."""

    def __init__(self, folder: Path) -> None:
        self._classpath = f"{jars('broker', BROKER_JARS, alone=False)}/*"
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "kafka"),
            "offsets.topic.replication.factor": "1",
        }
        path = folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(path))
        command = ["java", "-Xmx512m", "-cp", self._classpath, "kafka.Kafka", str(path)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _java(self, tool: str, *arguments: str, said: str | None = None) -> str:
        command = ["java", "-Xmx256m", "-cp", self._classpath, tool, *arguments]
        done = subprocess.run(command, input=said, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def create(self, topic: str, partitions: int) -> None:
        self._java(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", self.address, "--create", "--topic", topic, "--partitions", str(partitions)),
        )

    def produce(self, topic: str, lines: Sequence[str]) -> None:
        """Each line a key, a tab and a value."""
        self._java(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", self.address, "--topic", topic, "--property", "parse.key=true"),
            said="".join(f"{line}\n" for line in lines),
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@pytest.fixture
def tag() -> Iterator[str]:
    mark = new_tag()
    yield mark
    none_left(mark)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    # Before the test's tag: it is no process of the daemons.
    started = Broker(tmp_path)
    yield started
    started.stop()


def messages(count: int, first: int) -> list[dict[str, int]]:
    draw = random.Random(first)
    return [{"id": n, "k": draw.randrange(20_000), "ts": n // 10} for n in range(first, first + count)]


def as_lines(rows: Sequence[dict[str, int]]) -> list[str]:
    return [f"{row['id'] % 7}\t{json.dumps(row)}" for row in rows]


def test_a_topic_joined_with_a_recording_is_exact_though_the_jvm_is_killed(
    tmp_path: Path, broker: Broker, tag: str
) -> None:
    """Three partitions in any order within a micro-batch; the lateness covers what is behind between them."""
    half = 100_000
    broker.create("orders", 3)
    draw = random.Random(0)
    pay = pa.table({"k": [draw.randrange(20_000) for _ in range(20_000)], "ts": list(range(20_000))})
    recorded = Stream("pay", pay.append_column("n", pa.array(range(20_000))), site="beta")
    config = write_cluster(tmp_path, [recorded])
    options = f'"kafka.bootstrap.servers" = "{broker.address}", subscribe = "orders", startingOffsets = "earliest"'
    listed = ",".join(str(path) for path in sorted(jars("spark", SPARK_JARS, alone=True).glob("*.jar")))
    before, mark, after = config.read_text().partition("[site.beta]")
    config.write_text(f"""{before}
[site.alpha.spark]
"spark.jars" = "{listed}"

[site.alpha.stream.orders]
spark = {{ format = "kafka", options = {{ {options}, maxOffsetsPerTrigger = 20000 }} }}
select = ["inline(array(from_json(cast(value AS STRING), 'id LONG, k LONG, ts LONG')))"]
ts = "ts"
lateness = "30s"
trigger = "100ms"

{mark}{after}""")
    rows = messages(2 * half, 0)
    # One for each partition would do; these keys reach all three.
    last = [{"id": -1 - n, "k": -1, "ts": 10**8, "amount": 0} for n in range(7)]
    columns = {name: [row[name] for row in [*rows, *last]] for name in ("id", "k", "ts")}
    join = Join(Stream("orders", pa.table(columns)), recorded, select=(("l", "id", "id"), ("r", "n", "n")))
    broker.produce("orders", as_lines(rows[:half]))
    with Daemons(config, ready_s=SPARK_S) as daemons:
        daemons.start("alpha", "beta").linked()
        began = time.monotonic()
        query = Background(
            *("query", "--config", config, "--at", "beta", "--format", "jsonl", join.text), name="rows", folder=tmp_path
        )

        def arrived() -> int:
            status = daemons.status("alpha")
            return 0 if status is None else next(stream.rows for stream in status.streams if stream.name == "orders")

        eventually("some tuples", lambda: arrived() >= 20_000, SPARK_S)
        kill_jvm(tag)
        broker.produce("orders", as_lines(rows[half:]))
        eventually("all tuples", lambda: arrived() >= 2 * half, SPARK_S)
        took = time.monotonic() - began
        broker.produce("orders", as_lines(last))
        same_as_oracle(daemons, query, join)
        query.kill()
        assert arrived() == 2 * half + len(last)
        assert "it is started again" in daemons.nodes["alpha"].err
    print(f"\nKafka {KAFKA}, connector {CONNECTOR}, Spark {pyspark.__version__}: {2 * half:,} tuples in {took:.1f} s,")
    print(f"with one JVM killed and started again meanwhile; {join.expected().num_rows:,} rows, as the oracle has them")
