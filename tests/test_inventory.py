"""Environments among processes: built once, whole after a kill, listed, and pruned unless somebody uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sia_ray.sandbox.environments import is_whole
from sia_ray.task.cache import last_use
from tests.wheels import make_wheel

pytestmark = pytest.mark.installs

BUILD = """
import sys
from pathlib import Path
from sia_ray.sandbox.environments import ensure_environment
made = ensure_environment(sys.argv[2].encode(), cache_dir=Path(sys.argv[1]))
print(made.built, made.digest, flush=True)
sys.stdin.read()
"""
"""Ends when its standard input does, and uses the environment until then."""

KILLED = """
import os, signal, sys
from pathlib import Path
from sia_ray.sandbox import environments
environments._compile = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
environments.ensure_environment(sys.argv[2].encode(), cache_dir=Path(sys.argv[1]))
"""


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, for processes whose only source is a folder of wheels."""
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    make_wheel(wheels, "tinylib", "1.0", {"tinylib/__init__.py": b"ANSWER = 42\n"})
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("SIA_RAY_CACHE", str(cache))
    return cache


def builder(cache: Path, wanted: str = "tinylib") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", BUILD, str(cache), wanted]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> tuple[bool, str]:
    assert process.stdout
    built, digest = process.stdout.readline().split()
    return built == "True", digest


def env(*arguments: str, code: int = 0) -> Any:
    argv = [sys.executable, "-m", "sia_ray.cli.main", "env", *arguments, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_two_processes_build_one_and_prune_spares_it_until_both_are_gone(offline: Path) -> None:
    both = [builder(offline), builder(offline)]
    answers = [said(process) for process in both]
    assert sorted(built for built, _ in answers) == [False, True]
    (digest,) = {digest for _, digest in answers}
    both[0].communicate("")
    assert env("prune", "--all") == {"removed": [], "in_use": [digest], "freed_bytes": 0}
    (listed,) = env("list")["environments"]
    assert (listed["digest"], listed["whole"], listed["in_use"]) == (digest, True, True)
    assert listed["packages"] == {"tinylib": "1.0"} and listed["requirements"] == ["tinylib"]
    assert listed["size_bytes"] >= listed["own_bytes"] > 0 and listed["last_use"]
    both[1].communicate("")
    assert env("prune")["removed"] == []
    assert env("prune", "--all")["removed"] == [digest]
    assert env("list")["environments"] == []
    again = builder(offline)
    assert said(again) == (True, digest)
    again.communicate("")


def test_prune_goes_by_the_last_use(offline: Path) -> None:
    digests = []
    for wanted in ("tinylib", "tinylib==1.0"):
        process = builder(offline, wanted)
        digests.append(said(process)[1])
        process.communicate("")
    entry = offline / "envs" / digests[0]
    used = last_use(entry)
    assert used is not None
    os.utime(entry.with_name(f"{entry.name}.use"), (used - 40 * 86_400,) * 2)
    assert env("prune", "--keep-days", "50")["removed"] == []
    assert env("prune")["removed"] == [digests[0]]
    assert [row["digest"] for row in env("list")["environments"]] == [digests[1]]


def test_a_killed_builder_leaves_what_the_next_builds_anew_or_prune_removes(offline: Path) -> None:
    argv = [sys.executable, "-c", KILLED, str(offline), "tinylib"]
    assert subprocess.run(argv).returncode == -signal.SIGKILL
    (left,) = env("list")["environments"]
    assert (left["whole"], left["in_use"]) == (False, False)
    following = builder(offline)
    built, digest = said(following)
    following.communicate("")
    assert built and digest == left["digest"] and is_whole(offline / "envs" / digest)
    (offline / "envs" / digest / "sia-ray.json").unlink()
    assert env("prune")["removed"] == [digest]


def test_a_wrong_call_is_an_error_with_a_way_out(offline: Path) -> None:
    assert "exclude" in env("prune", "--all", "--keep-days", "3", code=2)["error"]["message"]
    assert env("prune", "--keep-days=-1", code=2)["error"]["kind"] == "usage"
