"""Spark at a site: its engine, its sources, its sink."""
