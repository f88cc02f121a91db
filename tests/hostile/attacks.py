"""The hostile targets, as a table: what each does, how its run ends in a sandbox, and what it gets without one.

A target is PRELUDE, its own ``main``, and a guard. It answers the tiny pack's questions first (all "even"), so that one
that gets nothing has the score of a sound target. ``PREY`` tells it where to look: paths of the host, ports, sockets.
What it gets it keeps as ``loot.json`` in its outputs. Each bounds itself, so that it may run without a sandbox too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from sia_ray.sandbox.policy import Cause

LOOT = "loot.json"

PRELUDE = r'''
import argparse, contextlib, glob, json, os, select, signal, socket, sys
from pathlib import Path

PREY = json.loads(%r)
parser = argparse.ArgumentParser()
parser.add_argument("--dataset_dir", type=Path, required=True)
parser.add_argument("--working_dir", type=Path, required=True)
args = parser.parse_args()
DATA, WORK = args.dataset_dir, args.working_dir
LOOT = {}


def answer():
    questions = json.loads((DATA / "questions.json").read_text())
    (WORK / "answers.json").write_text(json.dumps({str(question["id"]): "even" for question in questions}))


def take(name, data):
    """Keep ``data``, unless it is empty."""
    if data:
        LOOT[name] = bytes(data[:4000]).decode("latin-1")
        (WORK / "loot.json").write_text(json.dumps(LOOT))


def read(path):
    with contextlib.suppress(OSError):
        return Path(path).read_bytes()
    return b""


def read_all(folder):
    return b"".join(read(path) for path in glob.glob(f"{folder}/**", recursive=True, include_hidden=True))


def keep_it():
    """Limits are looked after at intervals."""
    select.select([], [], [], 0.7)


def call(family, kind, address):
    with contextlib.suppress(OSError), socket.socket(family, kind) as caller:
        caller.settimeout(2)
        caller.connect(address)
        caller.sendall(b"caught")
'''

_GUARD = """

if __name__ == "__main__":
    main()
"""


class Attack(NamedTuple):
    """One hostile target.

    ``spoils`` is what it gets where nothing isolates it (see ``prey.spoils``); in a sandbox that must be nothing.
    ``cause`` is how its run ends under ``TIGHT`` limits, in any sandbox; without one and with wide limits it ends by
    itself.
    """

    name: str
    main: str
    spoils: frozenset[str] = frozenset()
    cause: Cause = Cause.EXITED

    def source(self, prey: Mapping[str, object]) -> str:
        return PRELUDE.lstrip() % json.dumps(prey) + "\n\n" + self.main.strip() + _GUARD


def _attack(name: str, main: str, *spoils: str, cause: Cause = Cause.EXITED) -> Attack:
    return Attack(name, main, frozenset(spoils), cause)


READERS = (
    _attack(
        "reads the answers",
        """
def main():
    answer()
    for folder in (DATA / ".." / "private", PREY["private"], "/private", "/task/data/private"):
        take("answers", read_all(folder))
""",
        "answers",
    ),
    _attack(
        "reads the ledger",
        """
def main():
    answer()
    take("ledger", read(PREY["ledger"]))
    for pid in glob.glob("/proc/[0-9]*"):
        take("ledger", read(f"{pid}/root{PREY['ledger']}"))
""",
        "ledger",
    ),
    _attack(
        "reads other processes' variables",
        """
def main():
    answer()
    for path in glob.glob("/proc/[0-9]*/environ"):
        take("variables", b" ".join(word for word in read(path).split(b"\\0") if word.startswith(b"HOSTILE_")))
""",
        "variables",
    ),
    _attack(
        "reads Ray's folder at home",
        """
def main():
    answer()
    for home in (PREY["home"], os.path.expanduser("~"), "/root", "/home/*"):
        take("home", read_all(f"{home}/.hostile-ray"))
""",
        "home",
    ),
    _attack(
        "calls Ray's sockets",
        """
def main():
    answer()
    for path in glob.glob(PREY["ray"] + "/**/raylet", recursive=True):
        take("ray", path.encode())
        call(socket.AF_UNIX, socket.SOCK_STREAM, path)
""",
        "ray",
        "raylet",
    ),
    _attack(
        "calls the loopback",
        """
def main():
    answer()
    for kind, port in ((socket.SOCK_STREAM, PREY["tcp"]), (socket.SOCK_DGRAM, PREY["udp"])):
        call(socket.AF_INET, kind, ("127.0.0.1", port))
""",
        "tcp",
        "udp",
    ),
    _attack(
        "calls Unix sockets",
        """
def main():
    answer()
    for address in (PREY["unix"], "\\0" + PREY["abstract"]):
        call(socket.AF_UNIX, socket.SOCK_STREAM, address)
""",
        "unix",
        "abstract",
    ),
    _attack(
        "reads and scribbles on other runs",
        """
def main():
    answer()
    for folder in (PREY["run"], PREY["scratch"], str(Path(PREY["scratch"]).parent)):
        take("other runs", read_all(folder))
        with contextlib.suppress(OSError):
            Path(folder, "scribble").write_text("here")
""",
        "other runs",
        "run/scribble",
        "scratch/scribble",
    ),
)
"""They look for what is not theirs, and end well."""
VANDALS = (
    _attack(
        "rewrites its inputs",
        """
def main():
    answer()
    for name in ("questions.json", "task.md", "evaluate.py"):
        for folder in (DATA, Path(PREY["public"])):
            with contextlib.suppress(OSError):
                (folder / name).chmod(0o666)
            with contextlib.suppress(OSError):
                (folder / name).write_text("forged")
    with contextlib.suppress(OSError):
        os.utime(DATA / "task.md", ns=(PREY["mtime_ns"],) * 2)
