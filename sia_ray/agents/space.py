"""A pack's search space: what may vary in its target agent, and how a proposal becomes a source edit.

``reference/search_space.toml`` names *parts* (top-level functions of ``target_agent.py`` that are replaced whole by
one of the texts in ``reference/parts/``) and *constants* (module-level ``NAME = literal`` lines). Example::

    schema = 1
    [[part]]
    name = "vectoriser"
    symbol = "vectorise"
    initial = "words"
    [part.options]
    words = "parts/vectorise_words.py"
    chars = "parts/vectorise_chars.py"
    [[constant]]
    name = "ridge_alpha"
    symbol = "RIDGE_ALPHA"
    kind = "float"
    low = 0.01
    high = 10.0
    log = true
    initial = 1.0
    when = { classifier = ["ridge"] }
    [search]
    startup = 6

A proposal is a mapping of names to values. It is complete when it gives every part and every constant whose ``when``
holds; those alone are edited, the rest of the base stays as it is.
"""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from sia_ray.agents.source import Change, compose, constant_value, function_text, only_function
from sia_ray.config import suggest
from sia_ray.errors import ConfigError, UsageError
from sia_ray.levers.decision import Scalar

FILE = "search_space.toml"

_Literal = StrictBool | StrictInt | StrictFloat | StrictStr
_STRICT = ConfigDict(frozen=True, extra="forbid")


class Part(BaseModel):
    """One top-level function with interchangeable texts: option → file below ``reference/``."""

    model_config = _STRICT

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    symbol: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    initial: str
    options: dict[str, str] = Field(min_length=1)

    @model_validator(mode="after")
    def _initial_is_an_option(self) -> Self:
        if self.initial not in self.options:
            raise ValueError(f"initial {self.initial!r} is none of the options {sorted(self.options)}")
        return self


class Constant(BaseModel):
    """One module-level literal. ``when``: part → options; the constant counts only where all of them hold."""

    model_config = _STRICT

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    symbol: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    kind: Literal["int", "float", "choice"]
    initial: _Literal
    low: StrictInt | StrictFloat | None = None
    high: StrictInt | StrictFloat | None = None
    log: bool = False
    step: StrictInt | StrictFloat | None = Field(default=None, gt=0)
    values: tuple[_Literal, ...] = ()
    when: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _shape_fits_kind(self) -> Self:
        if self.kind == "choice":
            if not self.values or any(x is not None for x in (self.low, self.high, self.step)) or self.log:
                raise ValueError("a choice takes values = [...] and no low, high, log or step")
            if len({repr(v) for v in self.values}) != len(self.values):
                raise ValueError("values must differ from one another")
        else:
            self._check_range()
        self.check(self.initial)
        return self

    def _check_range(self) -> None:
        if self.values or self.low is None or self.high is None:
            raise ValueError(f"kind {self.kind!r} takes low and high, and no values")
        if not self.low < self.high:
            raise ValueError("low must be below high")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log needs low > 0 and no step")
        if self.kind == "int" and any(isinstance(x, float) for x in (self.low, self.high, self.step)):
            raise ValueError("an int takes whole numbers for low, high and step")
        if self.step is not None:
            turns = (self.high - self.low) / self.step
            if abs(turns - round(turns)) > 1e-9:
                raise ValueError("high must be low plus a whole number of steps")

    def check(self, value: Scalar) -> None:
        """Raise ValueError when ``value`` is not one that this constant can take."""
        if self.kind == "choice":
            if repr(value) not in {repr(v) for v in self.values}:
                raise ValueError(f"{value!r} is none of the values {list(self.values)}")
            return
        if isinstance(value, bool | str) or isinstance(value, float) != (self.kind == "float"):
            raise ValueError(f"{value!r} is not written as {'1.0' if self.kind == 'float' else 'a whole number'}")
        assert self.low is not None and self.high is not None
        if not self.low <= value <= self.high:
            raise ValueError(f"{value!r} is outside {self.low} … {self.high}")


class SearchOptions(BaseModel):
    """How the search walks: ``startup`` proposals cover the options evenly before scores steer."""

    model_config = _STRICT

    startup: int = Field(default=6, ge=0)


class SpaceFile(BaseModel):
    """``search_space.toml`` as it is written."""

    model_config = _STRICT

    version: Literal[1] = Field(alias="schema")
    part: tuple[Part, ...] = ()
    constant: tuple[Constant, ...] = ()
    search: SearchOptions = SearchOptions()

    @property
    def everything(self) -> tuple[Part | Constant, ...]:
        return (*self.part, *self.constant)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        if not self.everything:
            raise ValueError("there is neither a [[part]] nor a [[constant]]")
        for field in ("name", "symbol"):
            given = [getattr(item, field) for item in self.everything]
            twice = sorted({x for x in given if given.count(x) > 1})
            if twice:
                raise ValueError(f"{field} given twice: {', '.join(twice)}")
        parts = {part.name: part for part in self.part}
        for constant in self.constant:
            for name, options in constant.when.items():
                if name not in parts:
                    raise ValueError(f"when of {constant.name!r} names {name!r}, which is no part")
                unknown = sorted(set(options) - set(parts[name].options))
                if unknown or not options:
                    raise ValueError(f"when of {constant.name!r}: part {name!r} has no option {unknown or '[]'}")
        return self


