"""Storage that takes nothing for a while: a run pauses, says so, and goes on. On a small file system of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import sia_ray
from sia_ray.errors import UsageError
from sia_ray.ledger.verify import verify
from sia_ray.runtime.supervisor import Snapshot
from tests.ledger_facts import work_that_ran_after_its_outcome

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.usefixtures("local_ray")]


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "volume"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


class Filler:
    """A follower that leaves no byte free once a generation has ended, until the run says that it is paused."""

    def __init__(self, volume: Path) -> None:
        self.file, self.filled, self.said = volume / "filler", False, ""

    def begin(self, storage: Path, number: int) -> None: ...

    def update(self, snapshot: Snapshot) -> None:
        if not self.filled and any(row.status.final for row in snapshot.generations):
            self.filled = True
            with suppress(OSError), open(self.file, "wb", buffering=0) as out:
                while True:
                    out.write(bytes(4096))
        elif self.filled and snapshot.paused and not self.said:
            self.said = snapshot.paused
            self.file.unlink()

    def end(self) -> None: ...


def test_a_full_disk_pauses_the_run_until_there_is_space(volume: Path, tiny: str, tmp_path: Path) -> None:
    calm = sia_ray.run(tiny, generations=5, seed=3, storage=tmp_path / "calm", progress=False)
    filler = Filler(volume)
    run = sia_ray.run(tiny, generations=5, seed=3, storage=volume / "runs", progress=filler)
    assert str(volume) in filler.said
    assert run.state_digest == calm.state_digest
    assert verify(volume / "runs").ok
    assert work_that_ran_after_its_outcome(volume / "runs") == []


def test_a_read_only_root_is_refused_in_one_line(volume: Path, tiny: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(volume)], check=True)
    with pytest.raises(UsageError, match=r"Read-only file system.*--storage"):
        sia_ray.run(tiny, generations=1, storage=volume / "runs", progress=False)
