"""`backing_up`: what backups ask of the workspace and of the store that they go to, together.

Every segment is read once, and files of state that the backup before did not have are copied: a look whether they are
there, and a create. The rest, lists and the backup itself, is measured; so is what it takes once a day to read what the
kept ones name, and to let others go. An old head is pinned meanwhile: two appends and publishes, which are read again.
What lies in the other store is not in it.
"""

from collections.abc import Mapping

from arco.cost._packs import WINDOW
from arco.cost._profile import Profile
from arco.cost._replay import Layers
from arco.storage import Operation

__all__ = ["backing_up", "new_files"]

CHUNK_BYTES = 16 << 20
"""Of a log, in one object."""


def new_files(layers: Layers, publishes: float) -> float:
    """Files that a revision names and the one so many publishes before did not.

    Those of a level go together when they are merged, so their number rises from none to twice the mean and falls
    again: of younger ones all are there still, and in time all are new.
    """
    found = 0.0
    for level, rate in layers.made.items():
        held = layers.held.get(level, 0.0)
        made = rate * publishes
        found += made * (1 - made / (4 * held)) if made < 2 * held else held
    return found


def backing_up(
    times: float, kept: float, pins: float, segments: float, size: float, files: float, known: Profile
) -> Mapping[Operation, float]:
    """A day with so many backups and pins, in which logs get `segments` of `size` bytes; `files` are new in each."""
    fixed, prune, pin = known.backup, known.prune, known.pin
    copies = times * files + size / CHUNK_BYTES
    return {
        Operation.GET: times * (fixed["get"] + files) + segments + kept * prune["get"] + pins * pin["get"],
        Operation.GET_RANGE: times * fixed["range"],
        Operation.HEAD: times * fixed["head"] + copies + segments / WINDOW + pins * pin["head"],
        Operation.LIST: times * fixed["list"] + prune["list"],
        Operation.CREATE: times * fixed["create"] + copies + pins * pin["create"],
        Operation.PUT: pins * pin["put"],
    }
