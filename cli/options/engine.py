"""``--engine``: another engine than the cluster file says, for a try on a machine without Java."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from cli.options.values import OneOf
from node.config import NATIVE, SPARK, ClusterConfig

_MEANING = "what runs the joins, whatever the cluster file says: spark, or native, which needs no Java"


def engine_option(meaning: str = _MEANING) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option; without it the cluster file decides."""
    return click.option("--engine", type=OneOf([SPARK, NATIVE]), help=meaning)


def with_engine(config: ClusterConfig, engine: str | None) -> ClusterConfig:
    """The configuration with this engine at every site."""
    if engine is None:
        return config
    return replace(config, sites=tuple(replace(site, engine=engine) for site in config.sites))
