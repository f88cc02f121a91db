"""Cut the questions by kind into dev (2/5), canary (1/5), holdout (the rest): python splits.py --source DIR --out DIR.

Smoke is two questions a kind out of dev. The order is a hash of seed and prompt, so equal input gives equal output.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

SEED = 20261204


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut the chess questions into splits.")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    data = args.source / "data"
    questions = json.loads((data / "public" / "chess_hard.json").read_text(encoding="utf-8"))
    answers = json.loads((data / "private" / "answers.json").read_text(encoding="utf-8"))
    questions.sort(key=lambda q: hashlib.sha256(f"{SEED}\n{q['prompt']}".encode()).hexdigest())
    parts: dict[str, list[dict[str, Any]]] = {"dev": [], "canary": [], "holdout": [], "smoke": []}
    for kind in ("best_3_moves", "knight_path"):
        rows = [q for q in questions if q["problem"]["template"] == kind]
        first, second = round(len(rows) * 2 / 5), round(len(rows) * 3 / 5)
        parts["dev"] += rows[:first]
        parts["canary"] += rows[first:second]
        parts["holdout"] += rows[second:]
        parts["smoke"] += rows[:2]
    for split, rows in parts.items():
        public, private = args.out / split / "data" / "public", args.out / split / "data" / "private"
        public.mkdir(parents=True)
        private.mkdir(parents=True)
        for name in ("task.md", "evaluate.py"):
            shutil.copyfile(data / "public" / name, public / name)
        (public / "chess_hard.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        truth = {q["question_id"]: answers[q["question_id"]] for q in rows}
        (private / "answers.json").write_text(json.dumps(truth, indent=1), encoding="utf-8")
    report = {"schema": 1, "seed": SEED, "splits": {split: {"rows": len(rows)} for split, rows in parts.items()}}
    (args.out / "splits.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
