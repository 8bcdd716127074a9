"""The exported rights of Google Cloud and Azure say what `RoleStore` says, where their conditions can say it."""

import json

import pytest

from arco.core import Invalid
from arco.storage import Role, Scope, azure_policy, gcs_policy
from tests.emulators.conditions import azure_allows, gcs_allows
from tests.storage.test_role import EXAMPLES, FORMER, FORMER_EXAMPLES, INCARNATION, within

SCOPE = Scope("acme", "main")
ROOT = f"pre/fix/{SCOPE.root}"
GCS_NAME = "projects/_/buckets/lake/objects/"
AZURE = {"create": "blobs/add/action", "overwrite": "blobs/write", "delete": "blobs/delete"}
WRITES = [(action, path) for action, path, _ in [*EXAMPLES, *FORMER_EXAMPLES] if action != "sign"] + [
    ("delete", f"{INCARNATION}/ledger/catalog/hint"),
    ("overwrite", f"{FORMER}/ledger/catalog/hint"),
    ("create", f"{FORMER}/ledger/catalog/1"),
]


@pytest.mark.parametrize("role", Role)
def test_google_grants_what_the_role_may(role: Role) -> None:
    policy = json.loads(json.dumps(gcs_policy(role, "lake", SCOPE, INCARNATION, "pre/fix", former=[FORMER])))
    for action, path in WRITES:
        for root in (ROOT, "pre/fix/acme/other", "pre/fix/acme/main2", "acme/main"):
            name = f"{GCS_NAME}{root}/{path}"
            creates, deletes = (gcs_allows(policy, f"storage.objects.{right}", name) for right in ("create", "delete"))
            granted = {"create": creates, "overwrite": creates and deletes, "delete": deletes}[action]
            expected = root == ROOT and within(role, action, path)
            # what the document itself says: to create and to delete is to overwrite
            implied = root == ROOT and within(role, "overwrite", path)
            both = root == ROOT and within(role, "create", path) and within(role, "delete", path)
            assert granted == (expected or (both if action == "overwrite" else implied)), (action, name)


@pytest.mark.parametrize("role", Role)
def test_azure_grants_what_the_role_may(role: Role) -> None:
    policy = json.loads(json.dumps(azure_policy(role, "lake", SCOPE, INCARNATION, "pre/fix", former=[FORMER])))
    for action, path in WRITES:
        for root in (ROOT, "pre/fix/acme/other", "pre/fix/acme/main2", "acme/main"):
            granted = azure_allows(policy, AZURE[action], f"{root}/{path}")
            if action == "create":  # either right creates
                granted = granted or azure_allows(policy, AZURE["overwrite"], f"{root}/{path}")
            assert granted == (root == ROOT and within(role, action, path)), (action, root, path)


@pytest.mark.parametrize("role", Role)
def test_everybody_reads_and_lists_the_workspace_and_nothing_else(role: Role) -> None:
    google = gcs_policy(role, "lake", SCOPE, INCARNATION, "pre/fix")
    azure = azure_policy(role, "lake", SCOPE, INCARNATION, "pre/fix")
    for root, may in ((ROOT, True), ("pre/fix/acme/other", False), ("pre/fix/acme/main2", False)):
        assert gcs_allows(google, "storage.objects.get", f"{GCS_NAME}{root}/data/x") == may
        assert gcs_allows(google, "storage.objects.list", "projects/_/buckets/lake", f"{root}/data/") == may
        assert azure_allows(azure, "blobs/read", f"{root}/data/x") == may
        assert azure_allows(azure, "blobs/read", "", f"{root}/data/") == may


def test_what_cannot_be_expressed_is_said() -> None:
    for policy in (gcs_policy(Role.OWNER, "b", SCOPE, "inc-1"), azure_policy(Role.OWNER, "b", SCOPE, "inc-1")):
        assert any("sign" in text for text in policy["not_expressed"])
    with pytest.raises(Invalid):
        azure_policy(Role.OWNER, "b", SCOPE, "inc-1", "it's")
    for write in (gcs_policy, azure_policy):
        with pytest.raises(Invalid):
            write(Role.OWNER, "b", SCOPE, "data")
        with pytest.raises(Invalid):
            write(Role.COLLECTOR, "b", SCOPE, "inc-2", former=["data"])


def test_a_policy_names_every_former_incarnation() -> None:
    """More of them than Google takes in one condition."""
    lives = [f"inc-{number:026d}" for number in range(20)]
    google = gcs_policy(Role.COLLECTOR, "lake", SCOPE, INCARNATION, former=lives)
    azure = azure_policy(Role.COLLECTOR, "lake", SCOPE, INCARNATION, former=lives)
    for life in [*lives, INCARNATION, f"inc-{20:026d}"]:
        path = f"{SCOPE.root}/{life}/manifests/catalog/0000000000000/00000000000000000009"
        assert gcs_allows(google, "storage.objects.create", f"{GCS_NAME}{path}") == (life in lives)
        assert azure_allows(azure, AZURE["create"], path) == (life in lives)
