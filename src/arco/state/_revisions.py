"""`Revisions`: the manifests of a log as readers find them: the head, an older one, the one that covers a position; and
what a program may do with one that other folds made."""

import hashlib
from dataclasses import dataclass

import msgspec

from arco.core import Corrupt, LostObject, NotFound, Outdated, Runtime, Superseded
from arco.log import FIRST_LINK, HintFile, Place
from arco.state._definition import Definition
from arco.state._layers import LayerReader
from arco.state._layout import Layout
from arco.state._manifest import Entry, Manifest, decode_manifest, format_of
from arco.storage import MIN_AGE, Sequence, Store, Tail

__all__ = ["Head", "Revisions", "base_for", "check_versions", "empty_manifest"]


FAR = 16
"""Revisions that a reader follows one by one before it looks for the newest from scratch."""


@dataclass(frozen=True)
class Head:
    """A revision known to be (or to have recently been) the newest."""

    manifest: Manifest
    sha256: str
    tail: Tail


def empty_manifest(place: Place) -> Manifest:
    """Revision 0: what a log has before anything is published. It exists in no store."""
    return Manifest(
        format=format_of(()),
        log=place.log,
        number=0,
        id="",
        previous="",
        incarnation=place.incarnation,
        tenant=place.tenant,
        workspace=place.workspace,
        publisher="",
        published_at=0,
        watermark=str((1 << 20) - 1),
        link=FIRST_LINK,
    )


class Revisions:
    def __init__(self, store: Store, place: Place, runtime: Runtime, *, min_age: float = MIN_AGE) -> None:
        layout = Layout(place)
        self.place = place
        self.runtime = runtime
        self.min_age = min_age
        self.sequence = Sequence(store, layout.manifests, runtime, min_age=min_age)
        self.hint = HintFile(store, layout.manifests_hint, runtime)
        self._reader = LayerReader(store)

    async def head(self) -> Head:
        """The newest revision, found from scratch."""
        hint = await self.hint.read()
        tail = await self.sequence.tail(hint.number)
        if tail.number == 0:
            return Head(empty_manifest(self.place), "", tail)
        data = await self.sequence.read_known(tail.number)
        return Head(self.decode(data, tail.number), hashlib.sha256(data).hexdigest(), tail)

    async def refresh(self, head: Head) -> Head:
        """The newest revision, given one that was the newest before. One request if nothing is newer.

        Who is far behind goes to where the hint leads instead of reading every revision in between. Who slept while the
        revisions after its own were collected starts from scratch too. A collected number may have been filled again
        by somebody who slept even longer, so below the floor a broken chain proves nothing.
        """
        try:
            for _ in range(FAR):
                found = await self.sequence.next(head.tail)
                if isinstance(found, Tail):
                    return Head(head.manifest, head.sha256, found)
                head = self.follow(head, *found)
            return await self.head()
        except Superseded:
            return await self.head()
        except Corrupt:
            if head.tail.number > await self.sequence.floor():
                raise
            return await self.head()

    def follow(self, head: Head, data: bytes, tail: Tail) -> Head:
        """The successor of a head; its chain must hold."""
        manifest = self.decode(data, tail.number)
        if manifest.previous != head.sha256:
            raise Corrupt(
                f"{self.sequence.path(tail.number)} does not continue its predecessor; run `arco doctor`",
                path=self.sequence.path(tail.number),
            )
        return Head(manifest, hashlib.sha256(data).hexdigest(), tail)

    def decode(self, data: bytes, number: int) -> Manifest:
        path = self.sequence.path(number)
        manifest = decode_manifest(data, path)
        found = Place(manifest.tenant, manifest.workspace, manifest.incarnation, manifest.log)
        if found != self.place or manifest.number != number:
            raise Corrupt(f"{path} belongs to another place ({found}, number {manifest.number})", path=path)
        if manifest.seal and number > 1 and manifest.link == FIRST_LINK:
            raise Superseded(
                f"the state of {self.place.incarnation} is deleted: the workspace goes on elsewhere; reopen it"
            )
        return manifest

    async def history(self, head: Manifest) -> list[Entry]:
        """Every retained revision below the head, oldest first."""
        older: list[Entry] = []
        if head.older is not None:
            older = msgspec.json.decode(await self._reader.bytes_of(head.older), type=list[Entry])
        return [*older, *head.history]

    async def read(self, entry: Entry) -> Manifest:
        """A retained revision, trusted by its hash."""
        data = await self.sequence.read(entry.revision)
        path = self.sequence.path(entry.revision)
        if data is None:
            raise LostObject(
                f"{path} is missing although the revision was retained when its history was read; read the head again, "
                "or run `arco doctor`",
                path=path,
            )
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise Corrupt(f"{path} is not what the revisions after it recorded; run `arco doctor`", path=path)
        return self.decode(data, entry.revision)

    async def at_revision(self, head: Manifest, revision: int) -> Manifest:
        if revision == head.number:
            return head
        for entry in await self.history(head):
            if entry.revision == revision:
                return await self.read(entry)
        raise NotFound(
            f"revision {revision} of {self.place.log} is not retained; `arco state history` lists those that are"
        )

    async def received_by(self, head: Manifest, time: int) -> Manifest:
        """A late retained revision that covers nothing received after a time; revision 0 if there is none.

        It is the newest one published by then, or an older one if the clocks of owner and compactor disagree.
        """
        if head.link.received <= time:
            return head
        for entry in reversed(await self.history(head)):
            if entry.published_at <= time:
                found = await self.read(entry)
                if found.link.received <= time:
                    return found
        return empty_manifest(self.place)

    async def below(self, head: Manifest, position: int) -> Manifest:
        """The newest retained revision that covers nothing beyond a position; revision 0 if there is none."""
        if int(head.watermark) <= position:
            return head
        found = [entry for entry in await self.history(head) if int(entry.watermark) <= position]
        return await self.read(found[-1]) if found else empty_manifest(self.place)


def base_for(definition: Definition, head: Manifest) -> Manifest:
    """What a replica of this program stands on: the head, or nothing if older folds made it.

    A head that a newer program made is for reading only; `check_versions` says so.
    """
    if any(version > definition.versions.get(domain, 0) for domain, version in head.folds.items()):
        return head
    known_now = [skip for skip in head.skipped if definition.registry.knows(*_type_of(skip.type))]
    if head.number and (dict(head.folds) != definition.versions or known_now):
        return empty_manifest(Place(head.tenant, head.workspace, head.incarnation, head.log))
    return head


def _type_of(skipped: str) -> tuple[str, int]:
    name, _, version = skipped.rpartition(" v")
    return name, int(version)


def check_versions(manifest: Manifest, versions: dict[str, int]) -> None:
    """Who is older than a manifest only reads."""
    for domain, version in manifest.folds.items():
        if version > versions.get(domain, 0):
            raise Outdated(
                f"revision {manifest.number} of {manifest.log} was folded with version {version} of {domain}, this "
                f"program has {versions.get(domain, 0)}"
            )
