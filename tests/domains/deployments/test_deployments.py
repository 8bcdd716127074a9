"""Deployments: what a deploy writes, which ids stay, what is refused; keys of dynamic partitions."""

import base64
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import AssetDefinition, Dependency, Project, project_fingerprint, resolve
from arco.core import Invalid, NotFound, PreconditionFailed, Refused, TooLarge, derive_ulid
from arco.domains.deployments import (
    ASSET_NAMES,
    ASSETS,
    CODE_VERSIONS,
    CURRENT_DEPLOYMENT,
    DEPLOYMENTS,
    DEPLOYMENTS_TABLE,
    DYNAMIC_PARTITIONS,
    WORKSPACE,
    AddPartitions,
    AssetRow,
    CurrentDeployment,
    Deploy,
    Deployment,
    DropPartitions,
    decode_project,
    definition_text,
    pack_project,
    read_asset_ids,
    read_dynamic_partitions,
    resolve_key,
)
from arco.domains.deployments.project import MAX_PROJECT_BYTES, unpack_project
from arco.log import Command, Event
from arco.state import AUDIT, REJECTIONS, define_log
from tests.domains.decider import Decider, deciding
from tests.state.doubles import event

LOG = define_log("catalog", [DEPLOYMENTS])
TABLE = derive_ulid(1_000_000, "a table")


def asset(key: str, *needs: str, **more: object) -> AssetDefinition:
    fields = {"function": "jobs:make", "code_version": "1", "file": "jobs.py", "line": 1, **more}
    return AssetDefinition(key=key, dependencies=tuple(Dependency(need, "x") for need in needs), **fields)  # type: ignore[arg-type]


def project(*assets: AssetDefinition, **more: str) -> Project:
    return resolve(Project(assets, **more))


def command(of: Project, **more: object) -> Deploy:
    packed = pack_project(of)
    return Deploy(packed.text, packed.sha256, **more)  # type: ignore[arg-type]


async def deploy(decider: Decider, *assets: AssetDefinition, **more: object) -> list[Event]:
    return await decider.decide(command(project(*assets), **more))


async def current(decider: Decider) -> CurrentDeployment:
    row: CurrentDeployment = await decider.replica.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
    return row


async def ids(decider: Decider) -> dict[str, str]:
    return await read_asset_ids(decider.replica)


async def audited(decider: Decider) -> list[dict[str, Any]]:
    return sorted(await decider.rows(AUDIT), key=lambda row: int(row["audit_id"]))


async def newest(decider: Decider) -> Deployment:
    rows: list[Deployment] = await decider.replica.rows(DEPLOYMENTS_TABLE, WORKSPACE)
    return rows[-1]


def test_a_deploy_stores_every_asset_and_becomes_the_current_one() -> None:
    async def test(decider: Decider) -> None:
        made = project(asset("sales.orders"), asset("sales.daily", "sales.orders"), python="3.12", code_sha256="c" * 64)
        events = await decider.decide(command(made, message="first"))
        assert [item.type for item in events] == ["AssetDefined", "AssetDefined", "CodeDeployed"]
        row = await current(decider)
        assert (row.code_version, row.asset_count) == (project_fingerprint(made), 2)
        assert row.manifest == pack_project(made).sha256
        (deployment,) = await decider.rows(DEPLOYMENTS_TABLE)
        assert deployment["message"] == "first"
        assert (deployment["added_count"], deployment["changed_count"], deployment["previous"]) == (2, 0, "")
        (version,) = await decider.rows(CODE_VERSIONS)
        assert (version["manifest"], version["code_sha256"], version["python"]) == (row.manifest, "c" * 64, "3.12")
        found: AssetRow = await resolve_key(decider.replica, "sales.daily")
        assert (found.key, found.unit, found.status) == ("sales.daily", "sales.daily", "active")
        assert msgspec.json.decode(found.definition, type=AssetDefinition) == made.assets[0]

    deciding(LOG, test)


