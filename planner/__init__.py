"""Queries and plans as values: the pure layer under everything else."""
