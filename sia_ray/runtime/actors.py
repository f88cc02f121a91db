"""The one place where plain classes become Ray actors and plain functions become Ray tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sia_ray.agents.target import Target, TargetJob
from sia_ray.candidate.identity import digest_bytes
from sia_ray.config import ActorFile, load_actor_text, parse_actor_file
from sia_ray.errors import ConfigError, NotFoundError
from sia_ray.evaluation.contract import Evaluation
from sia_ray.runtime.connect import NAMESPACE
from sia_ray.runtime.scoring import ScoringJob, score
from sia_ray.task.cache import cache_root
from sia_ray.task.config import EvaluatorConfig
from sia_ray.task.find import data_root

ROLES = ("meta", "feedback", "target", "supervisor")
ActorFiles = Mapping[str, ActorFile]


def load_actor_files(folder: Path | None = None) -> dict[str, ActorFile]:
    """The actor files in force: ``folder``, else ``./actors``, else the packaged ones, each role on its own.

    Raises NotFoundError when ``folder`` is given and not there, ConfigError when a file does not parse.
    """
    if folder is not None and not folder.is_dir():
        raise NotFoundError(f"There is no folder {folder}.", "Give --actors-dir a folder of actor files.")
    places = [place for place in (folder, Path.cwd() / "actors", data_root("actors")) if place is not None]
    found = {}
    for role in ROLES:
        path = next((place / f"{role}.md" for place in places if (place / f"{role}.md").is_file()), None)
        if path is None:
            raise NotFoundError(f"There is no actor file for {role!r}.", "Reinstall sia-ray.")
        found[role] = parse_actor_file(load_actor_text(path), where=str(path))
        if found[role].role != role:
            raise ConfigError(f"{path}: role is {found[role].role!r}.", f"Write 'role: {role}'.")
    return found


class RemoteTarget:
    """Target as Ray sees it: views arrive as references, fetched only when this node lacks them."""

    def __init__(self, sandbox: str) -> None:
        self._target = Target(sandbox, cache_root())

    def run(self, job: TargetJob, harness: bytes, view: Sequence[Any]) -> tuple[Any, bytes, bytes]:
        done = self._target.run(job, harness, lambda: ray.get(view[0]))
        return (done.outcome, done.cost), done.outputs, done.log


def _score(job: ScoringJob, outputs: bytes, views: Sequence[Any]) -> Evaluation:
    return score(job, outputs, lambda index: ray.get(views[index]), cache_dir=cache_root())


@cache
def _remote(target: Any) -> Any:
    return ray.remote(target)


def plain_class(file: ActorFile) -> Any:
    """The class that an actor file names. Raises ConfigError when there is none."""
    module, _, name = file.class_.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(f"actors/{file.role}.md names {file.class_!r}, which does not exist.") from None
    return found


def start_actor(file: ActorFile, name: str, *arguments: Any) -> Any:
    """One actor of a role, owned by whoever calls. Names show in the Ray Dashboard and must be new."""
    cls = plain_class(file)
    wrapped: Any = RemoteTarget if cls is Target else cls
    return _remote(wrapped).options(name=name, **_ray_options(file)).remote(*arguments)


def start_supervisor(file: ActorFile, storage: str, *arguments: Any, detached: bool) -> Any:
    """The Supervisor of one storage root of this node; the living one if there is one."""
    node = ray.get_runtime_context().get_node_id()
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    name = f"supervisor {digest_bytes(f'{node} {storage}'.encode())[:8]}"
    options: dict[str, Any] = _ray_options(file)
    if detached:
        options["lifetime"] = "detached"
    return (
        _remote(plain_class(file))
        .options(name=name, namespace=NAMESPACE, get_if_exists=True, scheduling_strategy=here, **options)
        .remote(storage, *arguments)
    )


def evaluator_task(wanted: EvaluatorConfig, *, name: str) -> Any:
    """The evaluator as a task on the resources that its pack asks for. Retries are the loop's business, not Ray's."""
    options: dict[str, Any] = {"num_cpus": wanted.num_cpus, "max_retries": 0, "name": name}
    if wanted.num_gpus:
        options["num_gpus"] = wanted.num_gpus
    if wanted.accelerator_type:
        options["accelerator_type"] = wanted.accelerator_type
    if wanted.resources:
        options["resources"] = wanted.resources
    return _remote(_score).options(**options)


def _import_evaluators() -> None:
    """Nothing: the worker process that runs this has imported what evaluators need."""


def warm_evaluator(wanted: EvaluatorConfig) -> None:
    """Have Ray start a worker for evaluators now, while the first candidate is being made and run."""
    _remote(_import_evaluators).options(num_cpus=wanted.num_cpus, max_retries=0, name="warm an evaluator").remote()


def _ray_options(file: ActorFile) -> dict[str, Any]:
    ray_options = file.ray.model_dump(exclude={"replicas"}, exclude_none=True)
    return {key: value for key, value in ray_options.items() if value or key in ("num_cpus", "max_restarts")}
