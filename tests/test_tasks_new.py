"""``tasks new``: what it writes passes its check and its own tests, improves, and is there whole or not at all."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import sia_ray
from sia_ray.errors import UsageError
from sia_ray.evaluation.preflight import check
from sia_ray.sandbox.select import select
from sia_ray.task.template import new_pack

COMMAND = [sys.executable, "-m", "sia_ray.cli.main", "tasks", "new"]


def new(*arguments: str, cwd: Path, largest_file: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    argv = [*COMMAND, *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limited)


def test_a_new_pack_has_no_findings_under_any_name(tmp_path: Path) -> None:
    for name in ("plain", "0.dotted-and_more"):
        report = check(new_pack(name, tmp_path), sandbox=select("none"), cache_dir=tmp_path / "cache")
        assert report.ok and report.findings == ()
        assert (report.task, report.status, report.split) == (name, "passed", "smoke")
        assert set(report.splits) == {"dev", "canary", "holdout", "smoke"}


@pytest.mark.sandbox
def test_the_tests_of_new_packs_pass_side_by_side(tmp_path: Path) -> None:
    for name in ("one", "two.2"):
        new_pack(name, tmp_path)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "14 passed" in done.stdout


@pytest.mark.ray
@pytest.mark.sandbox
def test_a_run_of_a_new_pack_improves_it(local_ray: None, tmp_path: Path) -> None:
    run = sia_ray.run(new_pack("mine", tmp_path), generations=3, storage=tmp_path / "runs", progress=False)
    assert run.status == "done" and run.best is not None and run.best.score is not None
    assert run.best.score > (run.rows[0].score or 1.0) + 0.2


def test_the_command_writes_to_tasks_and_says_what_comes_next(tmp_path: Path) -> None:
    done = new("mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sia-ray tasks check mine" in done.stdout and "sia-ray run mine --local" in done.stdout
    root = tmp_path / "tasks" / "mine"
    assert (root / "tests" / "test_mine.py").is_file()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in files if re.search("__[A-Z]+__", path.read_text(encoding="utf-8"))]
    written = json.loads(new("other", "--dir", "a/b", "--json", cwd=tmp_path).stdout)
    assert written["folder"] == str(tmp_path / "a" / "b" / "other")
    names = {path.relative_to(root).as_posix().replace("mine", "other") for path in files}
    assert set(written["files"]) == names


@pytest.mark.parametrize(
    ("name", "hint"),
    [("My Task", "'my-task'"), ("../up", "--dir"), ("", "small letters"), ("-x", "'x'"), ("a" * 65, "64")],
)
def test_a_name_that_cannot_be_one_is_refused_with_a_way_out(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        new_pack(name, tmp_path / "tasks")
    assert hint in caught.value.hint
    assert not (tmp_path / "tasks").exists()


def test_nothing_that_is_there_is_overwritten_or_hidden(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine").symlink_to("nowhere")
    (tmp_path / "file").write_text("kept")
    for arguments, words in [
        (["mine"], "is there already"),
        (["lawbench"], "There is a task 'lawbench' already"),
        (["mine", "--dir", "file"], "cannot be written"),
    ]:
        done = new(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine", "tasks"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_pack_that_cannot_be_written_whole_is_not_there_at_all(tmp_path: Path) -> None:
    done = new("mine", cwd=tmp_path, largest_file=3000)
    assert done.returncode == 2 and "nothing is left of it" in done.stderr, done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["tasks"]
