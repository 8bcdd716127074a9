"""Making objects of a new incarnation of those of an old one: pure functions.

A segment, a manifest and a pointer each say which incarnation they belong to, and who reads one checks that. So they
are written anew: the events stay as they are, byte for byte, and so do numbers, positions, ids and times; the
incarnation and the chain of hashes are new. The same input gives the same output, so that a restore that was
interrupted finds its own work.
"""

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from arco.core import Corrupt, Invalid
from arco.iceberg import Pointer
from arco.log import Header, Link, Place, encode_segment, position_of, segment_text
from arco.state import File, Layout, Manifest, format_of

__all__ = ["rewrite_manifest", "rewrite_pointers", "rewrite_segment", "rewritten_paths"]


class _Raw(msgspec.Struct, frozen=True):
    header: Header
    events: list[msgspec.Raw]


class _Operation(msgspec.Struct, frozen=True):
    operation: str


Edit = Callable[[int, bytes], bytes]
"""From a position and its event to the event that is to stand there."""

_decoder = msgspec.json.Decoder(_Raw)


def rewrite_segment(
    data: bytes, place: Place, link: Link, path: str, *, through: int | None = None, edit: Edit | None = None
) -> tuple[bytes, Link]:
    """A segment of another incarnation as the successor of `link`, and what links to it.

    With `through`, events beyond that position are left out; `Invalid` if that would cut an operation in two.
    """
    try:
        raw = _decoder.decode(segment_text(data, path))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not a segment: {error}; use another backup", path=path) from error
    events = [bytes(event) for event in raw.events]
    number = raw.header.number
    if through is not None:
        events = _cut(events, number, through)
    if edit is not None:
        events = [edit(position_of(number, index), event) for index, event in enumerate(events)]
    header = msgspec.structs.replace(
        raw.header,
        previous=link.sha256,
        incarnation=place.incarnation,
        tenant=place.tenant,
        workspace=place.workspace,
        seal=False,
    )
    rewritten = encode_segment(header, events)
    return rewritten, Link(number, hashlib.sha256(rewritten).hexdigest(), header.received)


def _cut(events: list[bytes], number: int, through: int) -> list[bytes]:
    kept = [event for index, event in enumerate(events) if position_of(number, index) <= through]
    if kept and len(kept) < len(events):
        last, after = (msgspec.json.decode(event, type=_Operation) for event in (kept[-1], events[len(kept)]))
        if last.operation == after.operation:
            ends = max(
                index
                for index, event in enumerate(events)
                if msgspec.json.decode(event, type=_Operation).operation == last.operation
            )
            raise Invalid(
                f"position {number}:{len(kept) - 1} lies inside of operation {last.operation}, which is never done by "
                f"halves; use {number}:{ends}, or one before it"
            )
    return kept


def rewritten_paths(manifest: Manifest, place: Place) -> dict[str, str]:
    """Where each object of a revision goes: from its old path to its new one."""
    old = Layout(Place(manifest.tenant, manifest.workspace, manifest.incarnation, manifest.log))
    new = Layout(place)
    found: dict[str, str] = {}
    for file in _files(manifest):
        for before, after in ((old.state, new.state), (old.private, new.private)):
            if file.path.startswith(f"{before}/"):
                # Revision 0 is what the first one builds on; the old names keep files of one name apart.
                name = file.path.removeprefix(f"{before}/").replace("/", "-")
                found[file.path] = f"{after}/{new.attempt(0, 'restored')}/{name}"
        if file.path not in found:
            raise Corrupt(f"{file.path} does not lie where state lies; use another backup", path=file.path)
    return found


def rewrite_manifest(manifest: Manifest, place: Place, link: Link, now: int) -> Manifest:
    """A revision as the first one of another incarnation. Older revisions, packs, pins and work under way stay behind.

    `link` is that of the rewritten segment it ends with.
    """
    paths = rewritten_paths(manifest, place)
    layers = tuple(
        msgspec.structs.replace(
            layer, files=tuple(msgspec.structs.replace(file, path=paths[file.path]) for file in layer.files)
        )
        for layer in manifest.layers
    )
    return msgspec.structs.replace(
        manifest,
        format=format_of(()),
        number=1,
        previous="",
        incarnation=place.incarnation,
        tenant=place.tenant,
        workspace=place.workspace,
        published_at=now,
        link=link,
        pins=(),
        generation=0,
        layers=layers,
        pending=(),
        packs=(),
        history=(),
        older=None,
        seal=False,
    )


def _files(manifest: Manifest) -> Iterable[File]:
    return (file for layer in manifest.layers for file in layer.files)


def rewrite_pointers(pointers: Iterable[Pointer], incarnation: str, encode: Callable[[Pointer], bytes]) -> list[bytes]:
    """Neighbouring pointers of one table, as a chain of another incarnation. A seal does not come along."""
    found: list[bytes] = []
    previous = None
    for pointer in pointers:
        chained = pointer.previous_hash if previous is None else hashlib.sha256(previous).hexdigest()
        rewritten = msgspec.structs.replace(pointer, incarnation=incarnation, previous_hash=chained, seal=False)
        previous = encode(rewritten)
        found.append(previous)
    return found
