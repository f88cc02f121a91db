"""One row a case: was it right? Standard library only.

    python items.py --gen-dir DIR --task-dir DIR --out FILE

Writes JSON lines {"id": …, "value": 1.0 | 0.0} for the cases of TASK_DIR/data/private/test.csv in their order.
The mean equals the accuracy of evaluate.py wherever that accuracy can be trusted: a missing case, an unknown label and
an empty one count as wrong. A submission that names a case twice is refused (evaluate.py would count it twice); so
is one that evaluate.py itself cannot read. Exit 1 then, with one line that says why.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from pathlib import Path

SUBMISSIONS = ("submission.csv", "predictions.csv")
EMPTY = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"}
EMPTY |= {"NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Refused(Exception):
    """The submission has no items; the text says why."""


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"{path.name} cannot be read as UTF-8 CSV: {error}") from error
    if not rows:
        raise Refused(f"{path.name} is empty")
    return rows[0], rows[1:]


def find_submission(gen_dir: Path) -> Path:
    for name in SUBMISSIONS:
        if (gen_dir / name).exists():
            return gen_dir / name
    raise Refused(f"no {' or '.join(SUBMISSIONS)} in the generation's folder")


def parse_id(text: str) -> float | None:
    """The case's number, or None for an empty field; ids are compared as numbers, as evaluate.py does."""
    stripped = text.strip()
    if stripped in EMPTY:
        return None
    if not NUMBER.fullmatch(stripped):
        raise Refused(f"id {text[:40]!r} is not a number")
    return float(stripped)


def predictions(path: Path) -> dict[float, str]:
    header, rows = read_table(path)
    if "id" not in header:
        raise Refused(f"{path.name} has no column id; its columns are {header[:8]}")
    id_column = header.index("id")
    label_column = header.index("label") if "label" in header else len(header) - 1
    if label_column == id_column:
        raise Refused(f"{path.name} has no column label")
    found: dict[float, str] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) > len(header):
            raise Refused(f"record {line} of {path.name} has {len(row)} fields, the header has {len(header)}")
        cells = row + [""] * (len(header) - len(row))
        number = parse_id(cells[id_column])
        if number is None:
            continue
        if number in found:
            raise Refused(f"id {cells[id_column].strip()} stands twice in {path.name}: each case counts once")
        found[number] = cells[label_column]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="One row a case: was it right?")
    parser.add_argument("--gen-dir", type=Path, required=True, help="where the submission is")
    parser.add_argument("--task-dir", type=Path, required=True, help="the split, with data/private")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines to write")
    args = parser.parse_args()
    try:
        predicted = predictions(find_submission(args.gen_dir))
    except Refused as reason:
        print(f"items refused: {reason}", file=sys.stderr)
        return 1
    _, truth = read_table(args.task_dir / "data" / "private" / "test.csv")
    with args.out.open("w", encoding="utf-8") as file:
        for case, label in truth:
            right = predicted.get(float(case)) == label
            file.write(json.dumps({"id": int(case), "value": 1.0 if right else 0.0}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
