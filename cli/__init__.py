"""The ``narrows`` command."""
