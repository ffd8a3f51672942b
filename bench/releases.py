"""The two trees that are compared: the first release, out of the clone's history, and this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

FIRST_COMMIT = "c8270c8"
FIRST, NOW = "first release", "now"
ROOT = Path(__file__).resolve().parents[1]


class ReleaseError(Exception):
    """A tree cannot be had, or another one would run in its place."""


@dataclass(frozen=True, slots=True)
class Release:
    """A source tree whose commands run with the interpreter that runs this one."""

    name: str
    folder: Path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "cli.main", *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """For ``command``, whose working folder must be ``folder``: Python looks there before anywhere else."""
        return {**os.environ, "PYTHONPATH": str(self.folder), **more}

    def check(self) -> None:
        """Raises ReleaseError unless it is this tree whose code runs."""
        code = "import cli, node, planner; print(*(m.__path__[0] for m in (cli, node, planner)), sep='\\n')"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        folders = {Path(line).resolve().parent for line in done.stdout.splitlines()}
        if done.returncode or folders != {self.folder.resolve()}:
            raise ReleaseError(
                f"{self.name} requires to run from {self.folder}; got {done.stdout}{done.stderr}".strip()
            )


def now() -> Release:
    """The tree that this file is in."""
    return Release(NOW, ROOT)


def first_release(folder: Path, root: Path = ROOT) -> Release:
    """The first release, unpacked into ``folder``. Raises ReleaseError if the clone does not have it."""
    if _git(root, "cat-file", "-e", f"{FIRST_COMMIT}^{{commit}}").returncode:
        raise ReleaseError(
            f"the first release requires commit {FIRST_COMMIT} in the clone at {root}; it is not there. "
            "A shallow clone gets it with git fetch --unshallow"
        )
    archive = _git(root, "archive", "--format=tar", FIRST_COMMIT)
    if archive.returncode:
        raise ReleaseError(f"git archive {FIRST_COMMIT} failed: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return Release(FIRST, folder)


def commit_of(release: Release) -> str:
    """Its commit, with a word about changes that are not committed."""
    if release.name == FIRST:
        return FIRST_COMMIT
    short = _git(release.folder, "rev-parse", "--short", "HEAD").stdout.decode().strip() or "unknown"
    changed = _git(release.folder, "status", "--porcelain", "--untracked-files=no").stdout.strip()
    return f"{short} with changes" if changed else short


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
