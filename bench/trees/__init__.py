"""Joins that are kept, beside plans of sequences: ``make bench-trees``."""
