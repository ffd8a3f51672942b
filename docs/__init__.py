"""The documentation, and the code that makes its generated parts: ``python -m docs.generate``."""
