"""Streams that Spark reads, as files of micro-batches."""
