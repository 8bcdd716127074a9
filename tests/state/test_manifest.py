"""Manifests: one encoding, and no damage that goes unnoticed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Corrupt, Outdated
from arco.log import Link, Pack
from arco.state import (
    Entry,
    File,
    Layer,
    Manifest,
    Pending,
    PinEntry,
    Revisions,
    decode_manifest,
    empty_manifest,
    encode_manifest,
)
from arco.state._manifest import FORMAT, SkippedType, entry_of
from arco.storage import MemoryStore
from tests.doubles import FakeRuntime, run
from tests.state.doubles import PLACE, ROOT, Journal, open_node
from tests.state.histories import ACTIVITY, completed

names = st.text(max_size=5)
numbers = st.integers(0, 2**53)
file = st.builds(
    File,
    names,
    numbers,
    numbers,
    names,
    numbers,
    st.integers(0, 2**256 - 1).map(lambda bits: f"{bits:064x}"),
    st.dictionaries(names, st.tuples(numbers, numbers) | st.tuples(names, names), max_size=2),
    st.none() | st.tuples(numbers, names),
)
manifests = st.builds(
    Manifest,
    format=st.just(FORMAT),
    log=names,
    number=numbers,
    id=names,
    previous=names,
    incarnation=names,
    tenant=names,
    workspace=names,
    publisher=names,
    published_at=numbers,
    watermark=numbers.map(str),
    link=st.builds(Link, numbers, names, numbers),
    folds=st.dictionaries(names, numbers, max_size=2),
    skipped=st.lists(st.builds(SkippedType, names, names, numbers), max_size=2).map(tuple),
    retention=st.dictionaries(names, st.lists(st.tuples(names, numbers), max_size=2).map(tuple), max_size=2),
    pins=st.lists(st.builds(PinEntry, names, numbers, numbers), max_size=2).map(tuple),
    generation=numbers,
    layers=st.lists(st.builds(Layer, names, numbers, names, names, st.tuples(file)), max_size=2).map(tuple),
    pending=st.lists(st.builds(Pending, names, names, names, numbers, names), max_size=2).map(tuple),
    packs=st.lists(
        st.builds(Pack, names, names, numbers, numbers, numbers, st.none() | st.tuples(numbers, names), numbers),
        max_size=2,
    ).map(tuple),
    history=st.lists(st.builds(Entry, numbers, numbers, names, names), max_size=2).map(tuple),
    older=st.none() | file,
    seal=st.booleans(),
)


@given(manifests)
def test_a_manifest_survives_its_encoding(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    assert decode_manifest(data, "m") == manifest
    assert msgspec.json.decode(data)["log"] == manifest.log, "whoever knows JSON reads it as it is"


@given(file, st.integers(0, 255))
def test_a_file_knows_its_buckets(file: File, bucket: int) -> None:
    assert file.has_bucket(bucket) == bool(int(file.buckets, 16) & 1 << bucket)


def test_layers_know_their_size_and_entries_their_hash() -> None:
    files = (File("a", 0, 10, "", 1, "0"), File("b", 0, 20, "", 2, "0"))
    layer = Layer("t", 0, "0", "1", files)
    assert (layer.rows, layer.bytes) == (3, 30)
    manifest = empty_manifest(PLACE)
    data = encode_manifest(manifest)
    assert entry_of(manifest, data).sha256 == __import__("hashlib").sha256(data).hexdigest()


async def published() -> tuple[MemoryStore, FakeRuntime, str]:
    """A store with two revisions, and where the newest one is."""
    runtime = FakeRuntime()
    store = MemoryStore(runtime)
    journal = Journal(store, runtime)
    node = await open_node(runtime, store, ACTIVITY)
    for number in range(2):
        await journal.append(completed(f"m{number}"))
        await node.publish()
    return store, runtime, f"{ROOT}/{node.revisions.sequence.path(2)}"


def revisions_of(store: MemoryStore, runtime: FakeRuntime) -> Revisions:
    from arco.storage import RequestCounts, Role, RoleStore, Scope

    return Revisions(RoleStore(store, Scope("acme", "prod"), Role.READER, RequestCounts()), PLACE, runtime)


def test_a_head_with_a_changed_byte_is_never_taken_for_a_revision() -> None:
    """The head has no successor that names its hash, so it carries its own."""

    async def main() -> None:
        store, runtime, path = await published()
        data = await store.get(path)
        for at in range(0, len(data), 7):
            broken = bytearray(data)
            broken[at] ^= 1 << at % 7
            await store.put(path, bytes(broken), only_if_absent=False)
            with pytest.raises((Corrupt, Outdated)):
                await revisions_of(store, runtime).head()
        for length in range(0, len(data), 7):
            await store.put(path, data[:length], only_if_absent=False)
            with pytest.raises(Corrupt):
                await revisions_of(store, runtime).head()
        await store.put(path, data, only_if_absent=False)
        assert (await revisions_of(store, runtime).head()).manifest.number == 2

    run(main())


def test_a_newer_format_says_upgrade_and_not_corrupt() -> None:
    manifest = msgspec.structs.replace(empty_manifest(PLACE), format=FORMAT + 1)
    with pytest.raises(Outdated, match=f"manifest format {FORMAT + 1}, this program knows {FORMAT}; upgrade arco"):
        decode_manifest(encode_manifest(manifest), "m")
    with pytest.raises(Outdated):
        decode_manifest(b'{"format":%d,"everything":"is different"}' % (FORMAT + 1), "m")
    for nothing in (b"", b"null", b"[]", b'{"format":"x"}', b"{}", b'{"format":1}', b"\xff\xfe"):
        with pytest.raises(Corrupt):
            decode_manifest(nothing, "m")


def test_every_manifest_says_its_format() -> None:
    """A default that is left out would be read as the reader's own format."""
    assert msgspec.json.decode(encode_manifest(empty_manifest(PLACE)))["format"] == 1


def test_a_manifest_of_another_place_or_number_is_refused() -> None:
    async def main() -> None:
        store, runtime, path = await published()
        data = await store.get(path)
        revisions = revisions_of(store, runtime)
        with pytest.raises(Corrupt, match="belongs to another place"):
            revisions.decode(data, 3)
        moved = msgspec.structs.replace(decode_manifest(data, path), tenant="other")
        with pytest.raises(Corrupt, match="belongs to another place"):
            revisions.decode(encode_manifest(moved), 2)

    run(main())


def test_a_broken_chain_of_manifests_stops_the_reader() -> None:
    async def main() -> None:
        store, runtime, _ = await published()
        revisions = revisions_of(store, runtime)
        head = await revisions.head()
        successor = msgspec.structs.replace(head.manifest, number=3, previous="0" * 64)
        third = f"{ROOT}/{revisions.sequence.path(3)}"
        await store.put(third, encode_manifest(successor), only_if_absent=True)
        with pytest.raises(Corrupt, match="does not continue its predecessor"):
            await revisions.refresh(head)

    run(main())
