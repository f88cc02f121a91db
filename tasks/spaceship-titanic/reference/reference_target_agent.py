"""Decides which passengers were transported. A run starts from it: one threshold on one plain number.

    python target_agent.py --dataset_dir D --working_dir W

A pipeline of small functions, each of which may be replaced: fill → person, cabin, group, spending (columns of
numbers, missing ones are NaN) → classify. All are deterministic and run on one thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

SEED = 0
BILLS = ("RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck")
DECKS = "ABCDEFGT"
PLANETS = ("Earth", "Europa", "Mars")
DESTINATIONS = ("TRAPPIST-1e", "55 Cancri e", "PSO J318.5-22")
CHILD_AGE = 12
REGIONS = 6
LEARNING_RATE = 0.05
ROUNDS = 200
LEAVES = 15
LEAF_ROWS = 20
RESTARTS = 3
TREES = 300
TREE_LEAF_ROWS = 3
LOGISTIC_C = 0.1
SVM_C = 1.0
TRACED_PASSENGERS = 20


def fill(rows):
    """Missing stays missing."""
    return rows


def person_columns(rows):
    """The age alone."""
    return [numbers(rows, "Age")]


def cabin_columns(rows):
    """Nothing of the cabin."""
    return []


def group_columns(rows):
    """Nothing of who travels with whom."""
    return []


def spending_columns(rows):
    """The five bills as they stand."""
    return [numbers(rows, bill) for bill in BILLS]


def classify(known, labels, unknown):
    """One threshold on one number."""
    model = make_pipeline(SimpleImputer(strategy="median"), DecisionTreeClassifier(max_depth=1, random_state=SEED))
    return model.fit(known, labels).predict_proba(unknown)[:, 1]


def numbers(rows, column):
    """A column as floats; NaN where it is empty."""
    return np.array([float(row[column]) if row[column] else np.nan for row in rows])


def truths(rows, column):
    """1 for True, 0 for False, NaN where it is empty."""
    return np.array([{"True": 1.0, "False": 0.0}.get(row[column], np.nan) for row in rows])


def indicators(values, options):
    """One column an option: 1 where it is the value. All are 0 where the value is none of them."""
    return [np.array([float(value == option) for value in values]) for option in options]


def deck(row):
    return row["Cabin"].partition("/")[0]


def side(row):
    return row["Cabin"].rpartition("/")[2]


def cabin_number(row):
    return float(row["Cabin"].split("/")[1]) if row["Cabin"] else np.nan


def group_of(row):
    return row["PassengerId"].partition("_")[0]


def surname(row):
    return row["Name"].rpartition(" ")[2]


def bills_of(rows):
    """Matrix (passenger × bill), NaN where a bill is missing."""
    return np.column_stack([numbers(rows, bill) for bill in BILLS])


def sizes(rows, key):
    """How many passengers share each one's key; 1 for an empty key."""
    count = Counter(key(row) for row in rows)
    return np.array([float(count[key(row)]) if key(row) else 1.0 for row in rows])


def commonest(rows, key, value):
    """key → the commonest value among the rows that have both."""
    votes = defaultdict(Counter)
    for row in rows:
        if key(row) and value(row):
            votes[key(row)][value(row)] += 1
    return {name: min(count, key=lambda option: (-count[option], option)) for name, count in votes.items()}


def of_others(rows, values):
    """Mean of a number over the rest of each one's group; NaN when travelling alone, or when nothing is known."""
    members = defaultdict(list)
    for i, row in enumerate(rows):
        members[group_of(row)].append(i)
    result = np.full(len(rows), np.nan)
    for places in members.values():
        known = [i for i in places if not np.isnan(values[i])]
        total = sum(values[i] for i in known)
        for i in places:
            others = len(known) - (i in known)
            if others:
                result[i] = (total - (values[i] if i in known else 0.0)) / others
    return result


def evened(model):
    """``model`` behind what most models need: no gap, every column on one scale."""
    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), model)


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_submission(path, passengers, fates):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["PassengerId", "Transported"])
        writer.writerows([row["PassengerId"], bool(fate)] for row, fate in zip(passengers, fates, strict=True))


def write_trajectories(folder, passengers, chances):
    """What was seen and what was thought likely, for the first passengers, in the format of agents that talk."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, row in enumerate(passengers[:TRACED_PASSENGERS]):
        messages = [
            {"role": "user", "content": json.dumps(row, ensure_ascii=False)},
            {
                "role": "assistant",
                "content": f"{chances[i] > 0.5} (chance of having been transported {chances[i]:.3f})",
            },
        ]
        text = json.dumps(messages, ensure_ascii=False, indent=2)
        (folder / f"execution_q{i}.json").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Decide which passengers were transported.")
    parser.add_argument("--dataset_dir", type=Path, required=True, help="read only")
    parser.add_argument("--working_dir", type=Path, required=True, help="results go here")
    args = parser.parse_args()
    started = time.monotonic()

    def log(message):
        print(f"[{time.monotonic() - started:6.2f} s] {message}", flush=True)

    train, test = read_csv(args.dataset_dir / "train.csv"), read_csv(args.dataset_dir / "test.csv")
    companions = read_csv(args.dataset_dir / "companions.csv")
    log(f"{len(train)} passengers with a known fate, {len(test)} to decide, {len(companions)} companions")
    labels = np.array([row["Transported"] == "True" for row in train])
    rows = fill([*train, *test, *companions])
    columns = [*person_columns(rows), *cabin_columns(rows), *group_columns(rows), *spending_columns(rows)]
    table = np.column_stack(columns)
    log(f"{table.shape[1]} columns, {np.isnan(table).mean():.1%} missing")
    chances = classify(table[: len(train)], labels, table[len(train) : len(train) + len(test)])
    log("decided")
    args.working_dir.mkdir(parents=True, exist_ok=True)
    write_submission(args.working_dir / "submission.csv", test, chances > 0.5)
    write_trajectories(args.working_dir / "agent_execution", test, chances)
    log("submission written")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
