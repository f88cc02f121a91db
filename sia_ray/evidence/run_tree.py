"""The run tree in SIA's names: which file of ``run_N`` and ``gen_M`` holds what.

Pure: relative path → content, for whoever writes it. What our own code records always wins over what a harness or a
target wrote under the same name, so nobody can put a score or a log into the tree by writing a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sia_ray.candidate.bundle import is_safe_path
from sia_ray.evidence.context import GenerationView, RunView, render_context

STDOUT = "target_agent_stdout.log"
EVALUATION_LOG = "evaluation.log"
RESULTS = "results.json"
REJECTED = "results.rejected.bin"
WEB_RESULTS = "evaluation_results.json"
META_PROMPT = "meta_agent_prompt.txt"
FEEDBACK_PROMPT = "feedback_agent_prompt.txt"
IMPROVEMENT = "improvement.md"
CANDIDATE = "candidate.json"

RECORDS = frozenset(
    {
        CANDIDATE,
        EVALUATION_LOG,
        FEEDBACK_PROMPT,
        IMPROVEMENT,
        META_PROMPT,
        REJECTED,
        RESULTS,
        STDOUT,
        WEB_RESULTS,
        "detailed_results.json",
        "train_stdout.log",
    }
)
"""Names that only our own code writes, in whatever case; the last two are names that readers of SIA's trees trust."""

_COUNTS = ("total_questions", "total", "correct", "incorrect", "missing", "invalid")


class GenerationTree(NamedTuple):
    """All that a generation leaves behind. ``results`` is what the evaluator wrote, accepted or not.

    ``outputs`` are the files that the target wrote in its working folder; ``record`` becomes candidate.json (digests,
    base, lever, score, status, sandbox).
    """

    number: int
    harness: Mapping[str, bytes]
    prompt: str
    improvement: str
    stdout: bytes
    outputs: Mapping[str, bytes]
    evaluation_log: bytes
    results: bytes | None
    passed: bool
    record: Mapping[str, Any]


def generation_files(tree: GenerationTree) -> dict[str, bytes]:
    """The files of ``gen_{tree.number}``; candidate.json lists under ``left_out`` what found no place."""
    ours = {
        META_PROMPT if tree.number == 1 else FEEDBACK_PROMPT: tree.prompt.encode(),
        STDOUT: tree.stdout,
        EVALUATION_LOG: tree.evaluation_log,
    }
    if tree.number > 1:
        ours[IMPROVEMENT] = tree.improvement.encode()
    if tree.results is not None:
        ours[RESULTS if tree.passed else REJECTED] = tree.results
        if tree.passed and (readable := web_results(tree.results)) is not None:
            ours[WEB_RESULTS] = readable
    files: dict[str, bytes] = {}
    left_out = [*_place(files, tree.harness), *_place(files, tree.outputs)]
    ours[CANDIDATE] = _json({"schema": 1, "generation": tree.number, **tree.record, "left_out": left_out})
    return files | ours


def run_files(
    run: RunView, generations: Sequence[GenerationView], *, meta: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of ``run_N`` itself. ``meta`` and ``target`` are the two profiles as they were resolved."""
    return {
        "context.md": render_context(run, generations).encode(),
        "profiles.json": _json({"meta": dict(meta), "target": dict(target)}),
    }


def web_results(results: bytes) -> bytes | None:
    """A copy of accepted ``results`` that ``sia web`` can read, where the original would break its list of all runs.

    It reads counts as integers and accuracy as a finite number, and answers 500 for every run when one file says
    12.5, "48.99%" or NaN instead. None where the original is fine. A value that means no number is left out.
    """
    try:
        data = json.loads(results)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    counts = {name: data[name] for name in _COUNTS if data.get(name) is not None}
    percent = data.get("accuracy_percent")
    accuracy = data.get("accuracy")
    fine = (
        all(_is_count(value) for value in counts.values())
        and (percent is None or _is_finite(percent))
        and (accuracy is None or _is_finite(accuracy, 100))
    )
    if fine:
        return None
    shown: dict[str, int | float] = {}
    for name, value in counts.items():
        if (count := _number(value)) is not None and count == int(count):
            shown[name] = int(count)
    if (share := _number(percent)) is None and (share := _number(accuracy)) is not None:
        share = share if isinstance(accuracy, str) and "%" in accuracy else share * 100
    if share is not None and math.isfinite(share):
        shown["accuracy_percent"] = float(share)
    return _json(shown)


def _place(files: dict[str, bytes], more: Mapping[str, bytes]) -> list[str]:
    """Put ``more`` into ``files`` where no name of ours and nothing placed before stands; return what is left out."""
    left_out = []
    taken = {path.lower() for path in files}
    folders = {folder for path in taken for folder in _folders(path)}
    for path in sorted(more):
        name = path.lower()
        above = set(_folders(name))
        if not is_safe_path(path) or name in taken | folders | RECORDS or above & (taken | RECORDS):
            left_out.append(path)
            continue
        files[path] = more[path]
        taken.add(name)
        folders |= above
    return left_out


def _folders(path: str) -> Iterable[str]:
    return ("/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 1))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_finite(value: object, times: int = 1) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value) * times)
    except OverflowError:
        return False


def _number(value: object) -> float | None:
    """``value`` as a finite number within reason, a percent sign dropped; None when it is none."""
    try:
        found = float(value.strip().rstrip("%")) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) < 2**53 else None


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
