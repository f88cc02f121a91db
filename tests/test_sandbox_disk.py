"""The limit on what a run adds to the folders that it may write, in every sandbox that works here."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sia_ray.sandbox.disk import writable_folders
from sia_ray.sandbox.policy import Cause, Finished, Job, Limits, Mount, Sandbox
from sia_ray.sandbox.select import available, select
from sia_ray.sandbox.variables import base_env

pytestmark = pytest.mark.sandbox

PREFIX = Path(sys.prefix)
MIB = 1 << 20


@pytest.fixture(params=("bubblewrap", "namespaces", "landlock", "none"))
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    for found in available():
        if found.name == request.param and not found.works:
            pytest.skip(f"{found.name}: {found.why}")
    return select(request.param)


def run(sandbox: Sandbox, code: str, out: Path, **limits: int) -> Finished:
    bounds = Limits.model_validate({"wall_s": 30, "memory_mb": 512, "disk_mb": 20} | limits)
    argv = (str(PREFIX / "bin" / "python"), "-c", code)
    return sandbox.run(Job(argv, (Mount(out, "/out", True),), base_env(python=PREFIX), bounds, "/out", PREFIX))


FILL = """
import os, signal
for number in range(1000):
    with open(str(number), 'wb') as file: file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())
signal.pause()
"""


def test_filling_the_disk_is_stopped_soon_after_the_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    finished = run(sandbox, FILL, tmp_path)
    assert (finished.cause, finished.returncode) == (Cause.DISK, None), finished
    assert "20 MiB allowed" in finished.detail
    assert 20 <= len(list(tmp_path.iterdir())) < 1000


def test_files_without_a_name_count_too(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, signal
held = open('held', 'wb')
os.unlink('held')
for _ in range(60): held.write(bytes(1 << 20))
held.flush()
signal.pause()
"""
    assert run(sandbox, code, tmp_path).cause is Cause.DISK


def test_who_ends_before_anybody_looks_is_over_the_limit_all_the_same(sandbox: Sandbox, tmp_path: Path) -> None:
    assert run(sandbox, "open('big', 'wb').write(bytes(30 << 20))", tmp_path).cause is Cause.DISK


def test_many_empty_files_use_up_a_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "for n in range(3000): open(str(n), 'w').close()"
    assert run(sandbox, code, tmp_path, disk_mb=10).cause is Cause.DISK


def test_what_cannot_be_measured_is_not_let_through(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import os\nfor _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)"
    finished = run(sandbox, code, tmp_path)
    assert finished.cause is Cause.DISK, finished
    assert "cannot be looked into" in finished.detail


def test_holes_second_names_and_what_was_there_do_not_count(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(30 * MIB))
    code = """
import os
open('sparse', 'wb').truncate(100 << 20)
open('once', 'wb').write(bytes(12 << 20))
os.link('once', 'twice')
"""
    assert run(sandbox, code, tmp_path).ok


def test_one_file_above_its_limit_is_told_as_such(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(bytes(3 << 20))"
    finished = run(sandbox, code, tmp_path, file_mb=2)
    assert (finished.cause, finished.returncode) == (Cause.DISK, None), finished
    assert "2 MiB" in finished.detail
    assert signal.SIGXFSZ.name not in finished.detail


def test_a_folder_in_another_counts_once_and_a_device_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    mounts = (
        Mount(tmp_path, "/out", True),
        Mount(tmp_path / "inner", "/in", True),
        Mount(Path(os.devnull), "/dev/n", True),
    )
    assert writable_folders(Job(("true",), mounts, {}, Limits())) == (tmp_path.resolve(),)
