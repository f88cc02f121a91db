"""What the package promises from outside: light imports, stable names, documented commands, clear errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import sia_ray
from sia_ray import errors
from sia_ray.cli.main import app
from sia_ray.config import load_actor_text, parse_actor_file, read_environment, resolve
from sia_ray.errors import ConfigError, SiaRayError
from sia_ray.ledger.events import EVENTS
from sia_ray.ledger.schema import ROWS
from sia_ray.task.config import TaskConfig

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "sia_ray.cli.main"]


def test_importing_the_package_loads_neither_ray_nor_torch() -> None:
    code = "import sia_ray, sys; print([m for m in ('ray', 'torch', 'optuna', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_these_and_resolve() -> None:
    assert sia_ray.__all__ == sorted(sia_ray.__all__)
    assert set(sia_ray.__all__) == {
        "Connection",
        "Run",
        "RunSpec",
        "SiaRayError",
        "TaskPack",
        "connect",
        "load_pack",
        "resume",
        "run",
        "score_holdout",
        "sweep",
    }
    assert all(getattr(sia_ray, name) is not None for name in sia_ray.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = sia_ray.nothing


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    group = get_command(app)
    for name in group.commands:  # type: ignore[attr-defined]
        assert f"sia-ray {name}" in readme, name


def test_every_key_of_task_toml_and_every_event_and_table_is_documented() -> None:
    packs = (ROOT / "docs" / "task-packs.md").read_text(encoding="utf-8")
    for name, field in TaskConfig.model_fields.items():
        assert name in packs, name
        for inner in getattr(field.default, "model_fields_set", None) or getattr(
            type(field.default), "model_fields", {}
        ):
            assert inner in packs, f"{name}.{inner}"
    ledger = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in ledger for kind in EVENTS)
    assert all(f"`{table}`" in ledger for table in ROWS)


def test_errors_are_picklable_and_stand_in_the_tree() -> None:
    import pickle

    assert errors.__doc__
    for cls in [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, SiaRayError)]:
        assert cls.__name__ in errors.__doc__
        again = pickle.loads(pickle.dumps(cls("what happened", "what to do")))
        assert (type(again), again.message, again.hint) == (cls, "what happened", "what to do")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SIA_MAX_GENERATIONS": "three"}, "not a whole number"),
        ({"SIA_MAX_GENERATIONS": "0"}, "below 1"),
        ({"SIA_SANDBOX_MODE": "dokcer"}, "Known: auto"),
        ({"SIA_SANDBOX_MODE": "bubblewarp"}, "Did you mean 'bubblewrap'"),
        ({"SIA_LOG_LEVEL": "LOUD"}, "Known: CRITICAL"),
        ({"SIA_MAX_GENERATION": "3"}, "Did you mean 'SIA_MAX_GENERATIONS'"),
    ],
)
def test_a_variable_of_sia_that_does_not_parse_is_an_error(variables: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_environment(variables)


def test_settings_come_from_the_nearest_source_and_say_so() -> None:
    spec = resolve({"seed": 5, "agent": None}, {"SIA_MAX_GENERATIONS": "7"}, pack={"generations": 20}, task="t")
    assert (spec.generations, spec.seed, spec.agent) == (7, 5, "search")
    assert spec.origins["generations"] == "environment"
    assert spec.origins["seed"] == "call"
    assert spec.origins["agent"] == "default"
    assert resolve({}, {}, pack={"generations": 20}, task="t").origins["generations"] == "task.toml"
    with pytest.raises(ConfigError, match="lookahead"):
        resolve({"lookahead": 0}, {}, pack={}, task="t")


def test_an_unknown_key_of_an_actor_file_is_an_error_with_a_suggestion() -> None:
    text = load_actor_text(ROOT / "actors" / "target.md")
    assert parse_actor_file(text, where="x").role == "target"
    with pytest.raises(ConfigError, match="Did you mean 'max_restarts'"):
        parse_actor_file(text.replace("max_restarts", "max_restart"), where="x")
    with pytest.raises(ConfigError, match="front matter"):
        parse_actor_file("role: target", where="x")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "lawbnch"), 3, "Did you mean 'lawbench'"),
        (("run",), 2, "Say which task"),
        (("run", "lawbench", "--sandbox", "bubblewarp"), 2, "Did you mean 'bubblewrap'"),
        (("run", "lawbench", "--agent", "serach"), 2, "Did you mean 'search'"),
        (("status", "--storage", "nowhere"), 3, "There is no ledger"),
        (("show", "9", "--storage", "nowhere"), 3, "There is no ledger"),
        (("results", "nowhere.json"), 3, "cannot be read"),
        (("run", "lawbench", "--log-level", "loud"), 2, "Unknown log level"),
        (("run", "lawbench", "--frob"), 2, "--frob"),
        (("show", "abc"), 2, "valid integer"),
        (("run", "lawbench", "--local", "--address", "x"), 2, "exclude each other"),
    ],
)
def test_a_wrong_call_is_one_clear_error(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, *arguments, "--json"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    envelope = json.loads(done.stdout.splitlines()[-1])
    assert set(envelope["error"]) == {"kind", "message", "hint"}
