"""kill -9 of the Supervisor at random ledger positions; CHAOS_KILLS says how often, CHAOS_SEED where."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

import sia_ray
from sia_ray.ledger.query import read_only
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