def test_only_what_changed_becomes_an_event() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"), asset("s.b"), asset("s.c"))
        before = await ids(decider)
        events = await deploy(decider, asset("s.a"), asset("s.b", code_version="2"), asset("s.d"))
        assert [(item.type, item.subject) for item in events[:-1]] == [
            ("AssetRemoved", "s.c"),
            ("AssetDefined", "s.b"),
            ("AssetDefined", "s.d"),
        ]
        after = await ids(decider)
        assert (after["s.a"], after["s.b"]) == (before["s.a"], before["s.b"])
        assert set(after) == {"s.a", "s.b", "s.d"}
        last = await newest(decider)
        assert (last.added_count, last.changed_count, last.removed_count) == (1, 1, 1)
        assert (await resolve_key(decider.replica, "s.c")).status == "removed"

    deciding(LOG, test)


def test_deploying_what_is_current_changes_nothing() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        assert await deploy(decider, asset("s.a"), expected_current="whatever it was") == []
        assert len(await decider.rows(DEPLOYMENTS_TABLE)) == 1

    deciding(LOG, test)


def test_a_deploy_is_audited_and_a_rollback_by_its_own_name() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        first = (await current(decider)).deployment_id
        await deploy(decider, asset("s.a", code_version="2"))
        await deploy(decider, asset("s.a"), rollback_of=first)
        audit = await audited(decider)
        assert [(row["action"], row["resource_type"]) for row in audit] == [
            ("DeployAssets", "deployment"),
            ("DeployAssets", "deployment"),
            ("RollbackDeployment", "deployment"),
        ]
        assert audit[2]["resource"] == (await current(decider)).deployment_id
        assert first in audit[1]["before"]

    deciding(LOG, test)


def test_the_project_is_the_blob_of_the_last_event() -> None:
    made = project(asset("s.a"))
    packed = pack_project(made)

    async def test(decider: Decider) -> None:
        draft = decider.replica.draft()
        asked = Command(decider.id(), "me", "Deploy", msgspec.Raw(msgspec.json.encode(command(made))))
        events = await draft.decide(asked, decider.now)
        assert [item.blobs for item in events] == [(), (packed.sha256,)]

    deciding(LOG, test)
    assert decode_project(packed.data) == made


def test_a_renamed_asset_keeps_its_id_and_its_old_key_keeps_resolving() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.old"))
        before = (await ids(decider))["s.old"]
        await deploy(decider, asset("s.new", renamed_from=("s.old",)))
        assert await ids(decider) == {"s.new": before}
        assert (await resolve_key(decider.replica, "s.old")).key == "s.new"
        await deploy(decider, asset("s.newest", renamed_from=("s.old", "s.new")))
        assert await ids(decider) == {"s.newest": before}
        assert {row["key"]: row["state"] for row in await decider.rows(ASSET_NAMES)} == {
            "s.old": "former",
            "s.new": "former",
            "s.newest": "current",
        }

    deciding(LOG, test)


def test_a_former_key_that_is_used_again_means_the_new_asset() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        first = (await ids(decider))["s.a"]
        await deploy(decider, asset("s.b", renamed_from=("s.a",)))
        await deploy(decider, asset("s.b"), asset("s.a"))
        after = await ids(decider)
        assert after["s.b"] == first
        assert after["s.a"] != first
        assert (await resolve_key(decider.replica, "s.a")).asset_id == after["s.a"]

    deciding(LOG, test)


def test_a_removed_asset_comes_back_with_its_id() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"), asset("s.b"))
        before = await ids(decider)
        await deploy(decider, asset("s.a"))
        await deploy(decider, asset("s.a"), asset("s.b"), message="back")
        assert await ids(decider) == before
        (row,) = [row for row in await decider.rows(ASSETS) if row["key"] == "s.b"]
        assert (row["status"], row["removed_at"]) == ("active", None)

    deciding(LOG, test)


def test_a_rollback_over_a_rename_gives_the_old_key_back() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        before, first = await ids(decider), (await current(decider)).deployment_id
        await deploy(decider, asset("s.b", renamed_from=("s.a",)))
        await deploy(decider, asset("s.a"), rollback_of=first)
        assert await ids(decider) == before
        assert (await newest(decider)).rollback_of == first
        assert len(await decider.rows(CODE_VERSIONS)) == 2

    deciding(LOG, test)


