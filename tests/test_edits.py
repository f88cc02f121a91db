"""Answers of a model as edits: each case file stands for its kind."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sia_ray.candidate.diff import diff
from sia_ray.candidate.edits import MAX_ANSWER_BYTES, Rejection, apply_answer, block
from sia_ray.candidate.static import Check, check_static
from sia_ray.cli.edits import app
from sia_ray.errors import EditRejected, NotFoundError

CASES = Path(__file__).parent / "fixtures" / "edits"
EXPECTED = json.loads((CASES / "expect.json").read_text(encoding="utf-8"))
ENTRY = "target_agent.py"
BASE = {ENTRY: (CASES / "base.py").read_bytes()}


def rejection(files: dict[str, bytes], answer: str | bytes) -> str:
    with pytest.raises(EditRejected) as caught:
        apply_answer(files, answer)
    assert caught.value.message and caught.value.hint
    return Rejection(caught.value.reason).value


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["file"])
def test_each_case_is_applied_or_rejected_as_expected(case: dict) -> None:
    answer = (CASES / case["file"]).read_bytes()
    if case["expect"]["applies"]:
        new = apply_answer(BASE, answer)
        assert case["expect"]["contains"] in new[ENTRY].decode(), case["why"]
        ast.parse(new[ENTRY])
    else:
        assert rejection(BASE, answer) == case["expect"]["reason"], case["why"]


def test_every_case_file_has_an_expectation() -> None:
    named = {case["file"] for case in EXPECTED} | {"expect.json", "base.py"}
    assert {path.name for path in CASES.iterdir()} == named


def test_every_rejection_has_a_case() -> None:
    assert {case["expect"].get("reason") for case in EXPECTED} >= {reason.value for reason in Rejection}


def test_only_the_anchor_changes() -> None:
    new = apply_answer(BASE, block("THRESHOLD = 3", "THRESHOLD = 5"))
    assert new[ENTRY] == BASE[ENTRY].replace(b"THRESHOLD = 3", b"THRESHOLD = 5")


def test_a_text_answer_is_read_like_bytes() -> None:
    answer = (CASES / "crlf.txt").read_bytes()
    assert apply_answer(BASE, answer) == apply_answer(BASE, answer.decode())


def test_the_files_given_are_never_touched() -> None:
    files = dict(BASE)
    apply_answer(files, block("THRESHOLD = 3", "THRESHOLD = 5"))
    rejection(files, block("THRESHOLD = 3", "THRESHOLD = 5") + block("nowhere", "x"))
    assert files == BASE


def test_a_whole_line_wins_over_a_part_of_another() -> None:
    files = {"a.txt": b"x = 1\nmax = 1\nx = 12\n"}
    assert apply_answer(files, block("x = 1", "x = 2", file="a.txt"))["a.txt"] == b"x = 2\nmax = 1\nx = 12\n"


@pytest.mark.parametrize(
    ("text", "search", "reason"),
    [
        ("a\na\n", "a", Rejection.ANCHOR_AMBIGUOUS),
        ("f(a)\nf(b)\n", "f(", Rejection.ANCHOR_AMBIGUOUS),
        ("a  \na \n", "a\t\t", Rejection.ANCHOR_AMBIGUOUS),
        ("if a:\n    b = 1\nif c:\n        b = 1\n", "  b = 1", Rejection.ANCHOR_AMBIGUOUS),
        ("value = 10\n", "value = 1", Rejection.ANCHOR_MISSING),
        ("my_value = 1\n", "value = 1", Rejection.ANCHOR_MISSING),
        ("a\nb\n", "a\n\nb", Rejection.ANCHOR_MISSING),
        ("if a:\n    b\n        c\n", "b\nc", Rejection.ANCHOR_MISSING),
    ],
)
def test_an_anchor_that_is_not_one_place_is_refused(text: str, search: str, reason: Rejection) -> None:
    answer = f"FILE: a.txt\n<<<<<<< SEARCH\n{search}\n=======\nnew\n>>>>>>> REPLACE\n"
    assert rejection({"a.txt": text.encode()}, answer) == reason


def test_line_ends_of_a_file_are_kept() -> None:
    files = {ENTRY: BASE[ENTRY].replace(b"\n", b"\r\n")}
    new = apply_answer(files, block("THRESHOLD = 3", "THRESHOLD = 5\nLIMIT = 1"))
    assert new[ENTRY] == files[ENTRY].replace(b"THRESHOLD = 3", b"THRESHOLD = 5\r\nLIMIT = 1")


def test_typographic_quotes_that_are_meant_stay() -> None:
    files = {ENTRY: "TEXT = '“案件”'\n".encode()}
    new = apply_answer(files, block("TEXT = '“案件”'", "TEXT = '“案由”'"))
    assert new[ENTRY].decode() == "TEXT = '“案由”'\n"


def test_a_fence_inside_a_file_needs_a_longer_fence() -> None:
    body = 'TEXT = """\n```\ncode\n```\n"""\n'
    new = apply_answer({}, f"FILE: a.py\n````python\n{body}````\n")
    assert new["a.py"].decode() == body


def test_a_file_may_speak_of_markers_when_given_whole() -> None:
    body = 'FORM = """\nuse\n<<<<<<< SEARCH\n"""\n'
    assert apply_answer({}, f"FILE: a.py\n```\n{body}```\n")["a.py"].decode() == body


def test_files_of_other_kinds_need_not_be_python() -> None:
    files = {**BASE, "requirements.txt": b"numpy\n"}
    assert apply_answer(files, block("numpy", "numpy>=2", file="requirements.txt"))["requirements.txt"] == b"numpy>=2\n"
    assert rejection({**BASE, "x.bin": b"\xff\xfe"}, block("a", "b", file="x.bin")) == "encoding"


def test_a_name_that_is_rebound_locally_or_built_in_is_not_lost() -> None:
    files = {ENTRY: b"def max(a):\n    return a\n\n\nrow = 1\n\n\ndef main():\n    for row in []:\n        max(row)\n"}
    whole = "FILE: target_agent.py\n```\ndef main():\n    for row in []:\n        max(row)\n```\n"
    assert b"def max" not in apply_answer(files, whole)[ENTRY]


def test_a_private_helper_that_is_still_called_is_not_lost_silently() -> None:
    files = {ENTRY: b"def _help():\n    return 1\n\n\ndef main():\n    return _help()\n"}
    assert rejection(files, block("def _help():\n    return 1\n", "")) == "missing_symbol"


def test_a_symbol_used_through_its_module_is_not_lost() -> None:
    files = {
        ENTRY: b"import labels\n\n\ndef main():\n    return labels.NAMES\n",
        "labels.py": b"NAMES = 1\nOTHER = 2\n",
    }
    assert rejection(files, block("NAMES = 1", "WORDS = 1", file="labels.py")) == "missing_symbol"
    assert apply_answer(files, block("OTHER = 2", "", file="labels.py"))["labels.py"] == b"NAMES = 1\n"


def test_a_symbol_may_move_to_another_file() -> None:
    answer = block("THRESHOLD = 3", "from limits import THRESHOLD") + "FILE: limits.py\n```\nTHRESHOLD = 5\n```\n"
    assert set(apply_answer(BASE, answer)) == {ENTRY, "limits.py"}


def test_a_broken_base_can_be_replaced() -> None:
    assert apply_answer({ENTRY: b"def (:\n"}, "FILE: target_agent.py\n```\nx = 1\n```\n")[ENTRY] == b"x = 1\n"


def test_an_answer_without_bounds_is_refused() -> None:
    assert rejection(BASE, "x" * (MAX_ANSWER_BYTES + 1)) == "malformed_edit"


@pytest.mark.parametrize(
    "source", ["(" * 20_000, "-" * 50_000 + "1", "x" + ".a" * 30_000, "1" * 10_000, "#coding: none\n"]
)
def test_source_that_breaks_parsers_is_refused_or_taken(source: str) -> None:
    try:
        apply_answer(BASE, f"FILE: a.py\n```\n{source}\n```\n")
    except EditRejected as error:
        assert error.reason == "malformed_edit"


PIECES = st.sampled_from([
    "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "```", "```python", "FILE: a.py", "FILE: target_agent.py",
    "FILE: ../x", "THRESHOLD = 3", "THRESHOLD = 5", "def main():", "    main()", "", " ", "“", "\r", "\0", "\ud800",
    "<<<<<<<", ">>>>>>>", "import argparse", "FILE:", "\ufeff",
]) | st.text(max_size=6)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=14).map("\n".join) | st.binary(max_size=80))
def test_any_answer_gives_a_changed_tree_or_a_rejection(answer: str | bytes) -> None:
    files = dict(BASE)
    try:
        new = apply_answer(files, answer)
    except EditRejected as error:
        Rejection(error.reason)
    else:
        assert new != BASE
        ast.parse(new[ENTRY])
    assert files == BASE


LINES = st.lists(st.text("ab =#'\t", max_size=6), max_size=6).map("\n".join)


@given(LINES, LINES, LINES)
def test_a_block_that_copies_a_unique_anchor_puts_its_text_there(before: str, new: str, after: str) -> None:
    old = f"{before}\nANCHOR\n{after}\n"
    applied = apply_answer({"a.txt": old.encode()}, block("ANCHOR", new + "\nEND", file="a.txt"))
    assert applied["a.txt"].decode() == f"{before}\n{new}\nEND\n{after}\n"


# --- static checks -----------------------------------------------------------------------------------------------


def checks(files: dict[str, bytes]) -> list[Check]:
    return [problem.check for problem in check_static(files)]


def test_a_sound_harness_has_no_problem() -> None:
    assert checks(BASE) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, [Check.ENTRY]),
        ({"other.py": b"x = 1\n"}, [Check.ENTRY]),
        ({ENTRY: b"\xff"}, [Check.ENCODING]),
        ({ENTRY: b"def (:\n"}, [Check.PARSES]),
        ({**BASE, "bad.py": b"def (:\n", "latin.py": b"# \xe9\n"}, [Check.ENCODING, Check.PARSES]),
        ({ENTRY: b"x = 1\n"}, [Check.MAIN, Check.CLI, Check.CLI]),
        ({ENTRY: BASE[ENTRY].replace(b"--working_dir", b"--out")}, [Check.CLI]),
        ({ENTRY: BASE[ENTRY].replace(b"--dataset_dir", b"--data")}, [Check.CLI]),
        ({ENTRY: BASE[ENTRY].split(b"\n\ndef main")[0] + b"\nF = '--dataset_dir', '--working_dir'\n"}, [Check.MAIN]),
    ],
)
def test_each_static_fault_is_named(files: dict[str, bytes], expected: list[Check]) -> None:
    assert checks(files) == expected


@pytest.mark.parametrize(
    "source",
    [
        b"def main(dataset_dir: str, working_dir: str): ...\n",
        b"import sys\nif __name__ == '__main__':\n    opts = sys.argv.index('--dataset_dir'), '--working_dir'\n",
        b"import cli\n\ndef main():\n    cli.run()\n",
    ],
)
def test_other_ways_to_take_the_flags_pass(source: bytes) -> None:
    assert checks({ENTRY: source, "cli.py": b"FLAGS = ['--dataset_dir D', '--working_dir']\n"}) == []


# --- diffs -------------------------------------------------------------------------------------------------------


def test_a_diff_counts_and_locates_changed_lines() -> None:
    change = diff({"a.py": b"1\n2\n3\n", "gone.py": b"x\n"}, {"a.py": b"1\nB\nC\n3\n", "new.py": b"y\nz"})
    assert (change.added, change.removed) == (4, 2)
    assert change.lines == {"a.py": (2, 3), "gone.py": (), "new.py": (1, 2)}
    assert change.summary == "changed a.py +2 -1\nremoved gone.py +0 -1\nadded new.py +2 -0"
    assert "-2\n+B\n+C\n" in change.text and "\\ No newline at end of file" in change.text


def test_equal_trees_have_no_diff_and_binaries_no_lines() -> None:
    assert diff(BASE, BASE) == ("", (), {})
    change = diff({}, {"w.bin": b"\xff\x00"})
    assert change.changes[0][:2] == ("w.bin", "added") and "Binary" in change.text and not change.lines


# --- the command -------------------------------------------------------------------------------------------------


def invoke(*arguments: str | Path):
    return CliRunner().invoke(app, ["try", *map(str, arguments)])


def test_command_gives_the_text_or_the_bare_reason() -> None:
    done = invoke(CASES / "base.py", CASES / "ok.txt", "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == 0 and said["applies"] is True and "THRESHOLD = 5" in said["text"]
    done = invoke(CASES / "base.py", CASES / "two_anchors.txt", "--json")
    said = json.loads(done.stdout)
    assert done.exit_code == 0 and (said["applies"], said["reason"]) == (False, "anchor_ambiguous")


def test_command_prints_plain_text_and_reads_a_folder(tmp_path: Path) -> None:
    (tmp_path / ENTRY).write_bytes(BASE[ENTRY])
    assert invoke(tmp_path, CASES / "ok.txt").stdout.encode() == BASE[ENTRY].replace(b"= 3", b"= 5")
    assert invoke(tmp_path, CASES / "noop.txt").stdout.startswith("no_change: ")
    assert (tmp_path / ENTRY).read_bytes() == BASE[ENTRY]


def test_command_reads_a_harness_of_hard_links(tmp_path: Path) -> None:
    """As tools that share files between checkouts leave it: links are refused in what a target wrote, not here."""
    (tmp_path / "store").write_bytes(BASE[ENTRY])
    (tmp_path / "harness").mkdir()
    os.link(tmp_path / "store", tmp_path / "harness" / ENTRY)
    done = invoke(tmp_path / "harness", CASES / "ok.txt")
    assert done.stdout.encode() == BASE[ENTRY].replace(b"= 3", b"= 5")


def test_command_names_a_file_that_is_not_there() -> None:
    assert isinstance(invoke(CASES / "base.py", "nowhere.txt").exception, NotFoundError)
