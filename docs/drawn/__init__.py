"""The pictures of the documentation, one module for each kind; all draw with ``planner.explain.drawing``."""
