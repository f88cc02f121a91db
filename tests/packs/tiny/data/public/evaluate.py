"""Score DIR/answers.json against the truth: ``evaluate.py --gen-dir DIR`` writes DIR/results.json."""

import argparse
import json
import sys
from pathlib import Path

TRUTH = Path(__file__).resolve().parent.parent / "private" / "answers.json"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gen-dir", type=Path, required=True)
    gen_dir = parser.parse_args().gen_dir
    truth = json.loads(TRUTH.read_text(encoding="utf-8"))
    try:
        answers = json.loads((gen_dir / "answers.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        print("no answers.json")
        return 1
    correct = sum(answers.get(key) == right for key, right in truth.items())
    results = {"accuracy": correct / len(truth), "n_correct": correct, "n_total": len(truth)}
    (gen_dir / "results.json").write_text(json.dumps(results), encoding="utf-8")
    print(f"accuracy {correct}/{len(truth)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
