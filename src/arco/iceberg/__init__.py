"""The Iceberg REST catalog: metadata documents, pointers, commits, names, credentials. HTTP is above, in `arco.api`."""

from arco.iceberg._collection import IcebergCollected
from arco.iceberg._commit import Committed, Committer, Edit
from arco.iceberg._decisions import Decisions, Outcome
from arco.iceberg._doctor import examine_iceberg
from arco.iceberg._documents import Document, Documents
from arco.iceberg._errors import (
    AlreadyExists,
    BadRequest,
    CommitFailed,
    IllegalArgument,
    MetadataMissing,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchPlan,
    NoSuchPlanTask,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    Unprocessable,
    Unsupported,
    ValidationFailed,
    nothing_changed,
)
from arco.iceberg._events import committed_event
from arco.iceberg._garbage import GarbageKind
from arco.iceberg._keys import Claim, Keys
from arco.iceberg._lifecycle import (
    Dropped,
    Lifecycle,
)
from arco.iceberg._loaded import Loaded
from arco.iceberg._locations import Locations, parse_location
from arco.iceberg._names import Named, Names
from arco.iceberg._namespaces import check_namespace_properties
from arco.iceberg._open import Iceberg, open_iceberg, open_lifecycle, open_locations
from arco.iceberg._owned import (
    ASSET,
    asset_of,
    places_of,
)
from arco.iceberg._planning import (
    PlanLimits,
    cancel_plan,
    fetch_plan,
    fetch_tasks,
    plan_scan,
)
from arco.iceberg._pointer import Held, Kind, Pointer, check_link, decode_pointer, encode_pointer
from arco.iceberg._pointers import Current, Pointers
from arco.iceberg._receipts import Lag
from arco.iceberg._reconciler import Missing, Reconciled, Reconciler
from arco.iceberg._remote_signing import (
    RemoteSigner,
    SignedRequest,
    parse_sign,
    signer_for,
)
from arco.iceberg._s3_address import S3Address
from arco.iceberg._sql import IcebergRelation, read_iceberg
from arco.iceberg._tables import Tables
from arco.iceberg._transactions import Transactions
from arco.iceberg._upkeep import Upkeep, open_upkeep
from arco.iceberg._vending import (
    Credentials,
    Vendor,
)
from arco.iceberg._vendors import (
    vendor_for,
)
from arco.iceberg._views import Views
from arco.iceberg._who import KEY_LIFE, IdempotencyKey, Who, parse_idempotency_key
from arco.iceberg._writing import (
    Base,
    DataFile,
    Entry,
    Fields,
    Manifest,
    MixedColumns,
    Plan,
    check_columns,
    columns_of,
    decode_list,
    decode_manifest,
    describe,
    evolve,
    is_readable,
    name_mapping,
    plan_snapshot,
)

__all__ = [
    "ASSET",
    "KEY_LIFE",
    "AlreadyExists",
    "BadRequest",
    "Base",
    "Claim",
    "CommitFailed",
    "Committed",
    "Committer",
    "Credentials",
    "Current",
    "DataFile",
    "Decisions",
    "Document",
    "Documents",
    "Dropped",
    "Edit",
    "Entry",
    "Fields",
    "GarbageKind",
    "Held",
    "Iceberg",
    "IcebergCollected",
    "IcebergRelation",
    "IdempotencyKey",
    "IllegalArgument",
    "Keys",
    "Kind",
    "Lag",
    "Lifecycle",
    "Loaded",
    "Locations",
    "Manifest",
    "MetadataMissing",
    "Missing",
    "MixedColumns",
    "Named",
    "Names",
    "NamespaceNotEmpty",
    "NoSuchNamespace",
    "NoSuchPlan",
    "NoSuchPlanTask",
    "NoSuchTable",
    "NoSuchView",
    "NoSuchWarehouse",
    "Outcome",
    "Plan",
    "PlanLimits",
    "Pointer",
    "Pointers",
    "Reconciled",
    "Reconciler",
    "RemoteSigner",
    "S3Address",
    "SignedRequest",
    "Tables",
    "Transactions",
    "Unprocessable",
    "Unsupported",
    "Upkeep",
    "ValidationFailed",
    "Vendor",
    "Views",
    "Who",
    "asset_of",
    "cancel_plan",
    "check_columns",
    "check_link",
    "check_namespace_properties",
    "columns_of",
    "committed_event",
    "decode_list",
    "decode_manifest",
    "decode_pointer",
    "describe",
    "encode_pointer",
    "evolve",
    "examine_iceberg",
    "fetch_plan",
    "fetch_tasks",
    "is_readable",
    "name_mapping",
    "nothing_changed",
    "open_iceberg",
    "open_lifecycle",
    "open_locations",
    "open_upkeep",
    "parse_idempotency_key",
    "parse_location",
    "parse_sign",
    "places_of",
    "plan_scan",
    "plan_snapshot",
    "read_iceberg",
    "signer_for",
    "vendor_for",
]
