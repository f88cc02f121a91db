"""Hostile targets get nothing in any sandbox; the same targets without one get what they are after."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sia_ray.candidate.bundle import read_tree
from sia_ray.evaluation.contract import Evaluation, evaluate
from sia_ray.evaluation.harness_run import HarnessRun, run_harness
from sia_ray.evaluation.results import Status
from sia_ray.sandbox.policy import Cause, Limits, Sandbox
from sia_ray.sandbox.select import select
from sia_ray.task.metric import Metric
from tests.hostile.attacks import (
    BABBLER,
    FORGER,
    HOGS,
    IMPORTER,
    LITTERER,
    PRINTER,
    READERS,
    SWAMPER,
    VANDALS,
    Attack,
)
from tests.hostile.prey import PACK, SECRET, Prey, score_as_sia_does

pytestmark = pytest.mark.sandbox

PYTHON = Path(sys.executable)
TIGHT = Limits(wall_s=2, memory_mb=160, cpus=1, processes=50, disk_mb=16)
WIDE = Limits(wall_s=30, memory_mb=2048, cpus=2, processes=1000)
TABLE = (*READERS, *VANDALS, *HOGS)
USUAL = 0.5
"""Share of even numbers among the tiny pack's: the score of whoever answers "even" to all."""


def by_name(attack: Attack) -> str:
    return attack.name


def run(sandbox: Sandbox, attack: Attack, prey: Prey, limits: Limits = TIGHT) -> HarnessRun:
    harness = {"target_agent.py": attack.source(prey.places).encode()}
    return run_harness(sandbox, harness=harness, public_dir=prey.public, limits=limits, python=PYTHON)


def score(sandbox: Sandbox, prey: Prey, outputs: dict[str, bytes]) -> Evaluation:
    return evaluate(
        sandbox,
        split_dir=prey.split,
        outputs=outputs,
        metric=Metric(name="accuracy", range=(0, 1)),
        limits=WIDE,
        python=PYTHON,
        reference_dir=PACK / "reference",
    )


@contextlib.contextmanager
def unguarded(attack: Attack, prey: Prey) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """``attack`` as a plain process and its working folder: what nobody watches. Killed at the end."""
    folder = prey.root.with_name(prey.root.name + "-unguarded")
    work = folder / "work"
    work.mkdir(parents=True)
    (folder / "target_agent.py").write_text(attack.source(prey.places))
    command = [sys.executable, str(folder / "target_agent.py"), "--dataset_dir", str(prey.public)]
    process = subprocess.Popen([*command, "--working_dir", str(work)], stdout=subprocess.DEVNULL, cwd=work)
    try:
        yield work, process
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@pytest.mark.parametrize("attack", TABLE, ids=by_name)
def test_a_hostile_target_gets_nothing_and_its_run_ends_for_the_right_cause(
    attack: Attack, rung: Sandbox, prey: Prey
) -> None:
    done = run(rung, attack, prey)
    refused = attack.cause is Cause.PROCESSES and b"BlockingIOError" in done.finished.output.data
    assert done.finished.cause is attack.cause or refused, done.finished  # the kernel bounds whoever is not root
    assert done.finished.ok or attack.cause is not Cause.EXITED, done.finished
    assert prey.spoils(done.outputs) == set()
    assert SECRET.encode() not in b"".join([*done.outputs.values(), done.finished.output.data])
    assert {"answers.json"} >= {name for name in done.outputs if not name.startswith("fill-")}


@pytest.mark.parametrize("attack", [attack for attack in TABLE if attack.spoils], ids=by_name)
def test_the_same_target_gets_what_it_is_after_without_a_sandbox(attack: Attack, prey: Prey) -> None:
    done = run(select("none"), attack, prey, WIDE)
    assert done.finished.ok, done.finished
    assert prey.spoils(done.outputs) == attack.spoils


def test_a_sound_target_scores_after_each_of_them(rung: Sandbox, prey: Prey) -> None:
    """One prey, all attacks in a row: nothing that one leaves behind reaches the run after it."""
    harness = {"target_agent.py": (PACK / "reference" / "reference_target_agent.py").read_bytes()}
    for attack in (*READERS, *VANDALS):
        run(rung, attack, prey)
    sound = run_harness(rung, harness=harness, public_dir=prey.public, limits=TIGHT, python=PYTHON)
    assert score(rung, prey, sound.outputs).score == USUAL


