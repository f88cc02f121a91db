"""What the loop itself costs: a pack whose sandboxed target and evaluator end at once.

Two figures. Seconds a generation: the time between the outcomes of the middle and the last generation, divided by the
generations between them (all workers have started by then); sandbox on, smoke stage, dev evaluation and items
included. First result: from the start of the `sia-ray run` process to the first generation's score, less the start of
Ray measured beside it, on a warm machine (environment and splits cached).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

from report import Bar, Outcome, arguments, finish

PACK = Path(__file__).parent.parent / "tests" / "packs" / "tiny"
RAY_START = """
import ray, time
ray.init(address="local", log_to_driver=False, logging_level="ERROR")
print(time.time())
"""
STEPS = ("propose", "run smoke", "evaluate smoke", "run dev", "evaluate dev")


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def one_run(generations: int) -> dict[str, Any]:
    """One `sia-ray run` in a process of its own; its times read off the ledger."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sia_ray.cli.main", "run", str(PACK), "--local", "--no-holdout", "--json"]
        began = time.time()
        subprocess.run(
            [*command, "--generations", str(generations), "--storage", folder],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = (Path(folder) / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    ended = [seconds(e["at"]) for e in events if e["kind"] == "generation_ended"]
    half = len(ended) // 2
    started: dict[str, tuple[str, float]] = {}
    spent: dict[str, list[float]] = defaultdict(list)
    inside: dict[str, list[float]] = defaultdict(list)
    for event in events:
        payload = event["payload"] if isinstance(event["payload"], dict) else json.loads(event["payload"])
        if event["kind"] == "work_started":
            started[payload["work"]] = (f"{payload['what']} {payload['split']}".strip(), seconds(event["at"]))
        elif event["kind"] == "work_finished":
            name, since = started[payload["work"]]
            spent[name].append(seconds(event["at"]) - since)
            inside[name].append(payload["artifacts"].get("wall_s", 0.0))
    return {
        "first_result_s": ended[0] - began,
        "generation_s": (ended[-1] - ended[half - 1]) / (len(ended) - half),
        "mean_generation_s": (ended[-1] - ended[0]) / (len(ended) - 1),
        "steps_s": {name: statistics.median(values[1:] or values) for name, values in spent.items()},
        "sandboxed_s": {name: statistics.median(values[1:] or values) for name, values in inside.items()},
    }


def ray_start() -> float:
    """Seconds from the start of a process to the end of its ray.init."""
    began = time.time()
    command = [sys.executable, "-c", RAY_START]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return float(done.stdout.split()[-1]) - began


def measure(generations: int, repeats: int) -> Outcome:
    one_run(2)
    runs, starts = [], []
    for _ in range(repeats):
        starts.append(ray_start())
        runs.append(one_run(generations))
    ray_s = statistics.median(starts)
    first = statistics.median(run["first_result_s"] for run in runs) - ray_s
    generation = statistics.median(run["generation_s"] for run in runs)
    mean = statistics.median(run["mean_generation_s"] for run in runs)
    rows: list[tuple[str, float, str]] = [
        ("a generation, wall, second half of the run", generation, ""),
        ("a generation, wall, whole run (workers' starts included)", mean, ""),
    ]
    for name in STEPS:
        step = statistics.median(run["steps_s"].get(name, 0.0) for run in runs)
        inner = statistics.median(run["sandboxed_s"].get(name, 0.0) for run in runs)
        rows.append((f"  {name}", step, f"{inner:.3f} in the sandbox" if inner else ""))
    rows += [("first result, beyond Ray's start", first, ""), ("Ray's own start", ray_s, "")]
    return Outcome(
        title=f"Loop overhead, {generations} generations, median of {repeats} (steps overlap: look-ahead 2)",
        columns=("what", "s", "of which"),
        rows=rows,
        record={"generation_s": generation, "first_result_s": first, "ray_start_s": ray_s, "runs": runs},
        bars=(
            Bar("seconds of loop a generation", generation, 0.3),
            Bar("seconds to the first result beyond Ray's start", first, 3.0),
        ),
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--generations", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    finish(chosen, lambda: measure(chosen.generations, chosen.repeats))
