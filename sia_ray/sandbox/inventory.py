"""What the cache holds in Python environments, and the removal of those that nobody uses any more."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox.environments import environments_dir, is_whole, read_marker
from sia_ray.task.cache import last_use, reserved

DAY_S = 86_400
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DYING = "-pruned"


class Entry(NamedTuple):
    """One environment in the cache. ``whole`` is False for what a killed builder left.

    ``size_bytes`` is what its files take on disk, ``own_bytes`` the part that shares no file with the interpreter, the
    installer's cache or another environment: what its removal frees. ``last_use`` is in seconds since the epoch.
    """

    digest: str
    whole: bool
    in_use: bool
    size_bytes: int
    own_bytes: int
    last_use: float | None
    source: str
    requirements: tuple[str, ...]
    packages: dict[str, str]


def list_environments(cache_dir: Path) -> list[Entry]:
    """Every environment under ``cache_dir``, the one used last first."""
    entries = [_entry(folder) for folder in _folders(cache_dir)]
    return sorted(entries, key=lambda entry: (-(entry.last_use or 0), entry.digest))


def prune_environments(cache_dir: Path, *, unused_since: float) -> tuple[list[Entry], list[Entry]]:
    """Remove environments whose last use is no later than ``unused_since`` (seconds since the epoch).

    Returns what was removed, and what would have been but is in use. Builders and users hold locks that are asked for
    here without waiting, so that none is taken from under them. Raises InfrastructureError when one cannot be removed.
    """
    removed: list[Entry] = []
    spared: list[Entry] = []
    for leftover in environments_dir(cache_dir).glob(f".*{_DYING}"):  # a prune was killed
        shutil.rmtree(leftover, ignore_errors=True)
    for folder in _folders(cache_dir):
        entry = _entry(folder)
        if entry.whole and (entry.last_use or 0) > unused_since:
            continue
        with reserved(folder) as free:
            if free and entry.whole and (last_use(folder) or 0) > unused_since:
                continue  # somebody came and went meanwhile
            if free:
                _remove(folder)
        (removed if free else spared).append(entry)
    return removed, spared


def _folders(cache_dir: Path) -> Iterator[Path]:
    parent = environments_dir(cache_dir)
    if parent.is_dir():
        yield from sorted(path for path in parent.iterdir() if _DIGEST.fullmatch(path.name) and path.is_dir())


def _entry(folder: Path) -> Entry:
    size, own = _bytes(folder)
    source, requirements, packages = "", (), {}  # type: str, tuple[str, ...], dict[str, str]
    whole = is_whole(folder)
    if whole:
        try:
            marker = read_marker(folder)
            source, requirements, packages = marker.source.value, marker.requirements, marker.distributions
        except (OSError, ValidationError):
            whole = False
    with reserved(folder) as free:
        return Entry(folder.name, whole, not free, size, own, last_use(folder), source, requirements, packages)


def _bytes(folder: Path) -> tuple[int, int]:
    """Bytes on disk of all files below ``folder``, and of those with no other name anywhere."""
    size = own = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))
            except FileNotFoundError:
                continue  # somebody is building or removing it
            if stat.S_ISREG(status.st_mode):
                size += status.st_blocks * 512
                own += status.st_blocks * 512 if status.st_nlink == 1 else 0
    return size, own


def _remove(folder: Path) -> None:
    """Out of the way under another name first: whoever looks sees a whole environment or none."""
    dying = folder.with_name(f".{folder.name[:16]}-{os.getpid()}{_DYING}")
    try:
        folder.rename(dying)
        shutil.rmtree(dying)
    except OSError as error:
        raise InfrastructureError(
            f"The environment {folder.name[:12]} cannot be removed: {error}.",
            f"Look at the permissions of {folder.parent}.",
        ) from None
