"""The longcot-chess pack: what its evaluator accepts, how its questions are cut, and its knight routes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACK = Path(__file__).parent.parent / "tasks" / "longcot-chess"
TRUTH = {f"k{n}": str(200 + n) for n in range(39)} | {f"b{n}": ["e4", "e5", f"Ka{n}"] for n in range(11)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    shutil.copytree(PACK / "data" / "public", folder / "data" / "public")
    (folder / "data" / "private").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "private" / "answers.json").write_text(json.dumps(TRUTH))
    kinds = {"k": "knight_path", "b": "best_3_moves"}
    questions = [{"question_id": n, "prompt": n, "problem": {"template": kinds[n[0]]}} for n in TRUTH]
    (folder / "data" / "public" / "chess_hard.json").write_text(json.dumps(questions))
    return folder


def run(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def evaluate(source: Path, gen: Path, rows: object) -> subprocess.CompletedProcess[str]:
    gen.mkdir()
    (gen / "responses.json").write_text(json.dumps(rows))
    return run(source / "data" / "public" / "evaluate.py", "--gen-dir", gen)


def rows_of(answers: dict[str, object]) -> list[dict[str, object]]:
    return [{"question_id": name, "solution": answer} for name, answer in answers.items()]


@pytest.mark.parametrize(
    ("answers", "accuracy"),
    [
        (dict(TRUTH), 1.0),
        ({"k0": 200}, 1 / 50),
        (dict.fromkeys(TRUTH), 0.0),
        ({n: a[::-1] if isinstance(a, list) else a for n, a in TRUTH.items()}, 39 / 50),
        ({n: f"The answer is {a}" for n, a in TRUTH.items()}, 0.0),
        ({}, 0.0),
    ],
    ids=["the key", "one right row", "blank", "moves in another order", "prose", "empty"],
)
def test_every_question_counts_and_items_agree(
    source: Path, tmp_path: Path, answers: dict[str, object], accuracy: float
) -> None:
    gen, out = tmp_path / "gen", tmp_path / "items"
    result = evaluate(source, gen, rows_of(answers))
    assert result.returncode == 0, result.stderr
    text = (gen / "results.json").read_text()
    assert json.loads(text)["accuracy"] == accuracy
    assert "Ka3" not in text
    items = run(PACK / "reference" / "items.py", "--gen-dir", gen, "--task-dir", source, "--out", out)
    assert items.returncode == 0, items.stderr
    values = [json.loads(line)["value"] for line in out.read_text().splitlines()]
    assert sum(values) / 50 == accuracy and len(values) == 50


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (rows_of({"k0": 200}) * 50, "stands twice"),
        (rows_of({"zz": 1}), "unknown question_id"),
        ({"k0": 200}, "must be a list"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(source: Path, tmp_path: Path, rows: object, reason: str) -> None:
    result = evaluate(source, tmp_path / "gen", rows)
    assert result.returncode == 1 and reason in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "gen" / "results.json").exists()


def test_splits_share_no_question_and_keep_both_kinds(source: Path, tmp_path: Path) -> None:
    result = run(PACK / "reference" / "splits.py", "--source", source, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    ids = {
        s: list(json.loads((tmp_path / "out" / s / "data/private/answers.json").read_text()))
        for s in ("dev", "canary", "holdout", "smoke")
    }
    assert sorted(ids["dev"] + ids["canary"] + ids["holdout"]) == sorted(TRUTH)
    assert {s: sum(i[0] == "b" for i in v) for s, v in ids.items()} == {"dev": 4, "canary": 3, "holdout": 4, "smoke": 2}
    assert set(ids["smoke"]) <= set(ids["dev"])
