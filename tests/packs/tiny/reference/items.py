"""One row a question: ``items.py --gen-dir DIR --task-dir DIR --out FILE`` writes JSON lines {"id", "value"}."""

import argparse
import json
from pathlib import Path


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--gen-dir", "--task-dir", "--out"):
        parser.add_argument(flag, type=Path, required=True)
    args = parser.parse_args()
    truth = json.loads((args.task_dir / "data" / "private" / "answers.json").read_text(encoding="utf-8"))
    answers = json.loads((args.gen_dir / "answers.json").read_text(encoding="utf-8"))
    rows = [json.dumps({"id": key, "value": float(answers.get(key) == right)}) for key, right in truth.items()]
    args.out.write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
