"""Named fault points: places where a test can make the process fail, and where production does nothing.

Durable code calls ``point("ledger.before_commit")``. Unarmed, that is one comparison. A test in the same process
calls `arm`; a subprocess or a Ray actor is armed by its environment:

    SIA_RAY_FAULT=ledger.before_commit:kill        die (SIGKILL) at the first pass
    SIA_RAY_FAULT=ledger.before_commit:kill:3      at the third pass
    SIA_RAY_FAULT=*:kill:17                        at the seventeenth pass of any point

``raise`` instead of ``kill`` raises `Crash`, ``block`` never returns; several faults are separated by commas.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, NoReturn

from sia_ray.errors import ConfigError

Action = Callable[[], None]
VARIABLE: Final = "SIA_RAY_FAULT"
ANY: Final = "*"


class Crash(BaseException):
    """The process "died" here. No Exception: nothing that handles errors may survive it."""


class _Fault(NamedTuple):
    action: Action
    nth: int


_lock = threading.Lock()
_faults: dict[str, _Fault] = {}
_counters: list[dict[str, int]] = []
_passes: dict[str, int] = {}
_watching = False


def point(name: str) -> None:
    """Pass the fault point ``name``: nothing happens unless a test asked for it."""
    if _watching:
        _pass(name)


def _pass(name: str) -> None:
    with _lock:
        for counter in _counters:
            counter[name] = counter.get(name, 0) + 1
        due = []
        for key in (name, ANY):
            _passes[key] = _passes.get(key, 0) + 1
            fault = _faults.get(key)
            if fault is not None and _passes[key] == fault.nth:
                due.append(fault.action)
    for action in due:
        action()


def _refresh() -> None:
    global _watching
    _watching = bool(_faults or _counters)


def arm(name: str, action: Action, *, nth: int = 1) -> None:
    """Run ``action`` at the ``nth`` pass of ``name`` from now (`ANY` counts the passes of all points)."""
    if nth < 1:
        raise ValueError(f"passes are counted from 1, not {nth}")
    with _lock:
        _faults[name] = _Fault(action, nth)
        _passes[name] = 0
        _refresh()


def disarm() -> None:
    """Forget every armed fault."""
    with _lock:
        _faults.clear()
        _refresh()


@contextmanager
def armed(name: str, action: Action, *, nth: int = 1) -> Iterator[None]:
    """`arm` for the length of a ``with`` block; what was armed before is forgotten at its end."""
    arm(name, action, nth=nth)
    try:
        yield
    finally:
        disarm()


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Passes of each point inside the block, in the order of first passing: point → count."""
    counter: dict[str, int] = {}
    with _lock:
        _counters.append(counter)
        _refresh()
    try:
        yield counter
    finally:
        with _lock:
            # By identity: two empty counters are equal.
            _counters[:] = [other for other in _counters if other is not counter]
            _refresh()


def kill() -> None:
    """End this process as `kill -9` would: no cleanup, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> NoReturn:
    """Raise `Crash`: the death of a process for tests that stay in one process."""
    raise Crash


def block() -> None:
    """Never return, like a process that hangs."""
    threading.Event().wait()


ACTIONS: Final[dict[str, Action]] = {"kill": kill, "raise": crash, "block": block}


def arm_from_environment(value: str) -> None:
    """Arm what ``value`` (the text of SIA_RAY_FAULT) says. Raises ConfigError when it does not parse."""
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, _, rest = part.partition(":")
        action, _, nth = rest.partition(":")
        if not name or action not in ACTIONS or (nth and not (nth.isascii() and nth.isdigit() and int(nth) > 0)):
            raise ConfigError(
                f"{VARIABLE}: {part!r} is no fault.",
                f"Write NAME:ACTION[:N] with ACTION one of {', '.join(ACTIONS)} and N counted from 1.",
            )
        arm(name, ACTIONS[action], nth=int(nth or 1))


arm_from_environment(os.environ.get(VARIABLE, ""))
