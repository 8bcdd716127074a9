"""Every format that Arco stores or sends, and the newest version this program reads and writes.

Who meets a newer one raises `Outdated` and changes nothing (`arco.core.check_format`). `docs/formats.md` has the table.
"""

from dataclasses import dataclass
from typing import Final

from arco.backup._format import FORMAT as BACKUP
from arco.backup._target import FORMAT as SUCCESSOR
from arco.iceberg._decisions import FORMAT as DECISION
from arco.iceberg._keys import FORMAT as CLAIM
from arco.iceberg._pointer import FORMAT as POINTER
from arco.log._pack import FORMAT as PACK
from arco.log._segment import SEGMENT_FORMAT as SEGMENT
from arco.runtime._workspace import FORMAT as INCARNATION
from arco.servo._envelope import FORMAT as ENVELOPE
from arco.state._files import DELTA_MAGIC
from arco.state._jobs import FORMAT as RESULT
from arco.state._manifest import FORMAT as MANIFEST

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    name: str
    newest: int
    told_by: str
    """What in the object says its version."""


FORMATS: Final = (
    Format("incarnation", INCARNATION, "field `format`; 1 if it is missing"),
    Format("successor", SUCCESSOR, "field `format`; 1 if it is missing"),
    Format("segment", SEGMENT, "field `format` of the header"),
    Format("pack", PACK, "field `format` of its index"),
    Format("event", 0, "its type and the type's version; if that is not known it is skipped, and writing ends"),
    Format("plan, lineage and other attachments", 0, "the event that names them"),
    Format("manifest", MANIFEST, "field `format`; 1 unless it lists packs"),
    Format("delta", int(DELTA_MAGIC[-1:]), "its first eight bytes; read where the manifest says"),
    Format("layer", 0, "the manifest; Parquet, whose columns are only added to"),
    Format("result", RESULT, "1 is a list; a later one has the field `format`"),
    Format("pointer", POINTER, "field `format`"),
    Format("claim", CLAIM, "field `format`"),
    Format("decision", DECISION, "field `format`; 1 if it is missing"),
    Format("backup", BACKUP, "field `format`"),
    Format("envelope", ENVELOPE, "its first bytes"),
)
"""0 is a format without a version of its own."""
