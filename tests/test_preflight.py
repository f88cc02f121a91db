"""``tasks check``: a sound pack passes, and each defect of a pack is found, named and placed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sia_ray.cli.tasks import app
from sia_ray.evaluation.findings import Finding, Level, Report
from sia_ray.evaluation.harness_run import HarnessRun, run_harness
from sia_ray.evaluation.preflight import check
from sia_ray.evaluation.source_scan import model_names, same_model, scan_source
from sia_ray.sandbox.policy import Cause, Limits
from sia_ray.sandbox.select import select
from sia_ray.task.pack import load_pack

TINY = Path(__file__).parent / "packs" / "tiny"
REFERENCE = "reference/reference_target_agent.py"

Spoil = Callable[[Path], None]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests: what is the same is made once."""
    return tmp_path_factory.mktemp("cache")


def checked(root: Path, cache: Path) -> Report:
    return check(root, sandbox=select("none"), cache_dir=cache)


def replaced(path: str, old: str, new: str) -> Spoil:
    def spoil(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new, 1))

    return spoil


def test_sound_pack_has_no_findings_and_shows_what_would_be_read(cache: Path) -> None:
    report = checked(TINY, cache)
    assert report.findings == ()
    assert report.ok
    assert (report.metric, report.status, report.split, report.items) == ("accuracy", "passed", "smoke", 8)
    assert report.score == 0.5
    assert {name: size.items for name, size in report.splits.items()} == {
        "dev": 100,
        "canary": 50,
        "holdout": 50,
        "smoke": 8,
    }
    assert report.splits["dev"].smallest_gain == pytest.approx(0.08)
    assert set(report.seconds) == {"fetch", "environment", "splits", "harness", "evaluator"}


DEFECTS: list[tuple[str, Spoil, Level, str, str]] = [
    (
        "no evaluator",
        lambda root: (root / "data/public/evaluate.py").unlink(),
        Level.ERROR,
        "no evaluator",
        "data/public/evaluate.py",
    ),
    ("unknown key", replaced("task.toml", "wall_s", "walls"), Level.ERROR, "unknown key 'walls'", "[evaluator]"),
    ("wrong metric", replaced("task.toml", '"accuracy"', '"acuracy"'), Level.ERROR, "acuracy", "task.toml [metric]"),
    (
        "no metric",
        replaced(
            "task.toml",
            '[metric]\nname = "accuracy"\ndirection = "max"\nrange = [0.0, 1.0]\ndenominator = "questions"\n',
            "",
        ),
        Level.WARNING,
        "'accuracy' would be read",
        "task.toml",
    ),
    (
        "file not in the public view",
        replaced(REFERENCE, '"questions.json"', '"absent.json"'),
        Level.ERROR,
        "it reads absent.json, which is not in data/public",
        f"{REFERENCE}:24",
    ),
    (
        "missing key",
        replaced(REFERENCE, "LIMIT = 100", 'import os\nLIMIT = len(os.environ["SOME_API_KEY"])'),
        Level.ERROR,
        "SOME_API_KEY",
        f"{REFERENCE}:8",
    ),
    (
        "missing package",
        replaced(REFERENCE, "import json", "import json\nimport absent_package"),
        Level.ERROR,
        "the environment lacks absent_package",
        f"{REFERENCE}:5",
    ),
    (
        "flag not taken",
        replaced(REFERENCE, '"--working_dir"', '"--work_dir"'),
        Level.ERROR,
        "does not take --working_dir",
        REFERENCE,
    ),
    (
        "crash",
        replaced(REFERENCE, "def main():", "def main():\n    1 / 0"),
        Level.ERROR,
        "ZeroDivisionError",
        REFERENCE,
    ),
    ("syntax", replaced(REFERENCE, "def main():", "def main(:"), Level.ERROR, "not valid Python", REFERENCE),
    (
        "endless reference",
        lambda root: (
            replaced("task.toml", "[target]\nwall_s = 30", "[target]\nwall_s = 0.5")(root),
            replaced(REFERENCE, "def main():", "def main():\n    while True: pass")(root),
        )[-1],
        Level.ERROR,
        "did not end within 0.5 s on smoke",
        REFERENCE,
    ),
    (
        "empty submission scored",
        lambda root: (
            (root / "reference/items.py").unlink(),
            replaced("data/public/evaluate.py", "return 1", "answers = {'0': 'odd'}")(root),
        )[-1],
        Level.WARNING,
        "wrote nothing is scored",
        "data/public/evaluate.py",
    ),
    (
        "models that differ",
        lambda root: (
            replaced("data/public/task.md", "# Tiny", "# Tiny\n\nUse `models/gemini-3.1-flash-lite`.")(root),
            replaced(REFERENCE, "LIMIT = 100", 'LIMIT = 100\nMODEL = "Qwen/Qwen3-4B-Instruct-2507"')(root),
        )[-1],
        Level.WARNING,
        "the reference uses Qwen/Qwen3-4B-Instruct-2507, task.md asks for models/gemini-3.1-flash-lite",
        f"{REFERENCE}:8",
    ),
    (
        "items that lie",
        replaced("reference/items.py", "== right", "!= None"),
        Level.ERROR,
        "items do not hold",
        "evaluate",
    ),
    ("split script", lambda root: (root / "reference/splits.py").write_text("1/0"), Level.ERROR, "Zero", "splits.py"),
]


