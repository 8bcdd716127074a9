"""The audit: both logs, newest first, each entry once, and no more read than needed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._audit import audit_page
from arco.core import Invalid, NotFound, derive_ulid
from arco.domains.catalog import Ref, UpdateNamespace
from arco.domains.lineage import AddLineageEdge
from arco.state import Snapshot, snapshot_at_revision
from arco.storage import Operation, Role
from arco.wire import AuditEntry
from tests.catalog.world import World, in_world

IDS = [derive_ulid(1_000_000_000_000, f"table {number}") for number in range(30)]


async def both(world: World) -> dict[str, Snapshot]:
    return {"activity": await world.activity.frozen(), "catalog": await world.catalog.frozen()}


def test_an_entry_tells_who_did_what_to_what() -> None:
    async def test(world: World) -> None:
        await world.namespace("s")
        command = UpdateNamespace(Ref(path=("s",)), description="new")
        receipt = await world.decide(command, correlation="request 7", traceparent="00-x")
        await world.runtime.sleep(1)
        await world.decide(AddLineageEdge(IDS[0], IDS[1]), "activity")
        page = await audit_page(await both(world))
        assert [(entry.log, entry.action) for entry in page.items] == [
            ("activity", "AddLineageEdge"),
            ("catalog", "UpdateNamespace"),
            ("catalog", "CreateNamespace"),
        ]
        updated = page.items[1]
        assert (updated.actor, updated.resource_type) == ("ann", "namespace")
        assert (updated.operation_id, updated.request_id, updated.id) == (receipt.operation, "request 7", receipt.last)
        assert updated.before is not None
        assert updated.after is not None
        assert "description" not in updated.before["namespaces"][0]
        assert updated.after["namespaces"][0]["description"] == "new"
        assert page.items[2].before is None
        only = await audit_page(await both(world), log="activity")
        assert [entry.action for entry in only.items] == ["AddLineageEdge"]
        assert only.position == str(world.activity.replica.watermark)
        with pytest.raises(NotFound):
            await audit_page(await both(world), log="nothing")
        for wrong in ("x", (await audit_page(await both(world), limit=1)).next_cursor):
            with pytest.raises(Invalid):
                await audit_page(await both(world), log="catalog", cursor=wrong)

    in_world(test)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["catalog", "activity", "wait", "publish"]), max_size=20), st.integers(1, 5))
def test_pages_visit_each_entry_once_while_others_write(steps: list[str], limit: int) -> None:
    async def test(world: World) -> None:
        written = []
        for number, step in enumerate(steps):
            if step == "catalog":
                written.append(("catalog", (await world.namespace(f"s{number}")).last))
            elif step == "activity":
                receipt = await world.decide(AddLineageEdge(IDS[number], IDS[-1]), "activity")
                written.append(("activity", receipt.last))
            elif step == "wait":
                await world.runtime.sleep(1)
            else:
                for log in (world.catalog, world.activity):
                    await world.workspace.published(log.place.log, log.replica.watermark)
        await world.runtime.sleep(1)
        seen: list[AuditEntry] = []
        cursor: str | None = None
        while True:
            page = await audit_page(await both(world), cursor=cursor, limit=limit)
            assert len(page.items) <= limit
            seen += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
            await world.namespace(f"new{len(seen)}")
        assert sorted((entry.log, entry.id) for entry in seen) == sorted(written)
        assert [entry.recorded_at for entry in seen] == sorted((e.recorded_at for e in seen), reverse=True)

    in_world(test)


def test_the_newest_entries_are_in_the_newest_files() -> None:
    async def test(world: World) -> None:
        receipt = await world.namespace("s")
        for number in range(6):
            receipt = await world.namespace(f"s{number}")
            await world.workspace.published("catalog", receipt.position)
            await world.runtime.sleep(1)
        manifest = (await world.catalog.snapshot()).manifest
        assert len(manifest.layers_of("audit")) > 2
        cold = snapshot_at_revision(world.catalog.definition, world.workspace.handle(Role.READER), manifest)
        before = world.workspace.counts.count(Role.READER, Operation.GET_RANGE)
        page = await audit_page({"catalog": cold}, limit=1)
        assert [entry.id for entry in page.items] == [receipt.last]
        assert world.workspace.counts.count(Role.READER, Operation.GET_RANGE) - before == 2

    in_world(test)
