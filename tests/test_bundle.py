"""Bundles, collected folders and stored blobs: a whole tree or nothing, and nothing from outside."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sia_ray.candidate.bundle import is_safe_path, pack, read_regular, read_tree, unpack, write_tree
from sia_ray.candidate.identity import digest_bytes
from sia_ray.candidate.store import BlobStore, write_atomic
from sia_ray.errors import BundleRejected, FetchError, InfrastructureError, NotFoundError, UsageError

TREE = {"a.py": b"x = 1\n", "data/b.bin": bytes(range(256)) * 5, "data/empty": b"", "ü/ß.txt": b"u"}


def tar(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for member in members:
            info, data = member if isinstance(member, tuple) else (member, b"")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def test_a_tree_comes_back_as_it_was() -> None:
    assert unpack(pack(TREE)) == TREE
    assert unpack(pack({})) == {}


def test_equal_trees_make_equal_archives_whatever_their_order() -> None:
    assert pack(TREE) == pack(dict(reversed(TREE.items())))


def test_others_can_read_the_archive() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(TREE))) as archive:
        assert {m.name: m.mtime + m.uid for m in archive} == dict.fromkeys(TREE, 0)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\\b", "a\0b", "a\nb", "a/", "\ud800", "x" * 300,
     "/".join("d" * 40)],
)  # fmt: skip
def test_unsafe_paths_are_refused_both_ways(path: str, tmp_path: Path) -> None:
    assert not is_safe_path(path)
    with pytest.raises(BundleRejected):
        pack({path: b""})
    with pytest.raises(BundleRejected):
        write_tree({"good": b"", path: b""}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "./a", "a\\b"])
def test_an_archive_with_an_unsafe_path_is_refused_whole(name: str) -> None:
    with pytest.raises(BundleRejected):
        unpack(tar((info("good"), b"x"), (info(name), b"x")))


@pytest.mark.parametrize(
    "member",
    [info("l", tarfile.SYMTYPE, "/etc/passwd"), info("l", tarfile.LNKTYPE, "good"), info("d", tarfile.CHRTYPE),
     info("d", tarfile.BLKTYPE), info("d", tarfile.FIFOTYPE), info("d", tarfile.DIRTYPE),
     info("s", tarfile.GNUTYPE_SPARSE), info("c", tarfile.CONTTYPE)],
    ids=lambda member: repr(member.type),
)  # fmt: skip
def test_anything_but_a_regular_file_is_refused(member: tarfile.TarInfo) -> None:
    with pytest.raises(BundleRejected, match="regular"):
        unpack(tar((info("good"), b"x"), member))


def test_duplicate_names_and_files_that_are_folders_are_refused() -> None:
    with pytest.raises(BundleRejected, match="twice"):
        unpack(tar((info("a"), b"1"), (info("a"), b"2")))
    with pytest.raises(BundleRejected, match="folder"):
        unpack(tar((info("a"), b"1"), (info("a/b"), b"2")))
    with pytest.raises(BundleRejected, match="folder"):
        pack({"a": b"", "a/b/c": b""})


def test_long_name_extensions_are_refused() -> None:
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with pytest.raises(BundleRejected):
            unpack(tar((info("x" * 200), b"x"), form=form))


def test_caps_hold_for_number_and_size() -> None:
    data = pack({"a": b"12", "b": b"34"})
    assert len(unpack(data, max_files=2, max_bytes=4)) == 2
    with pytest.raises(BundleRejected, match="more than"):
        unpack(data, max_files=1)
    with pytest.raises(BundleRejected, match="more than"):
        unpack(data, max_bytes=3)


def test_a_header_that_promises_more_than_there_is_costs_nothing() -> None:
    member = info("bomb")
    member.size = 7 * 1024**3
    with pytest.raises(BundleRejected):
        unpack(member.tobuf(tarfile.USTAR_FORMAT))
    with pytest.raises(BundleRejected, match="cut off"):
        unpack(member.tobuf(tarfile.USTAR_FORMAT), max_bytes=8 * 1024**3)


def test_every_cut_of_an_archive_is_refused_or_whole() -> None:
    data = pack({"a": b"x" * 600})
    for length in range(0, len(data), 97):
        with contextlib.suppress(BundleRejected):
            assert unpack(data[:length]) == {"a": b"x" * 600}
    with pytest.raises(BundleRejected, match="follows"):
        unpack(data + pack({"b": b""}))


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_tree_or_rejected(data: bytes) -> None:
    with contextlib.suppress(BundleRejected):
        unpack(data)


@given(st.integers(0, 511), st.integers(0, 255))
def test_a_damaged_header_is_refused(at: int, value: int) -> None:
    data = bytearray(pack({"a.py": b"x"}))
    if data[at] == value:
        return
    data[at] = value
    with contextlib.suppress(BundleRejected):
        assert unpack(bytes(data)) == {"a.py": b"x"}


# --- folders -----------------------------------------------------------------------------------------------------


def test_a_tree_is_written_and_read_back(tmp_path: Path) -> None:
    write_tree(TREE, tmp_path / "new" / "out")
    assert read_tree(tmp_path / "new" / "out") == (TREE, {})
    write_tree({"a.py": b"y"}, tmp_path / "new" / "out")
    assert (tmp_path / "new" / "out" / "a.py").read_bytes() == b"y"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "kept")
    for path in ("folder/new", "file"):
        with pytest.raises(OSError):
            write_tree({path: b"x"}, inside)
    assert [p.name for p in outside.iterdir()] == ["kept"] and (outside / "kept").read_bytes() == b"kept"


def test_only_regular_files_are_collected_and_the_rest_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "answers").write_bytes(b"42")
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "ok").write_bytes(b"ok")
    (out / "link").symlink_to(secret / "answers")
    (out / "linkdir").symlink_to(secret)
    os.mkfifo(out / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(out / "sock"))
    (out / os.fsdecode(b"\xff")).write_bytes(b"x")
    (out / "new\nline").write_bytes(b"x")
    files, skipped = read_tree(out)
    assert files == {"sub/ok": b"ok"}
    assert len(skipped) == 6 and {"link", "linkdir", "pipe", "sock"} < set(skipped)
    "".join(skipped).encode("utf-8")


def test_collecting_stops_at_its_caps(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"12")
    assert read_tree(tmp_path, max_files=2) == ({"a": b"12", "b": b"12"}, {"c": "too many files"})
    files, skipped = read_tree(tmp_path, max_bytes=3)
    assert files == {"a": b"12"} and set(skipped.values()) == {"too many bytes"}


def test_a_very_deep_folder_is_left_out(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"x")
    (tmp_path / "y").write_bytes(b"y")
    files, skipped = read_tree(tmp_path)
    assert files == {"y": b"y"} and len(skipped) == 1


def test_the_folder_itself_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        read_tree(tmp_path / "link")


def test_collecting_leaves_no_handle_open(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "p")
    before = len(os.listdir("/proc/self/fd"))
    read_tree(tmp_path)
    for name in "dpx":
        read_regular(tmp_path, name, max_bytes=1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_file_is_read_only_when_it_is_regular(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "l").symlink_to("f")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "p")
    assert read_regular(tmp_path, "f", max_bytes=9) == (b"12345", "")
    assert read_regular(tmp_path, "f", max_bytes=2) == (b"123", "")
    assert read_regular(tmp_path, "none", max_bytes=9) == (None, "")
    for name in "ldp":
        found = read_regular(tmp_path, name, max_bytes=9)
        assert found.data is None and found.problem


def test_a_file_with_a_second_name_is_not_collected(tmp_path: Path) -> None:
    """Whoever holds the other name could write to it, or it is a file that the sandbox was not meant to hand out."""
    (tmp_path / "f").write_bytes(b"1")
    os.link(tmp_path / "f", tmp_path / "g")
    (tmp_path / "h").write_bytes(b"2")
    found = read_tree(tmp_path)
    assert found.files == {"h": b"2"}
    assert set(found.skipped) == {"f", "g"}
    assert read_regular(tmp_path, "f", max_bytes=9).data is None


# --- blobs -------------------------------------------------------------------------------------------------------


def roots(tmp_path: Path) -> list[str | Path]:
    return [tmp_path / "plain", f"file://{tmp_path}/uri"]


def test_a_blob_is_found_by_its_digest(tmp_path: Path) -> None:
    for root in roots(tmp_path):
        store = BlobStore(root)
        digest = store.put(b"weights")
        assert digest == digest_bytes(b"weights") == store.put(b"weights")
        assert store.has(digest) and not store.has(digest_bytes(b"other"))
        assert BlobStore(root).get(digest) == b"weights"


def test_object_storage_keeps_the_same_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    disk = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=lambda uri: (disk, uri.split("://")[1])))
    store = BlobStore("s3://bucket/blobs/")
    digest = store.put(b"weights")
    assert store.has(digest) and store.get(digest) == b"weights"
    with pytest.raises(NotFoundError):
        store.get("0" * 64)
    next(p for p in tmp_path.rglob(digest)).write_bytes(b"damaged")
    with pytest.raises(FetchError):
        store.get(digest)


def test_a_damaged_blob_is_never_handed_out_and_a_short_one_is_rewritten(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digest = store.put(b"weights")
    path = next(p for p in tmp_path.rglob(digest))
    path.chmod(0o644)
    path.write_bytes(b"weight!")
    with pytest.raises(FetchError):
        store.get(digest)
    path.write_bytes(b"we")
    assert store.get(store.put(b"weights")) == b"weights"


def test_unknown_and_odd_digests_are_refused(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    with pytest.raises(NotFoundError):
        store.get("0" * 64)
    for odd in ("../../etc/passwd", "A" * 64, ""):
        with pytest.raises(UsageError):
            store.get(odd)
    with pytest.raises(UsageError):
        BlobStore("nonsense://x").put(b"")


def test_storage_that_refuses_is_an_infrastructure_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InfrastructureError):
        BlobStore(tmp_path / "file").put(b"x")


def test_an_atomic_write_replaces_or_leaves_everything(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "state.json"
    write_atomic(path, b"old")
    write_atomic(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o600
    folder = tmp_path / "taken"
    (folder / "x").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomic(folder, b"data")
    assert [p.name for p in path.parent.iterdir()] == ["state.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sub", "taken"]
