"""How much disk a sandboxed run holds in the folders that it may write."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sia_ray.sandbox.policy import Job

_BLOCK = 512
_ENTRY_BYTES = 4096
"""The least that an entry counts, as empty files use up a disk too."""


class Held(NamedTuple):
    """``unseen`` names a folder that could not be looked into, and so may hold anything; empty when there is none."""

    size: int
    """Bytes."""
    unseen: str = ""


def writable_folders(job: Job) -> tuple[Path, ...]:
    """Sources of the mounts that ``job`` may write, without those that lie in another of them and without devices."""
    found = {mount.source.resolve() for mount in job.mounts if mount.writable and mount.source.exists()}
    plain = {path for path in found if path.is_dir() or path.is_file()}
    return tuple(sorted(path for path in plain if plain.isdisjoint(path.parents)))


def held(folders: Iterable[Path], enough: float) -> Held:
    """Blocks in use in ``folders``, of a file with several names once. Stops counting above ``enough`` bytes."""
    size, unseen, known = 0, "", set[tuple[int, int]]()
    waiting = []
    for folder in map(str, folders):
        if os.path.isdir(folder):
            waiting.append(folder)
        elif os.path.exists(folder):
            size += os.stat(folder).st_blocks * _BLOCK
    while waiting and size <= enough:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    size += _entry(entry, known)
                    if size > enough:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # no right to read it, or a path longer than the kernel takes
            unseen = os.path.basename(folder)
    return Held(size, unseen)


def _entry(entry: os.DirEntry[str], known: set[tuple[int, int]]) -> int:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        if (found.st_dev, found.st_ino) in known:
            return _ENTRY_BYTES
        known.add((found.st_dev, found.st_ino))
    return max(_ENTRY_BYTES, found.st_blocks * _BLOCK)


def unlinked(pids: Iterable[int], folders: Iterable[Path]) -> int:
    """Bytes of files without a name that ``pids`` hold open on the file systems of ``folders``."""
    devices = {os.stat(folder).st_dev for folder in folders if folder.exists()}
    sizes = dict[tuple[int, int], int]()
    for pid in pids if devices else ():
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = os.stat(entry.path)
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink and found.st_dev in devices:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return sum(sizes.values())


class DiskWatch:
    """What a run adds to ``folders``, beside what lay there when the watch began."""

    _FILL_BYTES_PER_S = 4 << 30
    """Faster than a disk takes data: the next look comes before what is left can be used up."""
    _FASTEST_S, _SLOWEST_S = 0.02, 0.25

    def __init__(self, folders: tuple[Path, ...], limit_mb: int) -> None:
        self._folders, self._limit = folders, limit_mb << 20
        self._before = held(folders, float("inf"))
        self.pause_s = self._SLOWEST_S if folders else float("inf")
        """Seconds until the next look is due."""

    def look(self, pids: list[int]) -> str:
        """Why the run must be stopped; empty while it keeps its limit."""
        if not self._folders:
            return ""
        allowed = self._before.size + self._limit
        nameless = unlinked(pids, self._folders)
        now = held(self._folders, allowed - nameless)
        room_s = (allowed - nameless - now.size) / self._FILL_BYTES_PER_S
        self.pause_s = max(self._FASTEST_S, min(room_s, self._SLOWEST_S))
        if now.size + nameless > allowed:
            added = (now.size + nameless - self._before.size) / (1 << 20)
            return f"at least {added:.0f} MiB of disk in use, {self._limit >> 20} MiB allowed"
        if now.unseen and not self._before.unseen:
            return f"its use of the disk cannot be told: the folder {now.unseen!r} cannot be looked into"
        return ""
