"""What every `Store` must do. Subclass `StoreContract` with a fixture `open_store` that yields a factory of handles."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arco.core import SECOND, Corrupt, Invalid
from arco.storage import ObjectExists, ObjectMissing, Store, StoreFailed, put_new

__all__ = ["StoreContract", "names", "run"]

T = TypeVar("T")

WRITERS = 16
ROUNDS = 12

UNSAFE = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/./b",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a b",
    "a*",
    "a?",
    "a[0]",
    "{a}",
    "a\\b",
    "a%2Fb",
    "a#b",
    'a"b',
    "ä",
    "a" * 901,
]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


async def names(store: Store, prefix: str) -> list[str]:
    return sorted([info.path async for info in store.list(prefix)])


async def won(store: Store, path: str, data: bytes) -> bool:
    try:
        await store.put(path, data, only_if_absent=True)
    except ObjectExists:
        return False
    return True


async def overwrite(store: Store, path: str, data: bytes) -> None:
    """Google lets one name be written once a second; whoever is refused waits."""
    for _ in range(8):
        try:
            return await store.put(path, data, only_if_absent=False)
        except StoreFailed:
            await asyncio.sleep(1)
    raise AssertionError(f"{path} cannot be overwritten")


class StoreContract:
    def test_what_was_written_is_read(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            writer, reader = open_store(), open_store()
            for size in (0, 1, 70_000, 5_000_000):
                data = bytes(range(256)) * (size // 256 + 1)
                await writer.put(f"sizes/{size}", data[:size], only_if_absent=True)
                assert await reader.get(f"sizes/{size}") == data[:size]
                assert (await reader.head(f"sizes/{size}")).size == size

        run(scenario())

    def test_a_second_create_loses_and_changes_nothing(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            await store.put("a/b", b"first", only_if_absent=True)
            with pytest.raises(ObjectExists):
                await open_store().put("a/b", b"second", only_if_absent=True)
            with pytest.raises(ObjectExists):
                await store.put("a/b", b"first", only_if_absent=True)
            assert await store.get("a/b") == b"first"

        run(scenario())

    def test_a_new_object_is_there_and_takes_the_place_of_none(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            await put_new(store, "a/new/b", b"first")
            assert await open_store().get("a/new/b") == b"first"
            with pytest.raises(ObjectExists):
                await put_new(store, "a/new/b", b"second")
            assert await store.get("a/new/b") == b"first"

        run(scenario())

    def test_one_of_many_racing_creates_wins(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            handles = [open_store() for _ in range(WRITERS)]
            for number in range(ROUNDS):
                path = f"race/{number}"
                entries = [f"{number} {n}".encode() for n in range(WRITERS)]
                results = await asyncio.gather(
                    *(won(store, path, data) for store, data in zip(handles, entries, strict=True))
                )
                assert results.count(True) == 1
                assert await handles[0].get(path) == entries[results.index(True)]

        run(scenario())

    def test_an_overwrite_is_seen_by_everyone(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store, other = open_store(), open_store()
            for data in (b"long enough to be cut short", b"short", b""):
                await overwrite(store, "hint", data)
                assert await other.get("hint") == data
                assert (await other.head("hint")).size == len(data)

        run(scenario())

    def test_readers_see_a_whole_object_while_it_is_overwritten(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            versions = [bytes([n]) * 100_000 for n in range(8)]
            await overwrite(store, "hint", versions[0])

            async def write() -> None:
                for version in versions:
                    await overwrite(store, "hint", version)

            async def read() -> None:
                reader = open_store()
                for _ in range(10):
                    assert await reader.get("hint") in versions

            await asyncio.gather(write(), read(), read())

        run(scenario())

    def test_concurrent_reads_follow_writes(self, open_store: Callable[[], Store]) -> None:
        async def one(number: int) -> None:
            path = f"many/{number}"
            await open_store().put(path, path.encode(), only_if_absent=True)
            assert await open_store().get(path) == path.encode()

        async def scenario() -> None:
            await asyncio.gather(*(one(number) for number in range(40)))
            assert len(await names(open_store(), "many")) == 40

        run(scenario())

    def test_missing_is_object_missing(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            await store.put("there/file", b"x", only_if_absent=True)
            for path in ("absent", "absent/deep/down", "there", "there/other"):
                with pytest.raises(ObjectMissing):
                    await store.get(path)
                with pytest.raises(ObjectMissing):
                    await store.get_range(path, 0, 1)
                with pytest.raises(ObjectMissing):
                    await store.head(path)

        run(scenario())

    def test_a_range_is_exactly_those_bytes(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            data = bytes(range(250)) * 1_000
            await store.put("ranges", data, only_if_absent=True)
            for offset, length in ((0, 1), (0, 250_000), (249_999, 1), (100, 100_000), (7, 0), (250_000, 0)):
                assert await store.get_range("ranges", offset, length) == data[offset : offset + length]
            for offset, length in ((0, 250_001), (249_999, 2), (250_000, 1), (300_000, 5), (250_001, 0)):
                with pytest.raises(Corrupt):
                    await store.get_range("ranges", offset, length)
            for offset, length in ((-1, 2), (0, -1)):
                with pytest.raises(Invalid):
                    await store.get_range("ranges", offset, length)

        run(scenario())

    def test_a_deleted_object_is_gone_and_its_name_is_free(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            await store.put("d/a", b"1", only_if_absent=True)
            await store.put("d/b", b"2", only_if_absent=True)
            await store.delete("d/a")
            await store.delete("d/a")
            await store.delete("never/was")
            await store.delete("d")
            with pytest.raises(ObjectMissing):
                await open_store().get("d/a")
            assert await names(store, "d") == ["d/b"]
            await store.put("d/a", b"3", only_if_absent=True)
            assert await store.get("d/a") == b"3"

        run(scenario())

    def test_a_list_shows_all_below_a_folder_and_nothing_else(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            paths = ["l/a", "l/b/c", "l/b/d/e", "l2/x", "lx", "m/l/a"]
            for path in paths:
                await store.put(path, path.encode(), only_if_absent=True)
            assert await names(store, "l") == ["l/a", "l/b/c", "l/b/d/e"]
            assert await names(store, "l/b") == ["l/b/c", "l/b/d/e"]
            assert await names(store, "l/a") == []
            assert await names(store, "nothing/here") == []
            assert await names(store, "") == sorted(paths)
            async for info in store.list("l"):
                head = await store.head(info.path)
                assert (info.path, info.size) == (head.path, head.size)
                # a header of HTTP has whole seconds, a listing may have more
                assert abs(info.modified - head.modified) < SECOND

        run(scenario())

    def test_a_long_list_is_complete(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            paths = [f"long/{n % 7}/{n:04d}" for n in range(120)]
            await asyncio.gather(*(store.put(path, b"", only_if_absent=True) for path in paths))
            assert await names(store, "long") == sorted(paths)

        run(scenario())

    def test_times_do_not_go_back(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            await store.put("t/1", b"", only_if_absent=True)
            await store.put("t/2", b"", only_if_absent=True)
            assert 0 < (await store.head("t/1")).modified <= (await store.head("t/2")).modified

        run(scenario())

    @pytest.mark.parametrize("path", UNSAFE)
    def test_unsafe_paths_are_refused_by_every_call(self, open_store: Callable[[], Store], path: str) -> None:
        async def scenario() -> None:
            store = open_store()
            for call in (
                lambda: store.get(path),
                lambda: store.get_range(path, 0, 1),
                lambda: store.put(path, b"", only_if_absent=True),
                lambda: store.put(path, b"", only_if_absent=False),
                lambda: store.head(path),
                lambda: store.delete(path),
                lambda: store.sign(path, expires_in=60),
            ):
                with pytest.raises(Invalid):
                    await call()
            if path:
                with pytest.raises(Invalid):
                    await names(store, path)

        run(scenario())

    def test_every_safe_character_is_kept(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            store = open_store()
            path = "odd/!$&'()+,-.:;=@_~09AZaz/.hidden"
            await store.put(path, b"odd", only_if_absent=True)
            assert await store.get(path) == b"odd"
            assert await names(store, "odd") == [path]

        run(scenario())

    def test_what_was_persisted_is_still_there(self, open_store: Callable[[], Store]) -> None:
        async def scenario() -> None:
            await open_store().put("p/q/r", b"x", only_if_absent=True)
            other = open_store()
            await other.persist("p/q/r")
            await other.persist("p/q/r")
            assert await other.get("p/q/r") == b"x"
            await other.close()

        run(scenario())

    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        steps=st.lists(
            st.tuples(st.sampled_from(["create", "put", "delete"]), st.sampled_from("abc"), st.binary(max_size=8)),
            max_size=12,
        )
    )
    def test_any_history_reads_like_a_dictionary(
        self, open_store: Callable[[], Store], steps: list[tuple[str, str, bytes]]
    ) -> None:
        async def scenario() -> None:
            store = open_store()
            for path in await names(store, "h"):
                await store.delete(path)
            model: dict[str, bytes] = {}
            for step, name, data in steps:
                path = f"h/{name}"
                if step == "delete":
                    await store.delete(path)
                    model.pop(path, None)
                elif step == "put":
                    await overwrite(store, path, data)
                    model[path] = data
                else:
                    assert await won(store, path, data) == (path not in model)
                    model.setdefault(path, data)
                assert {path: await store.get(path) for path in await names(store, "h")} == model

        run(scenario())
