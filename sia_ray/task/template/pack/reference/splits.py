"""Cut the questions into dev, canary, holdout and smoke: python splits.py --source DIR --out DIR.

dev is what the loop sees scores of, canary guards against a lucky winner, holdout is scored once at the end, and
smoke (a few questions of dev) only shows that a candidate runs. The order is a hash of seed and id, so equal input
gives equal output. Rows that belong together (one patient, one file, one family) must go to one split: hash their
group instead of their id.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import shutil
import sys
from pathlib import Path

SEED = 1
DEV_SHARE = 0.5
CANARY_SHARE = 0.2
SMOKE_ROWS = 8

Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut the questions into splits.")
    parser.add_argument("--source", type=Path, required=True, help="holds data/public and data/private")
    parser.add_argument("--out", type=Path, required=True, help="OUT/<split>/data/{public,private} are written")
    args = parser.parse_args()
    data = args.source / "data"
    questions = read(data / "public" / "questions.csv")
    answers = {row["id"]: row for row in read(data / "private" / "answers.csv")}
    questions.sort(key=lambda row: hashlib.sha256(f"{SEED}\n{row['id']}".encode()).hexdigest())
    first = round(len(questions) * DEV_SHARE)
    second = first + round(len(questions) * CANARY_SHARE)
    splits = {
        "dev": questions[:first],
        "canary": questions[first:second],
        "holdout": questions[second:],
        "smoke": questions[:SMOKE_ROWS],
    }
    for split, rows in splits.items():
        public, private = (args.out / split / "data" / side for side in ("public", "private"))
        public.mkdir(parents=True)
        private.mkdir(parents=True)
        for name in ("task.md", "evaluate.py", "examples.csv"):
            shutil.copyfile(data / "public" / name, public / name)
        write(public / "questions.csv", rows)
        write(private / "answers.csv", [answers[row["id"]] for row in rows])
    report = {"schema": 1, "seed": SEED, "splits": {split: {"rows": len(rows)} for split, rows in splits.items()}}
    (args.out / "splits.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