# ---- what a table cannot say


def test_a_daemon_that_ignores_sigterm_outlives_a_target_that_nobody_watches(prey: Prey) -> None:
    with unguarded(HOGS[-1], prey) as (_, process):
        while process.poll() is None and not prey.survivors():
            pass
        assert process.poll() is None, "it hangs"
        process.terminate()
        process.kill()
        process.wait()
        assert prey.survivors()


def test_forged_results_are_no_score(rung: Sandbox, prey: Prey) -> None:
    done = run(rung, FORGER, prey)
    assert json.loads(done.outputs["results.json"]) == {"accuracy": 1.0}
    scored = score(rung, prey, done.outputs)
    assert (scored.status, scored.score) == (Status.FAILED, None) and "no answers.json" in scored.log
    with unguarded(FORGER, prey) as (work, process):
        process.wait(30)
        assert score_as_sia_does(prey, work) == 1.0


def test_modules_in_the_outputs_are_never_imported(rung: Sandbox, prey: Prey) -> None:
    done = run(rung, IMPORTER, prey)
    assert {"sitecustomize.py", "json.py", "forge.pth"} < done.outputs.keys()
    scored = score(rung, prey, done.outputs)
    assert (scored.status, scored.score) == (Status.PASSED, USUAL), scored
    with unguarded(IMPORTER, prey) as (work, process):
        process.wait(30)
        assert score_as_sia_does(prey, work) == 1.0


def test_a_module_beside_the_evaluator_forges_a_score_where_nothing_isolates(prey: Prey) -> None:
    planter = next(attack for attack in VANDALS if "modules" in attack.name)
    with unguarded(planter, prey) as (work, process):
        process.wait(30)
        assert score_as_sia_does(prey, work) == 1.0


def test_a_gigabyte_of_print_is_counted_and_not_kept(rung: Sandbox, prey: Prey) -> None:
    done = run(rung, PRINTER, prey, WIDE)
    assert done.finished.ok, done.finished
    assert done.finished.output.total == 1 << 30
    assert len(done.finished.output.data) < 3 * WIDE.output_bytes


def test_folders_for_temporary_files_take_less_than_the_limits(rung: Sandbox, prey: Prey) -> None:
    """In memory where there are namespaces, so that they are full at once; on the disk where there are none."""
    done = run(rung, SWAMPER, prey)
    assert prey.spoils(done.outputs) == set()
    assert done.finished.cause is (Cause.DISK if rung.name == "landlock" else Cause.EXITED), done.finished
    wide = run(select("none"), SWAMPER, prey, WIDE)
    assert wide.finished.ok and "/dev/shm" in prey.spoils(wide.outputs), wide.finished


def test_what_is_no_text_comes_back_as_it_was(rung: Sandbox, prey: Prey) -> None:
    done = run(rung, BABBLER, prey)
    assert (done.finished.cause, done.finished.returncode) == (Cause.EXITED, 3)
    assert done.finished.output.data.count(b"\x1b]0;owned\x07") == 2
    assert done.finished.output.data.count(b"\xff\xfe \x00") == 2


def test_only_regular_files_of_the_target_s_own_are_collected(rung: Sandbox, prey: Prey) -> None:
    done = run(rung, LITTERER, prey)
    assert done.finished.ok, done.finished
    assert {"link", "folder", "loop", "pipe"} <= done.skipped.keys()
    assert not prey.spoils(done.outputs) and SECRET.encode() not in b"".join(done.outputs.values())
    assert set(done.outputs) == set()


def test_links_leak_to_whoever_follows_them(prey: Prey) -> None:
    with unguarded(LITTERER, prey) as (work, process):
        process.wait(30)
        followed = {path.name for path in work.glob("*") if path.is_file() and SECRET in path.read_text()}
        assert followed == {"link", "hard link"} and (work / "folder" / "canary.txt").read_text() == SECRET
        assert (work / "device").is_char_device() or os.geteuid()
        files, skipped = read_tree(work)
        assert files == {} and {"link", "hard link", "folder", "pipe", "socket"} <= skipped.keys()
