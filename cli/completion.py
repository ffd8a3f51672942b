"""Words for the Tab key: what shtab takes from the parser, and the sites of the cluster at hand."""

from __future__ import annotations

import argparse

import shtab

#: The names in lines such as [site.frankfurt] of the configuration that a command without --config is about.
_NAMES = r"""sed -n 's/^[[:space:]]*\[site\.\([a-z0-9_-]*\)\].*/\1/p' "${NARROWS_CONFIG:-cluster.toml}" 2>/dev/null"""
SITES: dict[str, object] = {
    "bash": "_narrows_sites",
    "zsh": "_narrows_sites",
    "tcsh": "",
    "fish": "",
    "powershell": "",
    "preamble": {
        "bash": f'_narrows_sites() {{ compgen -W "$({_NAMES})" -- "$1"; }}',
        "zsh": f"_narrows_sites() {{ compadd $({_NAMES}) }}",
    },
}


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell."""
    return shtab.complete(parser, shell)
