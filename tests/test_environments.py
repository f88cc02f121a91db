"""Environments built by the real uv, from wheels made on the spot."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sia_ray.errors import EnvironmentBuildError, PackError
from sia_ray.sandbox import environments
from sia_ray.sandbox.environments import Environment, ensure_environment, index_settings, normalise
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
    with pytest.raises(EnvironmentBuildError, match="absentlib"):
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
