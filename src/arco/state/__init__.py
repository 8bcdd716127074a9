"""Replicas, folds, layers, manifests, compactor, readers: state as a pure function of the log.

Follower -> Replica (fold in memory) -> Compactor -> delta, manifest -> Snapshot
                                            merges and rebuilds: Runner       Collector deletes what nobody reaches
"""

from arco.state._aging import Aged
from arco.state._bucket import Bucket
from arco.state._codec import from_arrow, to_arrow
from arco.state._collector import Collection, Collector
from arco.state._compactor import Cadence, Compactor
from arco.state._definition import Definition, define_log
from arco.state._digest import digest_rows
from arco.state._doctor import Finding, Level, examine_log, verify_chain
from arco.state._domain import (
    ByField,
    Change,
    Decider,
    Decision,
    Domain,
    Group,
    Hold,
    Input,
    Reject,
    Stage,
    View,
    new_event,
)
from arco.state._files import SPLIT_BYTES, FileWriter
from arco.state._fold import (
    FoldBatch,
    Retention,
    Rows,
    Skipped,
    Versioned,
    advance,
    audit_row,
    cutoff,
    name_rejections,
    row_text,
)
from arco.state._history import retained
from arco.state._layers import LayerReader, keep_alive
from arco.state._layout import Layout
from arco.state._manifest import (
    Entry,
    File,
    Layer,
    Manifest,
    Pending,
    PinEntry,
    SkippedType,
    decode_manifest,
    encode_manifest,
    format_of,
)
from arco.state._merge import merge_layers
from arco.state._open_ledger import open_ledger
from arco.state._packing import PackSize, packed_through
from arco.state._replica import Replica
from arco.state._revisions import Head, Revisions, base_for, check_versions, empty_manifest
from arco.state._runner import LocalRunner, MergeJob, RefoldJob, Runner
from arco.state._snapshot import (
    Snapshot,
    TableSummary,
    freeze,
    snapshot_at_position,
    snapshot_at_revision,
    snapshot_at_time,
)
from arco.state._system import (
    AUDIT,
    INCARNATION_OPENED,
    OPERATIONS,
    PINS,
    REJECTED,
    REJECTIONS,
    REQUESTS,
    RETENTION,
    AdvanceRetention,
    Audit,
    ExpireRows,
    IncarnationOpened,
    NothingChanged,
    PinRevision,
    Rejection,
    ReleasePin,
    RetentionAdvanced,
    RetentionRow,
)
from arco.state._table import BUCKETS, Key, Kind, Table, Time, bucket_of
from arco.state._upgrade import TableCheck, UpgradePlan, plan_upgrade, verify_upgrade
from arco.state._verify import Comparison, verify_revision

__all__ = [
    "AUDIT",
    "BUCKETS",
    "INCARNATION_OPENED",
    "OPERATIONS",
    "PINS",
    "REJECTED",
    "REJECTIONS",
    "REQUESTS",
    "RETENTION",
    "SPLIT_BYTES",
    "AdvanceRetention",
    "Aged",
    "Audit",
    "Bucket",
    "ByField",
    "Cadence",
    "Change",
    "Collection",
    "Collector",
    "Compactor",
    "Comparison",
    "Decider",
    "Decision",
    "Definition",
    "Domain",
    "Entry",
    "ExpireRows",
    "File",
    "FileWriter",
    "Finding",
    "FoldBatch",
    "Group",
    "Head",
    "Hold",
    "IncarnationOpened",
    "Input",
    "Key",
    "Kind",
    "Layer",
    "LayerReader",
    "Layout",
    "Level",
    "LocalRunner",
    "Manifest",
    "MergeJob",
    "NothingChanged",
    "PackSize",
    "Pending",
    "PinEntry",
    "PinRevision",
    "RefoldJob",
    "Reject",
    "Rejection",
    "ReleasePin",
    "Replica",
    "Retention",
    "RetentionAdvanced",
    "RetentionRow",
    "Revisions",
    "Rows",
    "Runner",
    "Skipped",
    "SkippedType",
    "Snapshot",
    "Stage",
    "Table",
    "TableCheck",
    "TableSummary",
    "Time",
    "UpgradePlan",
    "Versioned",
    "View",
    "advance",
    "audit_row",
    "base_for",
    "bucket_of",
    "check_versions",
    "cutoff",
    "decode_manifest",
    "define_log",
    "digest_rows",
    "empty_manifest",
    "encode_manifest",
    "examine_log",
    "format_of",
    "freeze",
    "from_arrow",
    "keep_alive",
    "merge_layers",
    "name_rejections",
    "new_event",
    "open_ledger",
    "packed_through",
    "plan_upgrade",
    "retained",
    "row_text",
    "snapshot_at_position",
    "snapshot_at_revision",
    "snapshot_at_time",
    "to_arrow",
    "verify_chain",
    "verify_revision",
    "verify_upgrade",
]
