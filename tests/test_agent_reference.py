"""SIA's target profiles: where the first harness comes from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sia_ray
from sia_ray.cli.tasks import app
from sia_ray.errors import ConfigError, NotFoundError, PackError, SiaRayError
from sia_ray.runtime.prepare import parcel, unpack_parcel
from sia_ray.task.agent_reference import load_target_profile, with_profile
from sia_ray.task.pack import TaskPack, load_pack

TINY = Path(__file__).parent / "packs" / "tiny"
SIA = {"profile_id": "mine", "name": "Mine", "model": "gpt-oss-120b", "provider_id": "openai", "since": 2026}


def profile(folder: Path, agent_reference: object, **more: object) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mine.json"
    path.write_text(json.dumps({**SIA, "agent_reference": agent_reference, **more}))
    return str(path)


def pack_of(name: str, cache: Path, root: Path = TINY) -> TaskPack:
    return load_pack(with_profile(root, load_target_profile(name, {}), cache_dir=cache))


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """A folder whose entry needs the module beside it."""
    folder = tmp_path / "profiles" / "agent"
    (folder / "sub").mkdir(parents=True)
    source = (TINY / "reference/reference_target_agent.py").read_text().replace("import json\n", "import helper\n", 1)
    (folder / "main.py").write_text(source.replace("json.", "helper.json."))
    (folder / "helper.py").write_text("import json\n")
    (folder / "sub/data.bin").write_bytes(b"\xff\x00")
    (folder / "requirements.txt").write_text("# nothing\n")
    return folder


@pytest.mark.parametrize("value", ["default", None])
def test_default_is_the_tasks_own_reference(tmp_path: Path, value: str | None) -> None:
    name = profile(tmp_path, value)
    assert with_profile(TINY, load_target_profile(name, {}), cache_dir=tmp_path) == TINY


def test_one_file_becomes_the_harness_and_the_rest_of_the_task_stays(tmp_path: Path) -> None:
    name = profile(tmp_path / "profiles", {"source": "../my_agent.py"})
    (tmp_path / "my_agent.py").write_text("print('mine')\n")
    pack = pack_of(name, tmp_path / "cache")
    assert pack.reference_harness == {"target_agent.py": b"print('mine')\n"}
    assert pack.reference_agent == "print('mine')\n"
    assert (pack.name, pack.task_md, pack.config) == ("tiny", load_pack(TINY).task_md, load_pack(TINY).config)
    assert pack.digest != load_pack(TINY).digest


def test_folder_becomes_the_harness_with_its_modules_and_requirements(tmp_path: Path, agent: Path) -> None:
    pack = pack_of(profile(tmp_path / "profiles", {"source": "agent", "entrypoint": "main.py"}), tmp_path / "cache")
    harness = pack.reference_harness
    assert set(harness) == {"target_agent.py", "helper.py", "sub/data.bin", "requirements.txt"}
    assert harness["target_agent.py"] == (agent / "main.py").read_bytes()
    assert harness["sub/data.bin"] == b"\xff\x00"
    assert pack.requirements == b"# nothing\n"


def test_requirements_of_task_and_harness_are_both_installed(tmp_path: Path, agent: Path) -> None:
    root = Path(shutil.copytree(TINY, tmp_path / "tiny"))
    (root / "reference/requirements.txt").write_text("pandas")
    name = profile(tmp_path / "profiles", {"source": str(agent), "entrypoint": "main.py"})
    assert pack_of(name, tmp_path / "cache", root).requirements == b"pandas\n# nothing\n"


def test_entrypoint_is_reference_target_agent_unless_said(tmp_path: Path, agent: Path) -> None:
    (agent / "main.py").rename(agent / "reference_target_agent.py")
    pack = pack_of(profile(tmp_path / "profiles", {"source": "./agent/"}), tmp_path / "cache")
    assert "target_agent.py" in pack.reference_harness
    assert "reference_target_agent.py" not in pack.reference_harness


def test_task_without_a_reference_loads_with_one_of_a_profile(tmp_path: Path) -> None:
    root = Path(shutil.copytree(TINY, tmp_path / "tiny"))
    (root / "reference/reference_target_agent.py").unlink()
    (tmp_path / "mine.py").write_text("pass\n")
    assert pack_of(profile(tmp_path, {"source": "mine.py"}), tmp_path / "cache", root).reference_agent == "pass\n"


def test_profiles_are_found_by_name_and_those_that_sia_ships_are_known(tmp_path: Path) -> None:
    profile(tmp_path, "default")
    assert load_target_profile("mine", {"SIA_PROFILES_DIR": str(tmp_path)}) == ("gpt-oss-120b", None)
    assert load_target_profile("default-target", {}).harness is None
    with pytest.raises(NotFoundError, match="'default-target'"):
        load_target_profile("default-traget", {})


def test_sample_of_a_trajectory_beside_the_task_goes_where_the_task_goes(tmp_path: Path) -> None:
    assert load_pack(TINY).sample_execution is None
    root = Path(shutil.copytree(TINY, tmp_path / "tasks" / "tiny"))
    (tmp_path / "tasks/_shared").mkdir()
    (tmp_path / "tasks/_shared/sample_agent_execution.json").write_text("[1]")
    (tmp_path / "mine.py").write_text("pass\n")
    assert pack_of(profile(tmp_path, {"source": "mine.py"}), tmp_path / "cache", root).sample_execution == "[1]"
    assert load_pack(unpack_parcel(parcel(root), cache_dir=tmp_path / "node")).sample_execution == "[1]"


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [
        ({"source": "absent.py"}, NotFoundError, "absent.py, which is not there"),
        ({"source": "agent"}, NotFoundError, "no entrypoint 'reference_target_agent.py'"),
        ({"source": "agent", "entrypoint": "../mine.json"}, NotFoundError, "no entrypoint"),
        ({"source": "agent", "entrypoint": "helper.py", "entry_point": "x"}, ConfigError, "unknown key 'entry_point'"),
        ({"entrypoint": "main.py"}, ConfigError, "source"),
        ("defualt", ConfigError, "agent_reference is 'defualt'"),
        (["default"], ConfigError, "agent_reference is"),
    ],
)
def test_profile_that_cannot_hold_says_why(
    tmp_path: Path, agent: Path, reference: object, error: type[SiaRayError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        load_target_profile(profile(tmp_path / "profiles", reference), {})
    assert caught.value.hint


def test_entry_and_another_target_agent_are_not_mixed_up(tmp_path: Path, agent: Path) -> None:
    (agent / "target_agent.py").write_text("pass\n")
    with pytest.raises(PackError, match=r"holds both main\.py and target_agent\.py"):
        load_target_profile(profile(tmp_path / "profiles", {"source": "agent", "entrypoint": "main.py"}), {})


def test_misspelt_key_is_not_taken_for_the_default(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="agent_refrence"):
        load_target_profile(profile(tmp_path, "default", agent_refrence={"source": "x"}), {})


def test_check_runs_the_profiles_harness(tmp_path: Path, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIA_RAY_CACHE", str(tmp_path / "cache"))
    name = profile(tmp_path / "profiles", {"source": "agent", "entrypoint": "main.py"})
    call = ["check", str(TINY), "--sandbox", "none", "--target-agent-profile", name, "--json"]
    result = CliRunner().invoke(app, call)
    report = json.loads(result.stdout)
    assert (result.exit_code, report["score"], report["findings"]) == (0, 0.5, [])
    (agent / "helper.py").write_text("import absent_package\n")
    found = json.loads(CliRunner().invoke(app, call).stdout)["findings"]
    assert any("the environment lacks absent_package" in f["what"] for f in found), found


@pytest.mark.ray
@pytest.mark.sandbox
def test_run_starts_from_the_profiles_harness(tmp_path: Path, agent: Path, local_ray: None) -> None:
    name = profile(tmp_path / "profiles", {"source": "agent", "entrypoint": "main.py"})
    run = sia_ray.run(
        str(TINY), target_agent_profile=name, generations=1, holdout=False, storage=tmp_path / "runs", progress=False
    )
    assert (run.status, len(run.rows)) == ("done", 1), run.as_dict()
    assert run.harness(1)["helper.py"] == b"import json\n"
    assert "import helper" in (run.path / "gen_1" / "target_agent.py").read_text()
