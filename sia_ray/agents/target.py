"""Target: runs candidates, one at a time, in the sandbox; keeps environments and unpacked views warm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sia_ray.candidate.bundle import pack, unpack
from sia_ray.candidate.views import ensure_view
from sia_ray.errors import InfrastructureError, PackError
from sia_ray.evaluation.harness_run import run_harness
from sia_ray.sandbox.environments import (
    Environment,
    ensure_candidate_environment,
    ensure_environment,
    same_requirements,
)
from sia_ray.sandbox.policy import Cause, Limits
from sia_ray.sandbox.scratch import sweep
from sia_ray.sandbox.select import select

REQUIREMENTS = "requirements.txt"
SKIPPED_SHOWN = 20
"""How many of the outputs that were left out are named in the record."""


class TargetJob(NamedTuple):
    """What a Target needs to know: the view's digest, what the environment is built from, limits.

    ``baseline`` and ``requirements`` are the pack's, the latter with the former in it; ``withheld`` are the names of
    distributions that no candidate may install, as they hold the task's data.
    """

    view: str
    requirements: bytes | None
    limits: Limits
    network: bool = False
    baseline: bytes = b""
    withheld: tuple[str, ...] = ()


class TargetRun(NamedTuple):
    """What came of it. ``outcome`` is what is true of the candidate, ``cost`` what this machine measured."""

    outcome: dict[str, Any]
    cost: dict[str, Any]
    outputs: bytes
    log: bytes


class Target:
    """``sandbox`` is a mode of ``sandbox.select``; views and environments are kept under ``cache_dir``."""

    def __init__(self, sandbox: str, cache_dir: Path) -> None:
        self.sandbox = select(sandbox)
        self.cache_dir = cache_dir
        sweep()

    def run(self, job: TargetJob, harness: bytes, view: Callable[[], bytes]) -> TargetRun:
        """Run the bundled ``harness`` on a public view (fetched by ``view`` when this node lacks it).

        Raises InfrastructureError when the sandbox itself failed: nothing is known about the candidate then.
        """
        files = unpack(harness)
        own = files.get(REQUIREMENTS)
        wanted = job.requirements if own is None else job.baseline + b"\n" + own
        try:
            environment = self._environment(job, wanted)
        except PackError as error:
            if same_requirements(wanted, job.requirements):
                raise
            return _not_installed(error)
        public = ensure_view(job.view, view, cache_dir=self.cache_dir)
        done = run_harness(
            self.sandbox,
            harness=files,
            public_dir=public,
            limits=job.limits,
            python=environment.python,
            network=job.network,
        )
        finished = done.finished
        if finished.cause is Cause.INFRASTRUCTURE:
            raise InfrastructureError(f"The sandbox failed: {finished.detail}.", "The run is tried again.")
        outcome = {
            "ok": finished.ok,
            "cause": finished.cause.value,
            "returncode": finished.returncode,
            "reason": _reason(finished.cause, finished.returncode, job.limits),
        }
        cost = {
            "wall_s": round(finished.wall_s, 4),
            "cpu_s": round(finished.cpu_s, 4),
            "peak_memory_mb": round(finished.peak_memory_mb, 1),
            "sandbox": finished.sandbox,
            "skipped": dict(islice(sorted(done.skipped.items()), SKIPPED_SHOWN)),
            "skipped_files": len(done.skipped),
            "detail": "" if finished.ok else _last_words(finished.output.data),
        }
        return TargetRun(outcome, cost, pack(done.outputs), finished.output.data)

    def _environment(self, job: TargetJob, wanted: bytes | None) -> Environment:
        """The pack's environment, or the one that the candidate's requirements.txt asks for instead."""
        if wanted is None or same_requirements(wanted, job.requirements):
            return ensure_environment(job.requirements, cache_dir=self.cache_dir)
        return ensure_candidate_environment(
            wanted, pack=job.requirements, withheld=job.withheld, cache_dir=self.cache_dir
        )


def _not_installed(error: PackError) -> TargetRun:
    """The candidate asks for what cannot be installed: its own failure, in the installer's words."""
    words = error.message.strip().encode()
    outcome = {
        "ok": False,
        "cause": "requirements",
        "returncode": None,
        "reason": f"its {REQUIREMENTS} cannot be installed",
    }
    return TargetRun(outcome, {"detail": _last_words(words)}, pack({}), words + b"\n")


def _reason(cause: Cause, returncode: int | None, limits: Limits) -> str:
    match cause:
        case Cause.TIMEOUT:
            return f"ran past {limits.wall_s:g} s"
        case Cause.MEMORY:
            return f"used more than {limits.memory_mb} MiB"
        case Cause.PROCESSES:
            return f"had more than {limits.processes} processes and threads"
        case Cause.DISK:
            return f"wrote more than {limits.disk_mb} MiB, or a file above {limits.file_mb} MiB"
        case Cause.SIGNAL:
            return f"died of signal {-returncode if returncode else '?'}"
        case _:
            return "" if returncode == 0 else f"exited with {returncode}"


def _last_words(output: bytes) -> str:
    """The last non-empty line, printable, at most 300 characters."""
    lines = [line.strip() for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    return "".join(char for char in text if char.isprintable())[:300]
