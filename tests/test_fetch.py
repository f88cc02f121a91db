"""Fetching a pack's data with the real pip, from wheels made on the spot."""

from __future__ import annotations

import hashlib
import socket
import tempfile
from pathlib import Path

import pytest

from sia_ray.errors import FetchError
from sia_ray.sandbox.fetch import fetch_data
from sia_ray.task.pack import TaskPack, load_pack
from tests.wheels import make_wheel

pytestmark = pytest.mark.installs

MEMBERS = {"tinydata/questions.json": b"[1, 2, 3]", "tinydata/evaluate.py": b"print(1)\n", "tinydata/other": b"-"}
TOS = {"tinydata/questions.json": "data/public/questions.json", "tinydata/evaluate.py": "data/public/evaluate.py"}


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "wheels", "tinydata", "1.0", MEMBERS).parent


def pack_with(folder: Path, *, wheel: str = "tinydata==1.0", sha256: str = "", source: str = "") -> TaskPack:
    toml = [f'[data]\nwheel = "{wheel}"']
    for member, to in TOS.items():
        digest = sha256 or hashlib.sha256(MEMBERS[member]).hexdigest()
        toml.append(f'[[data.files]]\nsource = "{source or member}"\nto = "{to}"\nsha256 = "{digest}"')
    (folder / "data/public").mkdir(parents=True)
    (folder / "reference").mkdir()
    (folder / "data/public/task.md").write_text("# Task")
    (folder / "reference/reference_target_agent.py").write_text("pass")
    (folder / "task.toml").write_text("\n".join(toml))
    return load_pack(folder)


def test_listed_files_come_out_of_the_wheel_and_no_other(wheels: Path, tmp_path: Path) -> None:
    pack = pack_with(tmp_path / "task")
    fetched = fetch_data(pack, tmp_path / "cache", wheels=wheels)
    assert fetched is not None
    assert sorted(p.relative_to(fetched).as_posix() for p in fetched.rglob("*") if p.is_file()) == sorted(TOS.values())
    assert pack.with_data(fetched).find("data/public/questions.json").read_bytes() == b"[1, 2, 3]"
    assert fetch_data(pack, tmp_path / "cache", wheels=tmp_path) == fetched, "a second fetch needs no wheel"


def test_users_own_pip_configuration_is_used(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    assert fetch_data(pack_with(tmp_path / "task"), tmp_path / "cache") is not None


def test_wrong_digest_is_refused_and_nothing_is_kept(wheels: Path, tmp_path: Path) -> None:
    pack = pack_with(tmp_path / "task", sha256="0" * 64)
    with pytest.raises(FetchError, match="sha256"):
        fetch_data(pack, tmp_path / "cache", wheels=wheels)
    assert [path.suffix for path in (tmp_path / "cache/data").iterdir()] == [".lock"]


def test_missing_member_is_named(wheels: Path, tmp_path: Path) -> None:
    pack = pack_with(tmp_path / "task", source="tinydata/absent")
    with pytest.raises(FetchError, match="tinydata/absent"):
        fetch_data(pack, tmp_path / "cache", wheels=wheels)


def test_failed_download_is_one_line_with_pips_words_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(FetchError) as caught:
        fetch_data(pack_with(tmp_path / "task"), tmp_path / "cache")
    assert "No matching distribution found for tinydata==1.0" in caught.value.message
    assert "\n" not in str(caught.value)
    assert "--find-links" in caught.value.hint


def test_index_that_cannot_be_reached_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed.getsockname()[1]}/simple")
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        with pytest.raises(FetchError, match=r"the index was not reached: .*Connection refused") as caught:
            fetch_data(pack_with(tmp_path / "task"), tmp_path / "cache")
    assert "\n" not in str(caught.value)


def test_download_goes_to_the_private_folder_that_is_swept(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    fetch_data(pack_with(tmp_path / "task"), tmp_path / "cache", wheels=wheels)
    (root,) = temporary.iterdir()
    assert root.name.startswith("sia-ray-") and root.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in root.iterdir()] == [".lock"], "the download itself is gone"


def test_pack_without_data_fetches_nothing(tmp_path: Path) -> None:
    tiny = load_pack(Path(__file__).parent / "packs" / "tiny")
    assert fetch_data(tiny, tmp_path) is None
    assert not list(tmp_path.iterdir())
