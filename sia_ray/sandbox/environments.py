"""Python environments for harnesses and evaluators, built once and shared by everything that needs them.

An environment is named by what went into it: the requirements, the interpreter and the platform. It is made of what
the running interpreter has installed where that satisfies the requirements, else by ``uv``. It is built in its final
folder (virtual environments name their own path) under the builder's lock, and counts only once its marker file is
written. Whoever uses one keeps it from being pruned.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import uv
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict

from sia_ray.errors import EnvironmentBuildError, PackError, RequirementsRejected
from sia_ray.sandbox.installed import find_parts, place, site_folders
from sia_ray.task.cache import keep, locked

BUILD_S = 1800
MARKER = "sia-ray.json"
WORDS_LINES, WORDS_CHARS = 20, 4_000
"""How much of what the installer said is passed on."""

_ARCHIVES = (".whl", ".zip", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".zst", ".tar", ".lzma", ".tlz")

_PROBE = """import platform, sysconfig
print(platform.python_implementation(), platform.python_version(), sysconfig.get_platform())"""


class Source(StrEnum):
    """Where an environment's packages come from."""

    INDEX = "index"
    """uv resolved and installed them."""
    INTERPRETER = "interpreter"
    """They are those of the running interpreter."""


class Marker(BaseModel):
    """What a whole environment says of itself."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = 1
    interpreter: str
    requirements: tuple[str, ...]
    source: Source = Source.INDEX
    distributions: dict[str, str] = {}
    """Normalised name → version of everything installed in it."""


class Environment(NamedTuple):
    """An interpreter with the pack's requirements; ``built`` is False when it was there already."""

    python: Path
    digest: str
    built: bool

    @property
    def prefix(self) -> Path:
        """The environment's folder, as ``Job.python`` wants it."""
        return self.python.parent.parent


def environments_dir(cache_dir: Path) -> Path:
    return cache_dir / "envs"


def ensure_environment(
    requirements: bytes | None, *, cache_dir: Path, base: str | Path = sys.executable, trusted: bool = True
) -> Environment:
    """The environment for these ``requirements`` (a requirements.txt), built if the cache has none.

    Without any requirement it is an empty one, as ``base`` may have anything installed, a task's answers too. Those
    that are not ``trusted`` are wheels of an index: building a package runs its code, and not in a sandbox.

    Raises PackError for a line that names another file, RequirementsRejected with the installer's words when nothing
    can satisfy them, and EnvironmentBuildError when the installer failed for another reason (the network, the disk).
    """
    lines = normalise(requirements)
    interpreter = _describe(str(base))
    digest = hashlib.sha256(json.dumps([interpreter, lines]).encode()).hexdigest()
    folder = environments_dir(cache_dir) / digest
    environment = Environment(folder / "bin" / "python", digest, False)
    keep(folder)
    if is_whole(folder):
        return environment
    with locked(folder) as lock:
        if is_whole(folder):
            return environment
        shutil.rmtree(folder, ignore_errors=True)
        source = _build(folder, lines, str(base), lock, trusted)
        names = {canonicalize_name(found.name): found.version for found in distributions(path=[str(_site(folder))])}
        marker = Marker(interpreter=interpreter, requirements=tuple(lines), source=source, distributions=names)
        temporary = folder / f".{MARKER}"
        temporary.write_text(marker.model_dump_json(indent=1), encoding="utf-8")
        temporary.rename(folder / MARKER)
    return environment._replace(built=True)


def ensure_candidate_environment(
    own: bytes, *, pack: bytes | None, withheld: Sequence[str], cache_dir: Path
) -> Environment:
    """The environment for a candidate that asks for ``own``, which is not what its ``pack`` asks for.

    Lines that the pack has too are the pack's business, any other must name a wheel of an index. ``withheld`` are the
    names of distributions that hold the task's data. Raises as ``ensure_environment``, and RequirementsRejected for
    what a candidate may not ask for.
    """
    for line in sorted(set(normalise(own)) - set(normalise(pack))):
        try:
            by_name = Requirement(line).url is None
        except InvalidRequirement as error:
            raise RequirementsRejected(f"requirements.txt, {line!r}: {error}.", "Write a requirement.") from None
        if not by_name or line.lower().endswith(_ARCHIVES):  # which uv takes for a file beside the environments
            raise RequirementsRejected(f"requirements.txt, {line!r}: an address.", "Name packages of the index.")
    environment = ensure_environment(own, cache_dir=cache_dir, trusted=False)
    installed = read_marker(environment.prefix).distributions
    if held := sorted({canonicalize_name(name) for name in withheld} & set(installed)):
        raise RequirementsRejected(f"requirements.txt brings {held[0]}, which holds the task's data.", "Drop it.")
    return environment


