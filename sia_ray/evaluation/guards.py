"""Guards around three graders that sia-agent 0.6.0 ships, for its task folders used as they are.

Each of them divides by what was handed in: blanks (gpqa), missing or repeated rows (longcot-chess) and repeated ids
(lawbench) raise its accuracy. The graders themselves run unchanged; what they wrote is held against the number of
items that the split has, and a score over any other denominator is refused.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRIVATE = Path("data", "private")


def denominator_problem(evaluator_sha256: str, results: str, split_dir: Path) -> str | None:
    """Why an accepted results.json of a known grader is no score of the whole split; None when it is one.

    ``results`` is the text of a results.json that was read strictly. Any other evaluator passes.
    """
    guard = _GUARDS.get(evaluator_sha256)
    return None if guard is None else guard(json.loads(results), split_dir / PRIVATE)


def _gpqa(results: dict[str, Any], _private: Path) -> str | None:
    total = results["total_questions"]
    left_out = total - results["correct"] - results["incorrect"]
    if left_out:
        return f"{left_out} of {total} questions are blank, and this grader leaves blanks out of its denominator"
    return None


def _chess(results: dict[str, Any], private: Path) -> str | None:
    total = len(json.loads((private / "answers.json").read_text(encoding="utf-8")))
    graded = [str(row["question_id"]) for row in results["results"]]
    if len(set(graded)) != len(graded):
        return f"{len(graded) - len(set(graded))} rows answer a question again, and this grader counts each of them"
    if len(graded) != total:
        return f"{len(graded)} rows for {total} questions, and this grader divides by the number of rows"
    return None


def _lawbench(results: dict[str, Any], private: Path) -> str | None:
    with (private / "test.csv").open(encoding="utf-8", newline="") as file:
        total = sum(1 for _ in csv.DictReader(file))
    if results["n_total"] != total:
        return f"{results['n_total']} rows were graded for {total} cases: the submission repeats ids"
    return None


_GUARDS: dict[str, Callable[[dict[str, Any], Path], str | None]] = {
    "0d5d9c4046d509a0afd7e84332694b47b4cf088b6982f1f5f0a27a95d592f52b": _gpqa,
    "4096adf8c777618343bcde3842123abcab48c07c79b12062392acce27a46a85e": _chess,
    "0651ceb9d13a4f66fc7df2fcbd80ef907d9d56f95273d568fbaa87a9e406081d": _lawbench,
}
"""By the sha256 of the grader's file."""
