"""Where built things live between runs, and how two builders of one thing share the work.

Every entry is named by the digest of what it was made from, so it is never changed, only made or removed::

    <cache>/data/<digest>     files fetched for a pack
    <cache>/splits/<digest>   materialised splits
    <cache>/envs/<digest>     Python environments
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "SIA_RAY_CACHE"


def cache_root() -> Path:
    """The cache folder: ``SIA_RAY_CACHE``, else the user's cache directory on this system."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("sia-ray")).absolute()


@contextmanager
def locked(entry: Path) -> Iterator[None]:
    """Hold the builder's lock of a cache entry; waits for another process or thread that is building it.

    The kernel drops the lock when its holder dies, so a killed builder leaves nothing to clean up.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(entry.with_name(f"{entry.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
