"""Logs of attempts: whole, in order, valid text, bounded, without secrets."""

import asyncio
import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import StoreRefused
from arco.domains.orchestration.events import TaskLog
from arco.storage import MemoryStore, StoreFailed
from arco.worker import _logs
from arco.worker._logs import LogWriter, read_log
from arco.worker._masking import MASK, Mask


class Flaky(MemoryStore):
    """Fails the first writes, after or before they landed."""

    def __init__(self, failures: Iterable[str]) -> None:
        super().__init__()
        self.failures = list(failures)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "refused":
            raise StoreRefused("no space")
        if failure != "before":
            await super().put(path, data, only_if_absent=only_if_absent)
        if failure:
            raise StoreFailed("no answer")


def written(
    pieces: Iterable[bytes], store: MemoryStore | None = None, mask: Mask | None = None
) -> tuple[str, TaskLog | None]:
    async def scenario() -> tuple[str, TaskLog | None]:
        place = store or MemoryStore()
        writer = LogWriter(place, "R", "A", mask or Mask(()))
        for piece in pieces:
            writer.feed(piece)
            await asyncio.sleep(0)
        log = await writer.close()
        return (await read_log(place, "R", "A", max_chunks=10_000)).text, log

    return asyncio.run(scenario())


@given(st.text(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_text_that_is_cut_anywhere_arrives_whole(text: str, cuts: list[int]) -> None:
    data = text.encode(errors="replace")
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found, log = written(data[start:end] for start, end in itertools.pairwise(places))
    assert found == data.decode()
    assert log == (TaskLog(1, len(data)) if data else None)


@pytest.mark.parametrize("printed", [b"", b"a", b"a\n", b"a\nb"])
def test_a_line_of_the_workers_own_stands_alone(printed: bytes) -> None:
    async def scenario() -> str:
        store = MemoryStore()
        writer = LogWriter(store, "R", "A", Mask(()))
        writer.feed(printed)
        writer.feed(b"")
        for text in ("one", "two"):
            writer.add_line(text)
        writer.feed(b"after")
        await writer.close()
        return (await read_log(store, "R", "A")).text

    assert asyncio.run(scenario()).splitlines() == [*printed.decode().splitlines(), "one", "two", "after"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    found, _ = written([b"a\xff", b"\xc3"])
    assert found == "a\ufffd\ufffd"


def test_chunks_are_written_while_the_task_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_logs, "FLUSH_SECONDS", 0.01)

    async def scenario() -> None:
        store = MemoryStore()
        writer = LogWriter(store, "R", "A", Mask(()))
        writer.feed(b"one\n")
        while not (part := await read_log(store, "R", "A")).text:
            await asyncio.sleep(0.01)
        assert part == ("one\n", 1)
        writer.feed(b"two\n")
        assert await writer.close() == TaskLog(2, 8)
        assert await read_log(store, "R", "A", 1) == ("two\n", 2)
        assert await read_log(store, "R", "A", 2) == ("", 2)

    asyncio.run(scenario())


def test_what_is_too_much_keeps_beginning_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_logs, "LIMIT", 10)
    monkeypatch.setattr(_logs, "TAIL", 5)
    found, log = written([b"0123456", b"789abc", b"defghijk", b"\n"])
    assert found == "0123456789\n[... 7 bytes left out ...]\nhijk\n"
    assert log == TaskLog(1, len(found), True)


def test_a_store_that_fails_for_a_while_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_logs, "FLUSH_SECONDS", 0.001)
    found, log = written([b"hello"], Flaky(["before", "after", "before"]))
    assert (found, log) == ("hello", TaskLog(1, 5))


def test_a_store_that_refuses_does_not_fail_the_task() -> None:
    found, log = written([b"hello"], Flaky(["refused"]))
    assert (found, log) == ("", None)


@given(st.lists(st.sampled_from(["s3cret", "s3c", "ret", "s", "\n", "words ", "other-key"]), max_size=12))
def test_secrets_become_stars_wherever_the_stream_is_cut(pieces: list[str]) -> None:
    mask = Mask(["s3cret", "other-key", "abc"])
    found, _ = written([piece.encode() for piece in pieces], mask=mask)
    assert found == "".join(pieces).replace("s3cret", MASK).replace("other-key", MASK)


def test_values_too_short_to_be_secret_are_left_alone_and_lines_of_long_ones_are_not() -> None:
    assert Mask(["abc", ""]).text("abc") == "abc"
    assert Mask(["first line\nsecond line"]).text("- second line -") == f"- {MASK} -"


def test_what_looks_like_a_credential_is_left_out_of_facts() -> None:
    mask = Mask(())
    text = "connect failed\nhttps://user:hunter2222@example.com/\nat line 3"
    assert mask.fact(text) == "connect failed\n[a line that held a credential]\nat line 3"
    assert mask.fact("plain") == "plain"
