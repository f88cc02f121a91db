"""Cut the questions: dev 100, canary 50, holdout 50, and the first 8 of dev once more as smoke."""

import argparse
import json
from pathlib import Path

CUTS = {"dev": (0, 100), "canary": (100, 150), "holdout": (150, 200), "smoke": (0, 8)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    questions = json.loads((args.source / "data" / "public" / "questions.json").read_text(encoding="utf-8"))
    answers = json.loads((args.source / "data" / "private" / "answers.json").read_text(encoding="utf-8"))
    for name, (start, end) in CUTS.items():
        chosen = questions[start:end]
        public, private = (args.out / name / "data" / side for side in ("public", "private"))
        public.mkdir(parents=True)
        private.mkdir(parents=True)
        (public / "questions.json").write_text(json.dumps(chosen), encoding="utf-8")
        truth = {str(question["id"]): answers[str(question["id"])] for question in chosen}
        (private / "answers.json").write_text(json.dumps(truth), encoding="utf-8")


if __name__ == "__main__":
    main()
