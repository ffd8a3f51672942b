"""The rows of a query in Spark: ``spark.dataSource.register(NarrowsDataSource)``, then ``format("narrows")``."""

from spark_jobs.sink.data_source import NarrowsDataSource

__all__ = ["NarrowsDataSource"]
