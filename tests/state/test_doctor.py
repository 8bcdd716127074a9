"""The doctor names every kind of damage, and nothing where nothing is; verification compares with a refold."""

import msgspec
import pytest

from arco.core import Corrupt, LostObject
from arco.state import (
    Cadence,
    Finding,
    Layer,
    Level,
    Manifest,
    decode_manifest,
    encode_manifest,
    verify_chain,
    verify_revision,
)
from tests.state.doubles import ROOT, Node
from tests.state.toy import dropped, noted, shouted, toy
from tests.state.world import TOY, World, simulate


async def healthy(world: World) -> Node:
    node = await world.node(cadence=Cadence(fan_in=3))
    for number in range(5):
        await world.publish(node, noted(f"n{number}", "x", "s"), noted("again", str(number)))
    await node.compactor.compact()
    return node


def errors(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(found.check, found.path) for found in findings if found.level is Level.ERROR]


def checks(findings: list[Finding], level: Level) -> list[str]:
    return [found.check for found in findings if found.level is level]


async def replace_head(world: World, node: Node, **changes: object) -> None:
    """Another head in place of the one that is there."""
    head = (await node.snapshot()).manifest
    path = f"{ROOT}/{node.revisions.sequence.path(head.number)}"
    manifest = msgspec.structs.replace(decode_manifest(await world.memory.get(path), path), **changes)
    await world.memory.put(path, encode_manifest(manifest), only_if_absent=False)


def test_a_sound_log_has_no_warnings() -> None:
    async def test(world: World) -> None:
        await healthy(world)
        findings = await world.examine()
        assert {found.level for found in findings} == {Level.OK}
        assert checks(findings, Level.OK) == ["chain", "head", "history", "files"]
        assert "5 segments, 10 events" in findings[0].message
        assert all(found.log == "activity" for found in findings)

    simulate(test)


def test_an_idle_log_is_not_behind() -> None:
    """Lag is the distance from the watermark to the tail, and not the time since the last publish."""

    async def test(world: World) -> None:
        await healthy(world)
        await world.runtime.sleep(90 * 24 * 3600)
        assert {found.level for found in await world.examine()} == {Level.OK}

    simulate(test)


def test_a_log_without_state_and_one_that_is_ahead_of_it_are_no_errors() -> None:
    async def test(world: World) -> None:
        assert checks(await world.examine(), Level.NOTE) == ["head"]
        node = await healthy(world)
        await world.journal.append(noted("a", "x"))
        findings = await world.examine()
        assert checks(findings, Level.NOTE) == ["watermark"]
        assert errors(findings) == []
        assert node.compactor.failed is None

    simulate(test)


def test_an_altered_segment_is_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        path = node.follower.sequence.path(3)
        await world.damage(path, at=20)
        assert errors(await world.examine()) == [("chain", path)]
        with pytest.raises(Corrupt):
            await verify_chain(node.follower.ledger)

    simulate(test)


def test_a_missing_segment_is_named_even_at_the_end() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        for number in (3, 5):
            path = node.follower.sequence.path(number)
            data = await world.memory.get(f"{ROOT}/{path}")
            await world.memory.delete(f"{ROOT}/{path}")
            found = errors(await world.examine())
            assert path in [where for _, where in found] or ("watermark", "") in found
            await world.memory.put(f"{ROOT}/{path}", data, only_if_absent=True)
        assert errors(await world.examine()) == []

    simulate(test)


def test_verifying_the_chain_reports_progress_and_the_end() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        steps: list[tuple[int, int]] = []
        chain = await verify_chain(node.follower.ledger, lambda done, total: steps.append((done, total)))
        assert (chain.segments, chain.events) == (5, 10)
        assert chain.link == world.journal.link
        assert steps == [(number, 5) for number in range(1, 6)]

    simulate(test)


def test_an_altered_head_is_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        path = node.revisions.sequence.path((await node.snapshot()).manifest.number)
        await world.damage(path)
        assert errors(await world.examine()) == [("head", path)]

    simulate(test)


def test_an_altered_or_missing_older_revision_is_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        path = node.revisions.sequence.path(2)
        await world.damage(path)
        assert errors(await world.examine()) == [("history", path)]
        await world.memory.delete(f"{ROOT}/{path}")
        assert {where for _, where in errors(await world.examine())} == {path}

    simulate(test)


