"""Verifying state: fold the log from its beginning and compare every table with what is published."""

from collections.abc import Callable
from dataclasses import dataclass

from arco.log import Ledger
from arco.state._definition import Definition
from arco.state._digest import digest_rows
from arco.state._forward import fold_forward
from arco.state._layers import LayerReader
from arco.state._manifest import Manifest
from arco.state._replica import Replica
from arco.state._revisions import empty_manifest
from arco.storage import Store

__all__ = ["Comparison", "verify_revision"]


@dataclass(frozen=True)
class Comparison:
    table: str
    rows: int
    refolded_rows: int
    equal: bool


async def verify_revision(
    definition: Definition,
    store: Store,
    log: Ledger,
    manifest: Manifest,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Comparison]:
    """Fold everything a revision covers anew, in memory, and compare table by table."""
    reader = LayerReader(store)
    published = Replica(definition, reader, manifest)
    refolded = Replica(definition, reader, empty_manifest(log.place))
    through = manifest.link.number
    async for number in fold_forward(refolded, log, through, at_least=through):
        progress(number, through)
    compared = []
    for name, table in sorted(definition.tables.items()):
        live, anew = await published.scan(table), await refolded.scan(table)
        equal = digest_rows(table, live) == digest_rows(table, anew)
        compared.append(Comparison(name, live.num_rows, anew.num_rows, equal))
    return compared
