"""One row a passenger: python items.py --gen-dir DIR --task-dir DIR --out FILE. Judged by the split's evaluate.py."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description="One row a passenger: was the answer right?")
    for name in ("--gen-dir", "--task-dir", "--out"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    evaluator = runpy.run_path(str(args.task_dir / "data" / "public" / "evaluate.py"))
    try:
        right = evaluator["marks"](args.gen_dir, args.task_dir / "data" / "private")
    except evaluator["Refused"] as reason:
        print(f"items refused: {reason}", file=sys.stderr)
        return 1
    rows = [json.dumps({"id": name, "correct": good}) + "\n" for name, good in right.items()]
    args.out.write_text("".join(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