class Space(NamedTuple):
    """A search space with the texts of its options: (part, option) → function source."""

    file: SpaceFile
    texts: Mapping[tuple[str, str], str]

    @classmethod
    def read(cls, reference: Mapping[str, str]) -> Space:
        """The space of a pack's ``reference/`` files; raises ConfigError that names the file and the mistake."""
        if FILE not in reference:
            raise ConfigError(
                f"The task pack has no reference/{FILE}.",
                "Agent 'search' needs it; choose another agent with --agent.",
            )
        try:
            file = SpaceFile.model_validate(tomllib.loads(reference[FILE]))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"reference/{FILE} is not TOML: {error}.", "Correct it there.") from error
        except ValidationError as error:
            raise ConfigError(*_explain(error)) from None
        texts = {}
        for part in file.part:
            for option, path in part.options.items():
                texts[part.name, option] = _option_text(part, path, reference)
            given = [texts[part.name, option] for option in part.options]
            if len(set(given)) != len(given):
                raise ConfigError(f"Two options of part {part.name!r} hold the same text.", "Drop one of them.")
        return cls(file, texts)

    @property
    def initial(self) -> dict[str, Scalar]:
        """The proposal that describes the reference harness."""
        everything: dict[str, Scalar] = {p.name: p.initial for p in self.file.part}
        everything |= {c.name: c.initial for c in self.file.constant}
        return self.keep_active(everything)

    def active(self, proposal: Mapping[str, Scalar]) -> tuple[str, ...]:
        """Names that count under the parts of ``proposal``: every part, and each constant whose ``when`` holds."""
        constants = (
            c.name for c in self.file.constant if all(proposal.get(p) in options for p, options in c.when.items())
        )
        return (*(p.name for p in self.file.part), *constants)

    def keep_active(self, proposal: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """``proposal`` without what does not count, in the order of the file."""
        return {name: proposal[name] for name in self.active(proposal) if name in proposal}

    def values_in(self, text: str) -> dict[str, Scalar]:
        """What a harness holds now: the option of each part whose text is known, the value of each constant."""
        found: dict[str, Scalar] = {}
        for part in self.file.part:
            current = function_text(text, part.symbol)
            for option in part.options:
                if self.texts[part.name, option] == current:
                    found[part.name] = option
        for constant in self.file.constant:
            found[constant.name] = constant_value(text, constant.symbol)
        return found

    def check_reference(self, text: str) -> None:
        """Raise ConfigError unless ``text`` (the reference harness) holds every part and constant at its initial."""
        there = self.values_in(text)
        for item in self.file.everything:
            if repr(there.get(item.name)) != repr(item.initial):
                raise ConfigError(
                    f"reference/{FILE}: {item.name!r} is said to start at {item.initial!r}, but {item.symbol} of the "
                    f"reference harness holds {there.get(item.name, 'another text')!r}.",
                    "Make the two agree: the first generation is counted as a proposal with the initial values.",
                )

    def edits(self, base_text: str, proposal: Mapping[str, Scalar]) -> str:
        """``proposal`` as an answer in the codec of ``candidate.edits``; empty when the base holds it already.

        Raises UsageError for a name or value that the space does not have, EditRejected when the base has lost a
        symbol.
        """
        self._check(proposal)
        active = set(self.active(proposal)) & set(proposal)
        changes = []
        for constant in self.file.constant:
            if constant.name in active:
                changes.append(Change(constant.symbol, literal=proposal[constant.name]))
        for part in self.file.part:
            if part.name in active:
                changes.append(Change(part.symbol, function=self.texts[part.name, str(proposal[part.name])]))
        return compose(base_text, changes)

    def describe(self, proposal: Mapping[str, Scalar], previous: Mapping[str, Scalar]) -> tuple[str, ...]:
        """One line a difference: parts by name, constants by symbol, old and new value."""
        lines = []
        for item in self.file.everything:
            new, old = proposal.get(item.name), previous.get(item.name)
            if new is None or repr(new) == repr(old):
                continue
            label = item.name if isinstance(item, Part) else item.symbol
            lines.append(f"{label}: {new}" if old is None else f"{label}: {old} → {new}")
        return tuple(lines)

    def _check(self, proposal: Mapping[str, Scalar]) -> None:
        known = {item.name: item for item in self.file.everything}
        for name, value in proposal.items():
            if name not in known:
                raise UsageError(f"The search space has no parameter {name!r}.", suggest(name, known))
            item = known[name]
            if isinstance(item, Part):
                if value not in item.options:
                    close = suggest(str(value), item.options)
                    raise UsageError(f"Part {name!r} has no option {value!r}.", close)
                continue
            try:
                item.check(value)
            except ValueError as error:
                raise UsageError(f"Constant {name!r}: {error}.", f"See reference/{FILE}.") from None


def _option_text(part: Part, path: str, reference: Mapping[str, str]) -> str:
    clean = posixpath.normpath(path)
    if clean not in reference:
        raise ConfigError(
            f"reference/{FILE}: part {part.name!r} names reference/{path}, which is not there.",
            suggest(clean, reference),
        )
    return only_function(reference[clean], part.symbol, f"reference/{clean}")


def _explain(error: ValidationError) -> tuple[str, str]:
    """The first mistake of a space file as (message, hint)."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(x) for x in first["loc"]) or "the file"
    if first["type"] != "extra_forbidden":
        return f"reference/{FILE}: {where}: {first['msg']}.", "Correct it there."
    models: dict[Any, type[BaseModel]] = {"part": Part, "constant": Constant, "search": SearchOptions}
    model = models.get(first["loc"][0], SpaceFile) if len(first["loc"]) > 1 else SpaceFile
    known = [field.alias or name for name, field in model.model_fields.items()]
    return f"reference/{FILE}: unknown key {where!r}.", suggest(str(first["loc"][-1]), known)
