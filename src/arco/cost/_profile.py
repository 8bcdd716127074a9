"""`Profile`: what one operation asks of the store, as measured by the tests of this very version (`operations.json`).

`python -m tests.cost.profile --write` measures anew; a test compares. Requests come from docs/requests.md, which a test
compares with what is counted; tables and bytes are those of a small workspace in memory.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["Kind", "Profile", "profile"]


class Kind(msgspec.Struct, frozen=True):
    """One kind of append and what publishing it alone writes."""

    log: str
    tables: Mapping[str, float]
    """Those that a publish of it changes, and how often it does."""
    segment_bytes: float
    delta_bytes: float
    requests: str
    """The row of docs/requests.md that says what it asks for beside its segment; empty for nothing."""


class Profile(msgspec.Struct, frozen=True):
    requests: Mapping[str, Mapping[str, int]]
    """docs/requests.md."""
    kinds: Mapping[str, Kind]
    fact_bytes: float
    """What one more fact adds to a segment."""
    backup: Mapping[str, float]
    """What one asks of both stores together, beside the segments it reads and the files of state it copies."""
    pin: Mapping[str, float]
    """What one asks for beyond that for each log whose newest revision it pins."""
    prune: Mapping[str, float]
    """What pruning asks for, for each backup that is kept."""
    index_bytes: float
    """What each segment adds to a pack beside itself."""
    manifest_bytes: float
    layer_bytes: float
    """What each layer adds to a manifest."""
    entry_bytes: float
    """What each retained revision adds to a manifest."""
    file_bytes: float
    """A file of a merge: this, and `row_bytes` a row."""
    row_bytes: float
    rows: Mapping[str, float]
    """That each kind adds to all its tables together; `fact` is one more fact of a post."""


@cache
def profile() -> Profile:
    return msgspec.json.decode((files("arco.cost") / "operations.json").read_bytes(), type=Profile)
