"""Envelopes: everything a worker needs for one attempt of one task, signed and with an end.

Whoever hands out a claimed task signs it (`sign_envelope`); the worker believes nothing that it cannot `open_envelope`.
The signature covers the exact bytes, under a key for this purpose. An envelope is of one workspace and expires. One
that is sent again is no second task: the attempt was claimed once, and its id is taken once.

    env1.<64 hex digits of HMAC-SHA256>.<JSON>

Nothing in it is secret but the callback token, which its text therefore does not show.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from arco.assets import AssetDefinition, SchemaColumn, Source
from arco.core import MINUTE, Outdated, Unauthenticated, derive_secret, sha256_hex

__all__ = [
    "MAX_ENVELOPE_BYTES",
    "Envelope",
    "InputPin",
    "InputValue",
    "OutputPlace",
    "PinnedFile",
    "compaction_location",
    "compaction_of_path",
    "data_location",
    "inputs_fingerprint",
    "open_envelope",
    "sign_envelope",
    "version_folder",
    "version_of_path",
]

MAX_ENVELOPE_BYTES: Final = 16 << 20
SKEW: Final = 5 * MINUTE
"""By how much the clock of the sender may be ahead."""

VERSION_FOLDER: Final = "arco_version"
"""The column by which a job over a batch puts rows into the folders of their versions."""

_IN_FOLDER: Final = re.compile(
    rf"data/([^/]+)/[^/]+/(?:{VERSION_FOLDER}=)?([0-7][0-9A-HJKMNP-TV-Z]{{25}})/.+", re.ASCII
)
_COMPACTED: Final = re.compile(r"data/[^/]+/compaction-([0-7][0-9A-HJKMNP-TV-Z]{25})/.+", re.ASCII)
FORMAT: Final = 1
_PREFIX: Final = b"env%d." % FORMAT
_HEAD: Final = len(_PREFIX) + 65


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An envelope, or a part of one."""


class PinnedFile(Part, frozen=True):
    path: str
    row_count: int
    size_bytes: int


class InputPin(Part, frozen=True):
    """A version of one partition that the task reads. Its files say what kind of value they hold."""

    partition_id: str
    partition_key: str
    materialization_id: str
    files: tuple[PinnedFile, ...] = ()
    schema_hash: str = ""
    """The same for versions with the same columns; empty for what is no table."""
    seen: bool = False
    """The version that this task replaces was made of it: it is not read. A file may be here to show its columns."""


class OutputPlace(Part, frozen=True):
    """A partition that the task makes, and where."""

    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    materialization_id: str
    location: str
    """The folder of this version, with a slash at its end."""
    pii: tuple[str, ...] = ()
    """Columns that the catalog knows to hold personal data."""
    history: dict[str, tuple[float | None, ...]] = {}
    """What earlier good versions had, newest first, by the checks that compare with it. If these are windows of time,
    the first is of the window just before, the next of the one before that; None where there is nothing."""
    previous: InputPin | None = None
    """The version of this partition that was current when the run began; None if there was none, or nobody asks."""
    window_number: int | None = None
    """Which window of time it is, counted from the asset's first; None if no check compares windows."""


class InputValue(Part, frozen=True):
    """What a dependency hands to a parameter; without a parameter it only came earlier."""

    asset_id: str
    asset_key: str
    parameter: str = ""
    is_partitioned: bool = False
    mapping: str = ""
    pins: tuple[InputPin, ...] = ()
    """In the order of the dependency's partitions."""
    source: Source | None = None
    """Files of others, whose partitions the pins name; they have no versions."""
    columns: tuple[SchemaColumn, ...] = ()
    """What a source declares."""


