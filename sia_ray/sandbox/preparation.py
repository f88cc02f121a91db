"""From a pack to everything that its runs need on this machine: data, environment, splits. All of it is cached."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from sia_ray.errors import InfrastructureError, PackError
from sia_ray.sandbox.environments import Environment, ensure_environment
from sia_ray.sandbox.fetch import with_data
from sia_ray.sandbox.policy import Cause, Job, Limits, Mount, Sandbox
from sia_ray.sandbox.variables import base_env
from sia_ray.task.config import EvaluatorConfig, TargetConfig
from sia_ray.task.pack import TaskPack
from sia_ray.task.splits import RunScript, Splits, materialise

SCRIPT_LIMITS = Limits(wall_s=600, memory_mb=4096, cpus=1)


class Prepared(NamedTuple):
    """A pack with its data in place, its environment and its splits."""

    pack: TaskPack
    environment: Environment
    splits: Splits


def prepare(pack: TaskPack, sandbox: Sandbox, *, cache_dir: Path) -> Prepared:
    """Fetch, build and cut what is not in ``cache_dir`` yet.

    Raises FetchError, EnvironmentBuildError, or PackError when the pack's split script fails.
    """
    pack = with_data(pack, cache_dir)
    environment = ensure_environment(pack.requirements, cache_dir=cache_dir)
    script = script_runner(sandbox, environment.python)
    return Prepared(pack, environment, materialise(pack, cache_dir=cache_dir, run_script=script))


def target_limits(wanted: TargetConfig) -> Limits:
    """The limits of a candidate's run."""
    return Limits(wall_s=wanted.wall_s, memory_mb=wanted.memory_mb, disk_mb=wanted.disk_mb, cpus=wanted.cpus)


def evaluator_limits(wanted: EvaluatorConfig) -> Limits:
    """The limits of an evaluation: as many cores as Ray keeps for it, but at least one."""
    cpus = max(1, round(wanted.num_cpus))
    return Limits(wall_s=wanted.wall_s, memory_mb=wanted.memory_mb, disk_mb=wanted.disk_mb, cpus=cpus)


def withheld(pack: TaskPack) -> tuple[str, ...]:
    """Distributions that no candidate may install: the wheel of ``[data]``, and SIA's own, which has SIA's answers."""
    wheel = [Requirement(pack.config.data.wheel).name] if pack.config.data else []
    return ("sia-agent", *wheel)


def script_runner(sandbox: Sandbox, python: Path) -> RunScript:
    """Runs split scripts in ``sandbox`` with the interpreter ``python``: no network, one folder to write."""
    prefix = python.parent.parent

    def run(script: Path, source: Path, out: Path) -> None:
        finished = sandbox.run(
            Job(
                argv=(str(python), "-u", f"/script/{script.name}", "--source", "/source", "--out", "/out"),
                mounts=(
                    Mount(script, f"/script/{script.name}"),
                    Mount(source, "/source"),
                    Mount(out, "/out", writable=True),
                ),
                env=base_env(python=prefix),
                limits=SCRIPT_LIMITS,
                cwd="/out",
                python=prefix,
            )
        )
        if finished.cause is Cause.INFRASTRUCTURE:
            raise InfrastructureError(f"{script.name} could not be run: {finished.detail}.", "Look at the machine.")
        if not finished.ok:
            ended = f"exit {finished.returncode}" if finished.cause is Cause.EXITED else str(finished.cause)
            words = finished.output.text().strip().splitlines()[-10:]
            raise PackError(f"{script.name} failed ({ended}):\n" + "\n".join(words) + "\n", "Correct the script.")

    return run
