"""Task packs: the layout, ``task.toml``, look-up by name, and splits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sia_ray.errors import ConfigError, NotFoundError, PackError
from sia_ray.task.find import find_task, list_tasks
from sia_ray.task.pack import TaskPack, inspect_pack, load_pack
from sia_ray.task.splits import MANIFEST, Splits, materialise

TINY = Path(__file__).parent / "packs" / "tiny"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy of the tiny pack that a test may spoil."""
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


def plain_script(script: Path, source: Path, out: Path) -> None:
    argv = [sys.executable, str(script), "--source", str(source), "--out", str(out)]
    if subprocess.run(argv, check=False).returncode:
        raise PackError("the script failed")


def no_script(script: Path, source: Path, out: Path) -> None:
    raise AssertionError("no script was to be run")


def make(pack: TaskPack, cache: Path) -> Splits:
    return materialise(pack, cache_dir=cache, run_script=plain_script)


def test_tiny_loads_with_what_its_toml_states() -> None:
    pack = load_pack(TINY)
    assert pack.name == "tiny"
    assert pack.config.metric is not None and pack.config.metric.name == "accuracy"
    assert pack.config.limits.generations == 4
    assert pack.evaluator == "data/public/evaluate.py"
    assert pack.requirements is None
    assert pack.search_space is not None and pack.items is not None
    assert set(pack.reference_harness) == {"target_agent.py"}


def test_pack_without_task_toml_takes_its_name_from_the_folder_and_sia_defaults(tiny: Path) -> None:
    (tiny / "task.toml").unlink()
    pack = load_pack(tiny.rename(tiny.with_name("a task")))
    assert pack.name == "a-task"
    assert pack.config.metric is None
    assert (pack.config.limits.generations, pack.config.evaluator.wall_s) == (3, 600)
    assert (pack.config.target.wall_s, pack.config.target.memory_mb, pack.config.target.cpus) == (3600, 2048, 2)


@pytest.mark.parametrize(
    ("line", "where", "suggestion"),
    [
        ("descripton = 'x'", "task.toml", "description"),
        ("[evaluater]\nwall_s = 3", "task.toml", "evaluator"),
        ("[target]\nwal_s = 3", "task.toml [target]", "wall_s"),
        ("[metric]\nname = 'a'\ndirecton = 'max'", "task.toml [metric]", "direction"),
        ("[data]\nwheel = 'a==1'\n[[data.files]]\nsorce = 'x'", "task.toml [data.files.0]", "source"),
    ],
)
def test_unknown_key_is_an_error_that_says_what_was_meant(
    tmp_path: Path, line: str, where: str, suggestion: str
) -> None:
    (tmp_path / "task.toml").write_text(line)
    with pytest.raises(ConfigError):
        load_pack(tmp_path)
    mistakes = [m for m in inspect_pack(tmp_path).mistakes if "unknown key" in m.what]
    assert [m.where for m in mistakes] == [where]
    assert f"'{suggestion}'" in mistakes[0].todo


@pytest.mark.parametrize(
    "text",
    [
        "[splits]\nnames = ['dev', 'test']",
        "[splits]\nnames = ['canary']",
        "[splits]\nnames = ['dev', 'canary']",
        "[splits]\nscript = '../other.py'",
        "[data]\nwheel = 'sia-agent'\nfiles = []",
        "[data]\nwheel = '-r evil==1'\n[[data.files]]\nsource='a'\nto='b'\nsha256='" + "0" * 64 + "'",
        "[data]\nwheel = 'a==1'\n[[data.files]]\nsource='a'\nto='/b'\nsha256='" + "0" * 64 + "'",
        "[target]\ncpus = 0",
        "name = [",
    ],
)
def test_values_that_cannot_hold_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.toml").write_text(text)
    with pytest.raises(ConfigError):
        load_pack(tmp_path)


@pytest.mark.parametrize(
    "missing",
    ["data/public/task.md", "data/public/evaluate.py", "reference/reference_target_agent.py", "reference/splits.py"],
)
def test_missing_file_is_named(tiny: Path, missing: str) -> None:
    (tiny / missing).unlink()
    with pytest.raises(PackError, match=missing):
        load_pack(tiny)


def test_evaluator_at_the_root_is_found(tiny: Path, tmp_path: Path) -> None:
    (tiny / "data/public/evaluate.py").rename(tiny / "evaluate.py")
    pack = load_pack(tiny)
    assert pack.evaluator == "evaluate.py"
    dev = make(pack, tmp_path / "cache").dev
    assert (dev.root / dev.evaluator).is_file()
    assert not (dev.public / "evaluate.py").exists()


def test_every_mistake_is_listed(tiny: Path) -> None:
    (tiny / "data/public/evaluate.py").unlink()
    (tiny / "reference/splits.py").unlink()
    pack, mistakes = inspect_pack(tiny)
    assert pack is not None
    assert len(mistakes) == 2


def test_digest_follows_content_and_nothing_else(tiny: Path, tmp_path: Path) -> None:
    before = load_pack(tiny).digest
    assert before == load_pack(TINY).digest
    (tiny / "reference" / "__pycache__").mkdir()
    (tiny / "reference" / "__pycache__" / "items.pyc").write_bytes(b"x")
    (tiny / ".hidden").write_text("x")
    os.utime(tiny / "data/public/task.md", (0, 0))
    assert load_pack(tiny).digest == before
    (tiny / "data/public/task.md").write_text("another")
    assert load_pack(tiny).digest != before


