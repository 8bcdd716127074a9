"""Erasure of what lies in packs: originals of the segments are gone, and what goes is in the middle of the others."""

import msgspec
import pytest

from arco.backup import Selection, collect_workspace
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import MATERIALIZATIONS
from arco.log import number_of
from arco.state import Cadence, PackSize, packed_through
from arco.storage import MIN_AGE
from tests.backup.test_erase import at, erased, events, holders, in_dated_house
from tests.backup.test_restore import check_healthy
from tests.backup.world import paths
from tests.iceberg.house import House, Process
from tests.runtime.world import SCOPE, made

MARK = "jane_roe_4711"
"""An id and a text, which must be nowhere afterwards."""
SMALL = Cadence(packs=PackSize(segments=3, keep=1, fan=2))
LOGS = ("catalog", "activity")


async def pack(house: House, process: Process) -> None:
    """Pack what there is, and drop the originals as a collection does when they are old."""
    for log, opened in process.workspace.logs.items():
        await opened.compactor.compact()
        await house.runtime.sleep(2 * MIN_AGE)
        if log == "catalog":
            await process.decide(CreateNamespace((f"late {house.runtime.now()}",)))
        else:
            await process.workspace.record(log, [made(house.runtime, "late")], actor="ann")
        await opened.compactor.publish()
        await collect_workspace(house.objects, SCOPE, house.runtime, log=log)
    await house.runtime.sleep(2 * MIN_AGE)


async def fill(house: House, process: Process, *, everywhere: bool) -> int:
    """Segments of both logs, all in packs; returns the position of the fact with the mark."""
    position = 0
    for number in range(8):
        mine = everywhere and number == 4
        command = CreateNamespace((f"n{number}",), f"ask {MARK}" if mine else "")
        await process.workspace.decide("catalog", command, actor=MARK if mine else "ann")
        names = ["before", MARK, "after"] if number == 4 else [f"m{number}"]
        told = await process.workspace.record("activity", [made(house.runtime, name) for name in names], actor="ann")
        if MARK in names:
            position = told.position - 1
    await pack(house, process)
    return position


@pytest.mark.parametrize("by", ["event", "text", "id"])
def test_what_lies_in_a_pack_is_nowhere_afterwards(by: str) -> None:
    async def main(house: House, first: Process) -> None:
        await first.workspace.close()
        process = await house.open(SMALL)
        position = await fill(house, process, everywhere=by == "text")
        head = process.workspace.logs["activity"].compactor.head.manifest
        assert number_of(position) <= packed_through(head)
        assert head.packs[0].level == 1, "a list of packs"
        held = await holders(house.objects, MARK)
        assert [path for path in held if "/packs/activity/" in path]
        assert not [path for path in held if "/ledger/" in path], "the originals are gone"
        before = {log: await events(house, log) for log in LOGS}

        selections = {
            "event": at("activity", position),
            "text": Selection(texts=(MARK,)),
            "id": Selection(ids=(MARK,)),
        }
        done = await erased(house, selections[by])
        assert not any(one.waiting for one in done.buried)
        assert not await holders(house.objects, MARK)
        after = {log: await events(house, log) for log in LOGS}
        for log in LOGS:
            *same, _ = after[log]
            assert same == list(before[log]), "positions stay"
            for place, event in before[log].items():
                if MARK.encode() not in msgspec.json.encode(event):
                    assert after[log][place] == event
        left = after["activity"][position]
        assert left.type == ("MaterializationCompleted" if by == "text" else "EventErased")
        assert (left.id, left.time) == (before["activity"][position].id, before["activity"][position].time)

        again = await house.open(SMALL)
        rows = (await (await again.workspace.logs["activity"].frozen()).scan(MATERIALIZATIONS)).to_pylist()
        names = {row["materialization_id"] for row in rows}
        assert {"before", "after"} < names
        assert len(names) == (11 if by == "text" else 10), "of a text the fact stays, with another word for it"
        await check_healthy(again)

    in_dated_house(main)


def test_what_was_erased_is_not_in_the_packs_of_the_new_incarnation() -> None:
    async def main(house: House, first: Process) -> None:
        await first.workspace.close()
        await fill(house, await house.open(SMALL), everywhere=True)
        assert [path for path in await holders(house.objects, MARK) if "/packs/catalog/" in path]
        done = await erased(house, Selection(texts=(MARK,)))
        again = await house.open(SMALL)
        await pack(house, again)
        life = f"{SCOPE.root}/{done.incarnation.id}"
        assert again.workspace.incarnation.id == done.incarnation.id
        for log in LOGS:
            assert await paths(house.objects, f"{life}/packs/{log}")
            await again.workspace.logs[log].compactor.rebuild()
        assert not await holders(house.objects, MARK)
        await check_healthy(again)
        await again.create("a.one")

    in_dated_house(main)
