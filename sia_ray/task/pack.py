"""A task pack: a folder in SIA's task_dir layout, with or without ``task.toml``.

::

    data/public/task.md                 what the target is asked for          needed
    data/public/evaluate.py             (or evaluate.py beside data/)         needed
    data/public/*, data/private/*       what the target sees, and the truth
    reference/reference_target_agent.py the first harness                     needed
    reference/harness/*                 (instead) one of several files; its entry is target_agent.py
    reference/SAMPLE_TASK_DESCRIPTIONS.md, ../_shared/sample_agent_execution.json
    reference/requirements.txt          what harness and evaluator import
    reference/search_space.toml         what `search` may change
    reference/items.py                  one row an item, for paired comparison

Each of these may also arrive by ``[data]`` of ``task.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sia_ray.errors import ConfigError, NotFoundError, PackError
from sia_ray.task.baseline import SIA_BASELINE
from sia_ray.task.config import Mistake, TaskConfig, read_config
from sia_ray.task.tree import digest_of, scan, walk

CONFIG = "task.toml"
TASK_MD = "data/public/task.md"
REFERENCE = "reference/reference_target_agent.py"
HARNESS = "reference/harness"
REQUIREMENTS = "reference/requirements.txt"
SEARCH_SPACE = "reference/search_space.toml"
ITEMS = "reference/items.py"
EVALUATORS = ("data/public/evaluate.py", "evaluate.py")
SAMPLE_EXECUTION = "_shared/sample_agent_execution.json"
"""Beside the task folder: an example of how a target logs its trajectory. Tasks of one collection share it."""
ENTRY = "target_agent.py"
"""The name that a harness's entry bears in a generation's folder."""


@dataclass(frozen=True)
class TaskPack:
    """A loaded pack. ``digest`` covers every file of ``root``; fetched files are pinned by it through ``[data]``."""

    root: Path
    config: TaskConfig
    digest: str
    data_dir: Path | None = None
    """Where the files of ``[data]`` lie once they are fetched, each at its ``to``."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def reference_agent(self) -> str:
        """Source text of the first harness."""
        return self._text(self.entry)

    @property
    def entry(self) -> str:
        """Where the first harness's entry stands in the task folder."""
        folder_entry = f"{HARNESS}/{ENTRY}"
        return folder_entry if self.has(folder_entry) else REFERENCE

    @property
    def harness_files(self) -> dict[str, str]:
        """The files of the first harness: path in the harness → path in the task folder."""
        if self.entry == REFERENCE:
            return {ENTRY: REFERENCE}
        own = [f"{HARNESS}/{path}" for path, _ in walk(self.root / HARNESS)]
        fetched = [path for path in self._fetched if path.startswith(f"{HARNESS}/")]
        return {path.removeprefix(f"{HARNESS}/"): path for path in (*own, *fetched)}

    @property
    def task_md(self) -> str:
        return self._text(TASK_MD)

    @property
    def baseline(self) -> bytes:
        """What a SIA task folder (one without ``task.toml``) may import unasked, as requirement lines."""
        return b"" if (self.root / CONFIG).is_file() else "\n".join(SIA_BASELINE).encode()

    @property
    def own_requirements(self) -> bytes | None:
        """``reference/requirements.txt`` and the harness's own, or None when there is neither."""
        files = [path for path in (REQUIREMENTS, f"{HARNESS}/requirements.txt") if self.has(path)]
        return b"\n".join(self.find(path).read_bytes() for path in files) if files else None

    @property
    def requirements(self) -> bytes | None:
        """What harness and evaluator import, or None when the standard library is enough."""
        return b"\n".join(filter(None, (self.baseline, self.own_requirements))) or None

    @property
    def search_space(self) -> Path | None:
        return self.find(SEARCH_SPACE) if self.has(SEARCH_SPACE) else None

    @property
    def items(self) -> Path | None:
        return self.find(ITEMS) if self.has(ITEMS) else None

    @property
    def reference_harness(self) -> dict[str, bytes]:
        """The first harness as a tree whose entry is ``target_agent.py``, with its requirements.txt if there is one."""
        files = {path: self.find(place).read_bytes() for path, place in self.harness_files.items()}
        own = self.own_requirements
        return files if own is None else {**files, "requirements.txt": own}

    @property
    def reference_texts(self) -> dict[str, str]:
        """The files of ``reference/`` by path below it, as text; fetched ones once they are there."""
        files = dict(walk(self.root / "reference")) if (self.root / "reference").is_dir() else {}
        if self.data_dir is not None:
            fetched = (path for path in self._fetched if path.startswith("reference/"))
            files |= {path.removeprefix("reference/"): self.data_dir / path for path in fetched}
        return {path: file.read_text(encoding="utf-8", errors="replace") for path, file in files.items()}

    @property
    def sample_execution(self) -> str | None:
        """The example of a trajectory that lies beside the task folder, or None."""
        return next((file.read_text(encoding="utf-8") for file in shared_files(self.root).values()), None)

    @property
    def evaluator(self) -> str | None:
        """Where the evaluator stands in the task folder, or None."""
        return next((path for path in EVALUATORS if self.has(path)), None)

    def has(self, relative: str) -> bool:
        """Whether the complete task folder has this file, fetched already or not."""
        return (self.root / relative).is_file() or relative in self._fetched

    def find(self, relative: str) -> Path:
        """The file on disk. Raises NotFoundError when it is missing or not fetched yet."""
        if (self.root / relative).is_file():
            return self.root / relative
        if relative not in self._fetched:
            raise NotFoundError(f"{self.name} has no {relative}.", f"Add it under {self.root}.")
        if self.data_dir is None:
            raise NotFoundError(f"{relative} is not fetched yet.", f"Run: sia-ray tasks fetch {self.name}")
        return self.data_dir / relative

    def files(self) -> dict[str, Path]:
        """The complete task folder: relative path → file, own and fetched ones."""
        fetched = {relative: self.find(relative) for relative in self._fetched}
        return {**dict(walk(self.root)), **fetched}

    def with_data(self, data_dir: Path | None) -> TaskPack:
        return replace(self, data_dir=data_dir)

    @property
    def _fetched(self) -> tuple[str, ...]:
        return tuple(file.to for file in self.config.data.files) if self.config.data else ()

    def _text(self, relative: str) -> str:
        try:
            return self.find(relative).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise PackError(f"{relative} of {self.name} is not UTF-8.", "Save it as UTF-8.") from None


