"""Improve a task from Python and look at what came of it.

python examples/improve.py [TASK]
"""

from __future__ import annotations

import sys

import sia_ray


def main() -> None:
    task = sys.argv[1] if len(sys.argv) > 1 else "lawbench"
    with sia_ray.connect("local"):
        run = sia_ray.run(task, generations=6, seed=0)
    for row in run.generations.select(["generation", "status", "score", "seconds"]).to_pylist():
        print(row)
    print("best:", run.best and run.best.generation, "holdout:", run.holdout, "files:", run.path)


if __name__ == "__main__":
    main()
