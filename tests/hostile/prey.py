"""What hostile targets are after: a host with secrets, made for one test, and what they got of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sia_ray.sandbox.scratch import scratch_folder
from tests.hostile.attacks import LOOT
from tests.processes import Process, mentioning

PACK = Path(__file__).parents[1] / "packs" / "tiny"
SECRET = "canary-7f3a90c2"
"""Stands in everything that no target may read, and so must not turn up anywhere else."""


class Prey(NamedTuple):
    """``places`` is what targets are told; ``root`` holds split, ledger, home, Ray's folder and a run; ``scratch`` is
    the folder of another Target at work; ``listeners`` wait for calls."""

    root: Path
    scratch: Path
    places: dict[str, object]
    listeners: dict[str, socket.socket]
    before: dict[str, bytes]

    @property
    def split(self) -> Path:
        return self.root / "split"

    @property
    def public(self) -> Path:
        return self.split / "data" / "public"

    @property
    def marker(self) -> str:
        return str(self.places["marker"])

    def called(self) -> set[str]:
        """Listeners that somebody reached."""
        return {name for name, listener in self.listeners.items() if _was_called(listener)}

    def damaged(self) -> set[str]:
        """Files of the host that are new, changed or gone."""
        now = _contents(self.root, self.scratch)
        return {path for path in now.keys() | self.before.keys() if now.get(path) != self.before.get(path)}

    def survivors(self) -> list[Process]:
        """Processes that a target left on this machine."""
        return mentioning(self.marker)

    def spoils(self, outputs: dict[str, bytes]) -> set[str]:
        """Everything that a target got: what it kept, whom it reached, what it changed, who outlived it."""
        kept = set(json.loads(outputs.get(LOOT, b"{}")))
        return kept | self.called() | self.damaged() | ({"survivor"} if self.survivors() else set())


@contextlib.contextmanager
def set_out(root: Path) -> Iterator[Prey]:
    """Lay the prey out under the empty folder ``root``; gone, with what targets left of processes, at the end."""
    secrets = {"ledger.sqlite": 1, "home/.hostile-ray/token": 1, "run/gen_1/target_agent_stdout.log": 1}
    shutil.copytree(PACK / "data", root / "split" / "data")
    for path in (*secrets, "split/data/private/canary.txt", "ray/session_latest/logs/raylet.out"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(SECRET)
    (root / "ray" / "session_latest" / "sockets").mkdir()
    holder = subprocess.Popen(["sleep", "1000"], env={"HOSTILE_KEY": SECRET})
    with scratch_folder() as scratch, contextlib.ExitStack() as stack:
        (scratch / "answers.json").write_text(SECRET)
        marker = f"hostile-{os.getpid()}-{root.name}"
        raylet, unix = root / "ray" / "session_latest" / "sockets" / "raylet", root / "socket"
        inet = {kind: socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)}
        for listener in inet.values():
            listener.bind(("127.0.0.1", 0))
        listeners = {"tcp": inet[socket.SOCK_STREAM], "udp": inet[socket.SOCK_DGRAM]}
        for name, address in (("raylet", str(raylet)), ("unix", str(unix)), ("abstract", f"\0{marker}")):
            listeners[name] = socket.socket(socket.AF_UNIX)
            listeners[name].bind(address)
        for listener in listeners.values():
            stack.enter_context(listener)
            listener.setblocking(False)
            if listener.type is socket.SOCK_STREAM:
                listener.listen()
        places: dict[str, object] = {
            "private": str(root / "split" / "data" / "private"),
            "public": str(root / "split" / "data" / "public"),
            "ledger": str(root / "ledger.sqlite"),
            "home": str(root / "home"),
            "ray": str(root / "ray"),
            "run": str(root / "run"),
            "scratch": str(scratch),
            "unix": str(unix),
            "abstract": marker,
            "tcp": listeners["tcp"].getsockname()[1],
            "udp": listeners["udp"].getsockname()[1],
            "marker": marker,
            "mtime_ns": (root / "split" / "data" / "public" / "task.md").stat().st_mtime_ns,
        }
        prey = Prey(root, scratch, places, listeners, _contents(root, scratch))
        try:
            yield prey
        finally:
            holder.kill()
            holder.wait()
            for process in prey.survivors():
                process.kill()


def score_as_sia_does(prey: Prey, outputs: Path) -> float | None:
    """Run the split's evaluator on ``outputs`` itself, as upstream does: what a forger hopes for."""
    command = [sys.executable, "-u", str(prey.public / "evaluate.py"), "--gen-dir", str(outputs)]
    subprocess.run(command, cwd=outputs, env={"PYTHONPATH": str(outputs)}, capture_output=True, timeout=30)
    found = outputs / "results.json"
    return float(json.loads(found.read_text())["accuracy"]) if found.exists() else None


def _was_called(listener: socket.socket) -> bool:
    try:
        if listener.type is socket.SOCK_STREAM:
            listener.accept()[0].close()
            return True
        return bool(listener.recv(100))
    except BlockingIOError:
        return False


def _contents(root: Path, scratch: Path) -> dict[str, bytes]:
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*")}
    files |= {f"scratch/{path.relative_to(scratch).as_posix()}": path for path in scratch.rglob("*")}
    return {name: path.read_bytes() for name, path in files.items() if path.is_file()}
