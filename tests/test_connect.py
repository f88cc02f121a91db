"""Whose Ray a run uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow]

COMMAND = [sys.executable, "-m", "sia_ray.cli.main"]
CLUSTER = """
import ray, sys
ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a cluster that somebody else runs."""
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def sia_ray(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RAY_AUTH_MODE": "token", **variables}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, env=environment)


def record(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_local_never_joins_a_cluster(tiny: str, tmp_path: Path) -> None:
    asked = ("run", tiny, "--generations", "2", "--json", "--storage", str(tmp_path))
    nobody = {"RAY_ADDRESS": "127.0.0.1:1"}
    assert record(sia_ray(*asked, "--local", **nobody))["status"] == "done"


def test_runs_join_the_cluster_that_they_are_given_and_leave_the_root_free(
    tiny: str, tmp_path: Path, cluster: str
) -> None:
    asked = ("run", tiny, "--generations", "2", "--json", "--storage", str(tmp_path))
    first = record(sia_ray(*asked, "--address", cluster))
    second = record(sia_ray(*asked, "--seed", "1", RAY_ADDRESS=cluster))
    assert (first["run"], second["run"]) == (1, 2)
    assert second["status"] == "done"
    third = record(sia_ray(*asked, "--local"))
    assert third["run"] == 3, "the root is free once its runs are over"
