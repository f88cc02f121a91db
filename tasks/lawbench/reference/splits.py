"""Cut LawBench into the splits dev, canary, holdout and smoke. Standard library only.

    python splits.py --source DIR --out DIR

SOURCE is the pack with its fetched data in place; OUT/<split>/data/{public,private} and OUT/splits.json are
written. The holdout is the official test set, byte for byte; this script copies its answers and never reads
them. Everything else comes out of the labelled training rows, less those whose text stands in the official test set
word for word. Equal input gives equal output: the choice depends on hashes of seed and text, on nothing else.

Why one sixth for dev and one tenth for canary (887 and 533 of 5,319 rows): dev has to rank some 20 candidates.
At 80 % accuracy its standard error is 1.3 points; two candidates that disagree on 8 % of the cases are compared
item by item with 0.9 points. A larger dev would starve training (20 of 28 rows a class stay), and the winner on
dev would no longer be the winner with every row. Canary is looked at a few times only, and guards against a fall
of a few points: 1.7 points are enough.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

SEED = 20260526
DEV_SHARE = 1 / 6
CANARY_SHARE = 1 / 10
SMOKE_CLASSES = 6
SMOKE_TEST_ROWS = 2
SMOKE_TRAIN_ROWS = 10
COPIED = ("task.md", "evaluate.py", "classes.json")


class Row(NamedTuple):
    """One labelled case."""

    text: str
    label: str


class Parts(NamedTuple):
    """The labelled rows, cut: ``train`` is what dev and canary may learn from, ``rest`` is all three."""

    train: list[Row]
    dev: list[Row]
    canary: list[Row]
    rest: list[Row]
    removed: int


def read_rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def rank(purpose: str, text: str) -> str:
    """A place in a seeded order that no position in a file and no id can shift."""
    return hashlib.sha256(f"{SEED}\n{purpose}\n{text}".encode()).hexdigest()


def cut(labelled: list[Row], official_texts: set[str]) -> Parts:
    """Stratified by class. A text that occurs twice always stays in training: no case may meet its own copy."""
    rest = [row for row in labelled if row.text not in official_texts]
    copies: dict[str, int] = defaultdict(int)
    by_class: dict[str, list[Row]] = defaultdict(list)
    for row in rest:
        copies[row.text] += 1
        by_class[row.label].append(row)
    dev: set[str] = set()
    canary: set[str] = set()
    for rows in by_class.values():
        free = sorted((r.text for r in rows if copies[r.text] == 1), key=lambda text: rank("cut", text))
        n_dev, n_canary = round(len(rows) * DEV_SHARE), round(len(rows) * CANARY_SHARE)
        dev.update(free[:n_dev])
        canary.update(free[n_dev : n_dev + n_canary])

    def shuffled(purpose: str, chosen: set[str]) -> list[Row]:
        return sorted((r for r in rest if r.text in chosen), key=lambda row: rank(purpose, row.text))

    train = [row for row in rest if row.text not in dev | canary]
    return Parts(train, shuffled("dev", dev), shuffled("canary", canary), rest, len(labelled) - len(rest))


def cut_smoke(train: list[Row]) -> tuple[list[Row], list[Row]]:
    """(test rows, train rows) of a few classes: enough for every part of a harness to run, in a second."""
    by_class: dict[str, list[Row]] = defaultdict(list)
    for row in {row.text: row for row in train}.values():
        by_class[row.label].append(row)
    need = SMOKE_TEST_ROWS + SMOKE_TRAIN_ROWS
    large = sorted((c for c in by_class if len(by_class[c]) >= need), key=lambda label: rank("class", label))
    test: list[Row] = []
    learn: list[Row] = []
    for label in large[:SMOKE_CLASSES]:
        rows = sorted(by_class[label], key=lambda row: rank("smoke", row.text))
        test += rows[:SMOKE_TEST_ROWS]
        learn += rows[SMOKE_TEST_ROWS:need]
    key = lambda row: rank("smoke order", row.text)  # noqa: E731
    return sorted(test, key=key), sorted(learn, key=key)


def write_train(public: Path, train: list[Row]) -> None:
    rows = [(i, row.text, row.label) for i, row in enumerate(train)]
    write_rows(public / "train.csv", ("id", "text", "label"), rows)


def prepare(source: Path, split: Path) -> tuple[Path, Path]:
    public, private = split / "data" / "public", split / "data" / "private"
    public.mkdir(parents=True)
    private.mkdir(parents=True)
    for name in COPIED:
        shutil.copyfile(source / "data" / "public" / name, public / name)
    return public, private


def write_split(source: Path, split: Path, test: list[Row], train: list[Row]) -> dict[str, int]:
    public, private = prepare(source, split)
    default = json.loads((public / "classes.json").read_text(encoding="utf-8"))[0]
    write_rows(public / "test.csv", ("id", "text"), [(i, row.text) for i, row in enumerate(test)])
    write_rows(public / "sample_submission.csv", ("id", "label"), [(i, default) for i in range(len(test))])
    write_rows(private / "test.csv", ("id", "label"), [(i, row.label) for i, row in enumerate(test)])
    write_train(public, train)
    return {"rows": len(test), "train_rows": len(train)}


def write_holdout(source: Path, split: Path, rows: int, train: list[Row]) -> dict[str, int]:
    public, _ = prepare(source, split)
    for name in ("public/test.csv", "public/sample_submission.csv", "private/test.csv"):
        shutil.copyfile(source / "data" / name, split / "data" / name)
    write_train(public, train)
    return {"rows": rows, "train_rows": len(train)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut LawBench into dev, canary, holdout and smoke.")
    parser.add_argument("--source", type=Path, required=True, help="the pack with its data in place")
    parser.add_argument("--out", type=Path, required=True, help="an empty or new folder")
    args = parser.parse_args()
    data = args.source / "data"
    labelled = [Row(r["text"], r["label"]) for r in read_rows(data / "training_data" / "train.csv")]
    official = read_rows(data / "public" / "test.csv")
    parts = cut(labelled, {r["text"] for r in official})
    smoke_test, smoke_train = cut_smoke(parts.train)
    report = {
        "schema": 1,
        "seed": SEED,
        "labelled_rows": len(labelled),
        "removed_overlaps": parts.removed,
        "splits": {
            "dev": write_split(args.source, args.out / "dev", parts.dev, parts.train),
            "canary": write_split(args.source, args.out / "canary", parts.canary, parts.train),
            "holdout": write_holdout(args.source, args.out / "holdout", len(official), parts.rest),
            "smoke": write_split(args.source, args.out / "smoke", smoke_test, smoke_train),
        },
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    (args.out / "splits.json").write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
