"""Packing: the same files give the same bytes, everything comes back, and no archive can do harm."""

import os
import stat
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Corrupt, Invalid, TooLarge, sha256_hex
from arco.sdk import _pack as pack_module
from arco.sdk import code_name, pack_code, unpack_code

names = st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True), min_size=1, max_size=3).map(
    lambda parts: "/".join(parts) + ".py"
)
trees = st.dictionaries(names, st.binary(max_size=50), max_size=6)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(trees)
@settings(deadline=None)
def test_what_is_packed_comes_back(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    one, other, back = (tmp_path_factory.mktemp(name) for name in ("one", "other", "back"))
    write(one, files)
    write(other, dict(reversed(files.items())))
    for path in other.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    data = pack_code(one)
    assert data == pack_code(other)
    assert code_name(data) == sha256_hex(data)
    unpack_code(data, back)
    assert read(back) == files


def test_what_does_not_belong_to_a_project_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.py": b"1",
            "data/b.sql": b"2",
            ".git/config": b"x",
            ".env": b"SECRET=1",
            ".arco/state": b"x",
            "__pycache__/a.pyc": b"x",
            "old.pyc": b"x",
            "dev.log": b"x",
            "myenv/pyvenv.cfg": b"x",
            "myenv/lib/c.py": b"x",
            "venv/pyvenv.cfg": b"x",
            "venv/c.py": b"x",
            "build/lib/a.py": b"x",
            "dist/a.whl": b"x",
            "node_modules/c.js": b"x",
        },
    )
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    target = tmp_path / "out"
    unpack_code(pack_code(tmp_path), target)
    assert read(target) == {"a.py": b"1", "data/b.sql": b"2"}


def test_too_much_is_refused_with_the_largest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "CODE_MAX", 1000)
    write(tmp_path, {"small.py": b"1", "large.csv": b"x" * 2000})
    with pytest.raises(TooLarge, match=r"large.csv \(2,000 bytes\)"):
        pack_code(tmp_path)
    with pytest.raises(TooLarge):
        unpack_code(b"x" * 1001, tmp_path / "out")


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is no folder"):
        pack_code(tmp_path / "nothing")


def archive(
    *entries: tuple[str, bytes], mode: int = stat.S_IFREG | 0o644, compression: int = zipfile.ZIP_STORED
) -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w", compression) as made:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = compression
            made.writestr(info, content)
    return target.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        archive(("../evil.py", b"x")),
        archive(("/evil.py", b"x")),
        archive(("a/../../evil.py", b"x")),
        archive(("..\\evil.py", b"x")),
        archive(("C:/evil.py", b"x")),
        archive(("a//b.py", b"x")),
        archive(("folder/", b"")),
        archive(("link.py", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777),
        archive(("pipe", b""), mode=stat.S_IFIFO | 0o644),
        archive(("bomb", b"\0" * 10_000_000), compression=zipfile.ZIP_DEFLATED),
        archive(("a", b"x"), ("a/b", b"x")),
        b"not an archive",
        b"",
        archive(("a.py", b"x" * 100))[:-30],
        archive(("a.py", b"some content")).replace(b"some content", b"evil content"),
    ],
)
def test_a_bad_archive_writes_nothing(tmp_path: Path, data: bytes) -> None:
    target = tmp_path / "in" / "target"
    with pytest.raises(Corrupt):
        unpack_code(data, target)
    assert read(tmp_path) == {}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="twice"):
        unpack_code(archive(("a", b"1"), ("a", b"2")), tmp_path)


@given(st.binary(max_size=200), st.integers(0, 400))
@settings(deadline=None)
def test_a_damaged_archive_never_escapes(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    data = bytearray(archive(("a/b.py", b"x" * 50), ("c.py", b"y" * 50)))
    data[at : at + len(noise)] = noise
    try:
        unpack_code(bytes(data), folder / "target")
    except (Corrupt, TooLarge):
        return
    assert {path.relative_to(folder).parts[0] for path in folder.rglob("*")} <= {"target"}