class Envelope(Part, frozen=True):
    tenant: str
    workspace: str
    run_id: str
    task_key: str
    task_id: str
    attempt: int
    attempt_id: str
    unit: str
    code_version: str
    code_sha256: str
    """The archive of the code."""
    definitions: tuple[AssetDefinition, ...]
    """Those of the outputs, which share their function."""
    outputs: tuple[OutputPlace, ...]
    callback_token: str
    issued_at: int
    expires_at: int
    inputs: tuple[InputValue, ...] = ()
    partition_key: str = ""
    """Canonical text."""
    window_start: int | None = None
    window_end: int | None = None
    """The time window of the partition, if it is one: begin and end in microseconds."""
    timeout_seconds: float | None = None
    """How long it may take, with all of its batch."""
    heartbeat_seconds: float = 60.0
    traceparent: str = ""
    batch_id: str = ""
    """Those with the same one run together, in one driver; empty for one that runs alone."""

    def __repr__(self) -> str:
        return f"Envelope(run_id={self.run_id!r}, task_key={self.task_key!r}, attempt_id={self.attempt_id!r})"


_decoder: Final = msgspec.json.Decoder(Envelope)
_encoder: Final = msgspec.json.Encoder()


def sign_envelope(secret: bytes, envelope: Envelope) -> bytes:
    """The envelope as it travels: ASCII and UTF-8 text."""
    data = _encoder.encode(envelope)
    return b"%s%s.%s" % (_PREFIX, _signature(secret, data), data)


def open_envelope(secret: bytes, data: bytes, *, tenant: str, workspace: str, now: int) -> Envelope:
    """What was signed, if it is for this workspace and still good; else `Unauthenticated`, which does not say why.

    Raises `Outdated` for a genuine envelope of a newer version.
    """
    genuine = len(data) <= MAX_ENVELOPE_BYTES and data[: len(_PREFIX)] == _PREFIX and data[_HEAD - 1 : _HEAD] == b"."
    body = data[_HEAD:] if genuine else b""
    if not hmac.compare_digest(_signature(secret, body), data[len(_PREFIX) : _HEAD - 1] if genuine else b""):
        raise _refused()
    try:
        envelope = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Outdated("a task was written by another version of Arco; install the same version here") from None
    if (envelope.tenant, envelope.workspace) != (tenant, workspace):
        raise _refused()
    if not envelope.issued_at - SKEW <= now < envelope.expires_at:
        raise _refused()
    return envelope


def data_location(asset_id: str, partition_id: str, materialization_id: str, batch_id: str = "") -> str:
    """The folder of one version of a partition. Those of a batch lie together: one job writes them all."""
    if batch_id:
        return f"data/{asset_id}/{batch_id}/{VERSION_FOLDER}={materialization_id}/"
    return f"data/{asset_id}/{partition_id}/{materialization_id}/"


def compaction_location(asset_id: str, materialization_id: str, compaction_id: str) -> str:
    """The folder of what a compaction makes of the files of a version. It is the version's as much as its first one."""
    return data_location(asset_id, "", materialization_id, f"compaction-{compaction_id}")


def compaction_of_path(path: str) -> str | None:
    """What compaction wrote a file; None if none did."""
    found = _COMPACTED.fullmatch(path)
    return found[1] if found is not None else None


def version_of_path(asset_id: str, path: str) -> str | None:
    """The version to whose folder a path below the data of an asset belongs; None if it is none that workers get."""
    found = _IN_FOLDER.fullmatch(path)
    return found[2] if found is not None and found[1] == asset_id else None


def version_folder(path: str) -> str:
    """The folder of the version to which a path belongs that workers get, without a slash at its end."""
    found = _IN_FOLDER.fullmatch(path)
    assert found is not None
    return path[: found.end(2)]


def inputs_fingerprint(versions: Iterable[tuple[str, str, str]]) -> str:
    """The identity of what a version was made of, from the asset, partition and materialization ids that were read.

    Order and repetition do not matter: the same versions are the same input. Ids hold neither colons nor line breaks.
    """
    return sha256_hex("\n".join(sorted({":".join(version) for version in versions})).encode())


def _signature(secret: bytes, data: bytes) -> bytes:
    return hmac.new(derive_secret(secret, "envelope"), data, hashlib.sha256).hexdigest().encode()


def _refused() -> Unauthenticated:
    return Unauthenticated("this is no valid task for this worker; it is forged, expired or of another workspace")
