"""Local disk: what the contract cannot see. Order of syncs, full and read-only disks, links out of the root, races
between processes."""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arco.core import Invalid, StoreRefused
from arco.storage import LocalSigner, LocalStore, ObjectExists, ObjectMissing, StoreFailed, _local, verify_local
from tests.emulators.servers import missing_component
from tests.storage.contract import names, run

SECRET = b"0123456789abcdef0123456789abcdef"


class StoppedClock:
    def now(self) -> int:
        return 1_000_000

    def boottime(self) -> float:
        return 0.0


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def create(store: LocalStore, path: str = "a/b", data: bytes = b"data") -> None:
    run(store.put(path, data, only_if_absent=True))


def temporary_files(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "store" / ".tmp")


def failing(real: Callable[..., object], code: int, when: Callable[[int], bool]) -> Callable[..., object]:
    """A system call that fails on the calls (counted from 1) that `when` selects."""
    calls = 0

    def call(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if when(calls):
            raise OSError(code, os.strerror(code))
        return real(*args, **kwargs)

    return call


class TestOrderOfSyncs:
    @pytest.fixture
    def trace(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        steps: list[str] = []
        fsync, link, replace = os.fsync, os.link, os.replace

        def name(path: str | Path) -> str:
            return str(path).replace(str(tmp_path.resolve()), "")

        def traced_fsync(descriptor: int) -> None:
            steps.append(f"sync {name(os.readlink(f'/proc/self/fd/{descriptor}'))}")
            fsync(descriptor)

        def traced_link(source: str, target: str) -> None:
            steps.append(f"link {name(target)}")
            link(source, target)

        def traced_replace(source: str, target: str) -> None:
            steps.append(f"rename {name(target)}")
            replace(source, target)

        monkeypatch.setattr(os, "fsync", traced_fsync)
        monkeypatch.setattr(os, "link", traced_link)
        monkeypatch.setattr(os, "replace", traced_replace)
        return steps

    def test_a_create_syncs_bytes_then_links_then_syncs_the_folder(self, store: LocalStore, trace: list[str]) -> None:
        create(store, "a/1")
        trace.clear()
        create(store, "a/2")
        assert [step.partition("-")[0] for step in trace] == [
            f"sync /store/.tmp/{os.getpid()}",
            "link /store/a/2",
            "sync /store/a",
        ]

    def test_what_nobody_knows_is_written_where_it_stays_and_synced_with_its_folder(
        self, store: LocalStore, trace: list[str]
    ) -> None:
        create(store, "a/1")
        trace.clear()
        run(store.put_new("a/2", b"data"))
        assert trace == ["sync /store/a/2", "sync /store/a"]

    def test_an_overwrite_syncs_bytes_then_renames_then_syncs_the_folder(
        self, store: LocalStore, trace: list[str]
    ) -> None:
        create(store, "a/1")
        trace.clear()
        run(store.put("a/1", b"new", only_if_absent=False))
        assert [step.partition("-")[0] for step in trace] == [
            f"sync /store/.tmp/{os.getpid()}",
            "rename /store/a/1",
            "sync /store/a",
        ]

    def test_every_process_syncs_the_folders_above_once(
        self, store: LocalStore, trace: list[str], tmp_path: Path
    ) -> None:
        create(store, "a/b/c")
        another_process = LocalStore(tmp_path / "store")
        trace.clear()
        create(another_process, "a/b/d")
        assert {"sync ", "sync /store", "sync /store/a", "sync /store/a/b"} <= set(trace)
        assert trace.index("link /store/a/b/d") < trace.index("sync /store/a/b")
        trace.clear()
        create(another_process, "a/b/e")
        assert not {"sync ", "sync /store", "sync /store/a"} & set(trace)

    def test_a_folder_whose_entry_cannot_be_synced_fails_the_create(
        self, store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(store, "a/warm")
        fsync, above = os.fsync, str((tmp_path / "store" / "a").resolve())

        def failing(descriptor: int) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor}") == above:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(StoreFailed, match="could not be synced"):
            create(store, "a/new/1")
        with pytest.raises(StoreRefused, match="restart"):
            create(store, "b/1")

    def test_persist_syncs_the_object_and_its_folder(self, store: LocalStore, trace: list[str], tmp_path: Path) -> None:
        create(store, "a/b")
        another_process = LocalStore(tmp_path / "store")
        trace.clear()
        run(another_process.persist("a/b"))
        assert trace[0] == "sync /store/a/b"
        assert trace[-1] == "sync /store/a"
        assert "sync /store" in trace

    def test_persist_of_what_is_not_there_is_missing(self, store: LocalStore) -> None:
        create(store, "a/b")
        for path in ("a/c", "x/y"):
            with pytest.raises(ObjectMissing):
                run(store.persist(path))


class TestFailedSyncs:
    def test_a_failed_sync_of_new_bytes_is_final_for_that_file(
        self, store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(store, "a/warm")
        monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EIO, lambda call: call == 1))
        with pytest.raises(StoreFailed):
            create(store)
        with pytest.raises(ObjectMissing):
            run(store.get("a/b"))
        assert temporary_files(tmp_path) == []
        create(store)
        assert run(store.get("a/b")) == b"data"

    def test_nothing_is_left_of_a_new_object_whose_bytes_could_not_be_synced(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(store, "a/warm")
        monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EIO, lambda call: call == 1))
        with pytest.raises(StoreFailed):
            run(store.put_new("a/b", b"data"))
        with pytest.raises(ObjectMissing):
            run(store.get("a/b"))
        run(store.put_new("a/b", b"data"))
        assert run(store.get("a/b")) == b"data"

    def test_a_failed_sync_of_a_folder_stops_the_handle(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create(store, "a/warm")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, errno.EIO, lambda call: call == 2))
            with pytest.raises(StoreFailed):
                create(store)
        for call in (store.get("a/b"), store.head("a/warm"), store.persist("a/b"), names(store, "a")):
            with pytest.raises(StoreRefused, match="restart this process"):
                run(call)

    def test_a_failed_persist_stops_the_handle(self, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        create(store)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, errno.EIO, lambda call: call == 1))
            with pytest.raises(StoreFailed):
                run(store.persist("a/b"))
        with pytest.raises(StoreRefused):
            run(store.persist("a/b"))


