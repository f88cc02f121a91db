"""Where built things live between runs, and how two builders of one thing share the work.

Every entry is named by the digest of what it was made from, so it is never changed, only made or removed. Beside it
lie ``<digest>.lock``, which its builder holds, and ``<digest>.use``, which all who need it share::

    <cache>/data/<digest>     files fetched for a pack
    <cache>/splits/<digest>   materialised splits
    <cache>/envs/<digest>     Python environments
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "SIA_RAY_CACHE"


def cache_root() -> Path:
    """The cache folder: ``SIA_RAY_CACHE``, else the user's cache directory on this system."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("sia-ray")).absolute()


@contextmanager
def locked(entry: Path) -> Iterator[int]:
    """Hold the builder's lock of a cache entry; waits for another process or thread that is building it.

    Yields the lock's descriptor: a process that inherits it holds the lock too. The kernel drops it when the last of
    its holders dies, so a killed builder leaves nothing to clean up.
    """
    descriptor = _open(entry, "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


_kept: dict[Path, int] = {}
_keeping = threading.Lock()


def keep(entry: Path) -> None:
    """Let nobody remove ``entry`` for as long as this process lives, and note that it was used now.

    Waits while somebody is removing it: look whether it is there afterwards.
    """
    with _keeping:
        if entry not in _kept:
            try:
                descriptor = _open(entry, "use")
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    return  # a cache that others filled for us to read
                raise
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            _kept[entry] = descriptor
        os.utime(_kept[entry])


def last_use(entry: Path) -> float | None:
    """When ``entry`` was last kept, in seconds since the epoch; None when it never was."""
    try:
        return _beside(entry, "use").stat().st_mtime
    except OSError:
        return None


@contextmanager
def reserved(entry: Path) -> Iterator[bool]:
    """True, for the length of the block, when nobody builds or keeps ``entry``. Does not wait."""
    descriptors = [_open(entry, "lock"), _open(entry, "use")]
    try:
        for descriptor in descriptors:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except BlockingIOError:
        free = False
    try:
        yield free
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _beside(entry: Path, kind: str) -> Path:
    return entry.with_name(f"{entry.name}.{kind}")


def _open(entry: Path, kind: str) -> int:
    """The file beside ``entry`` that is locked; such files are never removed, as others may be waiting for them."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    return os.open(_beside(entry, kind), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


@contextmanager
def building(entry: Path) -> Iterator[Path]:
    """A fresh folder beside ``entry`` that becomes ``entry`` when the block ends well, and vanishes when not.

    Call it under ``locked(entry)``. Readers see the whole entry or none of it.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{entry.name[:16]}-", dir=entry.parent))
    try:
        folder.chmod(0o755)
        yield folder
        if entry.exists():
            shutil.rmtree(entry)
        folder.rename(entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
