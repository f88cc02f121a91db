"""The driver dies with its whole Ray; `sia-ray resume` goes on. Real processes, real kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sia_ray.ledger.verify import verify
from tests.ledger_facts import work_that_ran_after_its_outcome

pytestmark = [pytest.mark.ray, pytest.mark.chaos]

COMMAND = [sys.executable, "-m", "sia_ray.cli.main"]


def finish(*arguments: str) -> dict[str, Any]:
    """Run the command to its end; the object on the last line of its stdout."""
    done = subprocess.run([*COMMAND, *arguments, "--json"], capture_output=True, text=True, check=True, timeout=300)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def kill_when(line: str, arguments: list[str]) -> None:
    """Start the command and kill it, with no chance to clean up, when its stderr says ``line``."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith(line):
            os.kill(process.pid, signal.SIGKILL)
            break
    else:
        pytest.fail("the run ended before it could be killed")
    process.wait()
    process.stderr.close()


def test_a_run_goes_on_after_its_driver_was_killed(tiny: str, tmp_path: Path) -> None:
    asked = ["run", tiny, "--generations", "6", "--seed", "3", "--local"]
    undisturbed = finish(*asked, "--storage", str(tmp_path / "undisturbed"))
    broken = str(tmp_path / "broken")
    kill_when("gen   2", [*asked, "--storage", broken])
    resumed = finish("resume", "1", "--local", "--storage", broken)
    assert resumed["status"] == "done"
    assert resumed["state_digest"] == undisturbed["state_digest"]
    assert verify(Path(broken)).ok
    assert work_that_ran_after_its_outcome(Path(broken)) == []
    assert finish("resume", "1", "--local", "--storage", broken)["state_digest"] == resumed["state_digest"]