class TestLinks:
    def test_a_link_that_reports_failure_after_success_is_won(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A network file system repeats a request whose answer got lost, and is told that the name exists."""
        link = os.link

        def answer_lost(source: str, target: str) -> None:
            link(source, target)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

        monkeypatch.setattr(os, "link", answer_lost)
        create(store)
        monkeypatch.undo()
        assert run(store.get("a/b")) == b"data"
        with pytest.raises(ObjectExists):
            create(store)

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
    def test_a_file_system_without_hard_links_is_refused(
        self, store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        monkeypatch.setattr(os, "link", failing(os.link, code, lambda _: True))
        with pytest.raises(StoreRefused, match="no hard links"):
            create(store)
        assert temporary_files(tmp_path) == []

    def test_nothing_is_reached_through_a_symbolic_link(self, store: LocalStore, tmp_path: Path) -> None:
        create(store, "a/b")
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret").write_bytes(b"secret")
        (tmp_path / "store" / "door").symlink_to(tmp_path / "outside")
        (tmp_path / "store" / "a" / "window").symlink_to(tmp_path / "outside" / "secret")
        for path in ("door/secret", "a/window"):
            for call in (store.get(path), store.get_range(path, 0, 1), store.head(path), store.persist(path)):
                with pytest.raises(StoreRefused, match="symbolic link"):
                    run(call)
        with pytest.raises(StoreRefused):
            create(store, "door/new")
        assert os.listdir(tmp_path / "outside") == ["secret"]
        assert run(names(store, "")) == ["a/b"]

    def test_the_root_itself_may_be_a_symbolic_link(self, store: LocalStore, tmp_path: Path) -> None:
        create(store)
        (tmp_path / "alias").symlink_to(tmp_path / "store")
        assert run(LocalStore(tmp_path / "alias").get("a/b")) == b"data"


class TestTemporaryFiles:
    def test_they_cannot_be_named_or_listed(self, store: LocalStore, tmp_path: Path) -> None:
        create(store)
        (tmp_path / "store" / ".tmp" / "left").write_bytes(b"half")
        for call in (store.get(".tmp/left"), store.delete(".tmp/left"), store.put(".tmp/x", b"", only_if_absent=True)):
            with pytest.raises(Invalid):
                run(call)
        assert run(names(store, "")) == ["a/b"]

    def test_a_dead_process_leaves_them_for_the_next_one_to_remove(self, store: LocalStore, tmp_path: Path) -> None:
        create(store)
        folder = tmp_path / "store" / ".tmp"
        for name, age in (("old", 25 * 3600), ("young", 3600)):
            (folder / name).write_bytes(b"half")
            born = (tmp_path / "store" / "a" / "b").stat().st_mtime - age
            os.utime(folder / name, (born, born))
        create(LocalStore(tmp_path / "store"), "a/c")
        assert temporary_files(tmp_path) == ["young"]

    def test_a_taken_name_is_passed_over(self, store: LocalStore, tmp_path: Path) -> None:
        create(store, "a/1")
        taken = tmp_path / "store" / ".tmp" / f"{os.getpid()}-{next(_local._temporary_numbers) + 1}"
        taken.write_bytes(b"somebody's")
        create(store, "a/2", b"ours")
        assert run(store.get("a/2")) == b"ours"
        assert taken.read_bytes() == b"somebody's"


class TestFolders:
    def test_an_object_cannot_be_a_folder_as_well(self, store: LocalStore) -> None:
        create(store, "a/b")
        for path in ("a", "a/b/c"):
            for only_if_absent in (True, False):
                with pytest.raises(Invalid, match="both an object and a folder"):
                    run(store.put(path, b"", only_if_absent=only_if_absent))
        for path in ("a", "a/b/c"):
            with pytest.raises(ObjectMissing):
                run(store.get(path))
            run(store.delete(path))

    def test_a_folder_removed_by_hand_is_made_again(self, store: LocalStore, tmp_path: Path) -> None:
        create(store, "a/b")
        (tmp_path / "store" / "a" / "b").unlink()
        (tmp_path / "store" / "a").rmdir()
        with pytest.raises(StoreFailed):
            create(store, "a/b")
        create(store, "a/b")
        assert run(store.get("a/b")) == b"data"

    def test_folders_stay_when_their_last_object_goes(self, store: LocalStore, tmp_path: Path) -> None:
        create(store, "a/b")
        run(store.delete("a/b"))
        assert (tmp_path / "store" / "a").is_dir()
        create(store, "a/b")

    def test_foreign_files_are_not_objects(self, store: LocalStore, tmp_path: Path) -> None:
        create(store, "a/b")
        (tmp_path / "store" / "a" / "with space").write_bytes(b"")
        assert run(names(store, "")) == ["a/b"]

    def test_a_name_too_long_for_the_disk_is_invalid(self, store: LocalStore) -> None:
        create(store, "a")
        with pytest.raises(Invalid, match="too long"):
            run(store.get("x" * 300))
        with pytest.raises(Invalid, match="too long"):
            create(store, "x" * 300)

    def test_objects_can_be_read_by_whom_the_umask_allows(self, store: LocalStore, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            create(store)
        finally:
            os.umask(before)
        assert (tmp_path / "store" / "a" / "b").stat().st_mode & 0o777 == 0o640


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        missing_component(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class TestDisksThatRefuse:
    def test_a_full_disk_is_refused_and_nothing_acknowledged_is_lost(self, small_disk: Path) -> None:
        store = LocalStore(small_disk / "store")
        block = bytes(range(256)) * 64
        written: list[str] = []

        def fill() -> None:
            for number in range(100):
                create(store, f"n/{number}", block)
                written.append(f"n/{number}")

        with pytest.raises(StoreRefused, match=r"disk is full.*nothing acknowledged is lost"):
            fill()
        with pytest.raises(ObjectMissing):
            run(store.get(f"n/{len(written)}"))
        again = LocalStore(small_disk / "store")
        assert run(names(again, "n")) == sorted(written)
        assert all(run(again.get(path)) == block for path in written)
        run(store.delete(written.pop()))
        create(store, "n/after", block)

    def test_a_read_only_disk_is_refused_for_writes_only(self, small_disk: Path) -> None:
        store = LocalStore(small_disk / "store")
        create(store)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert run(store.get("a/b")) == b"data"
        for call in (
            store.put("a/c", b"", only_if_absent=True),
            store.put("a/b", b"", only_if_absent=False),
            store.delete("a/b"),
        ):
            with pytest.raises(StoreRefused, match="mount the disk for writing"):
                run(call)

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    def test_a_disk_that_is_full_only_when_synced_is_refused(
        self, store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        create(store, "a/warm")
        monkeypatch.setattr(os, "fsync", failing(os.fsync, code, lambda call: call == 1))
        with pytest.raises(StoreRefused, match="disk is full"):
            create(store)


RACER = """
import asyncio, sys
from arco.storage import LocalStore, ObjectExists

async def main():
    store, me, won = LocalStore(sys.argv[1]), sys.argv[2], 0
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(60):
        try:
            await store.put(f"race/{number}", f"{me} {number}".encode(), only_if_absent=True)
            won += 1
        except ObjectExists:
            pass
    print(won, flush=True)

asyncio.run(main())
"""


def test_one_process_wins_each_create(store: LocalStore, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", RACER, str(tmp_path / "store"), str(n)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            )
            for n in range(3)
        ]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        answers = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(answers) == 60
    winners = [run(store.get(f"race/{number}")).split()[0] for number in range(60)]
    assert [winners.count(str(n).encode()) for n in range(3)] == answers


def test_signing_needs_a_signer(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="signing_secret"):
        run(store.sign("a/b", expires_in=60))
    signer = LocalSigner(SECRET, "http://localhost:8080/objects", StoppedClock())
    url = run(LocalStore(tmp_path, signer=signer).sign("acme/main/x", expires_in=60))
    assert verify_local(SECRET, signer.base_url, url, now=60_999_999) == "acme/main/x"
    assert SECRET.decode() not in repr(signer) + url
