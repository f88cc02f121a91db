"""This pack's promises: it passes the check, every question counts once, and no split shares a question."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

PACK = Path(__file__).resolve().parent.parent
EVALUATE = PACK / "data" / "public" / "evaluate.py"
Rows = Iterable[tuple[str, str]]


def key(split: Path = PACK) -> list[tuple[str, str]]:
    with (split / "data" / "private" / "answers.csv").open(encoding="utf-8", newline="") as file:
        return [(row["id"], row["label"]) for row in csv.DictReader(file)]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, *map(str, command)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def evaluate(gen: Path, rows: Rows) -> subprocess.CompletedProcess[str]:
    gen.mkdir(exist_ok=True)
    with (gen / "submission.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *rows])
    return run("-I", EVALUATE, "--gen-dir", gen)


def test_the_pack_passes_the_check() -> None:
    done = run("-m", "sia_ray.cli.main", "tasks", "check", PACK)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0], ids=["the key", "half of it", "nothing"])
def test_every_question_counts_and_items_agree(tmp_path: Path, share: float) -> None:
    given = key()[: round(len(key()) * share)]
    done = evaluate(tmp_path, given)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "results.json").read_text())["accuracy"] == len(given) / len(key())
    items = PACK / "reference" / "items.py"
    done = run("-I", items, "--gen-dir", tmp_path, "--task-dir", PACK, "--out", tmp_path / "items")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "items").read_text().splitlines()]
    assert sum(row["correct"] for row in rows) == len(given) and len(rows) == len(key())


@pytest.mark.parametrize(("rows", "reason"), [([key()[0]] * 2, "stands twice"), ([("no such id", "in")], "unknown id")])
def test_what_cannot_be_scored_is_refused(tmp_path: Path, rows: Rows, reason: str) -> None:
    done = evaluate(tmp_path, rows)
    assert done.returncode == 1 and reason in done.stderr
    assert not (tmp_path / "results.json").exists()


def test_splits_share_no_question_and_lose_none(tmp_path: Path) -> None:
    done = run("-I", PACK / "reference" / "splits.py", "--source", PACK, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    cut = [row for split in ("dev", "canary", "holdout") for row in key(tmp_path / split)]
    assert sorted(cut) == sorted(key())
