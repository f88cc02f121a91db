"""kill -9 of Supervisors, Targets and evaluators, several in a run, at random ledger positions.

CHAOS_KILLS says how many of each role, CHAOS_SEED where.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest

import sia_ray
from sia_ray.errors import LedgerError, NotFoundError
from sia_ray.ledger.query import read_only
from sia_ray.ledger.schema import RunRow
from sia_ray.ledger.verify import verify
from tests.ledger_facts import work_that_ran_after_its_outcome
from tests.processes import descendants
from tests.test_run import supervisor_pid

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.usefixtures("local_ray")]

KILLS = int(os.environ.get("CHAOS_KILLS", "10"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
KILLS_A_RUN = 5
ROUNDS = -(-KILLS // KILLS_A_RUN)
GENERATIONS = 12
POSITIONS = range(10, 150)
"""Ledger positions at which a kill may be due; an undisturbed run goes beyond the last."""
APART = 15
"""Events between two kills: three of one piece of work would make it inconclusive, as they should."""
ROLES = {"supervisor": "", "target": "ray::run gen", "evaluator": "ray::evaluate"}
"""How a process of each role is titled while it works; the Supervisor's pid stands in its lock."""


class Killer(threading.Thread):
    """Kills a process of ``role`` as soon as one is seen after the ledger has reached each of its positions."""

    def __init__(self, role: str, storage: Path, seed: int) -> None:
        super().__init__()
        chance = random.Random(f"{role} {seed}")
        slots = range(POSITIONS.start, POSITIONS.stop - APART, len(POSITIONS) // KILLS_A_RUN)
        self.positions = [start + chance.randrange(len(POSITIONS) // KILLS_A_RUN - APART) for start in slots]
        self.role, self.storage, self.killed = role, storage, 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.003) and self.killed < len(self.positions):
            with suppress(NotFoundError, LedgerError, AssertionError, ProcessLookupError):
                if head(self.storage) >= self.positions[self.killed] and self._kill():
                    self.killed += 1

    def _kill(self) -> bool:
        if self.role == "supervisor":
            os.kill(supervisor_pid(self.storage), signal.SIGKILL)
            return True
        for process in descendants(os.getpid()):
            if process.command.startswith(ROLES[self.role]):
                process.kill()
                return True
        return False

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self.join()


def head(storage: Path) -> int:
    """The last acknowledged event."""
    with read_only(storage) as reader:
        return reader.head()


def epoch(storage: Path) -> int:
    """How many Supervisors have opened the ledger."""
    with read_only(storage) as reader:
        return int(reader.query("SELECT epoch FROM epoch").rows[0][0])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> str:
    pack = Path(__file__).parents[1] / "packs" / "tiny"
    storage = tmp_path_factory.mktemp("undisturbed")
    run = sia_ray.run(str(pack), generations=GENERATIONS, seed=3, storage=storage, progress=False)
    assert head(storage) > POSITIONS.stop
    return run.state_digest


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
@pytest.mark.parametrize("role", ROLES)
def test_kills_at_random_events_change_nothing(
    undisturbed: str, tiny: str, tmp_path: Path, role: str, seed: int
) -> None:
    with Killer(role, tmp_path, seed) as killer:
        run = sia_ray.run(tiny, generations=GENERATIONS, seed=3, storage=tmp_path, progress=False)
    assert killer.killed == KILLS_A_RUN
    assert run.state_digest == undisturbed
    assert verify(tmp_path).ok
    assert work_that_ran_after_its_outcome(tmp_path) == []


def test_a_supervisor_killed_while_it_accepts_a_run_begins_it_once(tiny: str, tmp_path: Path) -> None:
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
        run = sia_ray.run(tiny, generations=2, seed=3, storage=tmp_path, progress=False)
    finally:
        over.set()
        killer.join()
    assert run.status == "done"
    assert epoch(tmp_path) >= 2, "nobody was killed"
    with read_only(tmp_path) as reader:
        assert len(reader.state().rows(RunRow)) == 1