""",
        "split/data/public/questions.json",
        "split/data/public/task.md",
        "split/data/public/evaluate.py",
    ),
    _attack(
        "deletes its inputs",
        """
def main():
    answer()
    for folder in (DATA, Path(PREY["public"])):
        for name in ("task.md", "evaluate.py"):
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        with contextlib.suppress(OSError):
            (folder / "questions.json").rename(WORK / "questions.json")
""",
        "split/data/public/questions.json",
        "split/data/public/task.md",
        "split/data/public/evaluate.py",
    ),
    _attack(
        "plants modules beside the evaluator",
        """
FORGER = "import pathlib, sys; pathlib.Path(sys.argv[-1], 'results.json').write_text('{\\"accuracy\\": 1.0}')"
FORGER += "; import os; os._exit(0)"


def main():
    answer()
    for folder in (DATA, Path(PREY["public"])):
        with contextlib.suppress(OSError):
            (folder / "argparse.py").write_text(FORGER)
    with contextlib.suppress(OSError):
        os.close(os.open(json.__file__, os.O_WRONLY))
        take("library", b"opened for writing")
""",
        "split/data/public/argparse.py",
        "library",
    ),
)
"""They change what others read."""
HOGS = (
    _attack(
        "forks and forks",
        """
def main():
    answer()
    read_end, write_end = os.pipe()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(300):
        if os.fork() == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
    keep_it()
    take("processes", b"300 at once")
""",
        "processes",
        cause=Cause.PROCESSES,
    ),
    _attack(
        "eats memory",
        """
def main():
    answer()
    held = [b"x" * (10 << 20) for _ in range(40)]
    keep_it()
    take("memory", b"%d MiB" % (len(held) * 10))
""",
        "memory",
        cause=Cause.MEMORY,
    ),
    _attack(
        "fills the disk",
        """
def main():
    answer()
    for number in range(64):
        (WORK / f"fill-{number}").write_bytes(b"x" * (1 << 20))
    keep_it()
    take("disk", b"64 MiB")
    for path in WORK.glob("fill-*"):
        path.unlink()
""",
        "disk",
        cause=Cause.DISK,
    ),
    _attack(
        "fills the disk with a file that has no name",
        """
def main():
    answer()
    with open(WORK / "fill", "wb", buffering=0) as file:
        (WORK / "fill").unlink()
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        keep_it()
    take("disk", b"64 MiB")
""",
        "disk",
        cause=Cause.DISK,
    ),
    _attack(
        "hangs and leaves a daemon that ignores SIGTERM",
        """
def main():
    answer()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()", PREY["marker"]])
        os._exit(0)
    signal.pause()
""",
        cause=Cause.TIMEOUT,
    ),
)
"""They use up the machine. The last one ends nowhere by itself: test_control shows what becomes of it."""

FORGER = _attack(
    "forges results.json",
    """
def main():
    for name in ("results.json", "items.jsonl"):
        (WORK / name).write_text('{"accuracy": 1.0}')
""",
)
PRINTER = _attack(
    "prints a gigabyte",
    """
def main():
    answer()
    chunk = b"0123456789abcdef" * 65536
    for _ in range(1024):
        os.write(1, chunk)
""",
)
SWAMPER = _attack(
    "fills the folders for temporary files",
    """
def main():
    answer()
    with contextlib.ExitStack() as stack:
        for folder in (os.environ["TMPDIR"], "/tmp", "/dev/shm"):
            path = Path(folder, PREY["marker"])
            with contextlib.suppress(OSError):
                file = stack.enter_context(open(path, "wb", buffering=0))
                stack.callback(path.unlink, missing_ok=True)
                for _ in range(64):
                    assert file.write(b"x" * (1 << 20)) == 1 << 20, "no space left"
                keep_it()
                take(folder, b"64 MiB")
""",
)
BABBLER = _attack(
    "prints escapes and bytes that are no text",
    r"""
def main():
    answer()
    words = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred \xff\xfe \x00 \xc2\x9b2J \r\x08\n"
    os.write(1, words)
    os.write(2, words)
    (WORK / "agent_execution.json").write_bytes(b'[{"role": "assistant", "content": "' + words + b'"}]')
    sys.exit(3)
""",
)
IMPORTER = _attack(
    "leaves modules in its outputs",
    r"""
FORGER = "import pathlib, sys; pathlib.Path(sys.argv[-1], 'results.json').write_text('{\"accuracy\": 1.0}')"
FORGER += "; import os; os._exit(0)"


def main():
    answer()
    for name in ("sitecustomize.py", "usercustomize.py", "json.py", "argparse.py", "evaluate.py"):
        (WORK / name).write_text(FORGER)
    (WORK / "forge.pth").write_text("import sitecustomize\n")
    (WORK / "pyvenv.cfg").write_text("home = .\n")
""",
)
LITTERER = _attack(
    "leaves links, pipes, sockets and devices",
    """
def main():
    answer()
    (WORK / "link").symlink_to(PREY["ledger"])
    (WORK / "folder").symlink_to(PREY["private"])
    (WORK / "loop").symlink_to(".")
    os.link(WORK / "answers.json", WORK / "second name")
    os.mkfifo(WORK / "pipe")
    with contextlib.suppress(OSError):
        os.link(PREY["ledger"], WORK / "hard link")
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        os.chdir(WORK)
        server.bind("socket")
    with contextlib.suppress(OSError):
        os.mknod(WORK / "device", 0o20666, os.makedev(1, 5))
""",
)