def test_link_out_of_the_pack_is_refused(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tiny / "data/public/innocent.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(PackError, match="leaves the folder"):
        load_pack(tiny)


def test_data_that_is_not_fetched_counts_as_there_but_says_how_to_get_it(tiny: Path, tmp_path: Path) -> None:
    (tiny / "data/public/evaluate.py").unlink()
    table = "\n[data]\nwheel = 'a==1'\n[[data.files]]\nsource='a'\nto='data/public/evaluate.py'\n"
    with (tiny / "task.toml").open("a") as toml:
        toml.write(table + f"sha256='{'0' * 64}'\n")
    pack = load_pack(tiny)
    assert pack.evaluator == "data/public/evaluate.py"
    with pytest.raises(NotFoundError, match="sia-ray tasks fetch tiny"):
        pack.find("data/public/evaluate.py")
    (tmp_path / "data/public").mkdir(parents=True)
    (tmp_path / "data/public/evaluate.py").write_text("x")
    assert pack.with_data(tmp_path).find("data/public/evaluate.py").read_text() == "x"


def test_splits_are_made_once_and_found_again(tmp_path: Path) -> None:
    pack = load_pack(TINY)
    made = make(pack, tmp_path)
    again = materialise(pack, cache_dir=tmp_path, run_script=no_script)
    assert again == made
    assert {str(name): split.n_hint for name, split in made.by_name.items()} == {
        "dev": 100,
        "canary": 50,
        "holdout": 50,
        "smoke": 8,
    }
    assert len({split.digest for split in made.by_name.values()}) == 4
    for split in made.by_name.values():
        assert (split.public / "task.md").read_bytes() == (TINY / "data/public/task.md").read_bytes()
        assert (split.root / split.evaluator).read_bytes() == (TINY / "data/public/evaluate.py").read_bytes()


def test_same_sources_give_the_same_digests_anywhere(tiny: Path, tmp_path: Path) -> None:
    here, there = make(load_pack(TINY), tmp_path / "a"), make(load_pack(tiny), tmp_path / "b")
    assert [s.digest for s in here.by_name.values()] == [s.digest for s in there.by_name.values()]


def test_splits_follow_data_and_script_but_not_the_rest_of_the_pack(tiny: Path, tmp_path: Path) -> None:
    first = make(load_pack(tiny), tmp_path / "cache")
    (tiny / "reference/search_space.toml").write_text("schema = 1\n")
    assert materialise(load_pack(tiny), cache_dir=tmp_path / "cache", run_script=no_script).root == first.root
    (tiny / "reference/splits.py").write_text((tiny / "reference/splits.py").read_text() + "\n")
    assert make(load_pack(tiny), tmp_path / "cache").root != first.root


def test_without_a_script_dev_is_the_own_data(tiny: Path, tmp_path: Path) -> None:
    (tiny / "task.toml").unlink()
    splits = materialise(load_pack(tiny), cache_dir=tmp_path / "cache", run_script=no_script)
    assert set(splits.by_name) == {"dev"}
    assert splits.smoke == splits.dev
    assert splits.dev.n_hint == 200
    with pytest.raises(NotFoundError, match="holdout"):
        splits["holdout"]


def test_damaged_splits_are_made_anew(tmp_path: Path) -> None:
    pack = load_pack(TINY)
    dev = make(pack, tmp_path).dev
    (dev.public / "questions.json").chmod(0o644)
    (dev.public / "questions.json").write_text("[]")
    with pytest.raises(AssertionError, match="no script"):
        materialise(pack, cache_dir=tmp_path, run_script=no_script)
    assert make(pack, tmp_path).dev == dev
    assert len(json.loads((dev.public / "questions.json").read_text())) == 100


def test_failing_script_leaves_nothing_behind(tiny: Path, tmp_path: Path) -> None:
    (tiny / "reference/splits.py").write_text("raise SystemExit(1)")
    cache = tmp_path / "cache"
    with pytest.raises(PackError):
        make(load_pack(tiny), cache)
    assert [path.suffix for path in (cache / "splits").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("(args.out / 'test').mkdir()", "task.toml names"),
        ("(args.out / 'dev/data/public/evaluate.py').write_text('print(1)')", "differs from the pack's"),
        ("(args.out / 'dev/data/public/link').symlink_to('/etc/hostname')", "leaves the folder"),
        ("(args.out / 'splits.json').write_text('{')", "splits.json"),
    ],
)
def test_script_that_makes_something_else_is_refused(tiny: Path, tmp_path: Path, extra: str, words: str) -> None:
    script = tiny / "reference/splits.py"
    script.write_text(script.read_text().replace("\n\nif __name__", f"\n    {extra}\n\n\nif __name__"))
    with pytest.raises(PackError, match=words):
        make(load_pack(tiny), tmp_path / "cache")


def test_callers_at_the_same_time_build_once(tmp_path: Path) -> None:
    pack = load_pack(TINY)
    runs: list[Path] = []

    def counted(script: Path, source: Path, out: Path) -> None:
        runs.append(out)
        plain_script(script, source, out)

    def call() -> None:
        made.append(materialise(pack, cache_dir=tmp_path, run_script=counted))

    made: list[Splits] = []
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1
    assert len(made) == 4 and len({splits.root for splits in made}) == 1
    assert (made[0].root / MANIFEST).is_file()


def test_task_is_found_by_name_in_the_callers_folders_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TINY, tmp_path / "tasks" / "mine")
    monkeypatch.chdir(tmp_path)
    assert find_task("mine") == tmp_path / "tasks" / "mine"
    assert find_task("tasks/mine") == tmp_path / "tasks" / "mine"
    assert find_task("tiny", extra_dirs=[TINY.parent]) == TINY
    assert "mine" in list_tasks()
    with pytest.raises(NotFoundError, match="mine"):
        find_task("mime")
    with pytest.raises(NotFoundError):
        find_task("./mine")
