"""Environments built by the real uv, from wheels made on the spot."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sia_ray.agents.target import Target, TargetJob
from sia_ray.candidate.bundle import pack
from sia_ray.errors import EnvironmentBuildError, PackError, RequirementsRejected
from sia_ray.sandbox import environments
from sia_ray.sandbox.environments import (
    Environment,
    Source,
    ensure_candidate_environment,
    ensure_environment,
    index_settings,
    normalise,
    read_marker,
)
from sia_ray.sandbox.policy import Limits
from tests.wheels import make_wheel

pytestmark = pytest.mark.installs


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is the only source, said in pip's own variables."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "tinylib", "1.0", {"tinylib/__init__.py": b"ANSWER = 42\n"})
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.parametrize("nothing", [None, b"", b"\n# only a comment\n"])
def test_without_requirements_it_is_an_empty_one_built_once(tmp_path: Path, nothing: bytes | None) -> None:
    environment = ensure_environment(nothing, cache_dir=tmp_path)
    assert environment.built
    assert ensure_environment(None, cache_dir=tmp_path) == environment._replace(built=False)
    code = "import sys, importlib.util as u; print(*sys.version_info[:3], u.find_spec('sia_ray'), u.find_spec('uv'))"
    out = subprocess.run([environment.python, "-I", "-c", code], capture_output=True, check=True, text=True).stdout
    assert out.split() == [*map(str, sys.version_info[:3]), "None", "None"]


def test_requirements_are_installed_once_with_byte_code(offline: Path, tmp_path: Path) -> None:
    first = ensure_environment(b"tinylib==1.0\n", cache_dir=tmp_path / "cache")
    again = ensure_environment(b"# why\ntinylib==1.0  # because\n\n", cache_dir=tmp_path / "cache")
    assert first.built and not again.built
    assert first.python == again.python
    out = subprocess.run([first.python, "-c", "import tinylib; print(tinylib.ANSWER)"], capture_output=True, check=True)
    assert out.stdout == b"42\n"
    assert list(first.python.parent.parent.rglob("tinylib/__pycache__/*.pyc"))


def test_half_built_environment_is_built_anew_and_other_requirements_beside_it(offline: Path, tmp_path: Path) -> None:
    make_wheel(offline, "tinylib", "2.0", {"tinylib/__init__.py": b""})
    old = ensure_environment(b"tinylib==1.0", cache_dir=tmp_path / "cache")
    (old.prefix / environments.MARKER).unlink()
    assert ensure_environment(b"tinylib==1.0", cache_dir=tmp_path / "cache") == old
    assert ensure_environment(b"tinylib==2.0", cache_dir=tmp_path / "cache").digest != old.digest


def test_refusal_carries_the_installers_words_and_is_tried_again(offline: Path, tmp_path: Path) -> None:
    with pytest.raises(RequirementsRejected, match="absentlib"):
        ensure_environment(b"absentlib==1.0", cache_dir=tmp_path / "cache")
    make_wheel(offline, "absentlib", "1.0", {"absentlib.py": b""})
    assert ensure_environment(b"absentlib==1.0", cache_dir=tmp_path / "cache").built


def test_builders_at_the_same_time_share_one(offline: Path, tmp_path: Path) -> None:
    def call() -> None:
        made.append(ensure_environment(b"tinylib", cache_dir=tmp_path / "cache"))

    made: list[Environment] = []
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(environment.built for environment in made) == [False, False, True]


@pytest.mark.parametrize("line", [b"-r other.txt", b"-e .", b"--constraint=c.txt"])
def test_requirements_that_lead_outside_are_refused(line: bytes) -> None:
    with pytest.raises(PackError, match="outside itself"):
        normalise(b"tinylib\n" + line)


def test_pips_indexes_reach_uv_by_variable_and_uvs_own_settings_win(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "https://user:secret@one.invalid/simple"
    settings = {"index-url": secret, "extra-index-url": "https://two.invalid/a https://three.invalid/b"}
    monkeypatch.setattr(environments, "_pip_settings", lambda: {**settings, "find-links": "/a /b"})
    environ, flags = index_settings({"HOME": "/h"})
    assert environ["UV_DEFAULT_INDEX"] == secret
    assert environ["UV_INDEX"] == "https://two.invalid/a https://three.invalid/b"
    assert flags == ["--find-links", "/a", "--find-links", "/b", "--index-strategy", "unsafe-best-match"]
    assert not any("secret" in flag for flag in flags)
    own = {"UV_DEFAULT_INDEX": "https://mine.invalid"}
    assert index_settings(own) == (own, [])


def test_pips_settings_are_read_from_pip(offline: Path) -> None:
    _, flags = index_settings({})
    assert flags == ["--find-links", str(offline), "--no-index"]


def test_index_out_of_reach_is_the_machines_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(EnvironmentBuildError, match=r"127\.0\.0\.1:9"):
        ensure_environment(b"absentlib==1.0", cache_dir=tmp_path / "cache")
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(EnvironmentBuildError, match="network was disabled"):
        ensure_environment(b"absentlib==1.0", cache_dir=tmp_path / "cache")


def test_what_the_running_interpreter_has_serves_and_nothing_else_of_it_shows(offline: Path, tmp_path: Path) -> None:
    made = ensure_environment(b"optuna>=4\n", cache_dir=tmp_path / "cache")
    marker = read_marker(made.prefix)
    assert marker.source is Source.INTERPRETER
    assert {"optuna", "numpy", "sqlalchemy"} <= set(marker.distributions)
    code = "import importlib.util as u, optuna; print(u.find_spec('ray'), u.find_spec('pytest'), optuna.__file__)"
    out = subprocess.run([made.python, "-I", "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert out[:2] == ["None", "None"]
    assert out[2].startswith(str(made.prefix))
    files = list(made.prefix.glob("lib/*/site-packages/numpy/**/*.py"))
    assert files and all(path.with_name("__pycache__").is_dir() for path in files)


def test_an_installed_version_that_does_not_fit_is_left_to_the_installer(offline: Path, tmp_path: Path) -> None:
    make_wheel(offline, "optuna", "0.1", {"optuna.py": b""})
    made = ensure_environment(b"optuna<1", cache_dir=tmp_path / "cache")
    assert read_marker(made.prefix).source is Source.INDEX
    assert read_marker(made.prefix).distributions == {"optuna": "0.1"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"tinylib==9.9", "tinylib==9.9"),
        (b"tinylib @ file:///etc", "address"),
        (b"secret-1.0-py3-none-any.whl", "address"),
        (b"--index-url http://one.invalid", "--index-url"),
        (b"-r other.txt", "outside itself"),
        (b"Answers_Lib", "holds the task's data"),
        (b"sourcelib", "sourcelib"),
    ],
)
def test_requirement_of_a_candidate_that_cannot_be_met_fails_it_alone(
    offline: Path, tmp_path: Path, line: bytes, words: str
) -> None:
    make_wheel(offline, "answers_lib", "1.0", {"answers.py": b""})
    (offline / "sourcelib-1.0.tar.gz").write_bytes(b"never opened: it would have to be built")
    job = TargetJob("", b"tinylib==1.0", Limits(wall_s=10, memory_mb=256, cpus=1), withheld=("answers-lib",))
    target = Target("none", tmp_path / "cache")
    done = target.run(job, pack({"target_agent.py": b"", "requirements.txt": line}), bytes)
    assert (done.outcome["ok"], done.outcome["cause"]) == (False, "requirements")
    assert words in done.log.decode()
    assert len(done.log) < 5_000 and len(done.cost["detail"]) <= 300


def test_the_packs_own_requirements_are_never_a_candidates_failure(offline: Path, tmp_path: Path) -> None:
    job = TargetJob("", b"absentlib==1.0", Limits(wall_s=10, memory_mb=256, cpus=1))
    target = Target("none", tmp_path / "cache")
    for files in ({}, {"requirements.txt": b"absentlib==1.0  # as the pack says"}):
        with pytest.raises(RequirementsRejected, match="absentlib"):
            target.run(job, pack({"target_agent.py": b"", **files}), bytes)


def test_candidate_may_add_a_wheel(offline: Path, tmp_path: Path) -> None:
    make_wheel(offline, "otherlib", "1.0", {"otherlib.py": b""})
    wanted = b"tinylib==1.0\notherlib"
    made = ensure_candidate_environment(wanted, pack=b"tinylib==1.0", withheld=("x",), cache_dir=tmp_path / "cache")
    assert read_marker(made.prefix).distributions == {"otherlib": "1.0", "tinylib": "1.0"}
