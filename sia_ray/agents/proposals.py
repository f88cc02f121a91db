"""Where search's proposals come from: a stratified design first, then Optuna's TPE, chance as the last resort.

Both are functions of their arguments alone. A *proposal* holds the active parameters only, values as they stand in
the source (floats to four significant digits, so that the edit reads well).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sia_ray.agents.protocol import Seen
from sia_ray.agents.space import Constant, Space
from sia_ray.candidate.identity import canonical, derive_seed
from sia_ray.levers.decision import Scalar

if TYPE_CHECKING:
    import optuna

DIGITS = 4
"""Significant digits of a float in the source."""
SHORTLIST = 8
"""Proposals that TPE draws for one; ``main_effects`` chooses among them."""


class Told(NamedTuple):
    """What the study is told of one generation: the active parameters and how they fared."""

    proposal: Mapping[str, Scalar]
    seen: Seen


def key(proposal: Mapping[str, Scalar]) -> bytes:
    """Equal for equal proposals; 1, 1.0 and True differ."""
    return canonical({name: repr(value) for name, value in proposal.items()})


def stratified(space: Space, seed: int, turn: int, turns: int) -> dict[str, Scalar]:
    """Proposal ``turn`` (from 0) of a design of ``turns`` in which each option and each slice of a range is even.

    An option that the reference holds already is the one left out where ``turns`` is too small for all.
    """

    def place(name: str) -> int:
        order = sorted(range(turns), key=lambda i: derive_seed(seed, "startup", name, i))
        return order[turn]

    def option(name: str, options: Sequence[Scalar], initial: Scalar) -> Scalar:
        others = [o for o in options if repr(o) != repr(initial)]
        others.sort(key=lambda o: derive_seed(seed, "startup option", name, repr(o)))
        return [*others, initial][place(name) % len(options)]

    def value(item: Constant) -> Scalar:
        if item.kind == "choice":
            return option(item.name, item.values, item.initial)
        jitter = derive_seed(seed, "startup jitter", item.name, turn) / 2**31
        return _at(item, (place(item.name) + jitter) / turns)

    everything: dict[str, Scalar] = {p.name: option(p.name, list(p.options), p.initial) for p in space.file.part}
    everything |= {c.name: value(c) for c in space.file.constant}
    return space.keep_active(everything)


def tpe(space: Space, told: Sequence[Told], direction: str, seed: int) -> list[dict[str, Scalar]]:
    """A shortlist by TPE after ``told`` (in order of generation). Each is drawn with those before it as pending, so
    they differ.
    """
    import optuna

    _quiet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the sampler's arguments are marked experimental
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=1, multivariate=True, group=True, constant_liar=True, seed=seed
        )
        study = optuna.create_study(direction="maximize" if direction == "max" else "minimize", sampler=sampler)
        for item in told:
            study.add_trial(_trial(space, item))
        return [_walk(space, study.ask()) for _ in range(SHORTLIST)]


def chance(space: Space, seed: int) -> dict[str, Scalar]:
    """A proposal drawn evenly from the whole space."""
    import optuna

    _quiet()
    return _walk(space, optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask())


def _quiet() -> None:
    """Optuna's own log says nothing that the ledger does not."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _walk(space: Space, trial: optuna.Trial) -> dict[str, Scalar]:
    """Ask ``trial`` for every part and then for the constants that count under them."""
    proposal: dict[str, Scalar] = {p.name: trial.suggest_categorical(p.name, list(p.options)) for p in space.file.part}
    active = set(space.active(proposal))
    for item in space.file.constant:
        if item.name not in active:
            continue
        if item.kind == "choice":
            chosen = trial.suggest_categorical(item.name, [repr(v) for v in item.values])
            proposal[item.name] = next(v for v in item.values if repr(v) == chosen)
        elif item.kind == "int":
            low, high, step = (int(x) for x in (item.low or 0, item.high or 0, item.step or 1))
            proposal[item.name] = trial.suggest_int(item.name, low, high, step=step, log=item.log)
        else:
            low_f, high_f = float(item.low or 0), float(item.high or 0)
            step_f = None if item.step is None else float(item.step)
            drawn = trial.suggest_float(item.name, low_f, high_f, step=step_f, log=item.log)
            proposal[item.name] = _tidy(item, drawn)
    return proposal


def _trial(space: Space, told: Told) -> optuna.trial.FrozenTrial:
    """One generation as a finished, pruned (failed: ranked last, no score invented) or running trial."""
    import optuna

    spreads = {name: spread for name, spread in _spreads(space).items() if name in told.proposal}
    choices = {p.name for p in space.file.part} | {c.name for c in space.file.constant if c.kind != "choice"}
    params = {n: told.proposal[n] if n in choices else repr(told.proposal[n]) for n in spreads}
    score = told.seen.score if told.seen.status == "passed" else None
    state = optuna.trial.TrialState.PRUNED
    if score is not None:
        state = optuna.trial.TrialState.COMPLETE
    elif told.seen.status == "pending":
        state = optuna.trial.TrialState.RUNNING
    return optuna.trial.create_trial(
        state=state,
        value=score if state is optuna.trial.TrialState.COMPLETE else None,
        params=params,
        distributions=spreads,
    )


def _spreads(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    """The distributions that ``_walk`` asks from, by name."""
    import optuna.distributions as d

    spreads: dict[str, d.BaseDistribution] = {}
    for part in space.file.part:
        spreads[part.name] = d.CategoricalDistribution(list(part.options))
    for item in space.file.constant:
        if item.kind == "choice":
            spreads[item.name] = d.CategoricalDistribution([repr(v) for v in item.values])
        elif item.kind == "int":
            low, high, step = (int(x) for x in (item.low or 0, item.high or 0, item.step or 1))
            spreads[item.name] = d.IntDistribution(low, high, log=item.log, step=step)
        else:
            step_f = None if item.step is None else float(item.step)
            spreads[item.name] = d.FloatDistribution(
                float(item.low or 0), float(item.high or 0), log=item.log, step=step_f
            )
    return spreads


def _at(item: Constant, share: float) -> Scalar:
    """The value at ``share`` (0 … 1, end excluded) of a numeric constant's range, on its grid."""
    low, high = float(item.low or 0), float(item.high or 0)
    if item.step is not None:
        drawn = low + math.floor(share * ((high - low) / item.step + 1)) * item.step
    elif item.log:
        drawn = low * (high / low) ** share
    else:
        drawn = low + share * (high - low)
    return int(min(high, round(drawn))) if item.kind == "int" else _tidy(item, drawn)


def _tidy(item: Constant, drawn: float) -> float:
    digits = 12 if item.step is not None else DIGITS
    return min(float(item.high or 0), max(float(item.low or 0), float(f"{drawn:.{digits}g}")))
