"""Folders that live as long as a block, and that somebody else clears away when the block's process was killed.

::

    <tempdir>/sia-ray-<uid>/.lock          held while a folder is made, given up or claimed for sweeping
    <tempdir>/sia-ray-<uid>/<name>/.lock   held for the life of the block; the kernel drops it with its holder
    <tempdir>/sia-ray-<uid>/<name>/0       the folder itself; what is in it is moved up to 1, 2, … to be removed
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sia_ray.errors import InfrastructureError

_LOCK = ".lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder (its real path) that no other user can enter, gone at the end whatever was put into it.

    What cannot be removed at the end is left for ``sweep``. Raises InfrastructureError where no folder can be made.
    """
    root = _root()
    try:
        with _locked(root):
            parent = Path(tempfile.mkdtemp(dir=root))
            folder = parent / "0"
            folder.mkdir(0o700)
            lock = _try_lock(parent)
    except OSError as error:
        raise InfrastructureError(f"A temporary folder cannot be made: {error}.", "Free some disk space.") from None
    try:
        yield folder
    finally:
        _give_up(parent, lock)


def sweep() -> None:
    """Remove the folders of this user whose lock nobody holds: what killed processes left on this machine."""
    root = _root()
    for parent in list(root.iterdir()):
        with _locked(root):
            lock = _try_lock(parent) if parent.is_dir() else None
        if lock is not None:
            _give_up(parent, lock)


def _root() -> Path:
    """The folder of all folders; refused when another user made it, or could enter it."""
    root = Path(tempfile.gettempdir()).resolve() / f"sia-ray-{os.geteuid()}"
    try:
        root.mkdir(0o700, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise InfrastructureError(f"{root} cannot be made: {error}.", "Set TMPDIR to a folder of yours.") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise InfrastructureError(f"{root} is not a private folder of this user.", "Remove it, or set TMPDIR.")
    return root


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(folder: Path) -> int | None:
    """The descriptor that holds the lock of ``folder``; None when somebody else holds it."""
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _give_up(parent: Path, lock: int | None) -> None:
    """Remove ``parent`` and let go of its lock, in that order and unseen by a sweep in between."""
    try:
        with suppress(OSError):
            _empty(parent)
            with _locked(parent.parent):
                (parent / _LOCK).unlink()
                parent.rmdir()
    finally:
        if lock is not None:
            os.close(lock)


def _empty(parent: Path) -> None:
    """Remove the folders in ``parent``, which generated code may have filled: no recursion, no trust in modes.

    Each folder below is first moved up into ``parent``, so that neither depth nor length of paths matters.
    """
    names = [entry.name for entry in parent.iterdir() if entry.name.isdecimal()]
    waiting, count = [parent / name for name in names], max(map(int, names), default=0)
    while waiting:
        folder = waiting.pop()
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            for entry in list(entries):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                count += 1
                os.chmod(entry.path, 0o700)
                waiting.append(parent / str(count))
                os.rename(entry.path, waiting[-1])
        folder.rmdir()
