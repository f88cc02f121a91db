"""Search: spaces are read strictly, edits are exact, proposals depend on the brief alone and beat chance."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from sia_ray.agents import proposals
from sia_ray.agents.protocol import Brief, Reply, Seen, load_agent
from sia_ray.agents.search import Search
from sia_ray.agents.source import Change, compose
from sia_ray.agents.space import Space
from sia_ray.candidate.edits import apply_answer
from sia_ray.candidate.identity import derive_seed
from sia_ray.errors import ConfigError, EditRejected, UsageError
from sia_ray.levers.decision import Lever, Scalar, Strategy

BASE = '''"""A small target agent."""

import argparse

ALPHA: float = 1.0  # strength of the ridge
TOP_K = 3
K = 3
MODE = "plain"


def cached(function):
    return function


@cached
def vectorise(text):
    # words
    return text.split()


def classify(rows):
    return rows[:TOP_K], K, ALPHA, MODE, vectorise


def main():
    argparse.ArgumentParser()


if __name__ == "__main__":
    main()
'''

SPACE = """
schema = 1
[[part]]
name = "vectoriser"
symbol = "vectorise"
initial = "words"
[part.options]
words = "parts/words.py"
chars = "parts/chars.py"
[[part]]
name = "classifier"
symbol = "classify"
initial = "first"
[part.options]
first = "parts/first.py"
last = "parts/last.py"
none = "parts/none.py"
[[constant]]
name = "alpha"
symbol = "ALPHA"
kind = "float"
low = 0.01
high = 100.0
log = true
initial = 1.0
[[constant]]
name = "top"
symbol = "TOP_K"
kind = "int"
low = 1
high = 9
initial = 3
when = { classifier = ["first", "last"] }
[[constant]]
name = "k"
symbol = "K"
kind = "int"
low = 1
high = 9
step = 2
initial = 3
[[constant]]
name = "mode"
symbol = "MODE"
kind = "choice"
values = ["plain", "fancy"]
initial = "plain"
when = { vectoriser = ["chars"], classifier = ["last"] }
[search]
startup = 4
"""

REFERENCE = {
    "search_space.toml": SPACE,
    "parts/words.py": "# a comment\n@cached\ndef vectorise(text):\n    # words\n    return text.split()\n",
    "parts/chars.py": "def vectorise(text):\n    return list(text)",
    "parts/first.py": "def classify(rows):\n    return rows[:TOP_K], K, ALPHA, MODE, vectorise\n",
    "parts/last.py": "def classify(rows):\n    return rows[-TOP_K:], K, ALPHA, MODE, vectorise\n",
    "parts/none.py": "def classify(rows):\n    return [], K, ALPHA, MODE, vectorise\n",
}


def brief(generation: int, seen: tuple[Seen, ...] = (), **more: Any) -> Brief:
    given: dict[str, Any] = {"run": "run_1", "task": "t", "max_generations": 20, "seed": 7, "metric": "accuracy"}
    given |= {"direction": "max", "base": {"target_agent.py": BASE}, "reference": REFERENCE}
    return Brief(generation=generation, seen=seen, **{**given, **more})


def goodness(proposal: Mapping[str, Scalar]) -> float:
    """A made-up score of a proposal."""
    return len(json.dumps(proposal)) % 17 / 17


def history(generations: int, *, lookahead: int = 2, search: Search | None = None) -> list[Reply]:
    """The replies of a run whose outcomes are told ``lookahead`` late; every fifth candidate fails."""
    search = search or Search()
    replies = [search.first(brief(1))]
    for n in range(2, generations + 1):
        seen = [tell(g, r, pending=g > 1 and g > n - lookahead) for g, r in enumerate(replies, 1)]
        replies.append(search.next(brief(n, tuple(seen))))
    return replies


def tell(generation: int, reply: Reply, *, pending: bool) -> Seen:
    proposal = reply.decision.proposal
    if pending:
        return Seen(generation=generation, status="pending", proposal=proposal)
    if generation % 5 == 0:
        return Seen(generation=generation, status="failed", proposal=proposal)
    return Seen(generation=generation, status="passed", score=goodness(proposal), proposal=proposal)


def apply(text: str, answer: str) -> str:
    return apply_answer({"target_agent.py": text.encode()}, answer)["target_agent.py"].decode()


# --- the space -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("startup = 4", "start_up = 4", "startup"),
        ("log = true", "logg = true", "log"),
        ('symbol = "MODE"', 'symbl = "MODE"', "symbol"),
        ("schema = 1", "schema = 2", "schema"),
        ('initial = "words"', 'initial = "word"', "none of the options"),
        ('chars = "parts/chars.py"', 'chars = "parts/char.py"', "parts/chars.py"),
        ('symbol = "K"', 'symbol = "TOP_K"', "symbol given twice"),
        ('vectoriser = ["chars"]', 'vectorizer = ["chars"]', "no part"),
        ('vectoriser = ["chars"]', 'vectoriser = ["letters"]', "no option"),
        ("low = 0.01", "low = 0.0", "low > 0"),
        ("step = 2", "step = 3", "whole number of steps"),
        ("high = 100.0", "high = 0.001", "below high"),
        ("initial = 1.0", "initial = 1", "1.0"),
        ('["plain", "fancy"]', '["plain", "plain"]', "differ"),
        ("[search]", "[search", "not TOML"),
    ],
)
def test_a_mistake_in_the_space_is_named(old: str, new: str, says: str) -> None:
    assert old in SPACE
    with pytest.raises(ConfigError) as caught:
        Space.read({**REFERENCE, "search_space.toml": SPACE.replace(old, new, 1)})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "import os\ndef vectorise(text):\n    return text\n",
        "def other(text):\n    return text\n",
        "def vectorise(text)\n    return text\n",
        'def vectorise(text):\n    """\n    =======\n    """\n    return text\n',
    ],
)
def test_an_option_is_one_function_that_an_edit_can_carry(text: str) -> None:
    with pytest.raises(ConfigError, match=r"parts/chars\.py"):
        Space.read({**REFERENCE, "parts/chars.py": text})


def test_constants_count_only_where_all_their_parts_hold() -> None:
    space = Space.read(REFERENCE)
    assert space.active({"vectoriser": "chars", "classifier": "none"}) == ("vectoriser", "classifier", "alpha", "k")
    assert "mode" in space.active({"vectoriser": "chars", "classifier": "last"})
    assert "mode" not in space.active({"vectoriser": "chars", "classifier": "first"})
    assert space.initial == {"vectoriser": "words", "classifier": "first", "alpha": 1.0, "top": 3, "k": 3}


def test_a_reference_that_does_not_start_where_the_space_says_is_refused() -> None:
    space = Space.read(REFERENCE)
    space.check_reference(BASE)
    with pytest.raises(ConfigError, match=r"'top' is said to start at 3.*holds 4"):
        space.check_reference(BASE.replace("TOP_K = 3", "TOP_K = 4"))
    with pytest.raises(ConfigError, match="another text"):
        space.check_reference(BASE.replace("# words", "# letters"))


# --- edits ---------------------------------------------------------------------------------------------------------


def test_an_edit_changes_exactly_what_the_proposal_says() -> None:
    space = Space.read(REFERENCE)
    proposal: dict[str, Scalar] = {"vectoriser": "chars", "classifier": "last", "alpha": 0.25, "top": 3, "k": 5}
    new = apply(BASE, space.edits(BASE, proposal))
    expected = BASE.replace("ALPHA: float = 1.0  #", "ALPHA: float = 0.25  #").replace("\nK = 3", "\nK = 5")
    expected = expected.replace("rows[:TOP_K]", "rows[-TOP_K:]")
    expected = expected.replace(
        "@cached\ndef vectorise(text):\n    # words\n    return text.split()",
        "def vectorise(text):\n    return list(text)",
    )
    assert new == expected
    assert space.values_in(new) == {**proposal, "mode": "plain"}
    assert space.edits(new, proposal) == ""


def test_inactive_parameters_are_left_alone() -> None:
    space = Space.read(REFERENCE)
    base = BASE.replace("TOP_K = 3", "TOP_K = 8")
    proposal: dict[str, Scalar] = {"vectoriser": "words", "classifier": "none", "alpha": 1.0, "top": 1, "k": 3}
    assert "TOP_K = 8" in apply(base, space.edits(base, proposal))


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_the_last_line_stay_as_they_were(ends: str, last: bool) -> None:
    text = "K = 1\n\n\ndef f():\n    return K\n"
    text = (text if last else text.removesuffix("\n")).replace("\n", ends)
    answer = compose(text, [Change("K", literal=-2.5), Change("f", function="def f():\n    x = K\n    return x")])
    expected = text.replace("K = 1", "K = -2.5").replace("return K", f"x = K{ends}    return x")
    assert apply(text, answer) == expected


def test_an_anchor_that_occurs_twice_is_widened() -> None:
    text = 'NOTE = """\nK = 3\n"""\nK = 3\nprint(K, NOTE)\n'
    assert apply(text, compose(text, [Change("K", literal=4)])) == text.replace("K = 3\nprint", "K = 4\nprint")


def test_a_literal_that_means_the_same_is_no_change() -> None:
    assert compose("K = 1e-3\n", [Change("K", literal=0.001)]) == ""
    assert compose("K = 1\n", [Change("K", literal=1.0)]) != ""
    assert compose("K = 1\n", [Change("K", literal=True)]) != ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K = f()\n",
        "K = 1\nK = 2\n",
        "K = 1\nK += 1\n",
        "K, J = 1, 2\n",
        "K = (\n1\n)\nK = 2\n",
        "def g():\n    K = 1\n",
    ],
)
def test_a_base_without_the_constant_is_rejected_as_missing(text: str) -> None:
    with pytest.raises(EditRejected) as caught:
        compose(text, [Change("K", literal=5)])
    assert caught.value.reason == "missing_symbol"


def test_unknown_names_and_values_are_refused_with_a_suggestion() -> None:
    space = Space.read(REFERENCE)
    with pytest.raises(UsageError, match="alpha"):
        space.edits(BASE, {"alhpa": 1.0})
    with pytest.raises(UsageError, match="chars"):
        space.edits(BASE, {"vectoriser": "char"})
    with pytest.raises(UsageError, match="outside"):
        space.edits(BASE, {"alpha": 1000.0})


def test_differences_read_like_sentences() -> None:
    space = Space.read(REFERENCE)
    new: dict[str, Scalar] = {"vectoriser": "chars", "classifier": "first", "alpha": 0.31, "top": 3, "k": 3}
    assert space.describe(new, space.initial) == ("vectoriser: words → chars", "ALPHA: 1.0 → 0.31")


# --- proposals -----------------------------------------------------------------------------------------------------


def test_generation_one_is_the_reference_unchanged() -> None:
    reply = Search().first(brief(1))
    assert reply.decision.answer == ""
    assert reply.decision.proposal == Space.read(REFERENCE).initial
    assert json.loads(reply.prompt)["proposal"] == reply.decision.proposal


def test_no_proposal_is_made_twice_and_each_one_applies() -> None:
    space = Space.read(REFERENCE)
    replies = history(20)
    made = [proposals.key(reply.decision.proposal) for reply in replies]
    assert len(set(made)) == 20
    for reply in replies[1:]:
        assert reply.decision.lever is Lever.HARNESS
        held = space.values_in(apply(BASE, reply.decision.answer))
        assert {name: held[name] for name in reply.decision.proposal} == reply.decision.proposal
        assert set(reply.decision.proposal) == set(space.active(reply.decision.proposal))
        assert reply.decision.changes


def test_the_strategy_says_whether_the_mechanism_changes() -> None:
    for reply in history(12)[1:]:
        parts = any(change.startswith(("vectoriser", "classifier")) for change in reply.decision.changes)
        assert (reply.decision.strategy is Strategy.CHANGE_MECHANISM) == parts


def test_startup_shows_every_option_evenly() -> None:
    space = Space.read(REFERENCE)
    for seed in range(5):
        design = [proposals.stratified(space, seed, turn, 6) for turn in range(6)]
        for part in space.file.part:
            counts = [sum(p[part.name] == option for p in design) for option in part.options]
            assert max(counts) - min(counts) <= 1
        thirds = sorted(int(float(p["alpha"]) > 1.0) for p in design)
        assert thirds == [0, 0, 0, 1, 1, 1]


def test_startup_leaves_out_what_the_reference_shows_already() -> None:
    space = Space.read(REFERENCE)
    design = [proposals.stratified(space, 3, turn, 2) for turn in range(2)]
    assert {p["classifier"] for p in design} == {"last", "none"}


def test_the_same_brief_gets_the_same_proposal_in_another_process() -> None:
    replies = history(9)
    seen = tuple(tell(g, r, pending=g > 7) for g, r in enumerate(replies, 1))
    asked = brief(10, seen)
    here = Search().next(asked).model_dump_json()
    shuffled = asked.model_copy(update={"seen": tuple(reversed(seen))})
    assert Search().next(shuffled).model_dump_json() == here
    program = (
        "import sys; from sia_ray.agents.search import Search; from sia_ray.agents.protocol import Brief\n"
        "sys.stdout.write(Search().next(Brief.model_validate_json(sys.stdin.read())).model_dump_json())"
    )
    for hash_seed in ("1", "4242"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            input=asked.model_dump_json(),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert ran.stdout == here


def test_another_seed_or_generation_is_another_proposal() -> None:
    seen = tuple(tell(g, r, pending=False) for g, r in enumerate(history(9), 1))
    made = {Search().next(brief(10, seen, seed=seed)).model_dump_json() for seed in range(4)}
    assert len(made) == 4


def test_outcomes_steer_and_pending_ones_do_not_count_as_outcomes() -> None:
    replies = history(9)
    pending = tuple(tell(g, r, pending=g > 5) for g, r in enumerate(replies, 1))
    known = tuple(tell(g, r, pending=False) for g, r in enumerate(replies, 1))

    def ask(seen: tuple[Seen, ...]) -> list[dict[str, Scalar]]:
        return [Search().next(brief(10, seen, seed=seed)).decision.proposal for seed in range(5)]

    assert ask(pending) != ask(known)
    hidden = tuple(s.model_copy(update={"score": 0.9}) if s.status == "pending" else s for s in pending)
    assert ask(hidden) == ask(pending)


def test_lower_is_better_mirrors_higher_is_better() -> None:
    seen = tuple(tell(g, r, pending=g > 8) for g, r in enumerate(history(9), 1))
    mirrored = tuple(s.model_copy(update={"score": None if s.score is None else -s.score}) for s in seen)
    for seed in range(3):
        up = Search().next(brief(10, seen, seed=seed)).decision
        down = Search().next(brief(10, mirrored, seed=seed, direction="min")).decision
        assert up.proposal == down.proposal


def test_a_generation_of_another_agent_teaches_nothing() -> None:
    seen = tuple(tell(g, r, pending=False) for g, r in enumerate(history(9), 1))
    foreign = Seen(generation=10, status="passed", score=1.0)
    taught, untaught = (Search().next(brief(11, told)).decision for told in ((*seen, foreign), seen))
    assert taught == untaught


def test_a_used_up_space_ends_in_stop() -> None:
    tiny = 'schema = 1\n[[constant]]\nname = "k"\nsymbol = "K"\nkind = "int"\nlow = 1\nhigh = 4\ninitial = 3\n'
    values = []
    seen: list[Seen] = [Seen(generation=1, status="passed", score=0.0)]
    for n in range(2, 7):
        decision = Search().next(brief(n, tuple(seen), reference={"search_space.toml": tiny})).decision
        values.append(decision.proposal.get("k"))
        seen.append(Seen(generation=n, status="failed", proposal=decision.proposal))
    assert sorted(v for v in values[:3] if v) == [1, 2, 4]
    assert decision.lever is Lever.STOP


def test_search_beats_chance_where_options_differ() -> None:
    """Nineteen proposals each on a space of parts and constants, the last two outcomes always unknown."""
    space = Space.read(wide_reference())

    def score(p: Mapping[str, Scalar]) -> float:
        parts = sum((0.1, 0.0, 0.04, 0.07)[(int(str(p[f"p{i}"])[1:]) + i) % 4] for i in range(5))
        return parts - sum((float(p[f"c{i}"]) - 0.7) ** 2 / 10 for i in range(6) if f"c{i}" in p)

    def best_of(seed: int) -> tuple[float, float]:
        told = [Seen(generation=1, status="passed", score=score(space.initial), proposal=space.initial)]
        for n in range(2, 21):
            seen = [s if s.generation <= max(1, n - 2) else s.model_copy(update={"status": "pending"}) for s in told]
            proposal = Search()._ask(brief(n, tuple(seen), seed=seed, reference=wide_reference()), space).proposal
            assert proposal is not None
            told.append(Seen(generation=n, status="passed", score=score(proposal), proposal=proposal))
        drawn = [score(proposals.chance(space, derive_seed(seed, n))) for n in range(19)]
        return max(s.score or 0.0 for s in told), max(drawn)

    found = [best_of(seed) for seed in range(2)]
    search, chance = (statistics.mean(column) for column in zip(*found, strict=True))
    assert search > chance + 0.03


def wide_reference() -> dict[str, str]:
    """Five parts of four options, six constants, two of them conditional."""
    lines = ["schema = 1"]
    files = {}
    for i in range(5):
        lines += ["[[part]]", f'name = "p{i}"', f'symbol = "f{i}"', 'initial = "o0"', "[part.options]"]
        for o in range(4):
            lines.append(f'o{o} = "parts/f{i}_{o}.py"')
            files[f"parts/f{i}_{o}.py"] = f"def f{i}():\n    return {o}\n"
    for i in range(6):
        lines += ["[[constant]]", f'name = "c{i}"', f'symbol = "C{i}"', 'kind = "float"', "low = 0", "high = 1"]
        lines += ["initial = 0.1", *(['when = { p0 = ["o1", "o2"] }'] if i > 3 else [])]
    return {"search_space.toml": "\n".join(lines), **files}


# --- loading -------------------------------------------------------------------------------------------------------


def test_agents_are_found_by_name_and_misspelt_ones_are_named() -> None:
    assert load_agent("search", {"startup": 2}).name == "search"
    with pytest.raises(UsageError, match="Did you mean 'search'"):
        load_agent("serach")
    with pytest.raises(UsageError, match="startup"):
        load_agent("search", {"start": 2})


def test_a_pack_without_a_space_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"search_space\.toml"):
        Search().first(brief(1, reference={}))


def test_loading_the_agents_loads_no_heavy_library() -> None:
    program = "import sys, sia_ray.agents.search; print([m for m in ('optuna', 'numpy', 'ray') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
