"""Which sandbox a run gets: rungs that tell of private data are skipped, and nothing is quietly left out."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sia_ray.sandbox.select import available, select
from sia_ray.task.pack import has_private_data

ROOT = Path(__file__).parent.parent
ASK = "import sys; from sia_ray.sandbox.select import select; print(select('auto', private_data={}).name)"


def chosen_without_namespaces(private_data: bool) -> subprocess.CompletedProcess[str]:
    """What ``auto`` takes where the kernel refuses user namespaces: inside a bubblewrap that forbids them."""
    bwrap = shutil.which("bwrap")
    if not bwrap or "landlock" not in [found.name for found in available() if found.works]:
        pytest.skip("needs bubblewrap and Landlock")
    inside = [bwrap, "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"]
    command = [*inside, sys.executable, "-c", ASK.format(private_data)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_landlock_is_taken_for_a_pack_without_private_data_only() -> None:
    told = chosen_without_namespaces(False)
    assert told.stdout == "landlock\n", told
    refused = chosen_without_namespaces(True)
    assert refused.returncode != 0 and "SandboxUnavailable: No sandbox that hides private data works" in refused.stderr
    assert "--sandbox landlock takes it all the same" in refused.stderr


def test_asked_for_by_name_a_sandbox_is_given() -> None:
    assert select("none", private_data=True).name == "none"


def test_what_counts_as_private_data(tmp_path: Path) -> None:
    assert not has_private_data(tmp_path)
    (tmp_path / "data" / "private").mkdir(parents=True)
    assert not has_private_data(tmp_path)
    (tmp_path / "data" / "private" / "answers.csv").write_text("id,label\n")
    assert has_private_data(tmp_path)
    (tmp_path / "fetched").mkdir()
    (tmp_path / "fetched" / "task.toml").write_text("")
    assert has_private_data(tmp_path / "fetched")


START = """
from sia_ray.ledger.schema import RunRow
from sia_ray.runtime.progress import Table
from sia_ray.runtime.supervisor import Snapshot
table = Table()
run = RunRow(
    run=1, task="t", status="running", spec={{}}, facts={{}}, seed=0, agent="search", generations=1, lookahead=1,
    sandbox={!r}, metric="accuracy", direction="max", pack="p", evaluators={{}}, splits={{}}, environment="e",
)
table.update(Snapshot(1, run, (), ""))
table.end()
"""


def start_line(sandbox: str, **env: str) -> str:
    """The line with ``sandbox`` in it that a terminal gets at the start of a run."""
    here, there = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    more = {"TERM": "xterm", "COLUMNS": "400", "PYTHONPATH": str(ROOT), **env}
    command = [sys.executable, "-c", START.format(sandbox)]
    subprocess.run(command, stderr=there, env={**inherited, **more}, cwd=ROOT, check=True)
    os.close(there)
    written = b""
    try:
        while part := os.read(here, 65536):
            written += part
    except OSError:  # how a terminal ends
        pass
    os.close(here)
    return next(line for line in written.decode().splitlines() if " sandbox " in line)


def test_a_run_without_a_sandbox_starts_with_a_red_line() -> None:
    line = start_line("none")
    assert "\x1b[31m" in line and "NONE: nothing is isolated" in line
    assert "\x1b[" not in start_line("none", NO_COLOR="1")
    assert "\x1b[31m" not in start_line("bubblewrap")
