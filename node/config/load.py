"""From the file to a checked ClusterConfig: the tables of the file in their order."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from node.config import keys
from node.config.endpoints import check_endpoints
from node.config.links import read_links
from node.config.places import Places
from node.config.problems import ConfigError, Problem, shown
from node.config.sites import engine_name, read_site
from node.config.table import Table
from node.config.texts import matching, non_empty
from node.config.units import DAY_MS, duration_between, size_bytes
from node.config.values import (
    LOG_QUOTA_BYTES,
    PAYBACK_WINDOWS,
    RESULTS_QUOTA_BYTES,
    SPARK,
    STORAGE_BYTES,
    ClusterConfig,
    PlannerConfig,
)

TAU_MAX_MS = DAY_MS
#: More than any recording has, and few enough to be counted in any unit.
EPOCH_TICKS_MAX = 10**9
_CLUSTER_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_tau = duration_between(1, TAU_MAX_MS, 'from "1ms" to "24h"')


#: Reads a table of the file that is none of ours, given the names of the sites; notes what is wrong with it.
TableReader = Callable[[Table, list[str]], object]


def load_cluster(path: Path, others: Mapping[str, TableReader]) -> ClusterConfig:
    """Read and check a cluster.toml; one ConfigError with every problem when something is wrong.

    ``others`` read tables that are for other packages, by name.
    """
    path = Path(path)
    problems: list[Problem] = []
    table = Table(str(path), (), _read_toml(path), problems)
    config = _cluster(table, path, others)
    _check_stream_names(config, problems)
    check_endpoints(config, problems)
    if problems:
        raise ConfigError(*problems)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """The parsed file; a byte order mark is allowed because editors add it unasked."""
    file = str(path)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(Problem(file, "", "a readable TOML file", "no such file")) from None
    except IsADirectoryError:
        raise ConfigError(Problem(file, "", "a readable TOML file", "a directory")) from None
    except OSError as error:
        raise ConfigError(Problem(file, "", "a readable TOML file", error.strerror or str(error))) from None
    except UnicodeDecodeError as error:
        got = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise ConfigError(Problem(file, "", "UTF-8 text", got)) from None
    except RecursionError:
        raise ConfigError(Problem(file, "", "valid TOML", "values nested too deeply")) from None
    except ValueError as error:
        raise ConfigError(Problem(file, "", "valid TOML", str(error))) from None


def _cluster(table: Table, path: Path, others: Mapping[str, TableReader]) -> ClusterConfig:
    table.only(*keys.CLUSTER, "planner", "site", "link", *others)
    base = path.parent.absolute()
    engine = table.text("engine", '"spark" or "native"', engine_name, SPARK)
    state_dir = base / table.text("state_dir", "a directory", non_empty("a directory"), "state")
    places = Places(path, base, state_dir)
    sites = tuple(read_site(name, site, places, engine) for name, site in table.tables("site"))
    names = [site.name for site in sites]
    config = ClusterConfig(
        path=path,
        name=table.text("cluster", "a name in quotes", matching(_CLUSTER_NAME), "narrows"),
        tau_ms=table.text("tau", 'a duration such as "100ms"', _tau, 1, required=True),
        late_dir=base / table.text("late_dir", "a directory", non_empty("a directory"), "late"),
        state_dir=state_dir,
        log_quota_bytes=table.text("log_quota", 'a size such as "16GiB"', size_bytes, LOG_QUOTA_BYTES),
        results_quota_bytes=table.text("results_quota", 'a size such as "4GiB"', size_bytes, RESULTS_QUOTA_BYTES),
        sites=sites,
        links=read_links(table.table("link"), names),
        planner=_planner(table.table("planner")),
        others={name: read(table.table(name), names) for name, read in others.items() if table.has(name)},
    )
    for key, folder in (("late_dir", config.late_dir), ("state_dir", state_dir)):
        if _is_file(folder):
            table.note(key, "a directory", f"the file {folder}")
    if table.is_empty("site"):
        table.note("site", "at least one [site.NAME] table", "none")
    return config


def _planner(table: Table) -> PlannerConfig:
    table.only(*keys.PLANNER)
    payback = table.number("payback_windows", "a number above 0")
    return PlannerConfig(
        adaptive=table.flag("adaptive", default=True),
        epoch_ticks=table.whole("epoch", EPOCH_TICKS_MAX),
        payback_windows=PAYBACK_WINDOWS if payback is None else payback,
        storage_bytes=table.size("storage", 'a size such as "256MB", or 0', STORAGE_BYTES),
    )


def _is_file(path: Path) -> bool:
    """Whether something other than a directory is there; what cannot be looked at is not judged here."""
    try:
        return path.exists() and not path.is_dir()
    except OSError:
        return False


def _check_stream_names(config: ClusterConfig, problems: list[Problem]) -> None:
    """A query names streams without their sites, so a name must mean one stream in the whole cluster."""
    seen: dict[str, str] = {}
    for stream in (stream for site in config.sites for stream in site.streams):
        if stream.name in seen:
            got = f"{shown(stream.name)}, which is also {seen[stream.name]}"
            problems.append(Problem(str(config.path), stream.key, "a stream name used once in the cluster", got))
        seen.setdefault(stream.name, stream.key)