def test_a_rollback_names_a_deployment_of_exactly_this_code() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        first = (await current(decider)).deployment_id
        with pytest.raises(NotFound, match="no deployment"):
            await deploy(decider, asset("s.b"), rollback_of=TABLE)
        with pytest.raises(Invalid, match="was of the code version"):
            await deploy(decider, asset("s.b"), rollback_of=first)

    deciding(LOG, test)


def test_a_new_asset_takes_the_id_of_the_table_with_its_name() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"), asset("s.b"), table_ids={"s.a": TABLE})
        before = await ids(decider)
        assert before["s.a"] == TABLE
        assert before["s.b"] != TABLE
        # A table cannot lend its id to two assets, and an asset that has an id keeps it.
        await deploy(decider, asset("s.a"), asset("s.b"), asset("s.c"), table_ids={"s.b": TABLE, "s.c": TABLE})
        after = await ids(decider)
        assert (after["s.a"], after["s.b"]) == (before["s.a"], before["s.b"])
        assert after["s.c"] != TABLE
        with pytest.raises(Invalid, match="not a ULID"):
            await deploy(decider, asset("s.d"), table_ids={"s.d": "no id"})

    deciding(LOG, test)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            [asset("s.a"), asset("s.b")],
            [asset("s.b", renamed_from=("s.a",))],
            "both exist",
        ),
        (
            [asset("s.a")],
            [asset("s.a"), asset("s.b", renamed_from=("s.a",))],
            "claimed by s.a",
        ),
        (
            [asset("s.a")],
            [asset("s.b", renamed_from=("s.a",)), asset("s.c", renamed_from=("s.a",))],
            "claimed by s.b",
        ),
    ],
)
def test_a_rename_that_is_not_clear_is_refused(
    before: list[AssetDefinition], after: list[AssetDefinition], why: str
) -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, *before)
        with pytest.raises(Invalid, match=why):
            await deploy(decider, *after)

    deciding(LOG, test)


def test_a_deploy_against_something_else_than_the_current_one_is_refused() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(PreconditionFailed):
            await deploy(decider, asset("s.a"), expected_current=TABLE)
        await deploy(decider, asset("s.a"), expected_current="")
        first = (await current(decider)).deployment_id
        with pytest.raises(PreconditionFailed) as caught:
            await deploy(decider, asset("s.b"), expected_current="")
        assert caught.value.details == {"expected": "", "current": first}
        await deploy(decider, asset("s.b"), expected_current=first)

    deciding(LOG, test)


def test_problems_of_the_project_refuse_the_deploy_and_are_all_named() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(Invalid) as caught:
            await deploy(decider, asset("s.a", "s.b"), asset("s.b", "s.a"), asset("s.c", "s.none"))
        assert len(caught.value.details["problems"]) == 2
        assert "cycle" in caught.value.message
        assert "s.none" in caught.value.message

    deciding(LOG, test)


def test_breaking_changes_of_schemas_are_refused_unless_they_are_allowed() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(Refused, match="the column x is gone"):
            await deploy(decider, asset("s.a"), breaking=("s.a: the column x is gone",))
        await deploy(decider, asset("s.a"), breaking=("s.a: the column x is gone",), allow_breaking=True)

    deciding(LOG, test)


def test_what_a_command_carries_must_be_its_blob() -> None:
    packed = pack_project(project(asset("s.a")))
    other = pack_project(project(asset("s.b")))
    bomb = base64.b64encode(zlib.compress(b" " * (MAX_PROJECT_BYTES + 2), 9)).decode()
    cut = base64.b64encode(base64.b64decode(packed.text)[:-4]).decode()
    longer = base64.b64encode(base64.b64decode(packed.text) + b"more").decode()
    for text in (other.text, cut, longer, "", "no base64!", base64.b64encode(b"no zlib").decode()):
        with pytest.raises(Invalid, match="project"):
            unpack_project(text, packed.sha256)
    with pytest.raises(TooLarge):
        unpack_project(bomb, packed.sha256)
    with pytest.raises(Invalid, match="does not fit"):
        decode_project(b'{"assets": 1}')


