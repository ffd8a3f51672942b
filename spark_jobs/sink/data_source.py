"""``spark.read.format("narrows")`` and ``spark.readStream.format("narrows")``: the rows of a query as a DataFrame.

    from spark_jobs.sink.data_source import NarrowsDataSource, issue

    spark.dataSource.register(NarrowsDataSource)
    query = issue("frankfurt:7101", "SELECT ... FROM ... JOIN ...")
    rows = spark.readStream.format("narrows").option("address", "frankfurt:7101").option("query", query).load()

Spark makes a source anew wherever it needs one, in several processes, and again after every restart. So a source
cannot issue its query: ``issue`` does it, once, and the id is what a restarted job needs.

Spark 4.3 does not tell a Python source which columns are wanted: option ``columns``, or a declared schema with
fewer columns, does, and no other column leaves the daemon. A source that takes filters is refused by Spark as long as
``spark.sql.python.filterPushdown.enabled`` is off, which it is by default; so filters are Spark's, or better part of
the query.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from node.rpc import control_pb2 as pb
from spark_jobs.sink.client import SinkClient
from spark_jobs.sink.column_types import spark_schema
from spark_jobs.sink.options import SinkOptions, parse_options
from spark_jobs.sink.readers import StreamReader, TableReader, first_patience


class NarrowsDataSource(DataSource):
    """One query of a Narrows site."""

    @classmethod
    def name(cls) -> str:
        return "narrows"

    def schema(self) -> StructType:
        """As the daemon says it, cut to option ``columns``."""
        options = self._parsed()
        with SinkClient.at(options.address, first_patience(options)) as client:
            schema = pa.ipc.read_schema(pa.py_buffer(client.extent(options.query).schema))
        return spark_schema(schema, options.columns)

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(self._parsed(), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(self._parsed(), schema)

    def _parsed(self) -> SinkOptions:
        return parse_options(self.options)


def issue(address: str, text: str, *, keep: bool = False, reader: str = "") -> str:
    """Issue a query at the site of ``address``; its id. With ``keep`` rows stay readable after they were taken;
    ``reader`` is the name under which they are, as in option ``reader``.

    Raises SinkError if the site cannot be reached or refuses it.
    """
    with SinkClient.at(address) as client:
        return client.install(pb.IssueRequest(text=text, policy="frontier", keep=keep, reader=reader)).query_id
