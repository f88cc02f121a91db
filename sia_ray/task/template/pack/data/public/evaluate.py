"""Score submission.csv: python evaluate.py --gen-dir DIR writes DIR/results.json, which never holds an answer.

Every question of the split counts: one that was left out is wrong. What cannot be scored exits with 1 and says why.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

LARGEST_BYTES = 10_000_000


class Refused(Exception):
    """The submission has no score; the text says why."""


def read_answers(path: Path, known: set[str]) -> dict[str, str]:
    """Label by id, each id once."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise Refused(f"{path.name} is larger than {LARGEST_BYTES} bytes")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"{path.name} cannot be read as UTF-8 CSV: {error}") from error
    found: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        name, label = row.get("id"), row.get("label")
        if name is None or label is None or None in row:
            raise Refused(f"record {number} of {path.name} must have the two columns id,label")
        if name not in known:
            raise Refused(f"record {number} of {path.name}: unknown id {name[:60]!r}")
        if name in found:
            raise Refused(f"record {number} of {path.name}: id {name} stands twice, each question counts once")
        found[name] = label
    return found


def marks(gen_dir: Path, private: Path) -> dict[str, bool]:
    """Id → was it right, for every question of the split; items.py uses it too, so that the two always agree."""
    with (private / "answers.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["id"]: row["label"] for row in csv.DictReader(file)}
    given = read_answers(gen_dir / "submission.csv", set(truth))
    return {name: given.get(name) == label for name, label in truth.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Score submission.csv.")
    parser.add_argument("--gen-dir", type=Path, required=True)
    args = parser.parse_args()
    try:
        right = marks(args.gen_dir, Path(__file__).resolve().parent.parent / "private")
    except Refused as reason:
        print(f"submission refused: {reason}", file=sys.stderr)
        return 1
    correct = sum(right.values())
    result = {"accuracy": correct / len(right), "correct": correct, "total": len(right)}
    (args.gen_dir / "results.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