def test_an_altered_or_missing_file_of_the_head_is_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest = (await node.snapshot()).manifest
        path = manifest.layers_of("notes")[-1].files[0].path
        await world.damage(path, at=40)
        assert ("files", path) in errors(await world.examine())
        await world.memory.delete(f"{ROOT}/{path}")
        assert ("files", path) in errors(await world.examine())

    simulate(test)


def test_a_missing_file_of_an_older_revision_is_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest = (await node.snapshot()).manifest
        named = {file.path for layer in manifest.layers for file in layer.files}
        first = await node.revisions.at_revision(manifest, 1)
        path = next(f.path for layer in first.layers for f in layer.files if f.path not in named)
        await world.memory.delete(f"{ROOT}/{path}")
        found = errors(await world.examine())
        assert found
        assert set(found) == {("history", path)}

    simulate(test)


def test_layers_that_overlap_are_named() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest: Manifest = (await node.snapshot()).manifest
        last = manifest.layers_of("notes")[-1]
        twice = Layer(last.table, last.level, last.first, last.last, last.files)
        await replace_head(world, node, layers=(*manifest.layers, twice))
        assert ("layers", "") in errors(await world.examine())

    simulate(test)


def test_state_that_covers_segments_the_log_does_not_have_is_an_error() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(5)}")
        assert "watermark" in [check for check, _ in errors(await world.examine())]

    simulate(test)


def test_a_lost_spilled_history_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from arco.state import _history

    monkeypatch.setattr(_history, "INLINE", 2)

    async def test(world: World) -> None:
        node = await healthy(world)
        older = (await node.snapshot()).manifest.older
        assert older is not None
        await world.memory.delete(f"{ROOT}/{older.path}")
        assert ("history", older.path) in errors(await world.examine())

    simulate(test)


def test_what_works_but_deserves_a_look_is_a_warning() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, shouted("a", "unknown"), dropped("never made"))
        findings = await world.examine()
        assert sorted(checks(findings, Level.WARNING)) == ["rejections", "skipped"]
        assert errors(findings) == []
        await (await world.node(toy(2))).publish()
        assert "fold version" in checks(await world.examine(), Level.WARNING)

    simulate(test)


def test_a_merge_that_nobody_finishes_is_a_warning() -> None:
    async def test(world: World) -> None:
        node = await world.node(cadence=Cadence(fan_in=2))
        for number in range(2):
            await world.publish(node, noted("a", str(number)))
        await node.compactor.close()
        assert "pending" not in checks(await world.examine(), Level.WARNING)
        await world.runtime.sleep(25 * 3600)
        assert "pending" in checks(await world.examine(), Level.WARNING)

    simulate(test)


def test_rejections_that_cannot_be_read_are_an_error() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        manifest = await world.publish(node, dropped("never made"))
        path = manifest.layers_of("rejections")[0].files[0].path
        await world.damage(path, at=60)
        assert "rejections" in [check for check, _ in errors(await world.examine())]

    simulate(test)


# Verification


def test_a_revision_that_is_what_the_log_says_verifies() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest = (await node.snapshot()).manifest
        steps: list[tuple[int, int]] = []
        found = await verify_revision(
            TOY, node.store, node.follower.ledger, manifest, lambda done, total: steps.append((done, total))
        )
        assert steps == [(5, 5)]
        assert all(compared.equal for compared in found)
        assert {compared.table: compared.rows for compared in found}["notes"] == 6
        older = await node.revisions.at_revision(manifest, 2)
        assert all(c.equal for c in await verify_revision(TOY, node.store, node.follower.ledger, older))

    simulate(test)


def test_a_revision_with_a_lost_layer_does_not_verify() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest = (await node.snapshot()).manifest
        layers = tuple(layer for layer in manifest.layers if layer != manifest.layers_of("notes")[0])
        lacking = msgspec.structs.replace(manifest, layers=layers)
        found = await verify_revision(TOY, node.store, node.follower.ledger, lacking)
        assert [compared.table for compared in found if not compared.equal] == ["notes"]
        (notes,) = [compared for compared in found if compared.table == "notes"]
        assert notes.rows < notes.refolded_rows

    simulate(test)


def test_a_log_shorter_than_the_revision_cannot_verify_it() -> None:
    async def test(world: World) -> None:
        node = await healthy(world)
        manifest = (await node.snapshot()).manifest
        await world.memory.delete(f"{ROOT}/{node.follower.sequence.path(5)}")
        with pytest.raises(LostObject):
            await verify_revision(TOY, node.store, node.follower.ledger, manifest)

    simulate(test)
