"""The graders of sia-agent 0.6.0, unmodified, fed with what inflates their accuracy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sia_ray.evaluation.contract import Evaluation, evaluate
from sia_ray.evaluation.guards import grading_problem
from sia_ray.evaluation.results import Status
from sia_ray.sandbox.fetch import fetch_data
from sia_ray.sandbox.policy import Limits
from sia_ray.sandbox.select import select
from sia_ray.task.config import DataConfig, DataFile, TaskConfig
from sia_ray.task.pack import TaskPack

pytestmark = [pytest.mark.sandbox, pytest.mark.installs]

FILES = {
    "gpqa/data/public/evaluate.py": "0d5d9c4046d509a0afd7e84332694b47b4cf088b6982f1f5f0a27a95d592f52b",
    "gpqa/data/public/diamond_questions.json": "b803882ce3f18caa6a00ebd4627fe7e0804f55e2118d4e61db7999651b188c56",
    "gpqa/data/private/diamond_questions.json": "53590762ddb6053fe7e8b2e475aefc400f25daa9abdc5cdc0b535e93cd535cd2",
    "longcot-chess/data/public/evaluate.py": "4096adf8c777618343bcde3842123abcab48c07c79b12062392acce27a46a85e",
    "longcot-chess/data/public/chess_hard.json": "1d34b4fb913f403bed0aaf945336512da2717fb1db4569695d784ff6828e1181",
    "longcot-chess/data/private/answers.json": "6db983b6b9d87fbbfe761727633a70d2ff85fb55d5b1b07d4109bd33b95f54ab",
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Upstream's folders, as pip delivers them."""
    files = tuple(DataFile(source=f"sia/tasks/{path}", to=path, sha256=sha) for path, sha in FILES.items())
    config = TaskConfig(name="upstream", data=DataConfig(wheel="sia-agent==0.6.0", files=files))
    folder = tmp_path_factory.mktemp("upstream")
    found = fetch_data(TaskPack(folder, config, ""), folder)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def answers(tasks: Path) -> dict[str, object]:
    answers: dict[str, object] = json.loads((tasks / "longcot-chess/data/private/answers.json").read_text())
    return answers


@pytest.fixture(scope="module")
def letters(tasks: Path) -> dict[str, str]:
    """gpqa's key: id → letter."""
    rows = json.loads((tasks / "gpqa/data/private/diamond_questions.json").read_text())
    return {str(row["id"]): row["correct_answer_letter"] for row in rows}


def score(split: Path, name: str, submission: object) -> Evaluation:
    return evaluate(
        select("auto"),
        split_dir=split,
        outputs={name: json.dumps(submission).encode()},
        metric=None,
        limits=Limits(wall_s=30, memory_mb=512),
        python=Path(sys.executable),
    )


def test_every_question_answered_is_scored_as_upstream_does(tasks: Path, letters: dict[str, str]) -> None:
    done = score(tasks / "gpqa", "submission.json", {"answers": letters})
    assert (done.status, done.score) == (Status.PASSED, 100.0)


def test_one_right_answer_and_blanks_do_not_score(tasks: Path, letters: dict[str, str]) -> None:
    first = next(iter(letters))
    done = score(tasks / "gpqa", "submission.json", {"answers": dict.fromkeys(letters, "") | {first: letters[first]}})
    assert (done.status, done.score, done.results) == (Status.INVALID, None, None)
    assert "197 of 198 questions are blank" in done.reason


def in_details(answers: dict[str, str]) -> object:
    return {"details": [{"question_id": int(key), "model_answer": value} for key, value in answers.items()]}


def in_answers(answers: dict[str, str]) -> object:
    return {"answers": answers}


@pytest.mark.parametrize("form", [in_details, in_answers, dict])
@pytest.mark.parametrize("name", ["results/mine.json", "submission_1.json"])
def test_prose_is_not_a_letter(
    tasks: Path, letters: dict[str, str], form: Callable[[dict[str, str]], object], name: str
) -> None:
    assert score(tasks / "gpqa", name, form(letters)).score == 100.0
    one = next(iter(letters))
    done = score(tasks / "gpqa", name, form(letters | {one: "I cannot determine the answer"}))
    assert (done.status, done.score) == (Status.INVALID, None)
    assert "1 answers of" in done.reason and "not one letter" in done.reason


def rows(answers: dict[str, object]) -> list[dict[str, object]]:
    return [{"question_id": key, "solution": value} for key, value in answers.items()]


def test_every_chess_question_once_is_scored(tasks: Path, answers: dict[str, object]) -> None:
    done = score(tasks / "longcot-chess", "responses.json", rows(answers))
    assert (done.status, done.score) == (Status.PASSED, 100.0)


@pytest.mark.parametrize(("times", "reason"), [(1, "1 rows for 50 questions"), (50, "49 rows answer a question again")])
def test_one_right_chess_row_does_not_score(tasks: Path, answers: dict[str, object], times: int, reason: str) -> None:
    done = score(tasks / "longcot-chess", "responses.json", rows(answers)[:1] * times)
    assert (done.status, done.score) == (Status.INVALID, None)
    assert reason in done.reason


@pytest.mark.parametrize(("graded", "refused"), [(2, False), (25, True)])
def test_repeated_lawbench_ids_do_not_score(tmp_path: Path, graded: int, refused: bool) -> None:
    private = tmp_path / "data" / "private"
    private.mkdir(parents=True)
    (private / "test.csv").write_text("id,label\n0,a\n1,b\n")
    lawbench = "0651ceb9d13a4f66fc7df2fcbd80ef907d9d56f95273d568fbaa87a9e406081d"
    problem = grading_problem(lawbench, json.dumps({"accuracy": 0.9, "n_total": graded}), tmp_path, {})
    assert (problem is not None) == refused
