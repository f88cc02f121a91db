"""sia-ray: software that improves AI systems by itself, as an actor-based runtime on Ray.

    import sia_ray

    run = sia_ray.run("lawbench", seed=0)
    run.best, run.generations, run.holdout, run.path

Names are loaded when they are first used: importing the package imports neither Ray nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sia_ray.config import RunSpec
    from sia_ray.errors import SiaRayError
    from sia_ray.runtime.api import Run, resume, run, score_holdout, sweep
    from sia_ray.runtime.connect import Connection, connect
    from sia_ray.task.pack import TaskPack, load_pack

__version__ = "0.1.0"

_HOMES = {
    "Connection": "sia_ray.runtime.connect",
    "Run": "sia_ray.runtime.api",
    "RunSpec": "sia_ray.config",
    "SiaRayError": "sia_ray.errors",
    "TaskPack": "sia_ray.task.pack",
    "connect": "sia_ray.runtime.connect",
    "load_pack": "sia_ray.task.pack",
    "resume": "sia_ray.runtime.api",
    "run": "sia_ray.runtime.api",
    "score_holdout": "sia_ray.runtime.api",
    "sweep": "sia_ray.runtime.api",
}

__all__ = [
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
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sia_ray' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
