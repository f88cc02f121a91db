"""Predicts the charge of a criminal case from its text. A run starts from it: no training label is used yet.

    python target_agent.py --dataset_dir D --working_dir W

A pipeline of small functions, each of which may be replaced: prepare → vectorise → weigh → use_names → classify →
rerank. All are deterministic and run on one thread. Rows of every matrix: labelled cases, then the cases to predict,
then the names of the charges.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

SEED = 0
HEAD_CHARS = 4000
NGRAM_MAX = 3
MIN_DF = 3
MAX_SHARE = 1.0
IDF_POWER = 1.0
BM25_K1 = 1.2
BM25_B = 0.75
CHI_POWER = 0.25
SMOOTHING = 0.1
RARE = 15
RIDGE = 0.2
SVC_C = 1.0
SVC_FEATURES = 50000
BALANCE = 0.0
TOP_K = 5
RERANK_WEIGHT = 0.3
LOCAL_RIDGE = 0.2
TRACED_CASES = 20
PUNCTUATION = "，。、；：？！“”‘’（）《》〈〉【】,.;:?!()[]\"' \t\r\n\u3000"


def prepare(text):
    """The text as it stands."""
    return text


def vectorise(texts):
    """Counts of single characters."""
    return count_shapes(texts, [(0,)])


def weigh(counts, labels):
    """Plain counts, rows of length one."""
    return unit_rows(counts)


def use_names(known, labels, names):
    """The names of the charges teach nothing by themselves."""
    return known, labels


def classify(known, labels, unknown, names):
    """Zero-shot: how much of a charge's name stands in the text."""
    return similarities(unknown, names)


def rerank(scores, known, labels, unknown, names):
    """The classifier's order stands."""
    return scores


def count_shapes(texts, shapes, breaks=""):
    """Sparse counts (text × pattern). A shape lists the places of its characters: (0, 1) is a pair, (0, 2) skips one.

    Patterns that hold a character of ``breaks``, stand in fewer than MIN_DF texts or in more than MAX_SHARE of them
    are left out.
    """
    lengths = np.array([len(text) for text in texts])
    characters = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    alphabet, codes = np.unique(characters, return_inverse=True)
    codes = codes.astype(np.int64)
    rows = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    broken = np.isin(alphabet, [ord(char) for char in breaks])[codes]
    blocks = []
    for shape in shapes:
        size = len(codes) - shape[-1]
        good = rows[:size] == rows[shape[-1] :]
        keys = np.zeros(size, dtype=np.int64)
        for place in shape:
            keys = keys * len(alphabet) + codes[place : place + size]
            good &= ~broken[place : place + size]
        _, columns = np.unique(keys[good], return_inverse=True)
        ones = np.ones(len(columns), dtype=np.float32)
        block = sp.coo_matrix((ones, (rows[:size][good], columns)), shape=(len(texts), columns.max() + 1)).tocsr()
        frequency = document_frequency(block)
        blocks.append(block[:, (frequency >= MIN_DF) & (frequency <= MAX_SHARE * len(texts))])
    return sp.hstack(blocks, format="csr")


def document_frequency(counts):
    """In how many rows each column stands."""
    return np.bincount(counts.indices, minlength=counts.shape[1])


def similarities(left, right):
    """Dense left · rightᵀ. Columns that stand in many rows are multiplied as dense ones: several times quicker."""
    frequent = document_frequency(left) > 0.05 * left.shape[0]
    product = left[:, frequent].toarray() @ right[:, frequent].toarray().T
    product += (left[:, ~frequent] @ right[:, ~frequent].T).toarray()
    return product


def unit_rows(matrix):
    """Rows scaled to length one; empty rows stay empty."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.maximum(lengths, 1e-9)) @ matrix, dtype=np.float32)


def membership(labels, classes):
    """Sparse (class × row): 1 where the row has the class."""
    rows = np.arange(len(labels))
    return sp.csr_matrix((np.ones(len(labels)), (labels, rows)), shape=(classes, len(labels)))


def second_opinion(scores, opinion):
    """Scores plus RERANK_WEIGHT times another opinion, both brought to one spread over the TOP_K best classes."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP_K]
    first, second = np.take_along_axis(scores, best, axis=1), np.take_along_axis(opinion, best, axis=1)
    scale = np.maximum(first.std(axis=1, keepdims=True), 1e-9) / np.maximum(second.std(axis=1, keepdims=True), 1e-9)
    result = scores - 1e6
    np.put_along_axis(result, best, first + RERANK_WEIGHT * scale * second, axis=1)
    return result


def read_csv(path):
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_submission(path, cases, charges):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "label"])
        writer.writerows([case["id"], charge] for case, charge in zip(cases, charges, strict=True))


def write_trajectories(folder, cases, classes, scores):
    """What was seen and what was weighed, for the first cases, in the message format of agents that talk."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, case in enumerate(cases[:TRACED_CASES]):
        best = np.argsort(-scores[i], kind="stable")[:5]
        ranking = "\n".join(f"{classes[c]}\t{scores[i, c]:.4f}" for c in best)
        messages = [
            {"role": "user", "content": case["text"]},
            {"role": "assistant", "content": f"{classes[best[0]]}\n\n{ranking}"},
        ]
        text = json.dumps(messages, ensure_ascii=False, indent=2)
        (folder / f"execution_q{i}.json").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Predict the charge of each case.")
    parser.add_argument("--dataset_dir", type=Path, required=True, help="read only")
    parser.add_argument("--working_dir", type=Path, required=True, help="results go here")
    args = parser.parse_args()
    started = time.monotonic()

    def log(message):
        print(f"[{time.monotonic() - started:6.2f} s] {message}", flush=True)

    classes = json.loads((args.dataset_dir / "classes.json").read_text(encoding="utf-8"))
    train, cases = read_csv(args.dataset_dir / "train.csv"), read_csv(args.dataset_dir / "test.csv")
    log(f"{len(train)} labelled cases, {len(cases)} to predict, {len(classes)} charges")
    number = {name: i for i, name in enumerate(classes)}
    labels = np.array([number[row["label"]] for row in train])
    texts = [prepare(text) for text in [*(row["text"] for row in [*train, *cases]), *classes]]
    counts = vectorise(texts)
    log(f"{counts.shape[1]} features, {counts.nnz} entries")
    matrix = weigh(counts, labels)
    known, unknown, names = np.split(np.arange(len(texts)), [len(train), len(train) + len(cases)])
    names, unknown = matrix[names], matrix[unknown]
    known, labels = use_names(matrix[known], labels, names)
    log("weighed")
    scores = classify(known, labels, unknown, names)
    log("classified")
    scores = rerank(scores, known, labels, unknown, names)
    args.working_dir.mkdir(parents=True, exist_ok=True)
    write_submission(args.working_dir / "submission.csv", cases, [classes[c] for c in scores.argmax(axis=1)])
    write_trajectories(args.working_dir / "agent_execution", cases, classes, scores)
    log("submission written")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
