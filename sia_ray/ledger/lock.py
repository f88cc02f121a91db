"""The lock of a storage root: held for life by its one Supervisor, so that a second does not start."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path
from typing import Final

from sia_ray.clock import Clock
from sia_ray.errors import LedgerLocked

LOCK: Final = "supervisor.lock"
_POLL_S: Final = 0.05


class Lock:
    """The exclusive lock of a storage root: freed by the kernel when its holder dies, however it dies."""

    def __init__(self, storage: Path, clock: Clock, wait_s: float) -> None:
        path = storage / LOCK
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(self._fd, 4096, 0).decode(errors="replace").strip() or "an unknown process"
                    os.close(self._fd)
                    raise LedgerLocked(
                        f"{storage} belongs to a live Supervisor ({holder}).",
                        "Follow it with `sia-ray status`, or use another root with --storage DIR.",
                    ) from None
                time.sleep(_POLL_S)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"pid {os.getpid()} on {socket.gethostname()} since {clock.now()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def is_owned(storage: Path) -> bool:
    """Whether a live Supervisor owns ``storage`` at this moment, on this machine."""
    try:
        fd = os.open(storage / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
