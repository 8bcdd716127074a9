"""Answers that carry a table or a view: metadata as it is stored, what the client may use to read it, and the ETag.

The metadata document is not encoded again: its bytes go between what stands before and after them, and an answer that
carries no credentials is kept for who asks next.

An *ETag* names one representation of one version: the metadata file, whether all snapshots are in it, and which
credentials came with it. Those are named by their expiry, so that 304 is never told to somebody whose credentials have
ended or are about to.
"""

import hashlib
from typing import Final, Literal

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._delegation import Grant, Kind, delegated, may_write, still_granted, wanted_of
from arco.iceberg import BadRequest, Loaded
from arco.iceberg.metadata import refs_only

__all__ = ["Snapshots", "answer_table", "answer_view", "snapshots_of"]

Snapshots = Literal["all", "refs"]

MARGIN_SECONDS: Final = 300
"""Credentials that end sooner are as good as ended: the client has to read with them after this answer."""


def snapshots_of(ask: Ask) -> Snapshots:
    match ask.query.get("snapshots", "all").lower():
        case "all":
            return "all"
        case "refs":
            return "refs"
    raise BadRequest("the parameter snapshots is all or refs")


async def answer_table(ask: Ask, loaded: Loaded, snapshots: Snapshots = "all", *, delegate: bool = True) -> Response:
    """The table with its configuration, or 304 if the caller has it."""
    version = _version(loaded, snapshots)
    known = ask.request.headers.get("if-none-match") if ask.request.method == "GET" else None
    wanted = wanted_of(ask) if delegate else ""
    if known is not None and version and (tag := _matching(ask, loaded, known, version, wanted)):
        return Response(status_code=304, headers={"ETag": tag})
    if wanted or not version:
        return _with_grant(loaded, snapshots, version, await delegated(ask, loaded, write=may_write(ask, loaded)))
    kept, key = ask.warehouse.answers, (loaded.table_id, loaded.number, version)
    answer = kept.get(key)
    if answer is None:
        answer = _with_grant(loaded, snapshots, version, Grant())
        kept.put(key, answer)
    return answer


def _with_grant(loaded: Loaded, snapshots: Snapshots, version: str, grant: Grant) -> Response:
    body = b"".join((_head(loaded), b',"metadata":', _document(loaded, snapshots), *_tail(grant), b"}"))
    headers = {"ETag": _tag(version, grant.mark)} if version else {}
    if grant.mark:
        headers["Cache-Control"] = "private, no-store"
    return Response(body, 200, headers, "application/json")


def answer_view(loaded: Loaded) -> Response:
    body = b"".join((_head(loaded), b',"metadata":', loaded.encoded, b',"config":{}}'))
    return Response(body, 200, {"ETag": _tag(_version(loaded, "all"), "")}, "application/json")


def _head(loaded: Loaded) -> bytes:
    return b'{"metadata-location":' + msgspec.json.encode(loaded.metadata_location)


def _tail(grant: Grant) -> list[bytes]:
    parts = [b',"config":', msgspec.json.encode(grant.config)]
    if grant.credentials:
        parts += [b',"storage-credentials":', msgspec.json.encode(grant.credentials)]
    return parts


def _document(loaded: Loaded, snapshots: Snapshots) -> bytes:
    return loaded.encoded if snapshots == "all" else msgspec.json.encode(refs_only(loaded.metadata))


def _version(loaded: Loaded, snapshots: Snapshots) -> str:
    """Names the document that is answered; empty for a table that is only staged."""
    if loaded.metadata_location is None:
        return ""
    return f"{hashlib.sha256(loaded.metadata_location.encode()).hexdigest()[:24]}-{snapshots}"


def _tag(version: str, mark: str) -> str:
    return f'"{version}-{mark}"' if mark else f'"{version}"'


def _matching(ask: Ask, loaded: Loaded, given: str, version: str, wanted: Kind) -> str:
    """The tag among those given that still holds; empty if none does."""
    write = may_write(ask, loaded)
    for text in given[:4096].split(","):
        tag = text.strip().removeprefix("W/")
        if tag == f'"{version}"' and not wanted:
            return tag
        mark = tag[len(version) + 2 : -1]
        if wanted and tag == _tag(version, mark) and still_granted(mark, wanted, _later(ask), write=write):
            return tag
    return ""


def _later(ask: Ask) -> int:
    return ask.host.runtime.now() // 1_000_000 + MARGIN_SECONDS
