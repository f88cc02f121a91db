"""kill -9 of the driver, and of the driver with all of its Ray, at random generations; then `sia-ray resume`.

CHAOS_CLUSTERS says how many of each, CHAOS_SEED where.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from sia_ray.ledger.verify import verify
from tests.ledger_facts import work_that_ran_after_its_outcome
from tests.processes import Process, descendants
from tests.test_resume import COMMAND, finish

pytestmark = [pytest.mark.ray, pytest.mark.chaos]

CLUSTERS = int(os.environ.get("CHAOS_CLUSTERS", "1"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
GENERATIONS = 6


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    pack = Path(__file__).parents[1] / "packs" / "tiny"
    storage = str(tmp_path_factory.mktemp("undisturbed"))
    digest = finish("run", str(pack), "--generations", str(GENERATIONS), "--seed", "3", "--local", "--storage", storage)
    return str(digest["state_digest"])


def kill_at(generation: int, arguments: list[str], *, cluster: bool) -> list[Process]:
    """Start the command; once that generation has ended kill it, and all that it started if ``cluster``."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith(f"gen {generation:>3}"):
            break
    else:
        pytest.fail("the run ended before it could be stopped")
    started = list(descendants(process.pid))
    os.kill(process.pid, signal.SIGKILL)
    if cluster:
        for one in started:
            one.kill()
    process.wait()
    process.stderr.close()
    return started


@pytest.mark.parametrize("seed", range(SEED, SEED + CLUSTERS))
@pytest.mark.parametrize("cluster", [False, True], ids=["driver", "cluster"])
def test_a_run_goes_on_after(undisturbed: str, tiny: str, tmp_path: Path, seed: int, cluster: bool) -> None:
    generation = random.Random(f"{cluster} {seed}").randint(1, GENERATIONS - 1)
    storage = str(tmp_path / "runs")
    asked = ["run", tiny, "--generations", str(GENERATIONS), "--seed", "3", "--local", "--storage", storage]
    started = kill_at(generation, asked, cluster=cluster)
    assert any(process.command.startswith("ray::") for process in started)
    resumed = finish("resume", "1", "--local", "--storage", storage)
    assert resumed["status"] == "done"
    assert resumed["state_digest"] == undisturbed
    assert verify(Path(storage)).ok
    assert work_that_ran_after_its_outcome(Path(storage)) == []
