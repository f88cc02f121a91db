"""Score submission.csv: python evaluate.py --gen-dir DIR writes DIR/results.json, which never holds an answer.

Accuracy over the passengers of the split, whoever was answered: a passenger left out or left blank is wrong. What
cannot be scored honestly (a passenger named twice, an unknown one, another word than True or False) exits with 1 and
one line.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

LARGEST_BYTES = 10_000_000
COLUMNS = ["PassengerId", "Transported"]
ANSWERS = {"True": True, "False": False}


class Refused(Exception):
    """The submission has no score; the text says why."""


def read_rows(path: Path) -> list[list[str]]:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise Refused(f"{path.name} is larger than {LARGEST_BYTES} bytes")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"{path.name} cannot be read as UTF-8 CSV: {error}") from error
    if not rows or rows[0] != COLUMNS:
        raise Refused(f"the first line of {path.name} must be {','.join(COLUMNS)}")
    return rows[1:]


def read_answers(path: Path, known: set[str]) -> dict[str, bool | None]:
    """Answer by passenger, each passenger once; None for a blank."""
    found: dict[str, bool | None] = {}
    for number, row in enumerate(read_rows(path), start=2):
        where = f"record {number} of {path.name}"
        if len(row) != len(COLUMNS):
            raise Refused(f"{where} has {len(row)} fields, not {len(COLUMNS)}")
        passenger, answer = row
        if passenger not in known:
            raise Refused(f"{where}: unknown PassengerId {passenger[:40]!r}")
        if passenger in found:
            raise Refused(f"{where}: PassengerId {passenger} stands twice, each passenger counts once")
        if answer and answer not in ANSWERS:
            raise Refused(f"{where}: Transported is {answer[:40]!r}, not True or False")
        found[passenger] = ANSWERS.get(answer)
    return found


def marks(gen_dir: Path, private: Path) -> dict[str, bool]:
    """Passenger → was the answer right, for every passenger of the split; items.py uses it too."""
    with (private / "test.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["PassengerId"]: ANSWERS[row["Transported"]] for row in csv.DictReader(file)}
    given = read_answers(gen_dir / "submission.csv", set(truth))
    return {passenger: given.get(passenger) is fate for passenger, fate in truth.items()}


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
