"""Scratch folders: gone at the end whatever is in them, and swept when their process was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox.scratch import scratch_folder, sweep

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from sia_ray.sandbox.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")
    (folder / "sub").chmod(0)
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def fill(folder: Path) -> None:
    deep = folder
    for _ in range(30):
        deep = deep / ("d" * 100)
        deep.mkdir()
    (folder / "locked").mkdir()
    (folder / "locked/file").write_text("x")
    (folder / "locked").chmod(0)
    (folder / "link").symlink_to("/etc")


def left(temporary: Path) -> list[str]:
    return [path.name for root in temporary.iterdir() for path in root.iterdir() if path.name != ".lock"]


def test_folder_is_private_empty_and_removed_whatever_is_in_it(temporary: Path) -> None:
    with scratch_folder() as folder:
        assert not list(folder.iterdir())
        modes = [path.stat().st_mode & 0o777 for path in (folder, *list(folder.parents)[:2])]
        assert modes == [0o700] * 3
        fill(folder)
    assert not left(temporary)
    assert Path("/etc").is_dir()


def test_folder_is_removed_when_the_block_fails(temporary: Path) -> None:
    with pytest.raises(KeyError), scratch_folder() as folder:
        fill(folder)
        raise KeyError
    assert not left(temporary)


def test_sweep_removes_what_a_killed_process_left_and_nothing_that_is_in_use(temporary: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(temporary)]
    with (
        scratch_folder() as ours,
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        ) as holder,
    ):
        assert holder.stdout
        theirs = Path(holder.stdout.readline().strip())
        (ours / "file").write_text("x")
        sweep()
        assert (theirs / "sub").is_dir() and (ours / "file").is_file()
        holder.kill()
        holder.wait()
        assert (theirs / "sub").is_dir()
        sweep()
        assert not theirs.parent.exists() and (ours / "file").is_file()
    assert not left(temporary)


def test_sweep_goes_on_where_a_removal_was_cut_short(temporary: Path) -> None:
    with scratch_folder() as folder:
        root = folder.parents[1]
    for name in ("0", "1", "7"):
        fill_in = root / "killed" / name
        fill_in.mkdir(parents=True)
        fill(fill_in)
    (root / "only-made").mkdir()
    sweep()
    assert not left(temporary)


def test_folder_that_others_can_enter_is_refused(temporary: Path) -> None:
    with scratch_folder() as folder:
        root = folder.parents[1]
    root.chmod(0o755)
    with pytest.raises(InfrastructureError, match="private"), scratch_folder():
        pass
    with pytest.raises(InfrastructureError, match="private"):
        sweep()