def same_requirements(one: bytes | None, other: bytes | None) -> bool:
    """Whether both lead to the same environment; False when one of them does not parse."""
    try:
        return normalise(one) == normalise(other)
    except PackError:
        return False


def is_whole(folder: Path) -> bool:
    """Whether the environment in ``folder`` was built to its end."""
    return (folder / MARKER).is_file() and (folder / "bin" / "python").exists()


def read_marker(folder: Path) -> Marker:
    """What the whole environment in ``folder`` says of itself."""
    return Marker.model_validate_json((folder / MARKER).read_bytes())


def normalise(requirements: bytes | None) -> list[str]:
    """The lines that matter, sorted: same meaning, same environment. Raises PackError for ``-r``, ``-c`` and ``-e``."""
    text = (requirements or b"").decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\\\n", " ")
    lines = {" ".join(line.split(" #")[0].split()) for line in text.splitlines() if not line.lstrip().startswith("#")}
    for line in lines:
        if line.startswith(("-r", "-c", "-e", "--requirement", "--constraint", "--editable")):
            todo = "Write the requirements out: the environment is built from this file alone."
            raise PackError(f"requirements.txt refers to something outside itself: {line!r}.", todo)
    return sorted(lines - {""})


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


def _build(folder: Path, lines: list[str], base: str, lock: int, trusted: bool) -> Source:
    """Make the environment; ``lock`` is inherited by the installer, which may outlive a killed builder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _uv(["venv", "--quiet", "--python", base, str(folder)], folder.parent, os.environ, b"", lock)
    source = Source.INDEX
    if not lines:
        return source
    parts = find_parts(lines, site_folders()) if trusted and base == sys.executable else None
    if parts is not None:
        place(parts, folder)
        source = Source.INTERPRETER
    else:
        environ, flags = index_settings(os.environ)
        install = ["pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
        limits = [] if trusted else ["--no-build"]
        _uv([*install, *limits, *flags, "--requirement", "-"], folder.parent, environ, "\n".join(lines).encode(), lock)
    _compile(base, _site(folder), lock)
    return source


def _site(folder: Path) -> Path:
    return next(folder.glob("lib/python3*/site-packages"))


def _compile(base: str, site: Path, lock: int) -> None:
    """Write the byte code that is missing: nobody can write it later. ``-S`` keeps .pth files from being executed."""
    argv = [base, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", str(site)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_S, pass_fds=[lock])


def _uv(arguments: list[str], cwd: Path, environ: Mapping[str, str], stdin: bytes, lock: int) -> None:
    argv = [uv.find_uv_bin(), *arguments]
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            timeout=BUILD_S,
            cwd=cwd,
            pass_fds=[lock],
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentBuildError(f"The installer did not finish in {BUILD_S} s.", "Try again.") from None
    if not done.returncode:
        return
    words = done.stdout.decode("utf-8", errors="replace").strip()
    said = "\n".join(words.splitlines()[-WORDS_LINES:])[-WORDS_CHARS:]
    if is_rejection(done.returncode, words):
        raise RequirementsRejected(f"The requirements cannot be installed:\n{said}\n", "Correct requirements.txt.")
    raise EnvironmentBuildError(
        f"The environment could not be built:\n{said}\n",
        "Correct reference/requirements.txt, or the index settings of uv or pip.",
    )


def is_rejection(returncode: int, words: str) -> bool:
    """Whether uv says that no set of packages satisfies the requirements; every other failure may be the machine's.

    Without network or credentials uv finds no solution either, and says so in a hint.
    """
    unasked = (
        "network was disabled",
        "could not be queried",
        "authentication",
        "Failed to fetch",
        "error sending request",
    )
    return returncode == 1 and "No solution found" in words and not any(sign in words for sign in unasked)


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
