"""``--engine``: another engine than the cluster file says, for a try on a machine without Java."""

from __future__ import annotations

import argparse
from dataclasses import replace

from node.config import NATIVE, SPARK, ClusterConfig

_MEANING = "what runs the joins, whatever the cluster file says: spark, or native, which needs no Java"


def add_engine_option(command: argparse.ArgumentParser, meaning: str = _MEANING) -> None:
    """The option; without it the cluster file decides."""
    command.add_argument("--engine", choices=[SPARK, NATIVE], help=meaning)


def with_engine(config: ClusterConfig, engine: str | None) -> ClusterConfig:
    """The configuration with this engine at every site."""
    if engine is None:
        return config
    return replace(config, sites=tuple(replace(site, engine=engine) for site in config.sites))
