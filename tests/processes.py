"""What runs on this machine, read from /proc."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process as it was seen; ``born`` tells it from a later one of the same pid."""

    pid: int
    born: str
    command: str

    @property
    def alive(self) -> bool:
        found = look(self.pid)
        return found is not None and found.born == self.born

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def look(pid: int) -> Process | None:
    """The process, unless it is gone or only waits to be reaped."""
    try:
        fields = _fields(pid)
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return None if fields[0] in "ZX" else Process(pid, fields[19], command)


def descendants(root: int) -> Iterator[Process]:
    """Everything that ``root`` started, directly or not."""
    children = defaultdict(list)
    for pid in _pids():
        with suppress(OSError):
            children[int(_fields(pid)[1])].append(pid)
    todo = list(children[root])
    while todo:
        pid = todo.pop()
        todo += children[pid]
        found = look(pid)
        if found is not None:
            yield found


def mentioning(text: str) -> list[Process]:
    """Every process but this one whose command line holds ``text``."""
    seen = (look(pid) for pid in _pids() if pid != os.getpid())
    return [process for process in seen if process is not None and text in process.command]


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """/proc/PID/stat after the name: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
