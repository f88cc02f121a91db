"""Paired statistics against known values, exact sums and brute force."""

from __future__ import annotations

import math
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sia_ray.evaluation.statistics import bootstrap_interval, compare, mcnemar, smallest_gain


def answers(*values: float) -> dict[str, float]:
    return {f"q{i}": value for i, value in enumerate(values)}


def outcome(n: int, wins: int, losses: int) -> tuple[dict[str, float], dict[str, float]]:
    base = answers(*[0.0] * wins, *[1.0] * losses, *[1.0] * (n - wins - losses))
    return base, answers(*[1.0] * wins, *[0.0] * losses, *[1.0] * (n - wins - losses))


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (5, 0, 1 / 32), (0, 5, 1.0), (1, 1, 0.75), (8, 2, 56 / 1024), (10, 10, 0.5880985260009766)],
)
def test_mcnemar_is_the_exact_binomial_tail(wins: int, losses: int, p: float) -> None:
    assert mcnemar(wins, losses) == pytest.approx(p, rel=1e-12)


@given(st.integers(0, 500), st.integers(0, 500))
def test_mcnemar_agrees_with_exact_integers_and_its_complement(wins: int, losses: int) -> None:
    n = wins + losses
    exact = sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n
    assert mcnemar(wins, losses) == pytest.approx(exact, rel=1e-9, abs=1e-15)
    both = mcnemar(wins, losses) + mcnemar(losses, wins)
    assert both == pytest.approx(1 + math.comb(n, wins) / 2**n, rel=1e-9)


def test_mcnemar_stays_exact_and_quick_for_many_items() -> None:
    start = time.perf_counter()
    assert mcnemar(50_000, 50_000) == pytest.approx(0.5 + math.comb(100_000, 50_000) / 2**100_001, rel=1e-7)
    assert 0 < mcnemar(51_000, 49_000) < 1e-9
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(("n", "wins", "losses"), [(40, 9, 3), (200, 30, 12), (60, 60, 0), (50, 5, 0), (1000, 69, 21)])
def test_the_interval_is_the_limit_of_resampling(n: int, wins: int, losses: int) -> None:
    rng = random.Random(7)
    differences = [1.0] * wins + [-1.0] * losses + [0.0] * (n - wins - losses)
    means = sorted(sum(rng.choices(differences, k=n)) / n for _ in range(4000))
    low, high = bootstrap_interval(differences)
    spread = 3 / n
    assert low == pytest.approx(means[100], abs=spread) and high == pytest.approx(means[3899], abs=spread)


@pytest.mark.parametrize("size", [1.0, 0.25, 100.0])
def test_the_interval_scales_with_the_size_of_a_difference(size: float) -> None:
    signs = [1.0] * 12 + [-1.0] * 4 + [0.0] * 40
    low, high = bootstrap_interval(signs)
    assert bootstrap_interval([size * d for d in signs]) == pytest.approx((size * low, size * high))


def test_many_values_have_students_interval() -> None:
    low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (low, high) == pytest.approx(
        (3 - 2.776445 * math.sqrt(2.5 / 5), 3 + 2.776445 * math.sqrt(2.5 / 5)), abs=2e-2
    )
    low, high = bootstrap_interval([1.0, 2.0])
    assert high - low == pytest.approx(2 * 12.7062 * math.sqrt(0.5) / math.sqrt(2), rel=1e-4)
    low, high = bootstrap_interval([1.0, 2.0, 4.0])
    assert (high - low) / 2 == pytest.approx(4.302653 * math.sqrt(7 / 3 / 3), rel=1e-6)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(11)
    covered = [0, 0]
    for _ in range(400):
        paired = [float(rng.random() < 0.3) - float(rng.random() < 0.2) for _ in range(120)]
        low, high = bootstrap_interval(paired)
        covered[0] += low <= 0.1 <= high
        timings = [rng.gauss(0.02, 0.05) for _ in range(12)]
        low, high = bootstrap_interval(timings)
        covered[1] += low <= 0.02 <= high
    assert all(0.91 <= count / 400 <= 0.985 for count in covered)


def test_no_gain_is_rarely_called_one() -> None:
    rng = random.Random(5)
    called = 0
    for _ in range(500):
        base = answers(*[float(rng.random() < 0.5) for _ in range(80)])
        candidate = {name: (1 - value if rng.random() < 0.2 else value) for name, value in base.items()}
        called += compare(base, candidate).better()
    assert called / 500 <= 0.06


def test_a_comparison_counts_wins_in_the_direction_of_improvement() -> None:
    base, candidate = outcome(100, 20, 5)
    up = compare(base, candidate)
    assert (up.n, up.wins, up.losses, up.effect) == (100, 20, 5, 0.15)
    assert 0 < up.low < up.effect < up.high and up.better()
    down = compare(base, candidate, direction="min")
    assert (down.wins, down.losses, down.effect) == (5, 20, -0.15) and not down.better()


def test_lower_losses_are_wins_when_lower_is_better() -> None:
    base, candidate = answers(*[1.0 + i / 7 for i in range(30)]), answers(*[0.8 + i / 9 for i in range(30)])
    assert compare(base, candidate, direction="min").better()


def test_identical_sides_show_nothing() -> None:
    base, _ = outcome(10, 0, 5)
    same = compare(base, base)
    assert same == (0.0, 0.0, 0.0, 10, 0, 0, 1.0) and not same.better()


def test_a_few_equal_wins_are_not_enough() -> None:
    assert not compare(answers(0.0, 0.0, 0.0), answers(1.0, 1.0, 1.0)).better()


def test_other_items_are_another_comparison() -> None:
    for candidate in ({}, answers(1.0), {"q0": 1.0, "other": 1.0}):
        with pytest.raises(ValueError, match="same items"):
            compare(answers(1.0, 0.0), candidate)
    with pytest.raises(ValueError, match="same items"):
        compare({}, {})


def test_the_order_of_items_does_not_matter() -> None:
    base, candidate = answers(0.1, 0.5, 0.2, 0.9), answers(0.3, 0.4, 0.7, 0.1)
    assert compare(base, candidate) == compare(dict(reversed(base.items())), dict(reversed(candidate.items())))


def test_the_smallest_gain_is_just_significant() -> None:
    assert smallest_gain(4) is None
    assert smallest_gain(5) == 1.0
    for n, share in ((100, 0.1), (913, 0.1), (913, 0.02), (200, 1.0)):
        gain = smallest_gain(n, discordant=share)
        assert gain is not None
        differ = max(5, round(share * n))
        wins = round((gain * n + differ) / 2)
        assert mcnemar(wins, differ - wins) <= 0.05 < mcnemar(wins - 1, differ - wins + 1)


def test_a_thousand_items_take_milliseconds() -> None:
    rng = random.Random(3)
    base, candidate = outcome(1000, 300, 250)
    varied = {name: value + rng.gauss(0, 1) for name, value in base.items()}
    start = time.perf_counter()
    compare(base, candidate)
    compare(base, varied)
    assert time.perf_counter() - start < 0.25
