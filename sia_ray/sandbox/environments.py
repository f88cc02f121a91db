"""Python environments for harnesses and evaluators, built once by ``uv`` and shared by everything that needs them.

An environment is named by what went into it: the requirements, the interpreter and the platform. It is built in its
final folder (virtual environments name their own path) under the builder's lock, and counts only once its marker
file is written.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import uv

from sia_ray.errors import EnvironmentBuildError, PackError
from sia_ray.task.cache import locked

BUILD_S = 1800
MARKER = "sia-ray.json"
WORDS_LINES = 20

_PROBE = """import platform, sysconfig
print(platform.python_implementation(), platform.python_version(), sysconfig.get_platform())"""


class Environment(NamedTuple):
    """An interpreter with the pack's requirements; ``built`` is False when it was there already."""

    python: Path
    digest: str
    built: bool

    @property
    def prefix(self) -> Path:
        """The environment's folder, as ``Job.python`` wants it."""
        return self.python.parent.parent


def ensure_environment(
    requirements: bytes | None, *, cache_dir: Path, base: str | Path = sys.executable
) -> Environment:
    """The environment for these ``requirements`` (a requirements.txt), built if the cache has none.

    Without any requirement it is an empty one, as ``base`` may have anything installed, a task's answers too. Raises
    PackError for a line that names another file and EnvironmentBuildError, with the installer's words, when it refuses.
    """
    lines = normalise(requirements)
    interpreter = _describe(str(base))
    digest = hashlib.sha256(json.dumps([interpreter, lines]).encode()).hexdigest()
    folder = cache_dir / "envs" / digest
    environment = Environment(folder / "bin" / "python", digest, False)
    if _is_complete(folder):
        return environment
    with locked(folder):
        if _is_complete(folder):
            return environment
        shutil.rmtree(folder, ignore_errors=True)
        _build(folder, lines, str(base))
        marker = {"schema": 1, "interpreter": interpreter, "requirements": lines}
        temporary = folder / f".{MARKER}"
        temporary.write_text(json.dumps(marker, indent=1), encoding="utf-8")
        temporary.rename(folder / MARKER)
    return environment._replace(built=True)


def normalise(requirements: bytes | None) -> list[str]:
    """The lines that matter, sorted: same meaning, same environment. Raises PackError for ``-r``, ``-c`` and ``-e``."""
    text = (requirements or b"").decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\\\n", " ")
    lines = {" ".join(line.split(" #")[0].split()) for line in text.splitlines() if not line.lstrip().startswith("#")}
    for line in lines:
        if line.startswith(("-r", "-c", "-e", "--requirement", "--constraint", "--editable")):
            todo = "Write the requirements out: the environment is built from this file alone."
            raise PackError(f"requirements.txt refers to something outside itself: {line!r}.", todo)
    return sorted(lines - {""})


def _is_complete(folder: Path) -> bool:
    return (folder / MARKER).is_file() and (folder / "bin" / "python").exists()


@functools.cache
def _describe(base: str) -> str:
    """Implementation, version and platform of an interpreter: two that agree can share an environment."""
    if base == sys.executable:
        return f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()}"
    try:
        done = subprocess.run([base, "-I", "-c", _PROBE], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentBuildError(f"{base} does not run: {error}.", "Give a Python 3.11 or newer.") from None
    return done.stdout.decode().strip()


def _build(folder: Path, lines: list[str], base: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _uv(["venv", "--quiet", "--python", base, str(folder)], folder.parent, os.environ, b"")
    if not lines:
        return
    environ, flags = index_settings(os.environ)
    install = ["pip", "install", "--quiet", "--compile-bytecode", "--python", str(folder / "bin" / "python")]
    _uv([*install, *flags, "--requirement", "-"], folder.parent, environ, "\n".join(lines).encode())


def _uv(arguments: list[str], cwd: Path, environ: Mapping[str, str], stdin: bytes) -> None:
    argv = [uv.find_uv_bin(), *arguments]
    try:
        done = subprocess.run(
            argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ, cwd=cwd, timeout=BUILD_S
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentBuildError(f"The installer did not finish in {BUILD_S} s.", "Try again.") from None
    if done.returncode:
        words = done.stdout.decode("utf-8", errors="replace").strip().splitlines()[-WORDS_LINES:]
        raise EnvironmentBuildError(
            "The environment could not be built:\n" + "\n".join(words) + "\n",
            "Correct reference/requirements.txt, or the index settings of uv or pip.",
        )


class IndexSettings(NamedTuple):
    """The environment and the flags that uv is started with."""

    environ: dict[str, str]
    flags: list[str]


def index_settings(environ: Mapping[str, str]) -> IndexSettings:
    """``environ`` for uv, with the user's pip settings where uv has none of its own.

    uv does not read pip's configuration, so a machine set up for pip alone (a mirror, a folder of wheels) would
    otherwise fail. Index addresses, which may hold passwords, go by variables and never by the command line.
    """
    passed = dict(environ)
    pip = _pip_settings()
    if "cert" in pip:
        passed.setdefault("SSL_CERT_FILE", pip["cert"])
    timeout = pip.get("default-timeout") or pip.get("timeout")
    if timeout:
        passed.setdefault("UV_HTTP_TIMEOUT", timeout.split(".")[0])
    own = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE")
    if any(passed.get(name) for name in own):
        return IndexSettings(passed, [])
    flags = [flag for folder in pip.get("find-links", "").split() for flag in ("--find-links", folder)]
    flags += [flag for file in pip.get("constraint", "").split() for flag in ("--constraint", file)]
    flags += [flag for host in pip.get("trusted-host", "").split() for flag in ("--allow-insecure-host", host)]
    if pip.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        return IndexSettings(passed, [*flags, "--no-index"])
    if pip.get("index-url"):
        passed["UV_DEFAULT_INDEX"] = pip["index-url"]
    if pip.get("extra-index-url"):
        passed["UV_INDEX"] = " ".join(pip["extra-index-url"].split())
        flags += ["--index-strategy", "unsafe-best-match"]
    return IndexSettings(passed, flags)


def _pip_settings() -> dict[str, str]:
    """What ``pip config list`` says, later and more specific sources winning, as pip itself resolves them."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {}
    ranks = {"global": 0, "install": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in done.stdout.decode("utf-8", errors="replace").splitlines():
        name, _, literal = line.partition("=")
        section, _, key = name.rpartition(".")
        if section not in ranks:
            continue
        try:
            value = str(ast.literal_eval(literal))
        except (ValueError, SyntaxError):
            continue
        if key not in found or ranks[section] >= found[key][0]:
            found[key] = (ranks[section], value)
    return {key: value for key, (_, value) in found.items()}