def shared_files(root: Path) -> dict[str, Path]:
    """What belongs to the task and lies beside its folder: path from the folder's parent → file."""
    sample = root.parent / SAMPLE_EXECUTION
    return {SAMPLE_EXECUTION: sample} if sample.is_file() else {}


class Inspection(NamedTuple):
    """A pack as far as it could be read, and what is wrong with it. ``pack`` is None when nothing can run."""

    pack: TaskPack | None
    mistakes: list[Mistake]


def inspect_pack(root: Path) -> Inspection:
    """Read the pack at ``root`` and list every mistake of its ``task.toml`` and layout. Raises NotFoundError."""
    root = root.absolute()
    if not root.is_dir():
        raise NotFoundError(f"{root} is not a folder.", "Give a task's name or the path of its folder.")
    config: TaskConfig | list[Mistake] = _default_config(root)
    if (root / CONFIG).is_file():
        try:
            config = read_config((root / CONFIG).read_text(encoding="utf-8"), _default_name(root))
        except UnicodeDecodeError:
            config = [Mistake("not UTF-8", CONFIG, "Save it as UTF-8.")]
    if not isinstance(config, TaskConfig):
        return Inspection(None, config)
    try:
        digest = digest_of(scan(dict(walk(root))))
    except PackError as error:
        return Inspection(None, [Mistake(error.message, root.name, error.hint)])
    pack = TaskPack(root, config, digest)
    mistakes = _layout_mistakes(pack)
    runnable = pack.has(TASK_MD) and pack.has(pack.entry)
    return Inspection(pack if runnable else None, mistakes)


def has_private_data(root: Path) -> bool:
    """Whether the task folder at ``root`` has, or gets when it is fetched and cut, what a target must not learn of.

    A folder with a task.toml may get it by ``[data]`` or ``[splits]``, so that counts as yes, whatever it says.
    """
    private = root / "data" / "private"
    return (root / CONFIG).exists() or (private.is_dir() and any(private.iterdir()))


def load_pack(root: Path) -> TaskPack:
    """The pack at ``root``. Raises NotFoundError, ConfigError (``task.toml``) or PackError (the layout)."""
    pack, mistakes = inspect_pack(root)
    if pack is not None and not mistakes:
        return pack
    first, *others = mistakes
    more = f" (and {len(others)} more: `sia-ray tasks check` lists them)" if others else ""
    error = ConfigError if first.where.startswith(CONFIG) else PackError
    raise error(f"{root.name}: {first.where}: {first.what}{more}.", first.todo)


def _layout_mistakes(pack: TaskPack) -> list[Mistake]:
    mistakes = []
    for path, role in ((TASK_MD, "the task's description"), (pack.entry, "the first harness")):
        if not pack.has(path):
            mistakes.append(Mistake(f"{role} is missing", path, "Write it, or let [data] of task.toml bring it."))
    if pack.evaluator is None:
        todo = "Write it: `evaluate.py --gen-dir DIR` puts DIR/results.json there. No run starts without a score."
        mistakes.append(Mistake("there is no evaluator", " or ".join(EVALUATORS), todo))
    script = pack.config.splits.script
    if script is not None and not pack.has(script):
        mistakes.append(Mistake("the script that [splits] names is missing", script, "Write it or drop the key."))
    for file in pack.config.data.files if pack.config.data else ():
        if (pack.root / file.to).exists():
            todo = f"Remove the file, or its entry in {CONFIG} [data]."
            mistakes.append(Mistake("both in the pack and in [data]", file.to, todo))
    return mistakes


def _default_name(root: Path) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in root.name).strip("-._") or "task"


def _default_config(root: Path) -> TaskConfig:
    return TaskConfig(name=_default_name(root))
