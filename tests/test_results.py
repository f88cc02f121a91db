"""Strict reading of results.json: each case file stands for its kind."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer import Typer
from typer.testing import CliRunner

from sia_ray.cli.results import results
from sia_ray.errors import NotFoundError, UsageError
from sia_ray.evaluation.results import (
    MAX_BYTES,
    SHOWN_CHARS,
    SHOWN_KEY_CHARS,
    SHOWN_VALUES,
    Status,
    read_results,
)
from sia_ray.task.metric import Metric

CASES = Path(__file__).parent / "fixtures" / "results"
EXPECTED = json.loads((CASES / "expect.json").read_text(encoding="utf-8"))
ACCURACY = Metric(name="accuracy", range=(0, 1))


def declared(case: dict) -> Metric | None:
    if case["metric"] is None:
        return None
    return Metric(name=case["metric"], direction=case["direction"], range=case["range"])


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["file"])
def test_each_case_is_read_as_expected(case: dict) -> None:
    reading = read_results((CASES / case["file"]).read_bytes(), declared(case))
    assert reading.status == case["expect"]["status"], case["why"]
    assert reading.score == case["expect"].get("score"), case["why"]
    assert bool(reading.reason) == (reading.status != "passed")


def test_every_case_file_has_an_expectation() -> None:
    assert {path.name for path in CASES.iterdir()} == {case["file"] for case in EXPECTED} | {"expect.json"}


def test_no_file_is_missing() -> None:
    reading = read_results(None, ACCURACY)
    assert (reading.status, reading.score) == (Status.MISSING, None)


def test_a_file_larger_than_the_cap_is_invalid() -> None:
    padding = b" " * (MAX_BYTES - len(b'{"accuracy": 0.5}'))
    assert read_results(b'{"accuracy": 0.5}' + padding, ACCURACY).status is Status.PASSED
    assert read_results(b'{"accuracy": 0.5}' + padding + b" ", ACCURACY).status is Status.INVALID


def test_the_depth_cap_admits_what_evaluators_write() -> None:
    def nested(depth: int) -> bytes:
        return b'{"accuracy": 0.5, "x": ' + b"[" * depth + b"]" * depth + b"}"

    assert read_results(nested(60), ACCURACY).status is Status.PASSED
    assert "deeper" in read_results(nested(65), ACCURACY).reason


def test_a_missing_declaration_is_asked_for() -> None:
    assert "[metric]" in read_results(b'{"f1": 1}', None).reason


def test_shown_values_are_bounded_scalars_without_answers() -> None:
    data = {f"key{i}": i for i in range(100)}
    data |= {"long": "x" * 10_000, "k" * 500: 1, "list": [{"expected": "b"}], "nested": {"answer": "c"}}
    data = {
        "accuracy": 0.5,
        "ansi": "\x1b[2J",
        "lone": "\ud800",
        "huge": 10**300,
        "flag": True,
        "long": "x" * 9999,
    } | data
    values = read_results(json.dumps(data).encode(), ACCURACY).values
    assert len(values) == SHOWN_VALUES
    assert all(isinstance(value, float | int | str | bool) for value in values.values())
    assert all(len(key) <= SHOWN_KEY_CHARS + 1 for key in values)
    assert len(str(values["long"])) == SHOWN_CHARS + 1
    assert values["flag"] is True
    assert values["huge"] == 1e300 and isinstance(values["huge"], float)
    assert "\x1b" not in json.dumps(values, ensure_ascii=False)
    json.dumps(values, ensure_ascii=False).encode("utf-8")


@given(st.binary(max_size=200), st.sampled_from([None, ACCURACY]))
def test_no_bytes_raise(data: bytes, metric: Metric | None) -> None:
    reading = read_results(data, metric)
    assert (reading.score is None) == (reading.status is not Status.PASSED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["accuracy", "summary", "score"]) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, ACCURACY, Metric(name="summary.score")]))
def test_a_score_is_finite_and_in_range_whatever_the_json(value: object, metric: Metric | None) -> None:
    reading = read_results(json.dumps(value).encode(), metric)
    if reading.status is Status.PASSED:
        assert reading.score is not None and math.isfinite(reading.score)
        assert metric is not ACCURACY or 0 <= reading.score <= 1
    else:
        assert reading.status is Status.INVALID and reading.score is None


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, math.inf), (math.nan, 1)])
def test_a_range_that_is_none_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="range"):
        Metric(name="accuracy", range=bounds)


# --- the command -------------------------------------------------------------------------------------------------

app = Typer()
app.command()(results)


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_command_prints_one_json_object_and_exits_with_0() -> None:
    for name, status, score in (("plain.json", "passed", 0.5), ("nan.json", "invalid", None)):
        done = invoke(str(CASES / name), "--metric", "accuracy", "--range", "0,1", "--json")
        assert done.exit_code == 0
        said = json.loads(done.stdout)
        assert (said["status"], said["score"]) == (status, score)
        assert said["reason"] or status == "passed"


def test_command_says_it_in_words_too() -> None:
    assert "accuracy = 0.5" in invoke(str(CASES / "plain.json")).stdout
    assert "invalid: NaN" in invoke(str(CASES / "nan.json")).stdout


def test_command_takes_a_negative_range_and_a_direction() -> None:
    arguments = ("--metric", "mean_reward", "--direction", "min", "--range", "-5,0", "--json")
    assert json.loads(invoke(str(CASES / "no_metric_reward.json"), *arguments).stdout)["score"] == -3.5


def test_command_names_a_file_that_is_not_there() -> None:
    assert isinstance(invoke("nowhere.json").exception, NotFoundError)


@pytest.mark.parametrize(
    "flags",
    [("--range", "0,1"), ("--metric", "a", "--range", "0"), ("--metric", "a", "--range", "x,y"),
     ("--metric", "a", "--range", "1,0"), ("--metric", "a", "--range", "0,1,2"),
     ("--metric", "a", "--direction", "up")],
)  # fmt: skip
def test_command_refuses_flags_that_do_not_parse(flags: tuple[str, ...]) -> None:
    assert isinstance(invoke(str(CASES / "plain.json"), *flags).exception, UsageError)
