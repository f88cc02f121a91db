"""Time as an argument: the only module that reads a clock on the wall.

Order comes from sequence numbers and limits from the monotonic clock; wall time is annotation for people.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Two readings that must never be mixed."""

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back. For durations and limits."""
        ...

    def now(self) -> str:
        """Wall time, ISO 8601 in UTC with milliseconds. For annotation only."""
        ...


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> str:
        return _iso(datetime.now(UTC))


class FakeClock:
    """Stands still until it is moved, so that a test or a simulation owns time."""

    def __init__(self, start: str = "2026-01-01T00:00:00.000Z") -> None:
        self._wall = datetime.fromisoformat(start)
        self._elapsed_s = 0.0

    def monotonic(self) -> float:
        return self._elapsed_s

    def now(self) -> str:
        return _iso(self._wall)

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks."""
        if seconds < 0:
            raise ValueError("time only passes forward; use set_wall for a clock that was corrected")
        self._elapsed_s += seconds
        self._wall += timedelta(seconds=seconds)

    def set_wall(self, moment: str) -> None:
        """Correct the wall clock, back or forward, as an operator or NTP would; the monotonic one stays."""
        self._wall = datetime.fromisoformat(moment)
