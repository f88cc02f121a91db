"""Facts that tests read off a ledger."""

from __future__ import annotations

import json
from pathlib import Path

from sia_ray.ledger.query import read_only


def work_that_ran_after_its_outcome(storage: Path) -> list[str]:
    """Keys of work that was handed out again after its outcome was on disk: none, if promise P3 holds."""
    finished: set[str] = set()
    again = []
    with read_only(storage) as reader:
        for entry in reader.events():
            work = json.loads(entry.payload).get("work")
            if entry.kind == "work_finished":
                finished.add(work)
            if entry.kind == "work_started" and work in finished:
                again.append(work)
    return again
