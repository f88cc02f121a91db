"""A small model of what each option and each number adds to the score, to choose among proposals.

With a score of trials and twenty-odd options, most of what can be learned is which options are good by themselves.
TPE learns that slowly: it compares whole neighbourhoods. A ridge regression on main effects learns it from every
trial at once, and its uncertainty says what is still unknown. It ranks the shortlist that TPE draws, no more: the
proposals stay TPE's, so an interaction that the model cannot see is still reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sia_ray.agents.space import Constant, Part, Space
from sia_ray.levers.decision import Scalar

if TYPE_CHECKING:
    import numpy as np

NOISE = 0.04
"""Variance of what main effects leave unexplained, in units of the variance of one option's effect."""
CURIOSITY = 0.3
"""Standard deviations of uncertainty that count as gain."""
MINOR = 0.5
"""Effects of constants are expected to be this small beside those of parts."""


class Trial(NamedTuple):
    """A proposal with its score, greater = better; None while it is pending."""

    proposal: Mapping[str, Scalar]
    score: float | None


def best(space: Space, trials: Sequence[Trial], shortlist: Sequence[Mapping[str, Scalar]]) -> int:
    """Index of the proposal of ``shortlist`` with the best expected score plus curiosity; the first when tied."""
    import numpy as np

    scores = np.array([t.score for t in trials if t.score is not None])
    spread = float(scores.std()) if len(scores) else 0.0
    if spread == 0.0:
        return 0
    rows = np.array([_row(space, t.proposal) for t in trials if t.score is not None])
    precision = np.einsum("ni,nj->ij", rows, rows) / NOISE + np.eye(rows.shape[1])
    seen = np.einsum("ni,n->i", rows, (scores - np.median(scores)) / spread) / NOISE
    weights = np.linalg.solve(precision, seen)
    for pending in (t for t in trials if t.score is None):  # it will be known: nothing to be curious about
        row = _row(space, pending.proposal)
        precision += np.outer(row, row) / NOISE
    covariance = np.linalg.inv(precision)
    asked = np.array([_row(space, proposal) for proposal in shortlist])
    doubt = np.sqrt(np.einsum("ni,ij,nj->n", asked, covariance, asked).clip(0))
    value = np.einsum("ni,i->n", asked, weights) + CURIOSITY * doubt
    return int(np.argmax(np.round(value, 9)))


def _row(space: Space, proposal: Mapping[str, Scalar]) -> np.ndarray:
    """Intercept, one column an option, and a line and a parabola for each number; zero where it does not count."""
    import numpy as np

    row = [1.0]
    for item in space.file.everything:
        there = item.name in proposal
        value = proposal.get(item.name)
        if isinstance(item, Part):
            row += [float(value == option) for option in item.options]
        elif item.kind == "choice":
            row += [MINOR * float(there and repr(value) == repr(known)) for known in item.values]
        else:
            x = _share(item, value) - 0.5 if there else 0.0
            row += [MINOR * 2 * x, MINOR * 4 * x * x]
    return np.array(row)


def _share(item: Constant, value: Scalar | None) -> float:
    """Where ``value`` lies in the constant's range, 0 … 1."""
    import numpy as np

    low, high, at = (float(x or 0) for x in (item.low, item.high, value))
    if item.log:
        low, high, at = (float(np.log(x)) for x in (low, high, at))
    return (at - low) / (high - low)
