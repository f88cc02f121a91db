"""Configuration: what a run is asked to do, where each value came from, and the files that describe actors.

Order of precedence: the command line or call, SIA's environment variables, the task pack, the defaults below.
Nothing is ignored: an unknown key or a value that does not parse is an error that says what was meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sia_ray.errors import ConfigError

SANDBOX_MODES = ("auto", "bubblewrap", "namespaces", "landlock", "none")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

M = TypeVar("M", bound=BaseModel)


def suggest(word: str, known: Iterable[str]) -> str:
    """ "Did you mean …?" for the closest known word, else a list of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(options)}."


def parse(model: type[M], data: Mapping[str, Any], *, where: str) -> M:
    """``data`` as ``model``; ConfigError names the key, the file and the likely intent."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        path = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            hint = suggest(str(problem["loc"][-1]), _keys_at(model, problem["loc"][:-1]))
            raise ConfigError(f"{where}: unknown key {path!r}.", hint) from None
        raise ConfigError(f"{where}: {path or 'the whole'}: {problem['msg']}.", f"Got {problem['input']!r}.") from None


def _keys_at(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    for part in path:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


class RunSpec(BaseModel):
    """What one run is asked to do. Frozen with the run; ``origins`` says where each value came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(description="name of the task pack")
    generations: int = Field(default=3, ge=1, le=10_000, description="candidates to make, the first included")
    agent: str = Field(default="search", description="back-end of Meta and Feedback")
    agent_options: dict[str, Any] = Field(default={}, description="options of that back-end")
    seed: int = Field(default=0, ge=0, description="everything random derives from it")
    lookahead: int = Field(default=2, ge=1, le=64, description="L: proposal n sees outcomes up to n − L")
    sandbox: str = Field(default="auto", description="sandbox mode")
    holdout: bool = Field(default=True, description="score first and best on the holdout, at the end")
    run_id: int | None = Field(default=None, ge=1, description="number of the run; the next free one when absent")
    origins: dict[str, str] = Field(default={}, description="value → where it came from")


class Variable(NamedTuple):
    """One of SIA's environment variables: the setting it feeds and how its text is read."""

    setting: str | None
    choices: tuple[str, ...] = ()
    integer: bool = False
    unused: bool = False


VARIABLES: dict[str, Variable] = {
    "SIA_MAX_GENERATIONS": Variable("generations", integer=True),
    "SIA_SANDBOX_MODE": Variable("sandbox", choices=SANDBOX_MODES),
    "SIA_LOG_LEVEL": Variable("log_level", choices=LOG_LEVELS),
    "SIA_MAX_TURNS": Variable("max_turns", integer=True, unused=True),
    "SIA_AGENT_IMPL": Variable(None, unused=True),
    "SIA_META_MODEL": Variable(None, unused=True),
    "SIA_TASK_MODEL": Variable(None, unused=True),
    "SIA_META_AGENT_PROFILE": Variable(None, unused=True),
    "SIA_TARGET_AGENT_PROFILE": Variable(None),
    "SIA_PROVIDERS_DIR": Variable(None, unused=True),
    "SIA_PROFILES_DIR": Variable(None),
    "SIA_RAY_CACHE": Variable(None),
    "SIA_RAY_FAULT": Variable(None),
}
"""SIA's variables and ours. Those without a setting are read where they are used; ``unused`` ones await a back-end
that asks a model, and a run says so when one is set."""


def read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings named by SIA_* variables. Raises ConfigError for a value that does not parse or a misspelt name."""
    found: dict[str, Any] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith("SIA_"):
            continue
        variable = VARIABLES.get(name)
        if variable is None:
            if difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.85):
                raise ConfigError(f"Unknown environment variable {name}.", suggest(name, VARIABLES))
            continue
        if variable.setting is None:
            continue
        found[variable.setting] = _variable_value(name, text, variable)
    return found


def unused_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables of SIA that are set and have no effect in this version."""
    return sorted(name for name, variable in VARIABLES.items() if variable.unused and name in environ)


def _variable_value(name: str, text: str, variable: Variable) -> Any:
    if variable.integer:
        try:
            value = int(text)
        except ValueError:
            raise ConfigError(f"{name}={text!r} is not a whole number.", f"Unset it, or say {name}=3.") from None
        if value < 1:
            raise ConfigError(f"{name}={text!r} is below 1.", f"Unset it, or say {name}=3.")
        return value
    if variable.choices and text not in variable.choices:
        upper = text.upper()
        if upper in variable.choices:
            return upper
        raise ConfigError(f"{name}={text!r} is not a known value.", suggest(text, variable.choices))
    return text


def resolve(explicit: Mapping[str, Any], environ: Mapping[str, str], *, pack: Mapping[str, Any], task: str) -> RunSpec:
    """The run that is asked for. ``None`` in ``explicit`` means "not said".

    ``pack`` holds the settings that the task pack suggests.
    """
    defaults = {name: field.default for name, field in RunSpec.model_fields.items() if name not in ("task", "origins")}
    layers = (
        ("default", defaults),
        ("task.toml", {k: v for k, v in pack.items() if k in defaults}),
        ("environment", {k: v for k, v in read_environment(environ).items() if k in defaults}),
        ("call", {k: v for k, v in explicit.items() if v is not None}),
    )
    values: dict[str, Any] = {"task": task}
    origins = {"task": "call"}
    for origin, layer in layers:
        for key, value in layer.items():
            values[key] = value
            origins[key] = origin
    if values["sandbox"] not in SANDBOX_MODES:
        raise ConfigError(f"Unknown sandbox {values['sandbox']!r}.", suggest(str(values["sandbox"]), SANDBOX_MODES))
    return parse(RunSpec, {**values, "origins": origins}, where="run settings")


class RayOptions(BaseModel):
    """How Ray places an actor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_cpus: float = Field(default=0, ge=0)
    num_gpus: float = Field(default=0, ge=0)
    accelerator_type: str | None = None
    resources: dict[str, float] = {}
    max_restarts: int = Field(default=0, ge=-1)
    max_concurrency: int = Field(default=1, ge=1)
    replicas: int = Field(default=1, ge=1, description="actors of this role on a laptop")


class SupervisorPolicy(BaseModel):
    """``max_tries``: how often the machine may fail one piece of work before its outcome is inconclusive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tries: int = Field(default=3, ge=1, le=100)


class NoPolicy(BaseModel):
    """Roles that have nothing to set yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")


POLICIES: dict[str, type[BaseModel]] = {"supervisor": SupervisorPolicy}


class ActorFile(BaseModel):
    """One of ``actors/*.md``: the front matter; ``body`` is the prompt of a role that talks to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    role: str
    class_: str = Field(alias="class", description="dotted name of the plain class that the actor wraps")
    ray: RayOptions = RayOptions()
    policy: dict[str, Any] = {}
    body: str = ""


def load_actor_text(path: Path) -> str:
    """The text of an actor file. Raises ConfigError when it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8.", "Save it as UTF-8.") from None


def parse_actor_file(text: str, *, where: str) -> ActorFile:
    """Split front matter from body. Raises ConfigError when there is none, or a key is unknown."""
    import yaml

    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise ConfigError(f"{where}: no front matter.", "Begin the file with a block between two lines '---'.")
    try:
        front = yaml.safe_load(parts[1])
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: the front matter is not YAML: {error}.") from None
    if not isinstance(front, dict):
        raise ConfigError(f"{where}: the front matter is not a mapping.", "Write 'role: …' and 'class: …'.")
    file = parse(ActorFile, {**front, "body": parts[2].strip()}, where=where)
    policy = parse(POLICIES.get(file.role, NoPolicy), file.policy, where=f"{where}: policy")
    return file.model_copy(update={"policy": policy.model_dump()})
