"""What each sandbox that works here costs over bare Python, and what it blocks.

Cost: median of interleaved runs of a Python that does nothing, less the same Python started directly. What is
blocked: probes that try it from inside, against a file, sockets and a process made outside for the purpose. A probe
counts as open only where it says so itself, and as unknown where it did not run to its end. ``none`` is the control:
a probe that is not open there shows nothing about the others, and is a bar of its own.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Bar, Outcome, arguments, finish

from sia_ray.sandbox.policy import Job, Limits
from sia_ray.sandbox.select import available, select
from sia_ray.sandbox.variables import base_env

PROBES = {
    "read a private file": "open({file!r}).read()",
    "stat it": "import os; os.stat({file!r})",
    "write beside it": "open({file!r} + '.new', 'w')",
    "environment of another process": "open('/proc/{pid}/environ').read()",
    "signal another process": "import os; os.kill({pid}, 0)",
    "loopback TCP": "import socket; socket.create_connection(('127.0.0.1', {port}), 2)",
    "path Unix socket": "import socket; socket.socket(socket.AF_UNIX).connect({path!r})",
    "abstract Unix socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0' + {abstract!r})",
}
PYTHON = (sys.executable, "-I", "-c")
LIMITS = Limits(wall_s=20, memory_mb=256)


def inside(name: str, code: str) -> str:
    """What ``code`` printed in the sandbox ``name``."""
    job = Job((*PYTHON, code), (), base_env(), LIMITS, python=Path(sys.prefix))
    return select(name).run(job).output.text().strip()


def probed(name: str) -> dict[str, str]:
    """``blocked``, ``open`` or ``unknown`` for each probe."""
    with (
        tempfile.TemporaryDirectory(dir=Path.home()) as folder,  # paths in /tmp mean the sandbox's own /tmp
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
        subprocess.Popen(["sleep", "120"]) as other,
    ):
        file = Path(folder, "private")
        file.write_text("private")
        by_path.bind(f"{folder}/socket")
        by_name.bind("\0" + folder)
        by_path.listen()
        by_name.listen()
        known = {"file": str(file), "pid": other.pid, "port": tcp.getsockname()[1]}
        known |= {"path": f"{folder}/socket", "abstract": folder}
        found = {}
        for what, template in PROBES.items():
            attempt = template.format(**known)
            code = f"try:\n {attempt}\nexcept OSError:\n print('blocked')\nelse:\n print('open')"
            said = inside(name, code)
            found[what] = said if said in ("blocked", "open") else "unknown"
        other.kill()
    return found


def costs_ms(names: list[str], repeats: int) -> dict[str, float]:
    """Median milliseconds over bare Python."""
    taken: dict[str, list[float]] = {name: [] for name in ("bare", *names)}
    for _ in range(repeats):
        for name, times in taken.items():
            began = time.perf_counter()
            if name == "bare":
                subprocess.run([*PYTHON, "pass"], env=base_env(), check=True)
            else:
                inside(name, "pass")
            times.append((time.perf_counter() - began) * 1000)
    bare = statistics.median(taken.pop("bare"))
    return {name: statistics.median(times) - bare for name, times in taken.items()}


def measure(repeats: int) -> Outcome:
    chosen = select().name
    names = [*(tried.name for tried in available() if tried.works), "none"]
    blocked = {name: probed(name) for name in names}
    cost = costs_ms(names, repeats)
    rows = [("cost over bare Python, ms", *(f"{cost[name]:.1f}" for name in names))]
    rows += [(what, *(blocked[name][what] for name in names)) for what in PROBES]
    return Outcome(
        title=f"Sandboxes that work here; auto is {chosen}",
        columns=("", *names),
        rows=rows,
        record={"selected": chosen, "cost_ms": cost, "probes": blocked, "repeats": repeats},
        bars=[
            Bar(f"cost of {chosen} over bare Python, ms", cost[chosen], 40),
            Bar("probes that are not open without a sandbox", sum(s != "open" for s in blocked["none"].values()), 0),
            Bar(f"probes that {chosen} did not block", sum(s != "blocked" for s in blocked[chosen].values()), 0),
        ],
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    finish(options, lambda: measure(options.repeats))
