"""The lawbench pack on a small made-up court: its splits, its items, and the edits that its search space offers."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PACK = Path(__file__).parent.parent / "tasks" / "lawbench"
REFERENCE = PACK / "reference"
HARNESS = (REFERENCE / "reference_target_agent.py").read_text(encoding="utf-8")
SPACE = tomllib.loads((REFERENCE / "search_space.toml").read_text(encoding="utf-8"))
CLASSES = [f"[偷、拿]{kind}" for kind in "甲乙丙丁戊己庚辛"]
OVERLAPS = 3
SPLITS = ("dev", "canary", "holdout", "smoke")
CUT = ("dev", "canary", "smoke")


class Case(NamedTuple):
    text: str
    label: str


class Made(NamedTuple):
    """The made-up source, its labelled rows, and what the script made of them."""

    source: Path
    labelled: list[Case]
    out: Path


def write(path: Path, header: list[str], rows: list[list[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def labelled_cases() -> list[Case]:
    """Thirty a class, two in the rarest; texts with commas, quotes and line breaks; ten texts given twice."""
    cases = [
        Case(f'案{number}，被告人"{number}"\n偷{label}', label)
        for number in range(30)
        for label in CLASSES
        if number < 2 or label != CLASSES[-1]
    ]
    return [*cases, *[case for case in cases if case.label == CLASSES[0]][:10]]


def make_source(folder: Path, labelled: list[Case]) -> Path:
    official = [Case(f"官{n}案，判", CLASSES[n % 8]) for n in range(20)]
    official += labelled[10 : 10 + OVERLAPS]
    data = folder / "data"
    write(data / "training_data/train.csv", ["id", "text", "label"], [[i, *c] for i, c in enumerate(labelled)])
    write(data / "public/test.csv", ["id", "text"], [[i, c.text] for i, c in enumerate(official)])
    write(data / "private/test.csv", ["id", "label"], [[i, c.label] for i, c in enumerate(official)])
    write(data / "public/sample_submission.csv", ["id", "label"], [[i, "?"] for i in range(len(official))])
    (data / "public/classes.json").write_text(json.dumps(CLASSES, ensure_ascii=False), encoding="utf-8")
    (data / "public/evaluate.py").write_bytes(b"# an evaluator\r\n")
    (data / "public/task.md").write_text("# a task\n", encoding="utf-8")
    return folder


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(REFERENCE / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def cut(source: Path, out: Path) -> Path:
    result = run("splits.py", "--source", source, "--out", out)
    assert result.returncode == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("lawbench")
    labelled = labelled_cases()
    source = make_source(folder / "source", labelled)
    return Made(source, labelled, cut(source, folder / "out"))


def case_texts(made: Made, split: str) -> list[str]:
    return [row["text"] for row in read(made.out / split / "data/public/test.csv")]


def train_cases(made: Made, split: str) -> list[Case]:
    return [Case(row["text"], row["label"]) for row in read(made.out / split / "data/public/train.csv")]


def tree(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_splits_are_disjoint_from_one_another_and_from_what_they_learn_from(made: Made) -> None:
    dev, canary, holdout = (set(case_texts(made, split)) for split in ("dev", "canary", "holdout"))
    assert len(dev) == len(case_texts(made, "dev"))
    assert not dev & canary and not dev & holdout and not canary & holdout
    for split in SPLITS:
        learned = {case.text for case in train_cases(made, split)}
        assert not learned & holdout
        assert not learned & set(case_texts(made, split))
    for split in ("dev", "canary", "smoke"):
        assert not {case.text for case in train_cases(made, split)} & (dev | canary)
    assert set(case_texts(made, "smoke")) <= {case.text for case in train_cases(made, "dev")}


def test_rows_that_stand_in_the_official_test_set_are_removed_and_counted(made: Made) -> None:
    report = json.loads((made.out / "splits.json").read_text(encoding="utf-8"))
    official = set(case_texts(made, "holdout"))
    assert report["removed_overlaps"] == sum(case.text in official for case in made.labelled) == OVERLAPS
    left = [case for case in made.labelled if case.text not in official]
    assert Counter(train_cases(made, "holdout")) == Counter(left)
    for split in SPLITS:
        assert report["splits"][split] == {
            "rows": len(case_texts(made, split)),
            "train_rows": len(train_cases(made, split)),
        }


def test_no_labelled_row_is_lost_between_train_dev_and_canary(made: Made) -> None:
    parts = train_cases(made, "dev")
    for split in ("dev", "canary"):
        answers = read(made.out / split / "data/private/test.csv")
        parts += [Case(t, a["label"]) for t, a in zip(case_texts(made, split), answers, strict=True)]
    assert Counter(parts) == Counter(train_cases(made, "holdout"))
    assert train_cases(made, "canary") == train_cases(made, "dev")


def test_classes_keep_their_shares_and_each_can_be_learned(made: Made) -> None:
    answers = Counter(row["label"] for row in read(made.out / "dev/data/private/test.csv"))
    assert {answers[label] for label in CLASSES[1:-1]} == {5}
    assert answers[CLASSES[0]] == 7
    assert {case.label for case in train_cases(made, "dev")} == set(CLASSES)


def test_a_text_given_twice_is_only_learned_from(made: Made) -> None:
    twice = {case.text for case in made.labelled if made.labelled.count(case) == 2}
    learned = Counter(case.text for case in train_cases(made, "dev"))
    assert {learned[text] for text in twice} == {2}
    assert not any(twice & set(case_texts(made, split)) for split in ("dev", "canary", "holdout"))


def test_the_holdout_is_the_official_test_set_byte_for_byte(made: Made) -> None:
    for name in ("public/test.csv", "public/sample_submission.csv", "private/test.csv"):
        assert (made.out / "holdout/data" / name).read_bytes() == (made.source / "data" / name).read_bytes()


@pytest.mark.parametrize("split", SPLITS)
def test_each_view_is_complete_and_its_evaluator_unchanged(made: Made, split: str) -> None:
    for name in ("evaluate.py", "classes.json", "task.md"):
        copied = made.out / split / "data/public" / name
        assert copied.read_bytes() == (made.source / "data/public" / name).read_bytes()
    names = {path.name for path in (made.out / split / "data/public").iterdir()}
    assert names == {"task.md", "evaluate.py", "classes.json", "sample_submission.csv", "test.csv", "train.csv"}


@pytest.mark.parametrize("split", CUT)
def test_ids_say_nothing(made: Made, split: str) -> None:
    public, private = made.out / split / "data/public", made.out / split / "data/private"
    count = [str(i) for i in range(len(case_texts(made, split)))]
    for path in (public / "test.csv", public / "sample_submission.csv", private / "test.csv"):
        assert [row["id"] for row in read(path)] == count
    assert [row["id"] for row in read(public / "train.csv")] == [str(i) for i in range(len(train_cases(made, split)))]
    assert "label" not in read(public / "test.csv")[0]


def test_the_cut_depends_on_texts_alone(made: Made, tmp_path: Path) -> None:
    again = cut(made.source, tmp_path / "again")
    assert tree(again) == tree(made.out)
    turned = make_source(tmp_path / "turned", labelled_cases())
    rows = read(turned / "data/training_data/train.csv")[::-1]
    cells: list[list[object]] = [[i, row["text"], row["label"]] for i, row in enumerate(rows)]
    write(turned / "data/training_data/train.csv", ["id", "text", "label"], cells)
    other = cut(turned, tmp_path / "other")
    for split in ("dev", "canary"):
        assert (other / split / "data/public/test.csv").read_bytes() == (
            made.out / split / "data/public/test.csv"
        ).read_bytes()


def items_of(made: Made, gen_dir: Path) -> list[dict[str, float]]:
    out = gen_dir / "items.jsonl"
    result = run("items.py", "--gen-dir", gen_dir, "--task-dir", made.out / "dev", "--out", out)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def answers_of(made: Made) -> list[dict[str, str]]:
    return read(made.out / "dev/data/private/test.csv")


def test_items_are_one_row_a_case_in_order_and_their_mean_is_the_accuracy(made: Made, tmp_path: Path) -> None:
    answers = answers_of(made)
    wrong, unknown, empty, missing = answers[3], answers[4], answers[5], answers[6]
    given = {row["id"]: row["label"] for row in answers}
    given[wrong["id"]] = next(label for label in CLASSES if label != wrong["label"])
    given[unknown["id"]] = unknown["label"] + " "
    given[empty["id"]] = ""
    del given[missing["id"]]
    rows: list[list[object]] = [["x", case, label] for case, label in reversed(given.items())]
    write(tmp_path / "submission.csv", ["note", "id", "label"], rows)
    items = items_of(made, tmp_path)
    assert [item["id"] for item in items] == [int(row["id"]) for row in answers]
    assert [item["id"] for item in items if item["value"] == 0.0] == [3, 4, 5, 6]
    assert sum(item["value"] for item in items) == len(answers) - 4


def test_items_read_what_the_evaluator_reads(made: Made, tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"{row['id']}.0", row["label"]] for row in answers_of(made)]
    write(tmp_path / "predictions.csv", ["id", "charge"], [*rows, ["", CLASSES[0]], ["99999", CLASSES[0]]])
    assert all(item["value"] == 1.0 for item in items_of(made, tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,label\n0,a\n1,b\n0,a\n", "id 0 stands twice"),
        ("id,label\n0,a\n0.0,b\n", "stands twice"),
        ("case,label\n0,a\n", "no column id"),
        ("id\n0\n", "no column label"),
        ("id,label\nzero,a\n", "is not a number"),
        ("id,label\n0,a,b\n", "3 fields"),
        ("", "is empty"),
    ],
)
def test_items_refuse_what_cannot_be_scored_honestly(made: Made, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "submission.csv").write_text(text, encoding="utf-8")
    result = run("items.py", "--gen-dir", tmp_path, "--task-dir", made.out / "dev", "--out", tmp_path / "items")
    assert result.returncode == 1
    assert reason in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "items").exists()


def test_items_need_a_submission(made: Made, tmp_path: Path) -> None:
    result = run("items.py", "--gen-dir", tmp_path, "--task-dir", made.out / "dev", "--out", tmp_path / "items")
    assert result.returncode == 1 and "no submission.csv" in result.stderr


def function_text(source: str, symbol: str) -> str:
    """The only top-level function of that name, as it is written."""
    (node,) = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == symbol]
    return "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])


OPTIONS = [(part, option) for part in SPACE["part"] for option in part["options"]]


@pytest.mark.parametrize(("part", "option"), OPTIONS, ids=lambda x: x if isinstance(x, str) else x["name"])
def test_each_option_is_one_function_that_fits_its_place(part: dict[str, Any], option: str) -> None:
    text = (REFERENCE / part["options"][option]).read_text(encoding="utf-8")
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef) and node.name == part["symbol"]
    (there,) = ast.parse(function_text(HARNESS, part["symbol"])).body
    assert isinstance(there, ast.FunctionDef)
    assert ast.unparse(node.args) == ast.unparse(there.args)


@pytest.mark.parametrize(("part", "option"), OPTIONS, ids=lambda x: x if isinstance(x, str) else x["name"])
def test_each_option_names_only_what_the_harness_has(part: dict[str, Any], option: str) -> None:
    """A misspelt constant or helper would surface in one proposal of a hundred: find it here."""
    tree = ast.parse((REFERENCE / part["options"][option]).read_text(encoding="utf-8"))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    bound |= set(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
    assert {node.id for node in names} - bound <= harness_names()


def harness_names() -> set[str]:
    names: set[str] = set()
    for node in ast.parse(HARNESS).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("part", SPACE["part"], ids=lambda part: part["name"])
def test_the_reference_holds_each_initial_option_word_for_word(part: dict[str, Any]) -> None:
    initial = (REFERENCE / part["options"][part["initial"]]).read_text(encoding="utf-8")
    assert function_text(HARNESS, part["symbol"]) == function_text(initial, part["symbol"])


@pytest.mark.parametrize("constant", SPACE["constant"], ids=lambda constant: constant["name"])
def test_each_constant_stands_once_at_its_initial_value(constant: dict[str, object]) -> None:
    lines = [line for line in HARNESS.split("\n") if line.startswith(f"{constant['symbol']} =")]
    assert lines == [f"{constant['symbol']} = {constant['initial']!r}"]


def test_every_option_file_is_offered() -> None:
    offered = {path for part in SPACE["part"] for path in part["options"].values()}
    assert {f"parts/{path.name}" for path in (REFERENCE / "parts").glob("*.py")} == offered


def test_neither_task_nor_samples_name_a_model() -> None:
    for path in (PACK / "data/public/task.md", REFERENCE / "SAMPLE_TASK_DESCRIPTIONS.md"):
        text = path.read_text(encoding="utf-8").lower()
        assert not [name for name in ("gpt", "claude", "gemini", "qwen", "llama", "913") if name in text]
