"""Objects, sequences, scopes, roles, signing: what Arco needs of a bucket or a disk, and nothing above it."""

from arco.storage._buckets import azure_store, gcs_store, s3_store
from arco.storage._cloud import CloudStore
from arco.storage._local import LocalStore
from arco.storage._memory import MemoryStore
from arco.storage._open import open_store
from arco.storage._policies import s3_policy
from arco.storage._policies_azure import azure_policy
from arco.storage._policies_gcs import gcs_policy
from arco.storage._role import SHARED, Action, Grant, Role, write_grants
from arco.storage._rolestore import Operation, RequestCounts, RoleStore
from arco.storage._scope import Scope
from arco.storage._selftest import self_test
from arco.storage._sequence import MIN_AGE, Lost, Sequence, Tail, Won
from arco.storage._signing import LocalSigner, parse_range, sign_local, verify_local
from arco.storage._store import (
    MAX_PATH,
    Glance,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    Store,
    StoreError,
    StoreFailed,
    check_path,
    glance_at,
    put_new,
    remove_empty_folders,
)

__all__ = [
    "MAX_PATH",
    "MIN_AGE",
    "SHARED",
    "Action",
    "CloudStore",
    "Glance",
    "Grant",
    "LocalSigner",
    "LocalStore",
    "Lost",
    "MemoryStore",
    "ObjectExists",
    "ObjectInfo",
    "ObjectMissing",
    "Operation",
    "RequestCounts",
    "Role",
    "RoleStore",
    "Scope",
    "Sequence",
    "Store",
    "StoreError",
    "StoreFailed",
    "Tail",
    "Won",
    "azure_policy",
    "azure_store",
    "check_path",
    "gcs_policy",
    "gcs_store",
    "glance_at",
    "open_store",
    "parse_range",
    "put_new",
    "remove_empty_folders",
    "s3_policy",
    "s3_store",
    "self_test",
    "sign_local",
    "verify_local",
    "write_grants",
]