@pytest.mark.parametrize(("spoil", "level", "what", "where"), [d[1:] for d in DEFECTS], ids=[d[0] for d in DEFECTS])
def test_defect_is_found(tiny: Path, cache: Path, spoil: Spoil, level: Level, what: str, where: str) -> None:
    spoil(tiny)
    report = checked(tiny, cache)
    found = [f for f in report.findings if what in f.what and where in f.where]
    assert found, [(f.what, f.where) for f in report.findings]
    assert found[0].level is level
    assert found[0].todo
    assert report.ok is (level is Level.WARNING)


def test_profile_of_another_model_is_a_warning(tiny: Path, cache: Path) -> None:
    replaced("data/public/task.md", "# Tiny", "# Tiny\n\nUse `openai/gpt-oss-120b`.")(tiny)
    arguments = {"sandbox": select("none"), "cache_dir": cache}
    assert check(tiny, profile_models=["gpt-oss-120b"], **arguments).findings == ()
    (finding,) = check(tiny, profile_models=["claude-haiku-4-5"], **arguments).findings
    assert "claude-haiku-4-5" in finding.what


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("initial = 100", "initial = 200", "is said to start at 200"),
        ("parts/read_half.py", "parts/absent.py", "absent.py"),
        ('symbol = "GUESS"', 'symbol = "GUES"', "GUES"),
    ],
)
def test_search_space_that_does_not_fit_the_reference_is_found(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, what: str
) -> None:
    replaced("reference/search_space.toml", old, new)(tiny)
    monkeypatch.setenv("SIA_RAY_CACHE", str(cache))
    result = CliRunner().invoke(app, ["check", str(tiny), "--sandbox", "none", "--json"])
    assert result.exit_code == 2, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    assert what in finding["what"] and finding["where"] == "reference/search_space.toml"


