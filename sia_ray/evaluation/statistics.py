"""Whether a difference on the same items is more than chance. Pure: no randomness, no clock.

Two candidates answer the same n items; d_i is the improvement on item i (positive: the candidate is better).

Interval of the mean improvement
    When every d_i is 0, +m or −m (right or wrong answers: m = 1), the bootstrap distribution is known without
    drawing: of n draws with replacement W ~ Bin(n, wins/n) are wins and L | W ~ Bin(n − W, losses/(n − wins)) are
    losses, and the mean is m·(W − L)/n. Its percentiles are the limit of infinitely many resamples.
    For other values the bootstrap of a mean is close to Student's interval, mean ± t·s/√n, which is used instead:
    on few items (repeated timings) it is the wider and the more honest one.

Test
    Exact McNemar: if the candidate were no better, each of the w + l items on which the two differ would be a win
    with probability 1/2; p = P(Bin(w + l, 1/2) ≥ w), one-sided. For values that are not 0 or 1 this is the sign test.

An interval of identical differences has no width however few they are: decide by both (``Comparison.better``).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import NormalDist
from typing import Literal, NamedTuple

_TAIL = 1e-12


class Comparison(NamedTuple):
    """A paired comparison. ``effect`` and its interval are improvements: positive means the candidate is better."""

    effect: float
    low: float
    high: float
    n: int
    wins: int
    losses: int
    p_value: float

    def better(self, alpha: float = 0.05) -> bool:
        """Whether the improvement is beyond chance: the interval excludes 0 and the exact test agrees."""
        return self.low > 0 and self.p_value <= alpha


def compare(
    base: Mapping[str, float],
    candidate: Mapping[str, float],
    *,
    direction: Literal["max", "min"] = "max",
    confidence: float = 0.95,
) -> Comparison:
    """Compare item by item. Both must hold the same ids, else ValueError: a missing answer is a wrong one, not none."""
    if base.keys() != candidate.keys() or not base:
        raise ValueError("both sides must be scored on the same items, at least one")
    sign = 1.0 if direction == "max" else -1.0
    differences = [sign * (candidate[name] - base[name]) for name in sorted(base)]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    effect = math.fsum(differences) / len(differences)
    low, high = bootstrap_interval(differences, confidence=confidence)
    return Comparison(effect, low, high, len(differences), wins, losses, mcnemar(wins, losses))


def bootstrap_interval(differences: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of ``differences``, at least one, by the formulas above."""
    n = len(differences)
    sizes = {abs(d) for d in differences if d}
    if not sizes:
        return 0.0, 0.0
    if len(sizes) == 1:
        wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        low, high = _net_wins_interval(n, wins, losses, confidence)
        return sizes.copy().pop() * low / n, sizes.pop() * high / n
    mean = math.fsum(differences) / n
    spread = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1))
    half = _student_quantile(0.5 + confidence / 2, n - 1) * spread / math.sqrt(n)
    return mean - half, mean + half


def mcnemar(wins: int, losses: int) -> float:
    """P(Bin(wins + losses, 1/2) ≥ wins): the chance of so many wins if neither were better. 1.0 without any."""
    return _binomial_tail(wins + losses, wins)


def smallest_gain(n: int, *, discordant: float = 0.1, alpha: float = 0.05) -> float | None:
    """The least mean improvement on n items that the exact test can show at ``alpha``, one-sided.

    ``discordant`` is the share of items on which the two sides differ. When these are too few for any result to be
    significant, the gain of the fewest that suffice, all won, is given; None when n itself is too small.
    """
    fewest = next((d for d in range(1, n + 1) if _binomial_tail(d, d) <= alpha), None)
    if fewest is None:
        return None
    differ = min(n, max(fewest, round(discordant * n)))
    low, high = (differ + 1) // 2, differ
    while low < high:
        middle = (low + high) // 2
        if _binomial_tail(differ, middle) <= alpha:
            high = middle
        else:
            low = middle + 1
    return (2 * low - differ) / n


def _binomial_tail(n: int, k: int) -> float:
    """P(Bin(n, 1/2) ≥ k)."""
    if k <= 0:
        return 1.0
    if 2 * k <= n:
        return 1.0 - _binomial_tail(n, n - k + 1)
    if n <= 200:
        return sum(math.comb(n, i) for i in range(k, n + 1)) / float(2**n)
    term = math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
    total = 0.0
    for i in range(k, n + 1):
        total += term
        term *= (n - i) / (i + 1)
        if term < total * 1e-16:
            break
    return total


def _net_wins_interval(n: int, wins: int, losses: int, confidence: float) -> tuple[int, int]:
    """Percentiles of W − L, the net wins of a resample."""
    chances: dict[int, float] = {}
    for won, chance in _binomial(n, wins / n).items():
        rate = losses / (n - wins) if n > wins else 0.0
        for lost, given in _binomial(n - won, rate).items():
            chances[won - lost] = chances.get(won - lost, 0.0) + chance * given
    net = sorted(chances)
    reached = list(accumulate(chances[value] for value in net))
    tail = (1 - confidence) / 2 * reached[-1]
    return net[bisect_left(reached, tail)], net[bisect_left(reached, reached[-1] - tail)]


def _binomial(n: int, rate: float) -> dict[int, float]:
    """The chances of Bin(n, rate), from the most likely count outwards until they are negligible."""
    if rate <= 0 or n == 0:
        return {0: 1.0}
    if rate >= 1:
        return {n: 1.0}
    mode = min(n, int((n + 1) * rate))
    logs = math.lgamma(n + 1) - math.lgamma(mode + 1) - math.lgamma(n - mode + 1)
    peak = math.exp(logs + mode * math.log(rate) + (n - mode) * math.log1p(-rate))
    odds = rate / (1 - rate)
    chances = {mode: peak}
    term, count = peak, mode
    while count < n and term > peak * _TAIL:
        term *= (n - count) / (count + 1) * odds
        count += 1
        chances[count] = term
    term, count = peak, mode
    while count > 0 and term > peak * _TAIL:
        term *= count / (n - count + 1) / odds
        count -= 1
        chances[count] = term
    return chances


def _student_quantile(p: float, freedom: int) -> float:
    """The p-quantile (p > 0.5) of Student's t: exact for 1 and 2 degrees of freedom, Cornish-Fisher beyond."""
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        a = 2 * p - 1
        return a * math.sqrt(2 / (1 - a * a))
    z = NormalDist().inv_cdf(p)
    v = float(freedom)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )
