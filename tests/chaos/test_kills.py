"""kill -9 of the Supervisor at random ledger positions; CHAOS_KILLS says how often, CHAOS_SEED where."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import sia_ray
from sia_ray.errors import LedgerError, NotFoundError
from sia_ray.ledger.query import read_only
from sia_ray.ledger.schema import RunRow
from sia_ray.ledger.verify import verify
from sia_ray.runtime.supervisor import Snapshot
from tests.ledger_facts import work_that_ran_after_its_outcome
from tests.test_run import supervisor_pid

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.usefixtures("local_ray")]

KILLS = int(os.environ.get("CHAOS_KILLS", "3"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
GENERATIONS = 6
LAST_POSITION = 80
"""An undisturbed run leaves about a hundred events; a kill must come before its last."""


class KillAt:
    """A follower that kills the Supervisor once the ledger has reached event ``position``."""

    def __init__(self, storage: Path, position: int) -> None:
        self.storage, self.position, self.killed = storage, position, 0

    def begin(self, storage: Path, number: int) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        if self.killed:
            return
        with read_only(self.storage) as reader:
            head = reader.head()
        if head >= self.position:
            self.killed = supervisor_pid(self.storage)
            os.kill(self.killed, signal.SIGKILL)

    def end(self) -> None: ...


def epoch(storage: Path) -> int:
    """How many Supervisors have opened the ledger."""
    with read_only(storage) as reader:
        return int(reader.query("SELECT epoch FROM epoch").rows[0][0])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> str:
    pack = Path(__file__).parents[1] / "packs" / "tiny"
    storage = tmp_path_factory.mktemp("undisturbed")
    return sia_ray.run(str(pack), generations=GENERATIONS, seed=3, storage=storage, progress=False).state_digest


@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_a_supervisor_killed_at_a_random_event_changes_nothing(
    undisturbed: str, tiny: str, tmp_path: Path, seed: int
) -> None:
    killer = KillAt(tmp_path, random.Random(seed).randint(1, LAST_POSITION))
    run = sia_ray.run(tiny, generations=GENERATIONS, seed=3, storage=tmp_path, progress=killer)
    assert killer.killed
    assert run.state_digest == undisturbed
    assert verify(tmp_path).ok
    assert work_that_ran_after_its_outcome(tmp_path) == []


def test_a_supervisor_killed_while_it_accepts_a_run_begins_it_once(undisturbed: str, tiny: str, tmp_path: Path) -> None:
    over = threading.Event()

    def kill_the_first() -> None:
        while not over.wait(0.002):
            with suppress(NotFoundError, LedgerError):
                if epoch(tmp_path):
                    os.kill(supervisor_pid(tmp_path), signal.SIGKILL)
                    return

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    try:
        run = sia_ray.run(tiny, generations=GENERATIONS, seed=3, storage=tmp_path, progress=False)
    finally:
        over.set()
        killer.join()
    assert run.state_digest == undisturbed
    assert epoch(tmp_path) >= 2, "nobody was killed"
    with read_only(tmp_path) as reader:
        assert len(reader.state().rows(RunRow)) == 1
