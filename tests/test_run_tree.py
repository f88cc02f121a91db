"""The run tree: SIA's names, nothing of ours overwritten, and what ``sia web`` needs of each file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sia_ray.evidence.run_tree import GenerationTree, generation_files, run_files, web_results
from tests.test_context import FIRST, RUN, SECOND

RESULTS = {"accuracy": 0.7, "n_correct": 140, "n_total": 200, "per_class": {"a": 0.5}}


def tree(number: int = 1, **more: Any) -> GenerationTree:
    given: dict[str, Any] = {
        "number": number,
        "harness": {"target_agent.py": b"main()\n", "requirements.txt": b"numpy\n"},
        "prompt": "asked",
        "improvement": "# Improvement\n",
        "stdout": b"out \xff",
        "outputs": {"submission.csv": b"id,label\n", "agent_execution/execution_q1.json": b"[]"},
        "evaluation_log": b"ok\n",
        "results": json.dumps(RESULTS).encode(),
        "passed": True,
        "record": {"candidate": "1f", "base": None, "lever": "harness", "score": 0.7, "sandbox": "bubblewrap"},
    }
    return GenerationTree(**{**given, **more})


COMMON = {
    "agent_execution/execution_q1.json",
    "candidate.json",
    "evaluation.log",
    "requirements.txt",
    "results.json",
    "submission.csv",
    "target_agent.py",
    "target_agent_stdout.log",
}


def test_files_of_the_first_generation() -> None:
    assert set(generation_files(tree(1))) == COMMON | {"meta_agent_prompt.txt"}


def test_files_of_the_second_generation() -> None:
    assert set(generation_files(tree(2))) == COMMON | {"feedback_agent_prompt.txt", "improvement.md"}


def test_contents_are_kept_byte_for_byte() -> None:
    files = generation_files(tree(2))
    assert files["target_agent_stdout.log"] == b"out \xff"
    assert files["feedback_agent_prompt.txt"] == b"asked"
    assert json.loads(files["results.json"]) == RESULTS
    assert json.loads(files["candidate.json"])["lever"] == "harness"


def test_refused_results_are_never_called_results() -> None:
    files = generation_files(tree(2, passed=False, results=b'{"accuracy": NaN}'))
    assert "results.json" not in files
    assert "evaluation_results.json" not in files
    assert files["results.rejected.bin"] == b'{"accuracy": NaN}'
    assert not {"results.json", "results.rejected.bin"} & set(generation_files(tree(2, results=None, passed=False)))


FORGED = (
    "results.json",
    "Results.JSON",
    "evaluation_results.json",
    "results.rejected.bin",
    "candidate.json",
    "improvement.md",
    "meta_agent_prompt.txt",
    "feedback_agent_prompt.txt",
    "evaluation.log",
    "train_stdout.log",
    "detailed_results.json",
    "target_agent_stdout.log/x",
    "../escape",
    "/etc/passwd",
    "a//b",
)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", FORGED)
def test_neither_target_nor_harness_can_write_a_record(name: str, number: int) -> None:
    honest = generation_files(tree(number, results=None, passed=False))
    for field in ("outputs", "harness"):
        given = {**getattr(tree(), field), name: b"forged"}
        files = generation_files(tree(number, results=None, passed=False, **{field: given}))
        assert b"forged" not in files.values()
        assert set(files) == set(honest)
        assert json.loads(files["candidate.json"])["left_out"] == [name]


def test_outputs_never_replace_the_harness_or_stand_in_its_way() -> None:
    harness = {"target_agent.py": b"main()\n", "lib/part.py": b"x"}
    outputs = {"target_agent.py": b"evil", "TARGET_AGENT.PY": b"evil", "lib": b"evil", "lib/part.py/y": b"evil"}
    files = generation_files(tree(1, harness=harness, outputs={**outputs, "lib/log.txt": b"fine"}))
    assert b"evil" not in files.values()
    assert files["lib/log.txt"] == b"fine"
    assert json.loads(files["candidate.json"])["left_out"] == sorted(outputs)


@pytest.mark.parametrize(
    ("results", "shown"),
    [
        (RESULTS, None),
        ({"accuracy": 0.5, "total": 10, "correct": 5, "details": []}, None),
        ({"accuracy_percent": 48.99, "total_questions": 198}, None),
        ({"score": 1.475}, None),
        ({"accuracy": 0.5, "total": 10.0, "correct": 5.5}, {"total": 10, "accuracy_percent": 50.0}),
        ({"accuracy_percent": "48.99%", "correct": "97"}, {"accuracy_percent": 48.99, "correct": 97}),
        ({"accuracy": "48.99%"}, {"accuracy_percent": 48.99}),
        ({"accuracy": 0.25, "missing": [1, 2], "invalid": "none"}, {"accuracy_percent": 25.0}),
        ({"accuracy": {"mean": 0.5}}, {}),
        ({"accuracy": 1e307, "correct": 1}, {"correct": 1}),
        ({"accuracy": 0.5, "correct": True}, {"accuracy_percent": 50.0, "correct": 1}),
    ],
)
def test_results_that_would_break_sia_web_get_a_readable_copy(
    results: dict[str, Any], shown: dict[str, Any] | None
) -> None:
    raw = json.dumps(results).encode()
    copy = web_results(raw)
    assert (None if copy is None else json.loads(copy)) == shown
    files = generation_files(tree(2, results=raw))
    assert files["results.json"] == raw
    assert ("evaluation_results.json" in files) == (shown is not None)


def test_results_that_are_no_object_need_no_copy() -> None:
    for raw in (b"[1.5]", b"", b"\xff", b"null", b'{"accuracy": ' * 5000):
        assert web_results(raw) is None


def test_nan_never_reaches_the_copy() -> None:
    copy = web_results(b'{"accuracy": NaN, "total": Infinity, "correct": 3}')
    assert copy is not None
    assert json.loads(copy) == {"correct": 3}


# --- what `sia web` of sia-agent 0.6.0 reads, stated again here ---------------------------------------------------


def test_the_contract_of_sia_web_holds() -> None:
    """Names of folders are run_<int> and gen_<int>; the first block of context.md is ``**Key**: value``; counts are
    integers and accuracy is finite; profiles.json is an object of two objects.
    """
    assert re.fullmatch(r"run_\d+", RUN.run)
    files = run_files(RUN, [FIRST, SECOND], meta={"profile_id": "search"}, target={"profile_id": "none"})
    assert set(files) == {"context.md", "profiles.json"}
    profiles = json.loads(files["profiles.json"])
    assert profiles == {"meta": {"profile_id": "search"}, "target": {"profile_id": "none"}}
    meta = {}
    for line in files["context.md"].decode().splitlines():
        if line.strip().startswith("## "):
            break
        if match := re.match(r"^\*\*(?P<key>[^*]+)\*\*:\s*(?P<value>.*)$", line.strip()):
            meta[match["key"].strip().lower()] = match["value"].strip()
    assert {"task", "meta model", "task model", "agent impl", "started"} <= set(meta)
    assert int(meta["max generations"]) == RUN.max_generations
    for results in (RESULTS, {"accuracy": "7%", "total": 1.5}):
        gen = generation_files(tree(2, results=json.dumps(results).encode()))
        read = json.loads(gen.get("evaluation_results.json", gen["results.json"]))
        counts = [read.get(k) for k in ("total_questions", "total", "correct", "incorrect", "missing", "invalid")]
        assert all(count is None or type(count) is int for count in counts)
        percent = read.get("accuracy_percent", read.get("accuracy", 0) * 100)
        assert 0 <= percent <= 100
