"""The spaceship-titanic pack on a made-up ship: who is scored, how groups are cut, and what its search space offers."""

from __future__ import annotations

import ast
import csv
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sia_ray
from sia_ray.evaluation.preflight import check
from sia_ray.sandbox.environments import ensure_environment
from sia_ray.sandbox.select import select
from sia_ray.task.cache import cache_root

PACK = Path(__file__).parent.parent / "tasks" / "spaceship-titanic"
REFERENCE = PACK / "reference"
SPACE = tomllib.loads((REFERENCE / "search_space.toml").read_text(encoding="utf-8"))
FACTS = ["PassengerId", "HomePlanet", "CryoSleep", "Cabin", "Destination", "Age", "VIP"]
BILLS = ["RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck"]
HEADER = [*FACTS, *BILLS, "Name", "Transported"]
SPLITS = ("dev", "canary", "holdout", "smoke")

Row = dict[str, str]


def passenger(group: int, member: int) -> Row:
    """Sleepers are carried off; bills and gaps follow from the number."""
    number = 2 * group + member
    asleep = number % 3 == 0
    values = [
        f"{group:04}_{member:02}",
        "Earth" if number % 2 else "Mars",
        str(asleep),
        f"{'FG'[number % 2]}/{group}/P",
    ]
    values += ["TRAPPIST-1e", str(float(number % 60)), "False"]
    values += ["0.0" if asleep else str(float(number % 7 * column)) for column in range(1, 6)]
    row = dict(zip(HEADER, [*values, f"Ann Kin{group}", str(asleep)], strict=True))
    row[HEADER[1 + number % 12]] = "" if number % 5 == 0 else row[HEADER[1 + number % 12]]
    return row


