"""A real run through Ray: actors, tasks, sandbox, ledger, run tree."""

from __future__ import annotations

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sia_ray
from sia_ray.errors import LedgerLocked, UsageError
from sia_ray.ledger.verify import verify
from sia_ray.runtime import api
from sia_ray.runtime.api import Run
from sia_ray.runtime.supervisor import Snapshot
from tests.ledger_facts import work_that_ran_after_its_outcome

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]


class KillOnce:
    """A follower that kills a process of the run when generation ``at`` has ended."""

    def __init__(self, storage: Path, at: int) -> None:
        self.storage, self.at, self.killed = storage, at, 0

    def begin(self, storage: Path, number: int) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        ended = sum(row.status.final for row in snapshot.generations)
        if not self.killed and ended >= self.at:
            self.killed = supervisor_pid(self.storage)
            os.kill(self.killed, signal.SIGKILL)

    def end(self) -> None: ...


def supervisor_pid(storage: Path) -> int:
    found = re.search(r"pid (\d+)", (storage / "supervisor.lock").read_text())
    assert found
    return int(found[1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Run:
    pack = Path(__file__).parent / "packs" / "tiny"
    return sia_ray.run(str(pack), generations=6, seed=3, storage=tmp_path_factory.mktemp("runs"), progress=False)


def test_a_run_improves_on_its_reference_and_scores_the_holdout(undisturbed: Run) -> None:
    assert undisturbed.status == "done"
    table = undisturbed.generations.to_pydict()
    assert table["generation"] == [1, 2, 3, 4, 5, 6]
    assert undisturbed.best is not None and undisturbed.best.score is not None
    assert undisturbed.best.score > table["score"][0]
    assert undisturbed.holdout is not None
    assert undisturbed.holdout["score"] > undisturbed.holdout["start"]
    assert undisturbed.holdout["n"] == 50
    assert verify(undisturbed.storage).ok


def test_the_same_seed_gives_the_same_run(undisturbed: Run, tiny: str, tmp_path: Path) -> None:
    again = sia_ray.run(tiny, generations=6, seed=3, storage=tmp_path, progress=False)
    other = sia_ray.run(tiny, generations=6, seed=4, storage=tmp_path, progress=False)
    assert again.state_digest == undisturbed.state_digest
    assert other.generations["candidate"] != undisturbed.generations["candidate"]


def test_a_run_outlives_its_supervisor(undisturbed: Run, tiny: str, tmp_path: Path) -> None:
    killer = KillOnce(tmp_path, at=2)
    run = sia_ray.run(tiny, generations=6, seed=3, storage=tmp_path, progress=killer)
    assert killer.killed
    assert run.state_digest == undisturbed.state_digest
    assert verify(tmp_path).ok
    assert work_that_ran_after_its_outcome(tmp_path) == []


def test_one_storage_root_has_one_owner(tiny: str, tmp_path: Path) -> None:
    from sia_ray.clock import SystemClock
    from sia_ray.ledger.database import Database

    with Database.open(tmp_path, clock=SystemClock()), pytest.raises(LedgerLocked, match="--storage"):
        sia_ray.run(tiny, storage=tmp_path, progress=False)
    assert sia_ray.run(tiny, generations=1, storage=tmp_path, progress=False).status == "done"


def test_a_taken_run_number_is_refused(tiny: str, tmp_path: Path) -> None:
    first = sia_ray.run(tiny, generations=1, run_id=7, storage=tmp_path, progress=False)
    assert first.number == 7
    with pytest.raises(UsageError, match="exists"):
        sia_ray.run(tiny, generations=1, run_id=7, storage=tmp_path, progress=False)
    assert sia_ray.run(tiny, generations=1, storage=tmp_path, progress=False).number == 8


def test_a_request_that_is_repeated_begins_one_run(tiny: str, tmp_path: Path) -> None:
    """What a driver does whose Supervisor died after the commit and before the reply."""
    request = api._request(tiny, generations=1)
    with api._supervised(tmp_path, None, None) as client:
        repeated = [client._call("start", *request, "one request", timeout_s=300) for _ in range(2)]
        other = client.start(*request)
        for number in (*repeated, other):
            api._follow(client, number, api.silent())
    assert (*repeated, other) == (1, 1, 2)


def test_the_holdout_can_be_left_out_and_asked_for_later(tiny: str, tmp_path: Path) -> None:
    run = sia_ray.run(tiny, generations=2, holdout=False, storage=tmp_path, progress=False)
    assert run.holdout is None
    scored = sia_ray.score_holdout(run.number, storage=tmp_path)
    assert scored.status == "done"
    assert scored.holdout is not None and scored.holdout["n"] == 50


def test_two_storage_roots_share_a_ray(tiny: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(sia_ray.run, tiny, generations=2, storage=tmp_path / name, progress=False) for name in "ab"]
    first, second = (run.result() for run in runs)
    assert first.state_digest == second.state_digest


def test_two_runs_share_a_supervisor(tiny: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as both:
        runs = [
            both.submit(sia_ray.run, tiny, generations=2, seed=seed, storage=tmp_path, progress=False)
            for seed in (1, 2)
        ]
    assert sorted(run.result().number for run in runs) == [1, 2]
    assert {run.result().status for run in runs} == {"done"}
    assert verify(tmp_path).ok


def test_a_sweep_runs_side_by_side_and_keeps_its_order(tiny: str, tmp_path: Path) -> None:
    runs = sia_ray.sweep([{"task": tiny, "seed": seed, "generations": 2} for seed in (5, 4)], storage=tmp_path)
    assert [(run.status, run.row.seed) for run in runs] == [("done", 5), ("done", 4)]
    with pytest.raises(UsageError, match="Did you mean 'seed'"):
        sia_ray.sweep([{"task": tiny, "sead": 1}], storage=tmp_path)


def test_the_run_tree_has_sia_s_names(undisturbed: Run) -> None:
    first = {path.name for path in (undisturbed.path / "gen_1").iterdir()}
    second = {path.name for path in (undisturbed.path / "gen_2").iterdir()}
    common = {"target_agent.py", "target_agent_stdout.log", "evaluation.log", "results.json", "candidate.json"}
    written = {"answers.json", "agent_execution.json"}
    assert first == common | written | {"meta_agent_prompt.txt"}
    assert second == common | written | {"feedback_agent_prompt.txt", "improvement.md"}
    assert {path.name for path in undisturbed.path.iterdir() if path.is_file()} == {"context.md", "profiles.json"}
    context = (undisturbed.path / "context.md").read_text()
    assert all(f"## Generation {number}\n" in context for number in range(1, 7))
    for row in undisturbed.rows:
        results = json.loads((undisturbed.path / f"gen_{row.generation}" / "results.json").read_text())
        assert results["accuracy"] == row.score


def test_nothing_of_the_holdout_is_in_the_run_tree(undisturbed: Run) -> None:
    assert undisturbed.holdout is not None and undisturbed.holdout["n"] == 50
    for path in (path for path in undisturbed.path.rglob("*") if path.is_file()):
        text = path.read_text(errors="replace")
        assert "holdout" not in text, path
        if path.name == "results.json":
            assert json.loads(text)["n_total"] == 100, path


def test_the_reading_commands_agree_with_the_ledger(undisturbed: Run) -> None:
    from typer.testing import CliRunner

    from sia_ray.cli.main import app

    def ask(*arguments: str) -> Any:
        done = CliRunner().invoke(app, [*arguments, "--storage", str(undisturbed.storage), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout.splitlines()[-1])

    listed = ask("status")["runs"][0]
    assert (listed["status"], listed["generations"], listed["isolated"]) == ("done", "6/6", True)
    shown = ask("show", "1")
    assert undisturbed.best is not None
    assert shown["best"]["generation"] == undisturbed.best.generation
    assert shown["holdout"] == undisturbed.holdout
    assert [g["score"] for g in shown["generations"]] == undisturbed.generations["score"].to_pylist()
    one = ask("show", "1", "--generation", "2")
    assert one["base"] == 1 and Path(one["path"], "target_agent.py").is_file()
    changed = ask("show", "1", "--generation", "2", "--diff")["diff"]
    assert changed.startswith("--- ") and "\n+" in changed
    scored = ask("score", "1", "--split", "holdout")
    assert (scored["start"], scored["score"]) == (undisturbed.holdout["start"], undisturbed.holdout["score"])  # type: ignore[index]
    assert ask("ledger", "verify")["ok"] is True
