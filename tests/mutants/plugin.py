"""``NARROWS_MUTANT=name pytest -p tests.mutants.plugin``: any tests, with a bug in place."""

from __future__ import annotations

import os

from tests.mutants.mutants import install, named

if os.environ.get("NARROWS_MUTANT", "none") != "none":
    install(named(os.environ["NARROWS_MUTANT"]))
