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


def end_when(line: str, arguments: list[str], how: signal.Signals) -> tuple[int, str]:
    """Start the command and send it ``how`` when its stderr says ``line``; its exit code and last words."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        # Tests that run in the background inherit an ignored Ctrl-C; a person's command does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith(line):
            os.kill(process.pid, how)
            break
    else:
        pytest.fail("the run ended before it could be stopped")
    words = process.stderr.read()
    return process.wait(), words


def test_a_run_goes_on_after_its_driver_was_killed(tiny: str, tmp_path: Path) -> None:
    asked = ["run", tiny, "--generations", "6", "--seed", "3", "--local"]
    undisturbed = finish(*asked, "--storage", str(tmp_path / "undisturbed"))
    broken = str(tmp_path / "broken")
    end_when("gen   2", [*asked, "--storage", broken], signal.SIGKILL)
    resumed = finish("resume", "1", "--local", "--storage", broken)
    assert resumed["status"] == "done"
    assert resumed["state_digest"] == undisturbed["state_digest"]
    assert verify(Path(broken)).ok
    assert work_that_ran_after_its_outcome(Path(broken)) == []
    assert finish("resume", "1", "--local", "--storage", broken)["state_digest"] == resumed["state_digest"]


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(tiny: str, tmp_path: Path) -> None:
    storage = str(tmp_path)
    asked = ["run", tiny, "--generations", "6", "--local", "--storage", storage]
    code, words = end_when("gen   2", asked, signal.SIGINT)
    assert code == 130
    assert "sia-ray resume" in words and "Traceback" not in words
    assert finish("resume", "1", "--local", "--storage", storage)["status"] == "done"
    assert verify(tmp_path).ok
