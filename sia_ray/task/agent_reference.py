"""SIA's target profiles, as far as they say where the first harness comes from: ``agent_reference``.

=========================================  ==============================================================
``"default"``, or no such key              the task's own reference
``{"source": FILE}``                       this file is the harness
``{"source": DIR, "entrypoint": FILE}``    this folder is the harness; FILE (reference_target_agent.py unless
                                           said) becomes its ``target_agent.py``, all else keeps its place
=========================================  ==============================================================

A relative ``source`` starts at the folder of the profile. The harness is laid over a copy of the task folder at
``reference/harness``, so that all that comes after knows only task folders. Model and keys have no effect yet.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from sia_ray.config import M, parse, suggest
from sia_ray.errors import ConfigError, NotFoundError, PackError
from sia_ray.task.cache import building, locked
from sia_ray.task.pack import ENTRY, HARNESS, shared_files
from sia_ray.task.tree import copy_into, digest_of, scan, walk

PROFILES_DIR = "SIA_PROFILES_DIR"
PROFILE = "SIA_TARGET_AGENT_PROFILE"
DEFAULT_ENTRYPOINT = "reference_target_agent.py"
MAX_FILES = 2_000
MAX_BYTES = 64 * 2**20

SHIPPED = {
    "default-target": "claude-haiku-4-5-20251001",
    "gptoss-nebius-target": "openai/gpt-oss-120b-fast",
    "gptoss-tinker-target": "openai/gpt-oss-120b",
    "kimi-nebius-target": "moonshotai/Kimi-K2.6",
    "openrouter-target": "anthropic/claude-haiku-4.5",
    "qwen-nebius-target": "Qwen/Qwen3-Next-80B-A3B-Thinking-fast",
    "qwen3-tinker-target": "Qwen/Qwen3-4B-Instruct-2507",
}
"""The target profiles that sia-agent 0.6.0 ships, and their models. All take the task's own reference."""


class TargetProfile(NamedTuple):
    """A profile as read. ``harness`` maps each path to the file on disk; None is the task's own reference."""

    model: str
    harness: Mapping[str, Path] | None


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True)

    source: str
    entrypoint: str = DEFAULT_ENTRYPOINT


class _Profile(BaseModel):
    model_config = ConfigDict(frozen=True)

    model: str = ""
    agent_reference: Any = None


def load_target_profile(name_or_path: str, environ: Mapping[str, str]) -> TargetProfile:
    """The profile with this path (it has a ``/`` or ends in .json), else of this name in ``$SIA_PROFILES_DIR`` or
    ``./profiles``, else one that SIA ships. Raises NotFoundError and ConfigError.
    """
    folder = Path(environ.get(PROFILES_DIR) or "profiles")
    is_path = os.sep in name_or_path or name_or_path.endswith(".json")
    path = Path(name_or_path).expanduser() if is_path else folder / f"{name_or_path}.json"
    if not path.is_file():
        if name_or_path in SHIPPED:
            return TargetProfile(SHIPPED[name_or_path], None)
        known = {*SHIPPED, *(file.stem for file in folder.glob("*.json"))}
        hint = "Give the path of a profile's JSON file." if is_path else suggest(name_or_path, known)
        raise NotFoundError(f"There is no target profile {name_or_path!r}.", hint)
    profile = _parse(_Profile, _read(path), str(path))
    spec = profile.agent_reference
    if spec in (None, "default"):
        return TargetProfile(profile.model, None)
    if not isinstance(spec, dict):
        todo = 'Write "default", or {"source": FILE_OR_FOLDER, "entrypoint": FILE}.'
        raise ConfigError(f"{path}: agent_reference is {spec!r}.", todo)
    return TargetProfile(profile.model, _harness(path, _parse(_Source, spec, f"{path}: agent_reference")))


def with_profile(root: Path, profile: TargetProfile, *, cache_dir: Path) -> Path:
    """The task folder ``root`` with the profile's harness in it: ``root`` itself, or a copy in the cache."""
    if profile.harness is None:
        return root
    own = {path: file for path, file in walk(root) if not path.startswith(f"{HARNESS}/")}
    task = {**own, **{f"{HARNESS}/{path}": file for path, file in profile.harness.items()}}
    files = {**{f"{root.name}/{path}": file for path, file in task.items()}, **shared_files(root)}
    entry = cache_dir / "packs" / digest_of(scan(files))
    with locked(entry):
        if not entry.is_dir():
            with building(entry) as folder:
                copy_into(files, folder)
    return entry / root.name


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}.", "Correct it there.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no object.", 'Write {"model": …, "agent_reference": …}.')
    return data


def _parse(model: type[M], data: Mapping[str, Any], where: str) -> M:
    """``data`` as ``model``. Unknown keys are other tools' own, unless they are nearly one that is read here."""
    for key in data.keys() - model.model_fields.keys():
        if difflib.get_close_matches(key, model.model_fields, n=1, cutoff=0.85):
            raise ConfigError(f"{where}: unknown key {key!r}.", suggest(key, model.model_fields))
    return parse(model, data, where=where)


def _harness(profile: Path, spec: _Source) -> dict[str, Path]:
    source = (profile.absolute().parent / Path(spec.source).expanduser()).resolve()
    if source.is_file():
        return {ENTRY: source}
    if not source.is_dir():
        todo = "A relative source starts at the profile's own folder."
        raise NotFoundError(f"{profile}: agent_reference names {source}, which is not there.", todo)
    entrypoint = spec.entrypoint.removeprefix("./")
    files = dict(walk(source))
    if "/" in entrypoint or entrypoint not in files:
        todo = "Name a file at the top of that folder: the modules beside it are what it may import."
        raise NotFoundError(f"{profile}: agent_reference has no entrypoint {entrypoint!r} in {source}.", todo)
    if ENTRY in files and entrypoint != ENTRY:
        todo = f"Make {ENTRY} the entrypoint, or rename one of the two: the entrypoint becomes {ENTRY}."
        raise PackError(f"{source} holds both {entrypoint} and {ENTRY}.", todo)
    if len(files) > MAX_FILES or sum(file.stat().st_size for file in files.values()) > MAX_BYTES:
        todo = "Let source name the folder of the agent alone, without data and environments."
        raise PackError(f"{source} holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB.", todo)
    return {ENTRY if path == entrypoint else path: file for path, file in files.items()}