def write(path: Path, header: list[str], rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def ship(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack with 500 made-up groups of two as its data; twenty groups are torn by the official test set."""
    folder = tmp_path_factory.mktemp("ship") / "spaceship-titanic"
    shutil.copytree(PACK, folder)
    stated = (PACK / "task.toml").read_text(encoding="utf-8")
    (folder / "task.toml").write_text(stated[: stated.index("[data]")], encoding="utf-8")
    everyone = [passenger(group, member) for group in range(500) for member in (1, 2)]
    official = [row for row in everyone if int(row["PassengerId"][:4]) >= 470 or row["PassengerId"] < "0020_01"]
    official = [row for row in official if row["PassengerId"] >= "0470" or row["PassengerId"].endswith("_01")]
    data = folder / "data"
    write(data / "public/train.csv", HEADER, [row for row in everyone if row not in official])
    write(data / "public/test.csv", HEADER[:-1], official)
    write(data / "public/sample_submission.csv", ["PassengerId", "Transported"], official)
    write(data / "private/test.csv", ["PassengerId", "Transported"], official)
    return folder


def run(script: Path, *arguments: str | Path, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of the pack's environment."""
    return ensure_environment((REFERENCE / "requirements.txt").read_bytes(), cache_dir=cache_root()).python


@pytest.fixture(scope="module")
def cut(ship: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cut")
    result = run(REFERENCE / "splits.py", "--source", ship, "--out", out)
    assert result.returncode == 0, result.stderr
    return out


def groups(path: Path) -> set[str]:
    return {row["PassengerId"][:4] for row in read(path)}


def test_no_group_stands_in_two_splits_or_is_learned_from(cut: Path) -> None:
    asked = {split: groups(cut / split / "data/private/test.csv") for split in SPLITS}
    assert not asked["dev"] & asked["canary"]
    assert not asked["dev"] & asked["holdout"] and not asked["canary"] & asked["holdout"]
    assert asked["smoke"] <= asked["dev"]
    for split in SPLITS:
        learned = groups(cut / split / "data/public/train.csv")
        assert learned and not learned & asked[split] and not learned & asked["holdout"]
        if split != "holdout":
            assert not learned & (asked["dev"] | asked["canary"])
    assert len(asked["dev"]) == 112 and len(asked["canary"]) == 45


def test_torn_families_lose_their_labels_and_nobody_else_is_lost(ship: Path, cut: Path) -> None:
    companions = read(cut / "holdout/data/public/companions.csv")
    assert [row["PassengerId"] for row in companions] == [f"{group:04}_02" for group in range(20)]
    assert "Transported" not in companions[0]
    known = [row["PassengerId"] for row in [*companions, *read(cut / "holdout/data/public/train.csv")]]
    assert sorted(known) == sorted(row["PassengerId"] for row in read(ship / "data/public/train.csv"))
    for split in SPLITS:
        assert "Transported" not in read(cut / split / "data/public/test.csv")[0]


def test_the_cut_does_not_depend_on_the_order_of_rows(ship: Path, cut: Path, tmp_path: Path) -> None:
    shutil.copytree(ship, tmp_path / "turned")
    train = tmp_path / "turned/data/public/train.csv"
    write(train, HEADER, read(train)[::-1])
    assert run(REFERENCE / "splits.py", "--source", tmp_path / "turned", "--out", tmp_path / "out").returncode == 0
    for split in SPLITS:
        name = Path(split, "data/public/test.csv")
        assert (tmp_path / "out" / name).read_bytes() == (cut / name).read_bytes()


def evaluate(cut: Path, gen: Path, rows: list[Row]) -> subprocess.CompletedProcess[str]:
    write(gen / "submission.csv", ["PassengerId", "Transported"], rows)
    return run(cut / "dev/data/public/evaluate.py", "--gen-dir", gen)


def test_every_passenger_counts_and_items_agree(cut: Path, tmp_path: Path) -> None:
    truth = read(cut / "dev/data/private/test.csv")
    flipped = {"True": "False", "False": "True"}
    half = [{**row, "Transported": flipped[row["Transported"]]} if i % 2 else row for i, row in enumerate(truth)]
    cases = {
        "key": (truth, len(truth)),
        "reversed": (truth[::-1], len(truth)),
        "half": (half, 112),
        "missing": (truth[:1], 1),
        "blank": ([truth[0], *({**row, "Transported": ""} for row in truth[1:])], 1),
        "none": ([], 0),
    }
    for name, (rows, right) in cases.items():
        gen = tmp_path / name
        result = evaluate(cut, gen, rows)
        assert result.returncode == 0, result.stderr
        scored = json.loads((gen / "results.json").read_text(encoding="utf-8"))
        assert scored == {"accuracy": right / len(truth), "correct": right, "total": len(truth)}, name
        items = run(REFERENCE / "items.py", "--gen-dir", gen, "--task-dir", cut / "dev", "--out", gen / "items.jsonl")
        assert items.returncode == 0, items.stderr
        marks = [json.loads(line) for line in (gen / "items.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [mark["id"] for mark in marks] == [row["PassengerId"] for row in truth]
        assert sum(mark["correct"] for mark in marks) == right


def test_what_cannot_be_scored_is_refused_in_one_line(cut: Path, tmp_path: Path) -> None:
    first = read(cut / "dev/data/private/test.csv")[0]
    spaced = {**first, "PassengerId": first["PassengerId"] + " "}
    cases = [
        ([first, first], "stands twice"),
        ([spaced], "unknown PassengerId"),
        ([{**first, "Transported": "1"}], "'1'"),
    ]
    for number, (rows, reason) in enumerate(cases):
        gen = tmp_path / str(number)
        result = evaluate(cut, gen, rows)
        assert result.returncode == 1 and reason in result.stderr and len(result.stderr.splitlines()) == 1
        assert not (gen / "results.json").exists()


def function(source: str, symbol: str) -> str:
    (node,) = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == symbol]
    return "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])


def with_option(harness: str, symbol: str, option: Path) -> str:
    return harness.replace(function(harness, symbol), option.read_text(encoding="utf-8").rstrip("\n"))


@pytest.mark.installs
def test_the_reference_is_every_initial_option_and_each_other_option_runs(
    cut: Path, python: Path, tmp_path: Path
) -> None:
    """Each option runs at least once, so that a misspelt name is found here."""
    harness = (REFERENCE / "reference_target_agent.py").read_text(encoding="utf-8")
    constants = {c["symbol"]: c["initial"] for c in SPACE["constant"]}
    assert all(f"\n{name} = {value!r}\n" in harness for name, value in constants.items())
    for part in SPACE["part"]:
        assert with_option(harness, part["symbol"], REFERENCE / part["options"][part["initial"]]) == harness
    offered = {path for part in SPACE["part"] for path in part["options"].values()}
    assert offered == {f"parts/{path.name}" for path in (REFERENCE / "parts").glob("*.py")}
    for turn in range(max(len(part["options"]) for part in SPACE["part"])):
        mixed = harness.replace("TREES = 300", "TREES = 10")
        for part in SPACE["part"]:
            names = list(part["options"].values())
            mixed = with_option(mixed, part["symbol"], REFERENCE / names[turn % len(names)])
        (tmp_path / "target_agent.py").write_text(mixed, encoding="utf-8")
        arguments = ("--dataset_dir", cut / "holdout/data/public", "--working_dir", tmp_path / str(turn))
        result = run(tmp_path / "target_agent.py", *arguments, python=python)
        assert result.returncode == 0, result.stderr
        assert len(read(tmp_path / str(turn) / "submission.csv")) == 80


@pytest.mark.installs
@pytest.mark.sandbox
def test_the_published_data_is_fetched_and_passes_the_check() -> None:
    report = check(PACK, sandbox=select("auto"), cache_dir=cache_root())
    assert report.ok and report.status == "passed", report.findings


@pytest.mark.installs
@pytest.mark.ray
@pytest.mark.sandbox
def test_search_proposes_generations_that_are_scored_in_a_real_run(local_ray: None, ship: Path, tmp_path: Path) -> None:
    run = sia_ray.run(ship, generations=2, storage=tmp_path / "runs", progress=False)
    assert run.status == "done" and run.best is not None
    assert len(run.rows) >= 2 and all(row.score is not None for row in run.rows[:2])