def test_commands_print_for_people_and_for_programs(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIA_RAY_CACHE", str(cache))
    dirs = ["--task-dir", str(TINY.parent)]
    run = CliRunner().invoke
    listed = json.loads(run(app, ["list", *dirs, "--json"]).stdout)["tasks"]
    assert {"name": "tiny", "title": load_pack(TINY).config.title, "path": str(TINY), "problem": ""} in listed
    assert json.loads(run(app, ["show", "tiny", *dirs, "--json"]).stdout)["metric"]["name"] == "accuracy"
    assert "nothing to fetch" in run(app, ["fetch", "tiny", *dirs]).stdout
    told = run(app, ["check", "tiny", *dirs, "--sandbox", "none"])
    assert told.exit_code == 0
    assert "accuracy = 0.5, higher is better, on 8 items of smoke" in told.stdout
    assert run(app, ["show", "tiny", *dirs]).stdout.startswith("task        tiny")


def test_scan_reads_needs_from_the_source_and_ignores_docstrings() -> None:
    scan = scan_source(
        '"""Once ran on gpt-4."""\n'
        "import os, json\nfrom pathlib import Path\nfrom google import genai\nimport openai.types\n"
        'key = os.getenv("A_KEY")\nfallback = os.environ.get("B", "x")\nclient = openai.OpenAI()\n'
        'a = Path(args.dataset_dir) / "x" / "y.csv"\nb = os.path.join(dataset_dir, "z.json")\n'
        'MODEL = "claude-haiku-4-5-20251001"\n'
    )
    assert scan.variables == {"A_KEY": 6, "OPENAI_API_KEY": 8}
    assert scan.imports == {"google.genai": 4, "openai": 5}
    assert set(scan.hosted) == {"google.genai", "openai"}
    assert {"x/y.csv", "z.json"} <= set(scan.dataset_files)
    assert list(scan.models) == ["claude-haiku-4-5-20251001"]
    assert scan.flags == frozenset()


def test_models_are_the_same_whatever_the_provider_writes_before_and_after() -> None:
    assert model_names("use `openai/gpt-oss-120b`, or GPT-OSS-120B.") == ["openai/gpt-oss-120b", "GPT-OSS-120B"]
    assert same_model("openai/gpt-oss-120b", "GPT-OSS-120B")
    assert same_model("claude-haiku-4-5", "claude-haiku-4.5-20251001")
    assert not same_model("gpt-oss-120b", "gpt-oss-20b")
    assert model_names("a lama with gpts and 12 claudes") == []


def harness(code: str) -> dict[str, bytes]:
    return {"target_agent.py": code.encode(), "helper.py": b"NAME = 'helped'\n"}


def run(code: str, sandbox: str) -> HarnessRun:
    limits = Limits(wall_s=30, memory_mb=512, cpus=1)
    return run_harness(
        select(sandbox),
        harness=harness(code),
        public_dir=TINY / "data/public",
        limits=limits,
        python=Path(sys.executable),
    )


CONTRACT = """
import sys, helper, os
assert sys.argv[1::2] == ["--dataset_dir", "--working_dir"]
data, work = sys.argv[2::2]
assert "questions.json" in os.listdir(data)
os.makedirs(work + "/deep/er")
open(work + "/deep/er/out.txt", "w").write(helper.NAME)
open("relative.txt", "w").write(os.environ.get("HOME", ""))
os.symlink("/etc/passwd", work + "/link")
print("héllo")
"""


def test_harness_is_started_as_sia_does_and_its_files_come_back() -> None:
    done = run(CONTRACT, "none")
    assert done.finished.ok, done.finished.output.text()
    assert done.outputs["deep/er/out.txt"] == b"helped"
    assert "relative.txt" in done.outputs
    assert "link" in done.skipped and "link" not in done.outputs


@pytest.mark.sandbox
def test_harness_in_the_sandbox_sees_the_public_view_and_nothing_that_it_may_change() -> None:
    probe = CONTRACT + (
        "for path in ('/data/new', '/harness/new'):\n"
        "    try:\n        open(path, 'w')\n    except OSError:\n        continue\n"
        "    raise SystemExit(f'wrote {path}')\n"
        f"assert not os.path.exists({str(TINY / 'data/private')!r})\n"
    )
    done = run(probe, "auto")
    assert done.finished.ok, done.finished.output.text()
    assert done.outputs["deep/er/out.txt"] == b"helped"


@pytest.mark.sandbox
def test_sound_pack_passes_in_the_sandbox(tmp_path: Path) -> None:
    report = check(TINY, sandbox=select("auto"), cache_dir=tmp_path)
    assert report.ok, report.findings
    assert report.score == 0.5


def test_crash_of_a_harness_is_a_result_and_keeps_what_it_wrote() -> None:
    done = run("open('a', 'w').write('x'); raise SystemExit(3)", "none")
    assert (done.finished.cause, done.finished.returncode) == (Cause.EXITED, 3)
    assert done.outputs == {"a": b"x"}


def test_finding_is_plain_data() -> None:
    finding = Finding(level=Level.ERROR, what="a", where="b", todo="c")
    assert Finding.model_validate_json(finding.model_dump_json()) == finding