def test_a_project_that_is_not_in_order_is_refused() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(Invalid, match="resolve it"):
            await decider.decide(command(Project((asset("s.b"), asset("s.a")))))

    deciding(LOG, test)


def test_equal_definitions_have_equal_texts_whatever_the_order_of_their_tags() -> None:
    one, two = asset("s.a", tags={"a": "1", "b": "2"}), asset("s.a", tags={"b": "2", "a": "1"})
    assert definition_text(one) == definition_text(two)
    assert pack_project(project(one)) == pack_project(project(two))


keys = st.sampled_from(["s.a", "s.b", "s.c", "s.d"])


@given(st.lists(st.sets(keys, min_size=1), min_size=2, max_size=5))
@settings(deadline=None, max_examples=30)
def test_a_key_has_the_same_id_in_every_deployment_and_no_two_share_one(history: list[set[str]]) -> None:
    async def test(decider: Decider) -> None:
        seen: dict[str, str] = {}
        for round_, names in enumerate(history):
            await deploy(decider, *(asset(name, code_version=str(round_)) for name in sorted(names)))
            now = await ids(decider)
            assert set(now) == names
            assert len(set(now.values())) == len(now)
            assert all(seen.setdefault(key, asset_id) == asset_id for key, asset_id in now.items())

    deciding(LOG, test)


def test_thousands_of_assets_fit_into_one_command() -> None:
    many = project(*(asset(f"s.a{i:04d}", *([f"s.a{i - 1:04d}"] if i else []), line=i) for i in range(2000)))
    assert len(msgspec.json.encode(command(many))) < 200_000
    packed = pack_project(many)
    assert unpack_project(packed.text, packed.sha256) == many


def test_a_removal_of_what_never_was_is_rejected_and_changes_nothing() -> None:
    async def test(decider: Decider) -> None:
        await deploy(decider, asset("s.a"))
        before = await decider.rows(ASSETS)
        await decider.append(event("AssetRemoved", {"asset_id": TABLE, "deployment_id": TABLE, "key": "s.x"}))
        assert await decider.rows(ASSETS) == before
        (rejection,) = await decider.rows(REJECTIONS)
        assert "does not exist" in rejection["reason"]

    deciding(LOG, test)


# Dynamic partitions


def test_dynamic_keys_stand_in_the_order_in_which_they_were_added() -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(AddPartitions("customers", ("zoe", "adam")))
        await decider.decide(AddPartitions("customers", ("mia", "adam", "mia")))
        read = await read_dynamic_partitions(decider.replica, ["customers", "others"])
        assert read == {"customers": ("zoe", "adam", "mia"), "others": ()}
        assert await decider.decide(AddPartitions("customers", ("mia",))) == []
        await decider.decide(DropPartitions("customers", ("zoe",)))
        await decider.decide(AddPartitions("customers", ("zoe",)))
        assert (await read_dynamic_partitions(decider.replica, ["customers"]))["customers"] == ("adam", "mia", "zoe")
        assert [row["action"] for row in await audited(decider)] == [
            "AddPartitions",
            "AddPartitions",
            "DropPartitions",
            "AddPartitions",
        ]
        assert {row["key"] for row in await decider.rows(DYNAMIC_PARTITIONS)} == {"adam", "mia", "zoe"}

    deciding(LOG, test)


def test_what_cannot_be_a_dynamic_key_is_refused() -> None:
    async def test(decider: Decider) -> None:
        for name, values in (("Customers", ("a",)), ("customers", ()), ("customers", ("",)), ("customers", ("a,b",))):
            with pytest.raises(Invalid):
                await decider.decide(AddPartitions(name, values))
        with pytest.raises(TooLarge):
            await decider.decide(AddPartitions("customers", tuple(map(str, range(10_001)))))
        with pytest.raises(NotFound, match="'nobody'"):
            await decider.decide(DropPartitions("customers", ("nobody",)))
        with pytest.raises(NotFound, match="no asset"):
            await resolve_key(decider.replica, "s.a")

    deciding(LOG, test)
