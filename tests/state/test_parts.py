"""Events that contain facts of other types, and events whose payload is a blob: folded as if told alone, or inline."""

import msgspec
import pytest

from arco.core import LostObject
from arco.log import Blobs, EventType
from arco.state import REJECTIONS, Domain, Group, Input, Kind, Reject, Stage, Table, define_log
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Scope
from tests.doubles import FakeRuntime, run
from tests.state.doubles import Journal, event, open_node, rows_of


class Word(msgspec.Struct, frozen=True):
    word: str


class Story(msgspec.Struct, frozen=True):
    title: str
    words: tuple[Word, ...] = ()


class Book(msgspec.Struct, frozen=True):
    title: str
    chapters: int = 0


class Page(msgspec.Struct, frozen=True):
    pages: tuple[str, ...]


WORDS = Table("words", Word, Kind.IMAGE, ("word",), "word")
BOOKS = Table("books", Book, Kind.IMAGE, ("title",), "title")

WORD = EventType("WordSaid", Word, recordable=True)
STORY = EventType(
    "StoryTold",
    Story,
    recordable=True,
    parts=lambda story: [(WORD.name, word) for word in story.words],
    attachment=Page,
)


def _fold_word(group: Group, item: Input) -> None:
    if item.payload.word == "bad":
        raise Reject("not a word")
    group.put(WORDS, item.payload)


def _fold_story(group: Group, item: Input) -> None:
    group.put(BOOKS, Book(item.payload.title, len(item.attached.pages) if item.attached else 0))


LOG = define_log(
    "activity",
    [
        Domain(
            "words",
            "activity",
            1,
            (WORD,),
            (Stage("words", (WORDS,), lambda item: (item.payload.word,), _fold_word, events=(WORD.name,)),),
        ),
        Domain(
            "books",
            "activity",
            1,
            (STORY,),
            (Stage("books", (BOOKS,), lambda item: (item.payload.title,), _fold_story, events=(STORY.name,)),),
        ),
    ],
)


def test_the_parts_of_an_event_are_folded_by_their_own_domain_and_a_bad_one_spoils_nothing_else() -> None:
    async def work() -> tuple[list[str], list[str], list[str]]:
        store, runtime = MemoryStore(), FakeRuntime()
        node, journal = await open_node(runtime, store, LOG), Journal(store, runtime)
        told = Story("s", (Word("a"), Word("bad"), Word("b"), Word("bad"), Word("a")))
        await journal.append(event(STORY.name, told), event(WORD.name, Word("c")))
        await node.publish()
        rebuilt = await node.snapshot()
        words = [row["word"] for row in await rows_of(rebuilt, WORDS)]
        books = [row["title"] for row in await rows_of(rebuilt, BOOKS)]
        rejections = [row["rejection_id"] for row in await rows_of(rebuilt, REJECTIONS)]
        return sorted(words), books, sorted(rejections)

    words, books, rejections = run(work())
    assert words == ["a", "b", "c"]
    assert books == ["s"]
    assert rejections == [f"{1 << 20}:words", f"{1 << 20}:words:2"]


def test_a_fold_sees_what_the_blob_of_an_event_holds() -> None:
    async def work() -> list[int]:
        store, runtime = MemoryStore(), FakeRuntime()
        blobs = Blobs(RoleStore(store, Scope("acme", "prod"), Role.OWNER, RequestCounts()))
        sha256 = await blobs.put(msgspec.json.encode(Page(("one", "two", "three"))))
        node, journal = await open_node(runtime, store, LOG), Journal(store, runtime)
        large = msgspec.structs.replace(event(STORY.name, Story("large")), blobs=(sha256,))
        await journal.append(large, event(STORY.name, Story("small")))
        await node.publish()
        return [row["chapters"] for row in await rows_of(await node.snapshot(), BOOKS)]

    assert sorted(run(work())) == [0, 3]


def test_an_attachment_that_is_no_such_thing_is_rejected_and_a_missing_one_stops_the_fold() -> None:
    async def work(stored: bytes | None) -> list[str]:
        store, runtime = MemoryStore(), FakeRuntime()
        blobs = Blobs(RoleStore(store, Scope("acme", "prod"), Role.OWNER, RequestCounts()))
        sha256 = await blobs.put(stored) if stored is not None else "0" * 64
        node, journal = await open_node(runtime, store, LOG), Journal(store, runtime)
        await journal.append(msgspec.structs.replace(event(STORY.name, Story("s")), blobs=(sha256,)))
        await node.publish()
        return [row["reason"] for row in await rows_of(await node.snapshot(), REJECTIONS)]

    (reason,) = run(work(b'{"pages": 7}'))
    assert "attachment" in reason
    with pytest.raises(LostObject):
        run(work(None))
