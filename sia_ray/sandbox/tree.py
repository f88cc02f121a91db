"""A process and everything that descends from it: who is alive and how much memory they hold (Linux)."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

_KIB = 1024


class Usage(NamedTuple):
    """One look at a tree. ``memory_mb`` is resident memory; pages that processes share count in each of them."""

    processes: int
    """Processes and threads."""
    memory_mb: float
    largest_mb: float
    """The highest that the resident memory of any one process ever was."""


def descendants(root: int) -> list[int]:
    """``root`` and all below it; a process that ends meanwhile may be missing."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    waiting.extend(map(int, file.read().split()))
    return found


def usage(pids: list[int]) -> Usage:
    processes, memory, largest = 0, 0, 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    largest = max(largest, int(line.split()[1]))
                elif line.startswith(b"VmRSS:"):
                    memory += int(line.split()[1])
                elif line.startswith(b"Threads:"):
                    processes += int(line.split()[1])
                    break
    return Usage(processes, memory / _KIB, largest / _KIB)


def cpu_s(pids: list[int]) -> float:
    """Seconds of CPU that ``pids`` and the children they have waited for used."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def shared_out_mb(pids: list[int]) -> float:
    """Memory of ``pids`` with each shared page counted once; slower than ``usage``, so asked only near a limit."""
    total = 0.0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) / _KIB
        except OSError:
            total += usage([pid]).memory_mb
    return total


def scratch_mb(init: int, size_mb: int) -> float:
    """What the tree has put into its in-memory file systems of ``size_mb`` each; 0 where that cannot be seen."""
    total = 0.0
    for path in ("tmp", "dev/shm"):
        with contextlib.suppress(OSError):
            room = os.statvfs(f"/proc/{init}/root/{path}")
            if room.f_blocks * room.f_frsize == size_mb << 20:  # before the root is built it is the host's
                total += (room.f_blocks - room.f_bfree) * room.f_frsize / _KIB / _KIB
    return total
