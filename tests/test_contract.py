"""The evaluator's contract, with real processes in the sandbox of this machine."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sia_ray.errors import BundleRejected, PackError
from sia_ray.evaluation.contract import REJECTED_BYTES, Evaluation, evaluate, find_evaluator
from sia_ray.evaluation.items import Item
from sia_ray.evaluation.results import Status
from sia_ray.sandbox.policy import Cause, Finished, Job, Limits, Output, Sandbox
from sia_ray.sandbox.select import select
from sia_ray.task.metric import Metric

ACCURACY = Metric(name="accuracy", range=(0, 1))
LIMITS = Limits(wall_s=20, memory_mb=512)

EVALUATOR = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--gen-dir", required=True)
gen = pathlib.Path(parser.parse_args().gen_dir)
here = pathlib.Path(__file__).resolve().parent
private = next(p for p in (here.parent / "private", here / "data" / "private") if p.is_dir())
truth = json.loads((private / "answers.json").read_text())
given = json.loads((gen / "submission.json").read_text())
right = sum(given.get(key) == value for key, value in truth.items())
print("graded", len(truth))
(gen / "results.json").write_text(json.dumps({"accuracy": right / len(truth), "details": [truth]}))
"""

ITEMS = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
for flag in ("--gen-dir", "--task-dir", "--out"):
    parser.add_argument(flag, type=pathlib.Path, required=True)
args = parser.parse_args()
truth = json.loads((args.task_dir / "data/private/answers.json").read_text())
given = json.loads((args.gen_dir / "submission.json").read_text())
with args.out.open("w") as out:
    for key, value in truth.items():
        out.write(json.dumps({"id": key, "correct": given.get(key) == value}) + "\\n")
"""

TRUTH = {"a": 1, "b": 2, "c": 3, "d": 4}
OUTPUTS = {"submission.json": json.dumps({"a": 1, "b": 2, "c": 0}).encode()}

Score = Callable[..., Evaluation]


@pytest.fixture
def split(tmp_path: Path) -> Path:
    root = tmp_path / "split"
    (root / "data" / "public").mkdir(parents=True)
    (root / "data" / "private").mkdir()
    (root / "data" / "public" / "evaluate.py").write_text(EVALUATOR)
    (root / "data" / "private" / "answers.json").write_text(json.dumps(TRUTH))
    return root


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    folder = tmp_path / "reference"
    folder.mkdir()
    (folder / "items.py").write_text(ITEMS)
    return folder


@pytest.fixture
def score(split: Path) -> Score:
    """``score(evaluator source)``, with any argument of ``evaluate`` replaced."""

    def run(source: str = EVALUATOR, outputs: dict[str, bytes] = OUTPUTS, **other: object) -> Evaluation:
        (split / "data" / "public" / "evaluate.py").write_text(source)
        settings: dict[str, object] = {
            "split_dir": split, "metric": ACCURACY, "limits": LIMITS, "python": Path(sys.executable),
        }  # fmt: skip
        return evaluate(select("auto"), outputs=outputs, **{**settings, **other})  # type: ignore[arg-type]

    return run


def writing(text: str) -> str:
    return f"import sys\nopen(sys.argv[2] + '/results.json', 'w').write({text!r})\n"


@pytest.mark.sandbox
def test_an_evaluator_runs_unchanged_and_its_score_is_read(score: Score) -> None:
    done = score()
    assert (done.status, done.score, done.reason, done.metric) == (Status.PASSED, 0.5, "", "accuracy")
    assert done.values == {"accuracy": 0.5}
    assert json.loads(done.results or "")["details"] == [TRUTH]
    assert "graded 4" in done.log and done.wall_s > 0
    assert done.evaluator_sha256 == hashlib.sha256(EVALUATOR.encode()).hexdigest()
    assert done.sandbox == select("auto").name and done.rejected is None and done.items == ()


@pytest.mark.sandbox
def test_an_evaluation_survives_json(score: Score, reference: Path) -> None:
    done = score(reference_dir=reference)
    assert Evaluation.model_validate_json(done.model_dump_json()) == done


@pytest.mark.sandbox
def test_an_evaluator_at_the_task_root_is_run_there(score: Score, split: Path) -> None:
    (split / "evaluate.py").write_text(EVALUATOR)
    assert find_evaluator(split) == split / "data/public/evaluate.py"
    (split / "data/public/evaluate.py").unlink()
    assert find_evaluator(split) == split / "evaluate.py"
    done = evaluate(
        select("auto"), split_dir=split, outputs=OUTPUTS, metric=None, limits=LIMITS, python=Path(sys.executable)
    )
    assert (done.status, done.score) == (Status.PASSED, 0.5)


def test_a_split_without_an_evaluator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError) as caught:
        find_evaluator(tmp_path)
    assert "--gen-dir" in caught.value.hint


@pytest.mark.sandbox
def test_a_forged_results_file_among_the_outputs_counts_for_nothing(score: Score) -> None:
    forged = {**OUTPUTS, "results.json": b'{"accuracy": 0.99}'}
    assert score(outputs=forged).score == 0.5
    for source, status in (("", Status.MISSING), ("raise SystemExit(1)", Status.FAILED)):
        done = score(source, outputs=forged)
        assert (done.status, done.score, done.results) == (status, None, None)
    assert score(outputs={**OUTPUTS, "results.json/x": b""}).score == 0.5


@pytest.mark.sandbox
def test_a_failing_evaluator_gives_its_last_words_and_no_score(score: Score) -> None:
    done = score(writing('{"accuracy": 1}') + "raise SystemExit('row 7 has no answer')")
    assert (done.status, done.score, done.results) == (Status.FAILED, None, None)
    assert "exited with 1" in done.reason and "row 7 has no answer" in done.reason
    assert score(outputs={}).status is Status.FAILED


@pytest.mark.sandbox
def test_a_hanging_evaluator_is_ended(score: Score) -> None:
    done = score("while True: pass", limits=Limits(wall_s=1, memory_mb=512))
    assert done.status is Status.FAILED and done.reason.startswith("timeout")


@pytest.mark.sandbox
def test_a_killed_evaluator_is_an_error(score: Score) -> None:
    done = score(writing('{"accuracy": 1}') + "import os; os.abort()")
    assert (done.status, done.score) == (Status.ERROR, None) and done.reason


@pytest.mark.sandbox
@pytest.mark.parametrize("text", ['{"accuracy": NaN}', '{"accuracy": 2}', '{"f1": 1}', "", '{"accuracy": "50%"}'])
def test_a_refused_file_is_kept_aside(score: Score, text: str) -> None:
    done = score(writing(text))
    assert (done.status, done.score, done.results) == (Status.INVALID, None, None)
    assert done.rejected_bytes == text.encode() and done.reason
    assert Evaluation.model_validate_json(done.model_dump_json()) == done


@pytest.mark.sandbox
def test_a_refused_file_is_kept_up_to_a_bound(score: Score) -> None:
    done = score(f"import sys\nopen(sys.argv[2] + '/results.json', 'wb').write(b'\\xff' * {REJECTED_BYTES * 3})\n")
    assert done.status is Status.INVALID and done.rejected_bytes == b"\xff" * REJECTED_BYTES


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "make",
    ["os.symlink('/task/data/private/answers.json', path)", "os.mkdir(path)", "os.mkfifo(path)"],
)
def test_a_results_file_that_is_no_regular_file_is_refused(score: Score, make: str) -> None:
    done = score(f"import os, sys\npath = sys.argv[2] + '/results.json'\n{make}\n")
    assert (done.status, done.score, done.results) == (Status.INVALID, None, None) and done.reason


@pytest.mark.sandbox
def test_the_split_cannot_be_written_and_outputs_are_a_copy(score: Score, split: Path) -> None:
    source = """
