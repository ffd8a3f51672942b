"""Searches of the planner compared: ``make bench-planner``."""
