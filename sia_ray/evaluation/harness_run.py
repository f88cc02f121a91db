"""One run of a harness: the target's side of the contract, in a sandbox, with nothing of it left behind.

The harness sees its own files at ``/harness``, the split's public view at ``/data`` and an empty folder that it may
write at ``/work``; it is started as SIA starts a target agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sia_ray.candidate.bundle import MAX_BYTES, read_tree, write_tree
from sia_ray.candidate.identity import Files
from sia_ray.errors import InfrastructureError
from sia_ray.sandbox.policy import Finished, Job, Limits, Mount, Sandbox
from sia_ray.sandbox.scratch import scratch_folder
from sia_ray.sandbox.variables import base_env
from sia_ray.task.pack import ENTRY

HARNESS, DATA, WORK = "/harness", "/data", "/work"


class HarnessRun(NamedTuple):
    """What is known after a run: how it ended, the files it wrote, and why some were left out."""

    finished: Finished
    outputs: dict[str, bytes]
    skipped: dict[str, str]


def run_harness(
    sandbox: Sandbox,
    *,
    harness: Files,
    public_dir: Path,
    limits: Limits,
    python: Path,
    network: bool = False,
    env: Mapping[str, str] | None = None,
    max_output_bytes: int = MAX_BYTES,
) -> HarnessRun:
    """Run ``harness`` (entry ``target_agent.py``) on ``public_dir`` and collect what it wrote.

    ``python`` is the interpreter of the environment, ``env`` is added to the sandbox's own few variables. Raises
    BundleRejected for a harness with unsafe paths and InfrastructureError when this machine cannot hold the files;
    whatever the harness itself does is in the result.
    """
    prefix = python.parent.parent
    with scratch_folder() as folder:
        try:
            write_tree(harness, folder / "harness")
            (folder / "work").mkdir()
        except OSError as error:
            raise InfrastructureError(f"A run's folder cannot be written: {error}.", "Free some disk space.") from None
        finished = sandbox.run(
            Job(
                argv=(str(python), "-u", f"{HARNESS}/{ENTRY}", "--dataset_dir", DATA, "--working_dir", WORK),
                mounts=(
                    Mount(folder / "harness", HARNESS),
                    Mount(public_dir, DATA),
                    Mount(folder / "work", WORK, writable=True),
                ),
                env={**base_env(python=prefix), **(env or {})},
                limits=limits,
                cwd=WORK,
                python=prefix,
                network=network,
            )
        )
        collected = read_tree(folder / "work", max_bytes=max_output_bytes)
    return HarnessRun(finished, collected.files, collected.skipped)
