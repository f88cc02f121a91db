"""Score responses.json: python evaluate.py --gen-dir DIR writes DIR/results.json, which never holds an answer."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


class Refused(Exception):
    """The submission has no score; the text says why."""


def normal(answer: object) -> object:
    """Numbers may come as text, as the key has them; moves count in order."""
    if isinstance(answer, list):
        return [move.strip() if isinstance(move, str) else None for move in answer]
    if isinstance(answer, str) or (isinstance(answer, int) and not isinstance(answer, bool)):
        return str(answer).strip()
    return None


def read_answers(path: Path, known: set[str]) -> dict[str, object]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"responses.json cannot be read: {error}") from error
    if not isinstance(rows, list):
        raise Refused("responses.json must be a list of {question_id, solution}")
    found: dict[str, object] = {}
    for row in rows:
        name = row.get("question_id") if isinstance(row, dict) else None
        if not isinstance(name, str) or name not in known:
            raise Refused(f"unknown question_id {str(name)[:60]!r}")
        if name in found:
            raise Refused(f"question_id {name} stands twice: each question counts once")
        found[name] = normal(row.get("solution"))
    return found


def marks(gen_dir: Path, private: Path) -> dict[str, bool]:
    truth = json.loads((private / "answers.json").read_text(encoding="utf-8"))
    given = read_answers(gen_dir / "responses.json", set(truth))
    return {name: given.get(name) is not None and given[name] == normal(answer) for name, answer in truth.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Score responses.json.")
    parser.add_argument("--gen-dir", type=Path, required=True)
    args = parser.parse_args()
    try:
        right = marks(args.gen_dir, Path(__file__).resolve().parent.parent / "private")
    except Refused as reason:
        print(f"submission refused: {reason}", file=sys.stderr)
        return 1
    correct = sum(right.values())
    result = {"accuracy": correct / len(right), "correct": correct, "total_questions": len(right)}
    (args.gen_dir / "results.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
