"""LawBench end to end: the loop with `search`, selected on dev alone, scored once on the 913 official cases.

Per seed: `sia-ray run lawbench` in a process of its own with a storage root of its own, its wall time, the peak of
the summed PSS of all its processes (sampled), start and end on the holdout by SIA's own evaluate.py. The first
seed is run again on one core: same candidates, same scores (--no-repeat leaves that out).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Bar, Outcome, arguments, finish


def family(root: int) -> list[int]:
    """``root`` and every process below it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, frontier = {root}, {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return sorted(found)


def summed_pss_mb(root: int) -> float:
    total = 0
    for pid in family(root):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def one_run(seed: int, *, one_core: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sia_ray.cli.main", "run", "lawbench", "--local", "--json"]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--seed", str(seed), "--storage", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) if one_core else None,
        )
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, summed_pss_mb(process.pid))
            time.sleep(1.0)
        assert process.stdout is not None
        record: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    holdout = record["holdout"] or {"start": 0.0, "score": 0.0, "n": 0, "evaluator_sha256": ""}
    return {
        "seed": seed,
        "seconds": time.monotonic() - began,
        "peak_pss_mb": peak,
        "start": holdout["start"],
        "end": holdout["score"],
        "n": holdout["n"],
        "evaluator_sha256": holdout["evaluator_sha256"],
        "dev": record["best"]["score"] if record["best"] else None,
        "best": record["best"],
        "scores": [[g["candidate"], g["score"]] for g in record["generations"]],
        "state_digest": record["state_digest"],
    }


def measure(seeds: list[int], repeat: bool) -> Outcome:
    runs = [one_run(seed) for seed in seeds]
    ends = [run["end"] for run in runs]
    rows = [
        (
            run["seed"],
            f"{run['start']:.2%}",
            f"{run['end']:.2%}",
            f"{run['dev']:.2%}",
            len(run["scores"]),
            f"{run['seconds']:.0f}",
            f"{run['peak_pss_mb']:.0f}",
        )
        for run in runs
    ]
    bars = [
        Bar("start on the 913 cases", max(run["start"] for run in runs), 0.20),
        Bar("median end on the 913 cases", statistics.median(ends), 0.77, at_least=True),
        Bar("worst end on the 913 cases", min(ends), 0.75, at_least=True),
        Bar("most generations", float(max(len(run["scores"]) for run in runs)), 20),
        Bar("longest run, minutes", max(run["seconds"] for run in runs) / 60, 8),
        Bar("peak of summed PSS, GiB", max(run["peak_pss_mb"] for run in runs) / 1024, 4),
    ]
    if repeat:
        again = one_run(seeds[0], one_core=True)
        same = again["scores"] == runs[0]["scores"] and again["state_digest"] == runs[0]["state_digest"]
        rows.append((f"{seeds[0]}, one core", "", f"{again['end']:.2%}", "", "same" if same else "DIFFERENT", "", ""))
        bars.append(Bar("same seed on one core: same candidates and scores", float(same), 1, at_least=True))
    return Outcome(
        title="LawBench, search back-end, no model",
        columns=("seed", "start", "end", "dev of best", "generations", "s", "peak PSS MB"),
        rows=rows,
        record={"runs": runs},
        bars=bars,
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--no-repeat", action="store_true", help="do not run the first seed again on one core")
    chosen = parser.parse_args()
    finish(chosen, lambda: measure(chosen.seeds, not chosen.no_repeat))
