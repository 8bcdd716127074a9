"""What `arco.core` offers is what its modules declare, sorted, and nothing slips in or out unseen."""

import importlib
import pkgutil

import arco.core


def test_the_package_exports_what_its_modules_declare() -> None:
    declared: set[str] = set()
    for module in pkgutil.iter_modules(arco.core.__path__, "arco.core."):
        declared |= set(importlib.import_module(module.name).__all__)
    assert set(arco.core.__all__) == declared


def test_every_export_exists_once_and_in_order() -> None:
    constants = [name for name in arco.core.__all__ if name.isupper()]
    classes = [name for name in arco.core.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in arco.core.__all__ if name[0].islower()]
    assert arco.core.__all__ == [*sorted(constants), *sorted(classes), *sorted(functions)]
    assert len(set(arco.core.__all__)) == len(arco.core.__all__)
    assert all(hasattr(arco.core, name) for name in arco.core.__all__)


def test_the_names_other_layers_build_on_are_there() -> None:
    assert {
        "AssetId",
        "AssetKey",
        "Clock",
        "DependencyFingerprint",
        "EdgeId",
        "Invalid",
        "Loaded",
        "MaterializationId",
        "NamespaceId",
        "OperationId",
        "PartitionId",
        "PartitionKey",
        "Random",
        "RequestKey",
        "RunId",
        "Runtime",
        "Settings",
        "TableId",
        "TaskId",
        "Ulid",
        "canonical_json",
        "check_catalog_name",
        "check_name",
        "check_tenant",
        "check_workspace",
        "dependency_fingerprint",
        "edge_id",
        "fingerprint",
        "load_settings",
        "new_ulid",
        "parse_request_key",
        "parse_ulid",
        "partition_id",
        "request_key_time",
        "sha256_hex",
        "ulid_time",
        "ulid_to_uuid",
        "uuid_to_ulid",
    } <= set(arco.core.__all__)
