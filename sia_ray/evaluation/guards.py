"""Guards around three graders that sia-agent 0.6.0 ships, for its task folders used as they are.

Each of them divides by what was handed in: blanks (gpqa), missing or repeated rows (longcot-chess) and repeated ids
(lawbench) raise its accuracy. The graders themselves run unchanged; what they wrote is held against the number of
items that the split has, and a score over any other denominator is refused. The one of gpqa also takes the first A, B,
C or D of any prose for an answer, so the submission's own answers are read again: each must be one letter, as task.md
asks.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sia_ray.candidate.identity import Files
from sia_ray.evaluation.results import parse_strict

PRIVATE = Path("data", "private")
SHOWN_CHARS = 60


def grading_problem(evaluator_sha256: str, results: str, split_dir: Path, outputs: Files) -> str | None:
    """Why an accepted results.json of a known grader is no score of the whole split; None when it is one.

    ``results`` is the text of a results.json that was read strictly, ``outputs`` is what was graded. Any other
    evaluator passes.
    """
    guard = _GUARDS.get(evaluator_sha256)
    return None if guard is None else guard(json.loads(results), split_dir / PRIVATE, outputs)


def _gpqa(results: dict[str, Any], _private: Path, outputs: Files) -> str | None:
    total = results["total_questions"]
    left_out = total - results["correct"] - results["incorrect"]
    if left_out:
        return f"{left_out} of {total} questions are blank, and this grader leaves blanks out of its denominator"
    for path in _gpqa_submissions(outputs):
        try:
            answers = _gpqa_answers(parse_strict(outputs[path]))
        except ValueError as error:
            return f"{path} cannot be held against what was graded: {error}"
        prose = [answer for answer in answers if str(answer).strip().upper() not in {"A", "B", "C", "D"}]
        if prose:
            return (
                f"{len(prose)} answers of {path} are not one letter from A to D ({str(prose[0])[:SHOWN_CHARS]!r}), "
                "and this grader takes the first such letter that it finds in them"
            )
    return None


def _gpqa_submissions(outputs: Files) -> list[str]:
    """Every file that the grader may have taken: it prefers the newest, and the copies are all as old."""
    tops = {path: path.split("/") for path in outputs if path.endswith(".json")}
    below = [path for path, parts in tops.items() if len(parts) == 2 and parts[0] == "results"]
    beside = [path for path, parts in tops.items() if len(parts) == 1 and parts[0].startswith(("submission", "output"))]
    return below or beside


def _gpqa_answers(submission: object) -> list[object]:
    """The answers in the three forms that the grader reads; none of a file that has another form."""
    if not isinstance(submission, dict):
        return []
    if isinstance(details := submission.get("details"), list):
        rows = [row for row in details if isinstance(row, dict) and row.get("question_id") is not None]
        return [row.get("model_answer", "") for row in rows]
    answers = submission.get("answers", submission)
    if not isinstance(answers, dict):
        return []
    return [answer for key, answer in answers.items() if key.strip().lstrip("+-").isdigit()]


def _chess(results: dict[str, Any], private: Path, _outputs: Files) -> str | None:
    total = len(json.loads((private / "answers.json").read_text(encoding="utf-8")))
    graded = [str(row["question_id"]) for row in results["results"]]
    if len(set(graded)) != len(graded):
        return f"{len(graded) - len(set(graded))} rows answer a question again, and this grader counts each of them"
    if len(graded) != total:
        return f"{len(graded)} rows for {total} questions, and this grader divides by the number of rows"
    return None


def _lawbench(results: dict[str, Any], private: Path, _outputs: Files) -> str | None:
    with (private / "test.csv").open(encoding="utf-8", newline="") as file:
        total = sum(1 for _ in csv.DictReader(file))
    if results["n_total"] != total:
        return f"{results['n_total']} rows were graded for {total} cases: the submission repeats ids"
    return None


_GUARDS: dict[str, Callable[[dict[str, Any], Path, Files], str | None]] = {
    "0d5d9c4046d509a0afd7e84332694b47b4cf088b6982f1f5f0a27a95d592f52b": _gpqa,
    "4096adf8c777618343bcde3842123abcab48c07c79b12062392acce27a46a85e": _chess,
    "0651ceb9d13a4f66fc7df2fcbd80ef907d9d56f95273d568fbaa87a9e406081d": _lawbench,
}
"""By the sha256 of the grader's file."""