import pathlib, sys
gen = pathlib.Path(sys.argv[2])
(gen / "submission.json").write_text("spoilt")
print("cwd", sorted(pathlib.Path(".").iterdir()))
try:
    pathlib.Path(__file__).with_name("left").write_text("x")
except OSError:
    print("read-only")
"""
    outputs = dict(OUTPUTS)
    done = score(source, outputs=outputs)
    assert "read-only" in done.log and "cwd []" in done.log and done.status is Status.MISSING
    assert outputs == OUTPUTS and not list(split.rglob("left")) and not list(split.rglob("__pycache__"))


@pytest.mark.sandbox
def test_the_log_is_bounded(score: Score) -> None:
    done = score(writing('{"accuracy": 1}') + "print('x' * 5_000_000)")
    assert done.score == 1 and len(done.log) < 200_000


def test_outputs_that_leave_their_folder_are_refused(score: Score) -> None:
    with pytest.raises(BundleRejected):
        score(outputs={"../x": b""})


@pytest.mark.sandbox
def test_items_are_read_in_order(score: Score, reference: Path) -> None:
    done = score(reference_dir=reference)
    assert done.items == (Item("a", 1.0), Item("b", 1.0), Item("c", 0.0), Item("d", 0.0)) and done.score == 0.5
    forged = {**OUTPUTS, "items.jsonl": b'{"id": "a", "correct": 1}'}
    assert score(outputs=forged, reference_dir=reference).items == done.items


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("source", "word"),
    [
        (ITEMS.replace("given.get(key) == value", "True"), "mean"),
        (ITEMS.replace('"id": key', '"id": 1'), "twice"),
        ("raise SystemExit('no items today')", "no items today"),
        ("", "missing"),
    ],
)
def test_items_that_do_not_hold_cost_the_score(score: Score, reference: Path, source: str, word: str) -> None:
    (reference / "items.py").write_text(source)
    done = score(reference_dir=reference)
    assert (done.status, done.score, done.results, done.items) == (Status.INVALID, None, None, ())
    assert word in done.reason and json.loads(done.rejected_bytes or b"")["accuracy"] == 0.5


@pytest.mark.sandbox
def test_a_reference_folder_without_items_is_fine(score: Score, reference: Path) -> None:
    (reference / "items.py").unlink()
    assert score(reference_dir=reference).score == 0.5


class Broken:
    """A sandbox that cannot start its child, after ``works`` runs that could."""

    name = "broken"
    isolates = True

    def __init__(self, inner: Sandbox | None = None, works: int = 0) -> None:
        self._inner, self._works = inner, works

    def run(self, job: Job) -> Finished:
        if self._inner and self._works:
            self._works -= 1
            return self._inner.run(job)
        return Finished(Cause.INFRASTRUCTURE, None, Output(b"", b"", 0), 0.0, 0.0, 0.0, self.name, "no namespaces left")


def test_a_sandbox_that_fails_says_nothing_about_the_candidate(split: Path) -> None:
    done = evaluate(
        Broken(), split_dir=split, outputs=OUTPUTS, metric=ACCURACY, limits=LIMITS, python=Path(sys.executable)
    )
    assert (done.status, done.score, done.reason) == (Status.INFRASTRUCTURE, None, "no namespaces left")


@pytest.mark.sandbox
def test_a_sandbox_that_fails_at_the_items_says_nothing_either(split: Path, reference: Path) -> None:
    done = evaluate(
        Broken(select("auto"), 1), split_dir=split, outputs=OUTPUTS, metric=ACCURACY, limits=LIMITS,
        python=Path(sys.executable), reference_dir=reference,
    )  # fmt: skip
    assert (done.status, done.score) == (Status.INFRASTRUCTURE, None)
