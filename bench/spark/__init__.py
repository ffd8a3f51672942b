"""A tick on Spark: ``make bench-spark``."""
