"""Roles: each writes its own prefixes and nothing else, cannot leave its workspace, and is counted."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Forbidden, Invalid
from arco.storage import (
    MemoryStore,
    ObjectExists,
    ObjectMissing,
    Operation,
    RequestCounts,
    Role,
    RoleStore,
    Scope,
    Store,
    s3_policy,
    write_grants,
)
from tests.emulators.policies import evaluate
from tests.storage.contract import names, run

SCOPE = Scope("acme", "main")
INCARNATION = "inc-01kdvdna00xszgbxfnrem0398t"
FORMER = "inc-01kdvc0000g3v1x9k2m4q6r8tz"
BUCKET = "lake"


class Signing(MemoryStore):
    async def sign(self, path: str, *, expires_in: int) -> str:
        return f"signed {path}"


def handle(role: Role, inner: Store | None = None, scope: Scope = SCOPE, former: str = "") -> RoleStore:
    return RoleStore(inner or Signing(), scope, role, RequestCounts(), former=former)


def allows(role: Role, action: str, path: str, former: str = "") -> bool:
    store = handle(role, former=former)
    try:
        if action == "create":
            run(store.put(path, b"", only_if_absent=True))
        elif action == "overwrite":
            run(store.put(path, b"", only_if_absent=False))
        elif action == "delete":
            run(store.delete(path))
        else:
            run(store.sign(path, expires_in=60))
    except Forbidden:
        return False
    return True


def test_a_refusal_names_role_operation_and_path() -> None:
    with pytest.raises(Forbidden, match="the role reader may not create data/x") as caught:
        run(handle(Role.READER).put("data/x", b"", only_if_absent=True))
    assert caught.value.details == {"role": "reader", "operation": "create", "path": "data/x"}


PUBLISHERS = {Role.COMPACTOR, Role.ADMIN}

# Who may do what, written out a second time as examples: (action, path) -> roles. This is what a policy says for the
# incarnation in use; a handle does not know which one that is.
EXAMPLES: list[tuple[str, str, set[Role]]] = [
    ("create", f"{INCARNATION}/ledger/catalog/0000000000000/00000000000000000001", {Role.OWNER, Role.ADMIN}),
    ("overwrite", f"{INCARNATION}/ledger/catalog/0000000000000/00000000000000000001", set()),
    ("overwrite", f"{INCARNATION}/ledger/catalog/hint", {Role.OWNER}),
    ("create", f"{INCARNATION}/ledger/catalog/floor/00000000000000000001", {Role.OWNER, Role.COLLECTOR, Role.ADMIN}),
    ("delete", f"{INCARNATION}/ledger/catalog/floor/00000000000000000001", set()),
    ("delete", f"{INCARNATION}/ledger/catalog/0000000000000/00000000000000000001", {Role.COLLECTOR}),
    ("create", f"{INCARNATION}/state/activity/12-a/part.parquet", {Role.COMPACTOR, Role.ADMIN}),
    ("overwrite", f"{INCARNATION}/state/activity/12-a/part.parquet", set()),
    ("delete", f"{INCARNATION}/state/activity/12-a/part.parquet", {Role.COLLECTOR}),
    ("create", f"{INCARNATION}/private/activity/12-a/keys", {Role.COMPACTOR, Role.ADMIN}),
    ("sign", f"{INCARNATION}/private/activity/12-a/keys", set()),
    ("sign", f"{INCARNATION}/state/activity/12-a/part.parquet", set(Role)),
    ("create", f"{INCARNATION}/manifests/activity/0000000000000/00000000000000000001", PUBLISHERS),
    ("create", f"{INCARNATION}/manifests/activity/floor/00000000000000000001", {*PUBLISHERS, Role.COLLECTOR}),
    ("overwrite", f"{INCARNATION}/manifests/activity/0000000000000/00000000000000000001", set()),
    ("delete", f"{INCARNATION}/manifests/activity/0000000000000/00000000000000000001", {Role.COLLECTOR}),
    ("overwrite", f"{INCARNATION}/manifests/activity/hint", {Role.COMPACTOR}),
    ("create", f"{INCARNATION}/packs/1-4096", {Role.COMPACTOR}),
    ("create", f"{INCARNATION}/iceberg/pointers/t/1", {Role.ICEBERG, Role.ADMIN}),
    ("delete", f"{INCARNATION}/iceberg/pointers/t/1", {Role.COLLECTOR}),
    ("create", f"{INCARNATION}/iceberg/pointers/t/floor/1", {Role.ICEBERG, Role.COLLECTOR, Role.ADMIN}),
    ("delete", f"{INCARNATION}/iceberg/pointers/t/floor/1", set()),
    ("delete", f"{INCARNATION}/iceberg/txns/t", {Role.COLLECTOR}),
    ("delete", "warehouse/t/data/1.parquet", {Role.COLLECTOR}),
    ("create", "blobs/ab/cdef", {Role.OWNER, Role.ADMIN}),
    ("delete", "blobs/ab/cdef", {Role.COLLECTOR}),
    ("delete", "code/cdef.zip", {Role.COLLECTOR}),
    ("create", f"{INCARNATION}/successors/inc-2/begun", {Role.ADMIN}),
    ("delete", f"{INCARNATION}/successors/inc-2/begun", {Role.COLLECTOR}),
    ("create", "code/ab/cdef", {Role.OWNER, Role.ADMIN}),
    ("create", "data/asset/partition/m/part.parquet", {Role.WORKER, Role.SPARK, Role.ADMIN}),
    ("overwrite", "data/asset/partition/m/part.parquet", {Role.SPARK}),
    ("delete", "data/asset/partition/m/part.parquet", {Role.COLLECTOR}),
    ("delete", "data/asset/partition/m/_temporary/0/part.parquet", {Role.COLLECTOR, Role.SPARK}),
    ("create", "logs/run/1", {Role.WORKER, Role.SPARK}),
    ("overwrite", "logs/run/1", set()),
    ("create", "incarnations/0000000000000/00000000000000000001", {Role.ADMIN}),
    ("delete", "incarnations/0000000000000/00000000000000000001", set()),
    ("create", "elsewhere", set()),
    ("create", f"{INCARNATION}/elsewhere/x", set()),
    ("create", f"{INCARNATION}/ledger", set()),
    # the folders beside the incarnations are none
    ("create", "data/ledger/x", {Role.WORKER, Role.SPARK, Role.ADMIN}),
    ("create", "blobs/state/x", {Role.OWNER, Role.ADMIN}),
    ("create", "selftest/ledger/x", set(Role)),
    ("sign", "data/private/x", set(Role)),
    ("create", "selftest/nonce/x", set(Role)),
    ("overwrite", "selftest/nonce/x", set(Role)),
    ("delete", "selftest/nonce/x", set(Role)),
    ("create", "backups/0000000000000/00000000000000000001", {Role.BACKUP}),
    ("overwrite", "backups/0000000000000/00000000000000000001", set()),
    ("delete", "backups/objects/00000000000000000001/ab/abcd", {Role.BACKUP}),
    ("create", "backups/floor/00000000000000000001", {Role.BACKUP}),
    ("delete", "backups/floor/00000000000000000001", set()),
]

# What a policy says of one before it.
FORMER_EXAMPLES: list[tuple[str, str, set[Role]]] = [
    ("create", f"{FORMER}/manifests/activity/0000000000000/00000000000000000009", {Role.COLLECTOR}),
    ("create", f"{FORMER}/manifests/activity/floor/00000000000000000001", {Role.COLLECTOR}),
    ("create", f"{FORMER}/manifests/activity/hint", set()),
    ("create", f"{FORMER}/ledger/catalog/floor/00000000000000000001", {Role.COLLECTOR}),
    ("create", f"{FORMER}/ledger/catalog/0000000000000/00000000000000000009", set()),
    ("create", f"{FORMER}/state/activity/12-a/part.parquet", set()),
    ("create", f"{FORMER}/iceberg/pointers/t/floor/1", {Role.COLLECTOR}),
    ("create", f"{FORMER}/iceberg/pointers/t/0000000000000/00000000000000000009", set()),
    ("create", f"{FORMER}/successors/next", set()),
    ("overwrite", f"{FORMER}/manifests/activity/hint", set()),
    ("overwrite", f"{FORMER}/manifests/activity/0000000000000/00000000000000000009", set()),
    ("delete", f"{FORMER}/manifests/activity/0000000000000/00000000000000000001", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/manifests/activity/floor/00000000000000000001", set()),
    ("delete", f"{FORMER}/ledger/catalog/0000000000000/00000000000000000001", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/ledger/catalog/floor/00000000000000000001", set()),
    ("delete", f"{FORMER}/state/activity/12-a/part.parquet", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/private/activity/12-a/keys", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/packs/activity/1-a/pack", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/iceberg/pointers/t/0000000000000/00000000000000000001", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/iceberg/keys/ab/1", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/successors/next", {Role.COLLECTOR}),
    ("delete", f"{FORMER}/elsewhere/x", set()),
    ("sign", f"{FORMER}/private/activity/12-a/keys", set()),
    ("sign", f"{FORMER}/state/activity/12-a/part.parquet", set(Role)),
]


def within(role: Role, action: str, path: str) -> bool:
    """What a policy grants of what handles do: in the incarnation in use or, to the collector, in one before it."""
    is_former = path.startswith(f"{FORMER}/")
    return allows(role, action, path, FORMER) and (not is_former or role is Role.COLLECTOR or action == "sign")


@pytest.mark.parametrize(("action", "path", "roles"), EXAMPLES)
def test_each_role_writes_its_own_prefixes_and_nothing_else(action: str, path: str, roles: set[Role]) -> None:
    for former in ("", FORMER):
        assert {role for role in Role if allows(role, action, path, former)} == roles


def test_only_a_handle_for_a_former_incarnation_ends_it() -> None:
    path = "manifests/activity/0000000000000/00000000000000000009"
    ending = {role for role in Role if allows(role, "create", f"{FORMER}/{path}", FORMER)}
    assert ending == {*PUBLISHERS, Role.COLLECTOR}
    assert not allows(Role.COLLECTOR, "create", f"{FORMER}/{path}")
    assert not allows(Role.COLLECTOR, "create", f"inc-another/{path}", FORMER)
    assert not allows(Role.COLLECTOR, "create", f"{FORMER}/manifests/activity/hint", FORMER)


def test_a_refused_call_changes_nothing_and_is_not_counted() -> None:
    inner, counts = MemoryStore(), RequestCounts()
    store = RoleStore(inner, SCOPE, Role.READER, counts)
    with pytest.raises(Forbidden):
        run(store.put("data/x", b"", only_if_absent=True))
    assert run(names(inner, "")) == []
    assert counts.count() == 0


def test_a_handle_cannot_name_another_workspace() -> None:
    inner = MemoryStore()
    run(inner.put("acme/other/data/x", b"theirs", only_if_absent=True))
    run(inner.put("acme/main2/data/x", b"theirs", only_if_absent=True))
    store = handle(Role.WORKER, inner)
    for path in ("../other/data/x", "data/../../other/data/x", "/acme/other/data/x", ".", ""):
        with pytest.raises(Invalid):
            run(store.get(path))
    with pytest.raises(ObjectMissing):
        run(store.get("acme/other/data/x"))
    run(store.put("data/x", b"ours", only_if_absent=True))
    assert run(names(store, "")) == ["data/x"]
    assert run(inner.get("acme/main/data/x")) == b"ours"


@pytest.mark.parametrize(("tenant", "workspace"), [("", "a"), ("a", ".."), ("a/b", "c"), ("A", "b"), ("a*", "b")])
def test_a_scope_has_names_that_are_safe_in_paths(tenant: str, workspace: str) -> None:
    with pytest.raises(Invalid):
        Scope(tenant, workspace)


def test_paths_and_errors_are_relative_to_the_workspace() -> None:
    store = handle(Role.WORKER)
    run(store.put("data/x", b"12345", only_if_absent=True))
    assert run(store.head("data/x")).path == "data/x"
    assert run(store.head("data/x")).size == 5
    assert run(store.sign("data/x", expires_in=1)) == "signed acme/main/data/x"
    with pytest.raises(ObjectExists) as exists:
        run(store.put("data/x", b"", only_if_absent=True))
    assert exists.value.path == "data/x"
    for read in (store.get, store.head):
        with pytest.raises(ObjectMissing) as missing:
            run(read("data/y"))
        assert missing.value.path == "data/y"


def test_every_request_is_counted_by_role_and_operation() -> None:
    inner, counts = Signing(), RequestCounts()
    worker, collector = (RoleStore(inner, SCOPE, role, counts) for role in (Role.WORKER, Role.COLLECTOR))
    run(worker.put("data/x", b"123", only_if_absent=True))
    run(worker.put("selftest/x", b"", only_if_absent=False))
    run(worker.get("data/x"))
    run(worker.get_range("data/x", 0, 1))
    run(worker.head("data/x"))
    run(worker.sign("data/x", expires_in=1))
    run(worker.persist("data/x"))
    run(names(worker, "data"))
    run(collector.delete("data/x"))
    with pytest.raises(ObjectMissing):
        run(collector.get("data/x"))
    assert counts.table() == {
        (Role.WORKER, Operation.CREATE): 1,
        (Role.WORKER, Operation.PUT): 1,
        (Role.WORKER, Operation.GET): 1,
        (Role.WORKER, Operation.GET_RANGE): 1,
        (Role.WORKER, Operation.HEAD): 1,
        (Role.WORKER, Operation.SIGN): 1,
        (Role.WORKER, Operation.LIST): 1,
        (Role.COLLECTOR, Operation.DELETE): 1,
        (Role.COLLECTOR, Operation.GET): 1,
    }
    assert counts.count() == 9
    assert counts.count(Role.WORKER) == 7
    assert counts.count(operation=Operation.GET) == 2
    assert counts.count(Role.COLLECTOR, Operation.GET) == 1


def permits(policy: dict[str, Any], action: str, path: str) -> bool:
    """What S3 would decide: a matching Deny wins, else a matching Allow is needed."""
    request = {
        "create": ("s3:PutObject", {"s3:if-none-match": "*"}),
        "overwrite": ("s3:PutObject", {}),
        "delete": ("s3:DeleteObject", {}),
        "sign": ("s3:GetObject", {"s3:authType": "REST-QUERY-STRING"}),
        "read": ("s3:GetObject", {"s3:authType": "REST-HEADER"}),
    }[action]
    return evaluate(policy, request[0], f"arn:aws:s3:::{BUCKET}/{path}", request[1])


AREAS = ["_temporary", "ledger", "state", "private", "manifests", "packs", "iceberg", "floor", "hint", "catalog"]
SHARED = ["blobs", "code", "data", "incarnations", "landing", "logs", "selftest"]
segments = st.sampled_from([*AREAS, *SHARED, INCARNATION, FORMER, "x", "00000000000000000001"])
starts = st.one_of(
    st.tuples(st.sampled_from([INCARNATION, FORMER]), st.sampled_from(AREAS)).map("/".join),
    st.sampled_from([*SHARED, "ledger", "x"]),
)
# Any first segment counts as an incarnation for a handle; a policy is written for one, and knows others by their form.
paths = st.builds(
    lambda start, rest: "/".join([start, *rest]), starts, st.lists(segments, min_size=0, max_size=4)
).filter(lambda path: path.split("/")[0] in {INCARNATION, FORMER, *SHARED} or len(path.split("/")) == 1)


@given(path=paths)
def test_policies_and_handles_decide_alike(path: str) -> None:
    for role, action in itertools.product(Role, ("create", "overwrite", "delete", "sign")):
        policy = s3_policy(role, BUCKET, SCOPE, INCARNATION, former=[FORMER])
        assert permits(policy, action, f"{SCOPE.root}/{path}") == within(role, action, path), (role, action)


@pytest.mark.parametrize(("action", "path", "roles"), [*EXAMPLES, *FORMER_EXAMPLES])
def test_policies_agree_with_the_examples(action: str, path: str, roles: set[Role]) -> None:
    policies = {role: s3_policy(role, BUCKET, SCOPE, INCARNATION, "pre/fix", former=[FORMER]) for role in Role}
    path = f"pre/fix/{SCOPE.root}/{path}"
    assert {role for role in Role if permits(policies[role], action, path)} == roles
    together = {"Statement": [one for policy in policies.values() for one in policy["Statement"]]}
    assert permits(together, action, path) == bool(roles), "whoever has the documents of several roles has all rights"


@pytest.mark.parametrize("role", Role)
def test_policies_read_and_list_the_workspace_and_nothing_else(role: Role) -> None:
    policy = json.loads(json.dumps(s3_policy(role, BUCKET, SCOPE, INCARNATION, former=[FORMER])))
    assert permits(policy, "read", f"acme/main/{INCARNATION}/private/x")
    bucket = f"arn:aws:s3:::{BUCKET}"
    for outside in ("acme/other/x", "acme/main2/x", "other", ""):
        assert not any(permits(policy, action, outside) for action in ("read", "create", "overwrite", "delete"))
        assert not evaluate(policy, "s3:ListBucket", bucket, {"s3:prefix": outside})
    assert not evaluate(policy, "s3:ListBucket", bucket, {})
    for inside in ("acme/main/", "acme/main/data/", f"acme/main/{INCARNATION}/ledger/catalog/1"):
        assert evaluate(policy, "s3:ListBucket", bucket, {"s3:prefix": inside})


@pytest.mark.parametrize("name", ["", "a/b", "*", "data", "selftest", ".."])
def test_a_policy_is_written_for_one_incarnation(name: str) -> None:
    with pytest.raises(Invalid):
        s3_policy(Role.OWNER, BUCKET, SCOPE, name)
    with pytest.raises(Invalid):
        s3_policy(Role.COLLECTOR, BUCKET, SCOPE, INCARNATION, former=[name])


def test_grants_are_data_that_names_every_pattern_once() -> None:
    for role in Role:
        patterns = [(grant.pattern, action) for grant in write_grants(role) for action in grant.actions]
        assert len(patterns) == len(set(patterns))
        assert all("/" in pattern for pattern, _ in patterns)
